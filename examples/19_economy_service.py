"""A credits economy over HTTP, mounted in a service of your own: submit, repeat, decline, webhook.

Needs: pip install 'offpath[web]' uvicorn
"""

from __future__ import annotations

import asyncio
import json
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from offpath import App
from offpath.economy import Actor, Economy, Share, credits, drain_inbox, webhook_door
from offpath.economy.web import Asked, Offer, economy_service
from offpath.events import Verifier, new_secret
from offpath.testing import signed_webhook

SECRET = new_secret()  # what the payment provider signs with
TOKENS = {"Bearer ann-1": Actor.user("ann"), "Bearer shop-1": Actor.system("shop")}
SUE = (Share("sue", 10_000),)
OFFERS = {
    "song-1": Offer(price=credits(40), sellers=SUE),  # what a user's token may buy, and for what
    "boat": Offer(price=credits(400), sellers=SUE),
}

app = App("sqlite:///shop.db")
economy = Economy(app)


def who(asked: Asked) -> Actor | None:
    return TOKENS.get(asked.headers.get("authorization", ""))  # None: 401, the body is not read


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    async with app:
        yield


service = economy_service(
    economy,
    authenticate=who,
    prices=OFFERS,
    webhooks={"acme": webhook_door(economy, "acme", verifier=Verifier(SECRET))},
)
host = Starlette(routes=[Mount("/economy", service)], lifespan=lifespan)


# -- the rest plays the clients -------------------------------------------------------------------


def post(url: str, document: object, headers: dict[str, str]) -> str:
    body = json.dumps(document).encode()
    json_body = {"content-type": "application/json", **headers}
    request = urllib.request.Request(url, data=body, headers=json_body)  # noqa: S310 - our own
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own
            found, code = json.load(answer), answer.status
    except urllib.error.HTTPError as refused:
        with refused:
            found, code = json.load(refused), refused.code
    return f"{code} {found.get('reason') or found.get('code') or found['status']}"


def spend(price: str) -> dict[str, object]:
    order = {"buyer": "ann", "orderId": "A-7", "sku": "song-1"}
    return {"kind": "spend", "key": "A-7", "price": price, **order}


async def clients(url: str) -> None:
    async def submit(document: object, token: str) -> str:
        return await asyncio.to_thread(
            post, f"{url}/submit", document, {"authorization": f"Bearer {token}"}
        )

    paid = {"user": "ann", "amount": "CREDIT:50.00", "source": "card"}
    event = {"type": "purchase", "data": paid}
    signed = signed_webhook(json.dumps(event).encode(), SECRET)
    print("webhook:", await asyncio.to_thread(post, f"{url}/webhooks/acme", event, signed))
    print("again:  ", await asyncio.to_thread(post, f"{url}/webhooks/acme", event, signed))
    print("forged: ", await asyncio.to_thread(post, f"{url}/webhooks/acme", paid, signed))
    await drain_inbox(economy)  # or a worker does: offpath worker shop:app
    print("who?    ", await submit(spend("CREDIT:40.00"), "nobody"))
    print("too much", await submit(spend("CREDIT:400.00") | {"sku": "boat"}, "ann-1"))
    print("cheap   ", await submit(spend("CREDIT:0.01"), "ann-1"))
    print("spend:  ", await submit(spend("CREDIT:40.00"), "ann-1"))
    print("again:  ", await submit(spend("CREDIT:40.00"), "ann-1"))
    print("changed:", await submit(spend("CREDIT:40.00") | {"giftTo": "bob"}, "ann-1"))
    print("ann has", await economy.read.balance("ann:spendable"))


async def main() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(host, log_level="warning", ws="none"))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    await clients(f"http://127.0.0.1:{listening.getsockname()[1]}/economy")
    server.should_exit = True
    await serving
    listening.close()


if __name__ == "__main__":
    asyncio.run(main())

"""A FastAPI shop: an order and its receipt commit together, a mail is left for later, and what the
payment provider posts is checked, kept once, and applied.

Needs: pip install 'offpath[fastapi,sqlalchemy]' aiosqlite uvicorn
"""

import asyncio
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
import uvicorn
from fastapi import Depends, FastAPI, HTTPException
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

import offpath
from offpath.contrib.fastapi import Later, bound, errors, later, lifespan
from offpath.events import InboxContext, Verifier, new_secret
from offpath.testing import signed_webhook

app = offpath.App("sqlite:///shop.db")
engine = create_async_engine("sqlite+aiosqlite:///shop.db")
sessions = async_sessionmaker(engine)
done: asyncio.Queue[str] = asyncio.Queue()
SECRET = new_secret()  # the provider's: it shows it once


@app.task
async def send_receipt(order: int) -> None:
    done.put_nowait(f"receipt for order {order}")


@app.task
async def send_mail(text: str) -> None:
    done.put_nowait(f"mail: {text}")


@app.task
async def ship(order: int) -> None:
    done.put_nowait(f"parcel for order {order}")


class Payment(msgspec.Struct):
    """What the provider posts."""

    order: int


@app.inbox("payments")
async def paid(payment: Payment, context: InboxContext) -> None:
    context.enqueue(ship.job(payment.order))  # with the mark that the message was applied


async def get_session() -> AsyncIterator[AsyncSession]:
    async with sessions() as session:
        yield session


api = FastAPI(lifespan=lifespan(app, worker=True))  # a worker in this process
errors(api)


@api.post("/orders/{order}", status_code=201)
async def place(
    order: int,
    session: Annotated[AsyncSession, Depends(get_session)],
    jobs: Annotated[offpath.Bound, Depends(bound(app, get_session))],
    *,
    paid: bool = True,
) -> None:
    await session.execute(text("insert into orders (id) values (:id)"), {"id": order})
    await jobs.enqueue(send_receipt.job(order))
    if not paid:
        raise HTTPException(402)  # neither the order nor its receipt
    await session.commit()


@api.post("/mails", status_code=202)
async def mail(say: str, left: Annotated[Later, later(app)]) -> None:
    left.add(send_mail, say)  # stored before the answer goes out


# what the provider posts is verified, stored once, and answered; the worker applies it
door = app.inbox_door("payments", verifier=Verifier(SECRET))
api.add_route("/hooks/payments", door, methods=["POST"])


# -- the rest plays the clients -------------------------------------------------------------------


def post(url: str, body: bytes = b"", headers: dict[str, str] | None = None) -> int:
    request = urllib.request.Request(url, body, headers or {}, method="POST")  # noqa: S310 - our own
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code


async def main() -> None:
    async with engine.begin() as connection:
        await connection.execute(text("create table orders (id integer primary key)"))
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(api, log_level="warning", ws="none"))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    home = f"http://127.0.0.1:{listening.getsockname()[1]}"
    for path in ("/orders/1", "/orders/2?paid=false", "/mails?say=hello"):
        print(path, await asyncio.to_thread(post, home + path))
    body = b'{"order": 1}'
    signed = signed_webhook(body, SECRET)
    hooks = f"{home}/hooks/payments"
    for sent, headers in ((body, signed), (body, signed), (b'{"order": 9}', signed)):
        print("/hooks/payments", await asyncio.to_thread(post, hooks, sent, headers))
    print(*sorted([await done.get() for _ in range(3)]), sep="\n")
    server.should_exit = True
    await serving
    await engine.dispose()
    listening.close()


if __name__ == "__main__":
    asyncio.run(main())

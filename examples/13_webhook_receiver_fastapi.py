"""A FastAPI service that receives webhooks: two lines check that one is genuine and fresh.

Needs: pip install offpath fastapi uvicorn
"""

from __future__ import annotations

import asyncio
import json
import socket
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta

import uvicorn
from fastapi import FastAPI, HTTPException, Request

from offpath.events import BadSignature, Verifier, new_secret
from offpath.testing import signed_webhook

SECRET = new_secret()  # the sender's: offpath endpoints add ... shows it once

service = FastAPI()
verifier = Verifier(SECRET)
seen: set[str] = set()


@service.post("/hooks")
async def receive(request: Request) -> dict[str, str]:
    body = await request.body()  # the raw bytes: parsed and encoded again, they are others
    try:
        message_id = verifier.verify(body, request.headers)
    except BadSignature as error:
        raise HTTPException(401, error.reason) from error
    if message_id in seen:  # the same at every attempt of the sender
        return {"status": "duplicate"}
    seen.add(message_id)
    print("received:", json.loads(body)["type"])
    return {"status": "accepted"}


# -- the rest plays the sender --------------------------------------------------------------------


def post(url: str, body: bytes, headers: dict[str, str]) -> str:
    request = urllib.request.Request(url, data=body, headers=headers)  # noqa: S310 - our own
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own
            return f"{answer.status} {answer.read().decode()}"
    except urllib.error.HTTPError as refused:
        with refused:
            return f"{refused.code} {refused.read().decode()}"


async def main() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(service, log_level="warning", ws="none"))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/hooks"
    body = b'{"type": "order.paid", "data": {"order": 7}}'
    genuine = signed_webhook(body, SECRET)
    for sent, headers in (
        (body, genuine),
        (body, genuine),
        (body.replace(b"7", b"8"), genuine),
        (body, signed_webhook(body, SECRET, at=datetime.now(UTC) - timedelta(minutes=10))),
    ):
        print(await asyncio.to_thread(post, url, sent, headers))
    server.should_exit = True
    await serving
    listening.close()


if __name__ == "__main__":
    asyncio.run(main())

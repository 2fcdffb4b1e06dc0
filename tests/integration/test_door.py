"""The inbox door behind a real server: on its own, and mounted in Starlette and FastAPI."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastapi
import pytest
import starlette.applications
import starlette.routing
import uvicorn

import offpath
from offpath.events import InboxMessage, Verifier
from offpath.events.webhook.signature import signed_headers, signer

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


@pytest.fixture
def app(tmp_path: Path) -> offpath.App:
    return offpath.App(f"sqlite:///{tmp_path / 'work.db'}", auto_start=False)


@asynccontextmanager
async def served(asgi: Any) -> AsyncIterator[str]:
    """A server on a free port; what is sent before it is ready waits in the socket."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(asgi, log_config=None, ws="none", timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        listening.close()


async def post(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")

    def send() -> tuple[int, dict[str, Any]]:
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, json.load(refused)

    return await asyncio.to_thread(send)


def signed(key: str, body: bytes) -> dict[str, str]:
    headers = signed_headers(key, datetime.now(UTC), body, [signer(SECRET)])
    return headers | {"content-type": "application/json"}


def in_starlette(door: Any) -> Any:
    routes = [starlette.routing.Mount("/hooks/bank", app=door)]
    return starlette.applications.Starlette(routes=routes)


def in_fastapi(door: Any) -> Any:
    service = fastapi.FastAPI()
    service.mount("/hooks/bank", door)
    return service


@pytest.mark.parametrize(
    ("mounted", "path"),
    [(lambda door: door, "/"), (in_starlette, "/hooks/bank/"), (in_fastapi, "/hooks/bank/")],
    ids=["alone", "starlette", "fastapi"],
)
async def test_it_serves(app: offpath.App, mounted: Any, path: str) -> None:
    applied: list[Any] = []

    @app.inbox("bank")
    async def handle(message: InboxMessage) -> None:
        applied.append((message.key, message.payload))

    door = app.inbox_door("bank", verifier=Verifier(SECRET), most_bytes=100_000)
    body = json.dumps({"text": "é" * 5_000}).encode()
    async with app, served(mounted(door)) as address:
        url = address + path
        assert (await post(url, body + b" ", signed("m1", body)))[0] == 401
        answers = await asyncio.gather(*(post(url, body, signed("m1", body)) for _ in range(8)))
        assert sorted(code for code, _ in answers) == [200] * 7 + [202]
        assert len({document["id"] for _, document in answers}) == 1
        large = b'"' + b"x" * 200_000 + b'"'
        assert (await post(url, large, signed("m2", large)))[0] == 413
        assert (await post(url, b"{", signed("m3", b"{")))[0] == 400
        await app.drain("bank").run_once()
        assert applied == [("m1", json.loads(body))]


async def test_a_store_that_cannot_be_opened_is_503_and_later_served(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    app = offpath.App(f"sqlite:///{folder / 'work.db'}", auto_start=False)
    door = app.inbox_door("bank", verifier=Verifier(SECRET))
    async with served(door) as address:
        code, told = await post(address, b"1", signed("m1", b"1"))
        assert (code, told) == (503, {"status": "unavailable"})
        folder.mkdir()
        assert (await post(address, b"1", signed("m1", b"1")))[0] == 202
    await app.close()

"""The dashboard in a FastAPI service: closed without credentials, its documents as JSON.

Needs: pip install 'offpath[dashboard]' fastapi
"""

from __future__ import annotations

import asyncio
import json
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI

from offpath import Abort, App
from offpath.web import auth, dashboard

TOKEN = "an example: make one with secrets.token_urlsafe()"  # noqa: S105 - an example
app = App("sqlite:///work.db", migrate=True)


@app.task
async def send_invoice(number: int, api_key: str) -> None:
    raise Abort(f"invoice {number}: the provider knows no key {len(api_key)} long")


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with app:
        await app.enqueue(send_invoice.job(number, api_key="k-17") for number in range(3))
        await app.worker().run_until_idle()
        yield


service = FastAPI(lifespan=lifespan)
service.mount("/jobs", dashboard(app, auth=auth.token({"ann": TOKEN}), title="shop"))


def ask(url: str, token: str | None = None) -> tuple[int, Any]:
    headers = {"Accept": "application/json"} | (
        {"Authorization": f"Bearer {token}"} if token else {}
    )
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:  # noqa: S310
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


async def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(service, log_level="warning"))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        base = f"http://127.0.0.1:{listener.getsockname()[1]}/jobs/api/v1"
        print("without a token:", (await asyncio.to_thread(ask, f"{base}/faults"))[0])
        _, faults = await asyncio.to_thread(ask, f"{base}/faults", TOKEN)
        for fault in faults["items"]:
            print(fault["jobs"], "dead", fault["task"], fault["reason"], "-", fault["text"])
        _, dead = await asyncio.to_thread(ask, f"{base}/dead", TOKEN)
        first = f"{base}/jobs/{dead['items'][0]['id']}"
        _, one = await asyncio.to_thread(ask, first, TOKEN)
        print("an api_key is shown as", one["input"]["api_key"])
        server.should_exit = True
        await serving


if __name__ == "__main__":
    asyncio.run(main())

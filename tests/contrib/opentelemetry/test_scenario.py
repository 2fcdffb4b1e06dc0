"""One scenario from an HTTP request to the receiver of a webhook, as one golden file.

Regenerate ``scenario.txt`` by ``OFFPATH_TEST_WRITE=1`` and read what changed.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import httpx2
import uvicorn
from fastapi import Depends, FastAPI
from opentelemetry.trace import SpanKind, get_tracer
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

import offpath
from offpath.contrib.fastapi import bound
from offpath.events import InboxContext, InboxMessage, Verifier, new_secret
from tests.contrib.opentelemetry.rig import Recorder, told
from tests.contrib.urls import async_urls
from tests.integration.polling import eventually

GOLDEN = Path(__file__).parent / "scenario.txt"


@asynccontextmanager
async def served(service: Any, port: int) -> AsyncIterator[None]:
    """A server in this loop."""
    server = uvicorn.Server(
        uvicorn.Config(service, host="127.0.0.1", port=port, log_level="error", lifespan="off")
    )
    running = asyncio.create_task(server.serve())
    await eventually(lambda: server.started, within=30)
    try:
        yield
    finally:
        server.should_exit = True
        await running


async def test_from_a_request_to_the_receiver_of_a_webhook(url: str) -> None:
    recorder, secret = Recorder(), new_secret()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = offpath.config.load_settings(
        url=url, webhook_http=True, webhook_networks=("127.0.0.0/8",)
    )
    app = offpath.App(settings=settings, extensions=[recorder.extension()], auto_start=False)
    engine = create_async_engine(async_urls(url)[0])
    sessions = async_sessionmaker(engine)

    @app.task(queue="receipts")
    async def print_receipt(order: int) -> None: ...

    @app.task
    async def send_receipt(ctx: offpath.Context, order: int) -> None:
        await print_receipt.enqueue(order)
        ctx.publish("receipt.sent", {"order": order})

    @app.task
    async def book(order: int) -> None: ...

    @app.inbox("shop")
    async def take(message: InboxMessage, ctx: InboxContext) -> None:
        ctx.enqueue(book.job(message.payload["data"]["order"]))

    async def get_session() -> AsyncIterator[AsyncSession]:
        async with sessions() as session:
            yield session

    service = FastAPI()
    tracer = get_tracer("http", tracer_provider=recorder.tracers)

    @service.post("/orders/{order}")
    async def place(
        order: int,
        session: Annotated[AsyncSession, Depends(get_session)],
        jobs: Annotated[offpath.Bound, Depends(bound(app, get_session))],
    ) -> None:
        with tracer.start_as_current_span("POST /orders/{order}", kind=SpanKind.SERVER):
            await session.execute(text("select 1"))
            await jobs.enqueue(send_receipt.job(order))
            await session.commit()

    door = app.inbox_door("shop", verifier=Verifier(secret), keep_headers=["traceparent"])
    service.mount("/hooks", door)
    app.webhooks.deliver("default")
    async with app, served(service, port):
        await app.webhooks.add("receiver", f"http://127.0.0.1:{port}/hooks/", secret=secret)
        async with httpx2.AsyncClient() as client:
            answer = await client.post(f"http://127.0.0.1:{port}/orders/7")
            assert answer.status_code == 200
        async with app.worker(poll_interval=0.05):
            booked = partial(app.jobs.count, task="book", state="succeeded")
            await eventually(booked, within=30, what="the order is booked")
    await engine.dispose()
    found = told(recorder.ended())
    if os.environ.get("OFFPATH_TEST_WRITE"):
        GOLDEN.write_text(found, "utf-8")
    assert found == GOLDEN.read_text("utf-8")

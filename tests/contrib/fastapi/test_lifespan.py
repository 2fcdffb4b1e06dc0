"""The life of an app in a service of Starlette or FastAPI."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import offpath
from offpath.contrib.starlette import errors, later, lifespan


def make_app(url: str | None, **keywords: Any) -> offpath.App:
    app = offpath.App(url, **keywords)

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    return app


async def test_it_is_open_inside_and_outlives_the_inner_one(url: str) -> None:
    app = make_app(url, auto_start=False)
    seen: list[str] = []

    @asynccontextmanager
    async def inner(api: FastAPI) -> AsyncIterator[Mapping[str, int]]:
        seen.append(f"begins with {await app.jobs.count()}")
        yield {"answer": 42}
        seen.append(f"ends with {await app.jobs.count()}")

    api = FastAPI(lifespan=lifespan(app, inner=inner))
    async with api.router.lifespan_context(api) as state:
        assert state == {"answer": 42}
        assert api.state.offpath is app
        await app.tasks["double"].enqueue(2)
    assert seen == ["begins with 0", "ends with 1"]
    # closed: another life begins anew
    async with api.router.lifespan_context(api):
        assert await app.jobs.count() == 1


async def test_with_worker_jobs_run_in_the_service(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(url, auto_start=False)
    api = FastAPI(lifespan=lifespan(app, worker=True))
    with caplog.at_level("INFO", "offpath.contrib"):
        async with api.router.lifespan_context(api):
            handle = await app.tasks["double"].enqueue(2)
            assert await handle.result(timeout=20) == 4
    assert "a worker runs in this process" in caplog.text


async def test_in_memory_there_is_one_worker() -> None:
    app = make_app(None)
    api = FastAPI(lifespan=lifespan(app, worker=True))
    async with api.router.lifespan_context(api):
        handle = await app.tasks["double"].enqueue(2)
        assert await handle.result(timeout=20) == 4
        assert len(await app.workers()) == 1


async def test_what_fails_inside_closes_the_app(url: str) -> None:
    app = make_app(url, auto_start=False)

    @asynccontextmanager
    async def inner(api: FastAPI) -> AsyncIterator[None]:
        if api.state.offpath is app:
            raise RuntimeError("no")
        yield

    api = FastAPI(lifespan=lifespan(app, inner=inner))
    with pytest.raises(RuntimeError, match="no"):
        async with api.router.lifespan_context(api):
            pass
    assert app._lifecycle.session is None


def starlette_service(app: offpath.App) -> Starlette:
    async def leave(request: Request) -> JSONResponse:
        async with later(request) as left:
            left.add(app.tasks["double"], 2)
            left.add(app.tasks["double"].options(priority=3), 3)
            if request.query_params.get("fail"):
                raise offpath.errors.StoreBusy("busy")
        return JSONResponse(await app.jobs.count())

    return Starlette(routes=[Route("/", leave, methods=["POST"])], lifespan=lifespan(app))


def test_a_service_of_starlette_leaves_jobs_behind(url: str) -> None:
    app = make_app(url, auto_start=False)
    service = starlette_service(app)
    errors(service)
    with TestClient(service, raise_server_exceptions=False) as client:
        assert client.post("/").json() == 2
        assert client.post("/?fail=1").status_code == 503
        assert client.post("/").json() == 4


def test_without_an_app_it_says_so() -> None:
    service = starlette_service(make_app(None))
    service.router.lifespan_context = Starlette().router.lifespan_context
    with TestClient(service) as client, pytest.raises(offpath.InvalidArgument, match="lifespan"):
        client.post("/")

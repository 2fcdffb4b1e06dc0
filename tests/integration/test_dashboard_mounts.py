"""The dashboard inside of web frameworks, ASGI and WSGI, on each database: pages and actions."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import django
import pytest
from a2wsgi import ASGIMiddleware
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.test import override_settings
from django.urls import path
from fastapi import FastAPI
from flask import Flask
from litestar import Litestar, asgi
from litestar.types import Receive, Scope, Send
from starlette.applications import Starlette
from starlette.routing import Mount
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client

import offpath
from offpath.web import auth, dashboard, under
from offpath.web.console import places
from tests.browser.scene import fill, make_app
from tests.unit.web.dashboard.rig import TOKEN, Site

BEARER = {"authorization": f"Bearer {TOKEN}", "host": "localhost"}
JSON = {**BEARER, "content-type": "application/json"}
PAGES = ("/", "/jobs", "/dead", "/queues", "/schedules", "/messages", "/routers", "/actions")
Get = Callable[[str, str, bytes], Awaitable[tuple[int, bytes]]]


def _hello(_: HttpRequest) -> HttpResponse:
    return HttpResponse("the service's own page")


urlpatterns = [path("", _hello)]


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loaded machine is no database that hangs."""
    monkeypatch.setattr(places, "PATIENCE", 30.0)


@pytest.fixture
def _django() -> Any:
    if not settings.configured:
        settings.configure(ALLOWED_HOSTS=["*"], SECRET_KEY="x" * 50)
        django.setup()
    with override_settings(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], MIDDLEWARE=[]):
        yield


def _wsgi(console: Any) -> Any:
    made = ASGIMiddleware(console)
    console.loop = made.loop
    return made


async def _close(console: Any) -> None:
    """Close what the first request opened, in its loop: no framework does it for a mounted app."""

    async def close() -> None:
        async with console._inner.lifespan_context(console._inner):
            pass

    loop = getattr(console, "loop", None)
    if loop is None:
        await close()
    else:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(close(), loop))


# -- how each of them mounts it --------------------------------------------------------------------


def _starlette(console: Any) -> Any:
    return Starlette(routes=[Mount("/jobs", console)])


def _fastapi(console: Any) -> Any:
    service = FastAPI()
    service.mount("/jobs", console)
    return service


def _django_asgi(console: Any) -> Any:
    return Starlette(routes=[Mount("/jobs", console), Mount("/", get_asgi_application())])


def _flask(console: Any) -> Any:
    service = Flask(__name__)
    service.add_url_rule("/", "hello", lambda: "the service's own page")
    return DispatcherMiddleware(service.wsgi_app, {"/jobs": _wsgi(console)})


def _django_wsgi(console: Any) -> Any:
    return DispatcherMiddleware(get_wsgi_application(), {"/jobs": _wsgi(console)})


def _asking(service: Any, *, wsgi: bool) -> Get:
    async def by_asgi(method: str, where: str, body: bytes) -> tuple[int, bytes]:
        if where == "/":  # Django ends what it answers when its asker has gone
            return await _from_who_stays(service)
        answer = await Site(service).ask(method, where, headers=JSON, body=body)
        return answer.code, answer.body

    async def by_wsgi(method: str, where: str, body: bytes) -> tuple[int, bytes]:
        def ask() -> tuple[int, bytes]:
            answer = Client(service).open(where, method=method, headers=JSON, data=body)
            return answer.status_code, answer.data

        return await asyncio.to_thread(ask)

    return by_wsgi if wsgi else by_asgi


async def _from_who_stays(service: Any) -> tuple[int, bytes]:
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""}
    asker: Any = ApplicationCommunicator(service, scope)  # type: ignore[no-untyped-call]
    await asker.send_input({"type": "http.request"})
    start, body = await asker.receive_output(30), await asker.receive_output(30)
    await asker.wait(30)
    return start["status"], body["body"]


def _litestar(console: Any) -> Any:
    placed = under(console, "/jobs")

    async def jobs(scope: Scope, receive: Receive, send: Send) -> None:
        await placed(scope, receive, send)  # type: ignore[arg-type]

    return Litestar([asgi("/jobs", is_mount=True, copy_scope=True)(jobs)])


MOUNTS = {
    "litestar": (_litestar, False),
    "starlette": (_starlette, False),
    "fastapi": (_fastapi, False),
    "django-asgi": (_django_asgi, False),
    "flask": (_flask, True),
    "django-wsgi": (_django_wsgi, True),
}


@pytest.mark.usefixtures("_django")
@pytest.mark.parametrize("mount", MOUNTS)
async def test_pages_and_actions_work_where_it_is_mounted(mount: str, url: str) -> None:
    app = make_app(url)
    await fill(app, dead=2, close=False)
    make, wsgi = MOUNTS[mount]
    console = dashboard(url, auth=auth.token({"ann": TOKEN}))
    ask = _asking(make(console), wsgi=wsgi)
    for page in PAGES:
        code, body = await ask("GET", f"/jobs{page}", b"")
        assert (page, code) == (page, 200)
        links = re.findall(r'(?:href|src|action)="(/[^"]*)"', body.decode())
        assert links
        assert [one for one in links if not one.startswith("/jobs/")] == []
        sheet = next(one for one in links if "console.css" in one)
        assert (await ask("GET", sheet, b""))[0] == 200
    await _act(app, ask)
    if mount not in {"starlette", "fastapi", "litestar"}:
        assert await ask("GET", "/", b"") == (200, b"the service's own page")
    await _close(console)
    await app.close()


async def _act(app: offpath.App, ask: Get) -> None:
    """Redrive all that match: it goes on behind the request, also under WSGI."""
    asked = {"verb": "job.redrive", "target": {"where": {"task": ["send_mail"]}}}
    code, body = await ask("POST", "/jobs/api/v1/actions", json.dumps(asked).encode())
    told = json.loads(body)
    assert (code, told["state"]) == (202, "running")
    async with asyncio.timeout(30):
        while told["state"] == "running":
            _, body = await ask("GET", f"/jobs/api/v1/actions/{told['id']}", b"")
            told = json.loads(body)
    assert (told["state"], told["changed"], told["actor"]) == ("done", 2, "ann")
    assert (await app.dead.list(task="send_mail")).items == ()

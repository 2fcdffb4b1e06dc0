"""A dashboard over a small store, asked as a server would ask it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import unquote

import offpath
from offpath.economy import Economy, Ed25519Signer
from offpath.settlements import Credited
from offpath.settlements.rates import PlayerActivity
from offpath.web import auth, dashboard
from offpath.web.viewers import VIEWER

TOKEN = "the token of an operator"
LOOKER = "the token of who may look"
BEARER = {"authorization": f"Bearer {TOKEN}"}


class Answer:
    """The answer that came back."""

    def __init__(self, start: Mapping[str, Any], body: bytes) -> None:
        self.code: int = start["status"]
        self.headers = {name.decode(): value.decode() for name, value in start["headers"]}
        self.body = body

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    @property
    def document(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)


class Site:
    """A dashboard, asked as a server would ask it."""

    def __init__(self, app: Any, root: str = "") -> None:
        self.app = app
        self.root = root

    async def get(self, path: str, headers: Mapping[str, str] = BEARER) -> Answer:
        """``GET`` a path of the dashboard."""
        return await self.ask("GET", path, headers=headers)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] = BEARER,
        body: bytes = b"",
        client: str = "10.0.0.9",
        scheme: str = "http",
    ) -> Answer:
        """One request."""
        plain, _, query = path.partition("?")
        given = {"host": "localhost", **headers}
        scope = {
            "type": "http",
            "http_version": "1.1",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "method": method,
            "path": self.root + unquote(plain),
            "raw_path": (self.root + plain).encode(),
            "root_path": self.root,
            "scheme": scheme,
            "query_string": query.encode(),
            "client": (client, 1),
            "server": ("localhost", 80),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        }
        ahead = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            if not ahead:  # a client that stays: an answer in pieces is cut where it leaves
                await asyncio.Event().wait()
            return ahead.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        starts = [one for one in sent if one["type"] == "http.response.start"]
        assert len(starts) == 1
        return Answer(starts[0], b"".join(one.get("body", b"") for one in sent[1:]))


def site_of(app: Any, root: str = "", **terms: Any) -> Site:
    """A dashboard for one who may see everything."""
    return Site(dashboard(app, auth=auth.token({"ann": TOKEN}), **terms), root)


def site_for_lookers(app: Any) -> Site:
    """A dashboard for those who may not see what jobs were given."""
    return Site(dashboard(app, auth=auth.token({"ann": TOKEN}, can=VIEWER)))


def add_economy(app: offpath.App) -> Economy:
    """An economy for an app that is not open yet, and a kind of settlement runs."""

    async def bonuses(_: Any) -> AsyncIterator[PlayerActivity]:
        for name in ("ann", "bob"):
            yield PlayerActivity(id=name, user=name)

    async def given(_user: str, _amount: int, _key: str) -> Credited:
        return Credited()

    app.settlements.define("bonus", records=bonuses, calculate=lambda _: 5, credit=given)
    return Economy(app, signer=Ed25519Signer("ab" * 32))

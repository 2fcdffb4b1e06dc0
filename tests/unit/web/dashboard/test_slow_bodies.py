"""Whoever sends a body slowly is refused in time, and takes no seat from those who are known."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from offpath.web.console import bodies
from offpath.web.console.doors import MOST_STRANGERS
from tests.unit.web.dashboard.rig import BEARER, TOKEN, Answer, Site

FORM = {"host": "localhost", "sec-fetch-site": "same-origin"}


class Slow:
    """A request whose body begins and does not go on until it is told."""

    def __init__(self, site: Site, path: str = "/sign-in", headers: dict[str, str] = FORM) -> None:
        self.began = asyncio.Event()
        self.rest: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._sent: list[Any] = []
        self._first = [{"type": "http.request", "body": b"token=", "more_body": True}]
        scope = {
            "type": "http", "http_version": "1.1", "method": "POST", "path": path,
            "raw_path": path.encode(), "root_path": "", "scheme": "http", "query_string": b"",
            "asgi": {"version": "3.0", "spec_version": "2.4"}, "client": ("10.0.0.66", 1),
            "server": ("localhost", 80),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }  # fmt: skip
        self.task = asyncio.ensure_future(site.app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if self._first:
            return self._first.pop()
        self.began.set()
        return {"type": "http.request", "body": await self.rest, "more_body": False}

    async def _send(self, message: Any) -> None:
        self._sent.append(message)

    async def answer(self) -> Answer:
        """The answer that came in the end."""
        await self.task
        return Answer(self._sent[0], b"".join(one.get("body", b"") for one in self._sent[1:]))


async def _held(site: Site, count: int) -> list[Slow]:
    slow = [Slow(site) for _ in range(count)]
    for one in slow:
        await one.began.wait()
    return slow


async def test_a_body_that_does_not_come_is_refused(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "TIMEOUT", 0.01)
    answer = await Slow(site).answer()
    assert (answer.code, "BODY_TOO_SLOW" in answer.text) == (408, True)
    known = {**BEARER, "host": "localhost", "content-type": "application/json"}
    assert (await Slow(site, "/api/v1/actions", known).answer()).code == 408


async def test_strangers_have_few_seats_and_those_who_are_known_the_others(site: Site) -> None:
    slow = await _held(site, MOST_STRANGERS)
    refused = await site.ask("POST", "/sign-in", headers=FORM, body=b"token=wrong")
    assert (refused.code, refused.headers["retry-after"]) == (503, "1")
    assert (await site.get("/readyz", headers={})).code == 503
    assert (await site.get("/healthz", headers={})).code == 200
    assert (await site.get("/api/v1/me")).code == 200
    for one in slow:
        one.rest.set_result(TOKEN.replace(" ", "+").encode())
        assert (await one.answer()).code == 303
    assert (await site.get("/readyz", headers={})).code == 200


async def test_who_leaves_gives_the_seat_back(site: Site) -> None:
    for one in await _held(site, MOST_STRANGERS):
        one.task.cancel()
        await asyncio.gather(one.task, return_exceptions=True)
    assert (await site.get("/readyz", headers={})).code == 200

"""An app with the tasks that jobs of other queues are to become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import offpath
from tests.servers import migrate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

SEEN: list[Any] = []
"""What handlers were given, in the order of their runs."""


@pytest.fixture
def server(database_from_template: Callable[[str, Callable[[str], None]], str]) -> str:
    """A Postgres database that has our schema."""
    return database_from_template("schema", migrate)


def app_on(url: str) -> offpath.App:
    """An app with a few tasks."""
    app = offpath.App(url, auto_start=False)

    @app.task(name="shop.mail")
    async def send(to: str, copies: int = 1) -> None:
        SEEN.append((to, copies))

    @app.task(name="shop.own", limit=offpath.Limit(max_running=2), unique="one")
    async def own(number: int) -> None:
        SEEN.append(number)

    @app.task(name="shop.raw")
    async def raw(payload: bytes) -> None:
        SEEN.append(payload)

    @app.task(name="shop.say")
    async def say(text: str) -> None:
        SEEN.append(text)

    return app


@pytest.fixture
async def app(server: str) -> AsyncIterator[offpath.App]:
    """That app, open."""
    SEEN.clear()
    async with app_on(server) as opened:
        yield opened

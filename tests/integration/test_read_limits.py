"""A read of a dashboard on SQLite is ended after its time, and no write is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import offpath
from offpath.config import Settings
from offpath.errors import StoreBusy
from offpath.store import backends
from offpath.store.backends import looking_store
from offpath.store.sql import statement
from offpath.store.sqlite import SqliteStore
from offpath.web.console import places, shares
from tests.sqlite_files import migrated_url
from tests.unit.web.dashboard.rig import BEARER, site_of

if TYPE_CHECKING:
    from pathlib import Path

    from offpath.store.sqlite.session import Session

_COUNT = (
    "with recursive n(x) as (select 1 union all select x + 1 from n{bound}) select max(x) from n"
)
ENDLESS = statement("endless", _COUNT.format(bound=""))
LONG = statement("long", _COUNT.format(bound=" where x < 3000000"))


async def _endless(store: Any, *_: object, **__: object) -> Any:
    return await store._read(lambda session: session.run(ENDLESS()))


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A migrated file."""
    return migrated_url(tmp_path / "work.db")


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> float:
    """A short time, for who looks."""
    monkeypatch.setattr(backends, "LOOKING_TIMEOUT", 0.1)
    monkeypatch.setattr(shares, "FOR", 0.0)
    monkeypatch.setattr(places, "PATIENCE", 30.0)
    return 0.1


async def test_a_read_without_an_end_is_ended_and_the_next_one_is_answered(
    url: str, limit: float
) -> None:
    store = looking_store(Settings(url=url))
    assert isinstance(store, SqliteStore)
    await store.open()
    for _ in range(3):
        with pytest.raises(StoreBusy, match=f"more than {limit:g} s was stopped"):
            await _endless(store)
    assert await store.queues() == []
    await store.close()


async def test_a_write_has_its_time(url: str, limit: float) -> None:
    store = looking_store(Settings(url=url))
    assert isinstance(store, SqliteStore)
    await store.open()

    def long(session: Session) -> Any:
        loop = asyncio.new_event_loop()
        began = loop.time()
        rows = session.run(LONG())
        while loop.time() - began < 2 * limit:  # on a quick machine several times
            rows = session.run(LONG())
        loop.close()
        return rows

    assert await store._write(long) == [(3_000_000,)]
    await store.close()


async def test_a_page_on_sqlite_says_what_was_stopped(
    url: str, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqliteStore, "faults", _endless)
    site = site_of(url)
    document = await site.get("/api/v1/overview")
    assert (document.code, document.document["cut"]) == (200, ["faults"])
    page = await site.get("/", headers={**BEARER, "accept": "text/html"})
    assert "This took too long, and was stopped." in page.text
    alone = await site.get("/api/v1/faults")
    assert (alone.code, alone.document["code"]) == (503, "TOOK_TOO_LONG")
    async with offpath.App(url, auto_start=False) as app:  # whose own reads have their time
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(4 * limit):
                await app.store().faults(limit=1)
    inner: Any = site.app
    async with inner._inner.lifespan_context(inner._inner):
        pass

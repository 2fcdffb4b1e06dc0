"""The hook for groups that nobody waits for: whoever waits, in whatever process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import offpath
from offpath import App
from offpath.jobs.client.group_events import GRACE, claim_key
from offpath.model.declaration import HOOK
from tests.sqlite_files import migrated_url

pytestmark = pytest.mark.needs("workflows")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that several apps share, of each kind."""
    if request.param == "postgres":
        return str(request.getfixturevalue("swept_postgres"))
    return migrated_url(tmp_path / "jobs.db")


async def leaf(n: int) -> int:
    return n


async def test_who_waits_in_an_app_without_the_hook_keeps_its_group_from_it(url: str) -> None:
    orphans = list[str]()
    told = asyncio.Event()

    def hook(group: offpath.Group) -> None:
        orphans.append(group.id)
        told.set()

    working, asking = App(url, auto_start=False, on_orphan_group=hook), App(url, auto_start=False)
    working.task(leaf)
    later = asking.task(leaf).options(delay=3600)
    async with working, asking, working.worker():
        awaited, lost = await later.enqueue(1), await later.enqueue(2)
        await _until(lambda: working.store().declarations(HOOK))
        waiting = asyncio.ensure_future(awaited.group(timeout=30))
        await _until(lambda: _waits(asking))  # which comes behind its word to the fleet
        await working.jobs.run_now(awaited.id, lost.id)
        assert await waiting == 1
        async with asyncio.timeout(20 + GRACE):
            await told.wait()
    assert orphans == [lost.id]


async def test_where_nobody_has_the_hook_a_wait_writes_nothing(url: str) -> None:
    app = App(url, auto_start=False)
    task = app.task(leaf)
    async with app, app.worker():
        handle = await task.enqueue(1)
        assert await handle.group(timeout=30) == 1
        assert not await _is_claimed(app, handle.id)


async def _is_claimed(app: App, group: str) -> bool:
    """True if the group's name is taken. One that is not is given back at once."""
    key, me = claim_key(group), app.new_id()
    if await app.store().claim(key, me, ttl=60):
        await app.store().release_claim(key, me)
        return False
    return True


async def _waits(app: App) -> bool:
    session = app._lifecycle.session
    assert session is not None
    return len(session.waiters) == 1


async def _until(asked: Callable[[], Awaitable[object]]) -> None:
    for _ in range(100_000):
        if await asked():
            return
        await asyncio.sleep(0)
    pytest.fail("it does not come to that")

"""Group values over a fleet of four processes: exact, every time, on each store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import offpath
from offpath import JobState
from tests.integration import group_service as service
from tests.integration.fleet import Fleet
from tests.integration.polling import eventually
from tests.integration.scale import scaled

TARGET = "tests.integration.group_service:app"
GROUPS = scaled(20, 100)
CHILDREN = 100


@pytest.fixture
async def app(url: str) -> AsyncIterator[offpath.App]:
    """A client of the store under test, open."""
    made = offpath.App(url, auto_start=False)
    for task in service.app.tasks.values():
        made.tasks.add(task)
    async with made:
        yield made


@pytest.mark.timeout(300)
async def test_a_hundred_children_that_add_one_make_a_hundred_every_time(
    app: offpath.App, fleet: Fleet
) -> None:
    for _ in range(4):
        await fleet.up(app, "--concurrency", "25", target=TARGET)
    adding = await app.enqueue([service.adding.job(CHILDREN) for _ in range(GROUPS)])
    racing = await app.enqueue([service.racing.job(10) for _ in range(GROUPS)])

    async def ended() -> bool:
        total = await app.jobs.count()
        return total == GROUPS * (CHILDREN + 12) == await app.jobs.count(state=JobState.SUCCEEDED)

    await eventually(ended, within=200, what="all groups end")
    assert [await handle.group(timeout=5) for handle in adding] == [CHILDREN] * GROUPS
    for handle in racing:
        value = await handle.group(timeout=5)
        assert value in range(10)
        assert await handle.group(timeout=5) == value
        assert (await app.groups.get(handle.id)).open == 0
    ran = {one.info.pid for one in await app.workers()}
    assert len(ran) == 4

"""Sleeping and waiting jobs survive a deploy: every worker stops, and later there are others."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator

import pytest

import offpath
from offpath import JobState
from tests.integration import workflow_service as service
from tests.integration.fleet import Fleet, registered
from tests.integration.polling import eventually
from tests.integration.scale import scaled

TARGET = "tests.integration.workflow_service:app"
EACH = scaled(5, 50)
DEPLOYS = scaled(1, 10)
SHORT = 0.05
LONG = 4.0
"""Seconds: longer than it takes until the first workers are gone."""


@pytest.fixture
async def app(url: str) -> AsyncIterator[offpath.App]:
    """A client of the store under test, open."""
    async with service.client_of(url) as made:
        yield made


@pytest.mark.timeout(300)
async def test_what_sleeps_and_waits_goes_on_after_a_deploy(app: offpath.App, fleet: Fleet) -> None:
    await _up(app, fleet)
    sleeping = await app.enqueue([service.approved.job(LONG) for _ in range(EACH)])
    waiting = await app.enqueue([service.approved.job(SHORT) for _ in range(EACH)])
    behind = service.gathered.job([one.id for one in waiting], "behind")
    held = await app.enqueue(offpath.gate(on=waiting, queue=[behind]))
    await eventually(lambda: _wait_for_signals(app, EACH), within=30, what="half of them wait")
    for _ in range(DEPLOYS):
        await _down(fleet)
        await _up(app, fleet)
    await eventually(lambda: _wait_for_signals(app, 2 * EACH), within=60, what="all of them wait")
    await _down(fleet)

    for one in (*sleeping, *waiting):
        assert await app.signal(one, "approve", one.id), "nobody lives to take it"
    assert (await held.status()).state is JobState.BLOCKED
    await _up(app, fleet)
    for one in (*sleeping, *waiting):
        assert await one.result(timeout=60) == ["slept", one.id]
    await held.group(timeout=60)
    assert not fleet.journal.all("early")
    for one in (*sleeping, *waiting, held):
        record = await one.status()
        assert (record.attempt, record.losses, record.failures) == (1, 0, ())
    assert max(fleet.journal.times("recorded-succeeded").values()) == 1


async def _up(app: offpath.App, fleet: Fleet) -> None:
    for worker in [fleet.start(target=TARGET) for _ in range(2)]:
        await registered(app, worker)


async def _down(fleet: Fleet) -> None:
    living = [one for one in fleet.workers if one.popen.poll() is None]
    for worker in living:
        worker.send(signal.SIGTERM)
    for worker in living:
        assert await worker.ended(within=30) == 0, worker.output


async def _wait_for_signals(app: offpath.App, count: int) -> bool:
    blocked = await app.jobs.find(task="approved", state=JobState.BLOCKED)
    return sum(one.wait_event == "approve" for one in blocked.items) == count

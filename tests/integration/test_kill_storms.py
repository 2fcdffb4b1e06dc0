"""Kill storms: nobody dies of them who did not run alone, and one that kills is found soon.

The stores' part of it is tried in the suite of the stores, without processes. These take minutes.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

import offpath
from offpath import JobState
from offpath.records import DeadReason
from tests.integration import service
from tests.integration.polling import eventually
from tests.integration.scale import CAMPAIGN

if TYPE_CHECKING:
    from tests.integration.fleet import Fleet
    from tests.integration.journal import Entry

pytestmark = pytest.mark.skipif(not CAMPAIGN, reason="minutes: OFFPATH_TEST_CAMPAIGN=1 runs it")

KILLS = 60


@pytest.mark.timeout(400)
async def test_sixty_kills_in_a_minute_bury_nobody_who_did_not_run_alone(
    app: offpath.App, fleet: Fleet
) -> None:
    jobs = [service.stint.job(0.4) for _ in range(20_000)]
    handles = await app.enqueue(jobs)
    workers = [await fleet.up(app) for _ in range(3)]
    dice = random.Random(5)
    killed: dict[int, float] = {}
    for _ in range(KILLS):
        await asyncio.sleep(1.0)
        place = dice.randrange(len(workers))
        workers[place].kill()
        killed[workers[place].pid] = fleet.now()
        workers[place] = fleet.start()

    dead = await app.jobs.find(state=JobState.DEAD, limit=1000)
    entries = [*fleet.journal.all("start"), *fleet.journal.all("end")]
    beside = _beside(sorted(entries, key=lambda one: one.at), killed)
    assert not [one.id for one in dead.items if beside[one.id] > 1]
    for worker in workers:
        worker.kill()
    assert len(dead.items) <= len(handles) // 1000


def _beside(entries: list[Entry], killed: dict[int, float]) -> dict[str, int]:
    """How many jobs ran in the process as it was killed for the last time, by job."""
    running: dict[int, set[str]] = defaultdict(set)
    for entry in entries:
        if entry.what == "start":
            running[entry.pid].add(entry.job)
        elif entry.what == "end":
            running[entry.pid].discard(entry.job)
    last: dict[str, int] = {}
    for pid in killed:
        last.update(dict.fromkeys(running[pid], len(running[pid])))
    return defaultdict(int, last)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("place", [0, 37, 59])
async def test_one_that_kills_among_sixty_holds_the_others_up_for_a_minute_at_most(
    app: offpath.App, fleet: Fleet, place: int
) -> None:
    jobs = [service.stint.job(6.0) for _ in range(60)]
    jobs[place] = service.pill.job()
    handles = await app.enqueue(jobs)
    pill = handles[place]
    innocents = [one.id for one in handles if one.id != pill.id]
    begun = fleet.now()
    worker = fleet.start()

    async def over() -> bool:
        nonlocal worker
        if worker.popen.poll() is not None:
            worker = fleet.start()
        states = await app.store().states(innocents)
        assert JobState.DEAD not in states.values()
        return set(states.values()) == {JobState.SUCCEEDED}

    await eventually(over, within=120)
    assert fleet.now() - begun <= 60
    assert len(fleet.workers) <= 10

    async def buried() -> bool:
        nonlocal worker
        if worker.popen.poll() is not None:
            worker = fleet.start()
        return (await app.jobs.get(pill.id)).state is JobState.DEAD

    await eventually(buried, within=60)
    assert (await app.jobs.get(pill.id)).reason == DeadReason.WORKER_LOST

"""Kill storms: nobody dies of them who did not run alone, and one that kills is found soon.

The stores' part of it is tried in the suite of the stores, without processes. These take minutes.
"""

from __future__ import annotations

import asyncio
import random
import re
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
    from offpath.model.job import JobRecord
    from tests.integration.fleet import Fleet
    from tests.integration.journal import Journal

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
    for _ in range(KILLS):
        await asyncio.sleep(1.0)
        place = dice.randrange(len(workers))
        workers[place].kill()
        workers[place] = fleet.start()

    for worker in workers:
        worker.kill()
    dead = (await app.jobs.find(state=JobState.DEAD, limit=1000)).items
    pids = {one.info.id: one.info.pid for one in await app.workers()}
    at_work = _at_work(fleet.journal)
    beside = {one.id: at_work[pids[_last_worker(one)]] - {one.id} for one in dead}
    assert not {job: others for job, others in beside.items() if others}
    assert len(dead) <= len(handles) // 1000


def _last_worker(job: JobRecord) -> str:
    """The worker with which a job was lost for the last time."""
    assert job.failure is not None
    found = re.search(r"; the last, (\S+), ", job.failure.message)
    assert found, job.failure
    return found[1]


def _at_work(journal: Journal) -> dict[int, set[str]]:
    """The jobs whose handlers had begun in a process, and had not been left as it was killed.

    A handler notes its end on whatever way it is left. So none of these had ended, and nothing
    but these ran: a job whose commit or whose note was under way counts for neither.
    """
    ended = {(one.pid, one.job, one.attempt) for one in journal.all("end")}
    running: dict[int, set[str]] = defaultdict(set)
    for one in journal.all("start"):
        if (one.pid, one.job, one.attempt) not in ended:
            running[one.pid].add(one.job)
    return running


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

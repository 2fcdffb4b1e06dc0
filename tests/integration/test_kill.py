"""Workers that are killed, frozen, or die with a child of theirs alive: no job lost or doubled."""

from __future__ import annotations

import random
import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import offpath
from offpath import JobState
from offpath.records import DeadReason
from tests.integration import service
from tests.integration.fleet import Fleet, WorkerProcess
from tests.integration.polling import eventually
from tests.integration.scale import CAMPAIGN, scaled

if TYPE_CHECKING:
    from pathlib import Path

KILL_AFTER = 10
"""Runs that begin between two kills."""
SEEN_WITHIN = 5.0
"""Seconds from a death to the next run, where the backend sees it."""


@pytest.mark.timeout(300)
async def test_kill_9_loses_nothing_and_records_nothing_twice(
    app: offpath.App, fleet: Fleet
) -> None:
    jobs = [service.work.job(0.05) for _ in range(200)]
    handles = await app.enqueue(jobs)
    acknowledged = {handle.id for handle in handles}
    workers = [_start(fleet), _start(fleet)]
    kills = await _kill_at_random(app, fleet, workers)

    await eventually(lambda: _all_ended(app), within=60)
    records = [await app.jobs.get(job_id) for job_id in acknowledged]
    assert {one.state for one in records} == {JobState.SUCCEEDED}
    assert {one.attempt for one in records} == {1}, "a lost worker is not a failed attempt"
    assert kills >= scaled(8, 15)
    assert max(fleet.journal.times("recorded-succeeded").values()) == 1
    # what a run leaves behind is committed with its end: a second recording would leave a second
    left = await app.jobs.find(task="child", limit=1000)
    assert Counter(child.parent for child in left.items) == Counter(acknowledged)
    runs = fleet.journal.times("start")
    assert set(runs) == acknowledged
    # four that run, and as many that have ended and whose ends are on their way
    assert sum(runs.values()) - len(runs) <= kills * 8, "only what was in hand runs again"


def _start(fleet: Fleet) -> WorkerProcess:
    # a job may be in hand at many of so many kills: not what is tried here
    return fleet.start("--concurrency", "4", max_deliveries=20, poll_interval=0.5)


async def _kill_at_random(app: offpath.App, fleet: Fleet, workers: list[WorkerProcess]) -> int:
    """Kill one of the workers again and again until nearly all has run; returns how often."""
    chance = random.Random(7)
    kills = 0
    for mark in range(KILL_AFTER, 180, KILL_AFTER if CAMPAIGN else 2 * KILL_AFTER):
        await eventually(
            lambda mark=mark: len(fleet.journal.all("start")) >= mark,  # type: ignore[misc]
            within=60,
            what=f"{mark} runs",
        )
        place = chance.randrange(2)
        workers[place].kill()
        workers[place] = _start(fleet)
        kills += 1
    return kills


async def _all_ended(app: offpath.App) -> bool:
    live = await app.jobs.count(state=[JobState.QUEUED, JobState.RUNNING, JobState.BLOCKED])
    return not live


# -- how soon --------------------------------------------------------------------------------


async def test_a_death_is_seen_within_seconds(
    app: offpath.App, fleet: Fleet, tmp_path: Path
) -> None:
    """With the default lease of 30 s: the lock that the dead one held is what tells."""
    victim = await fleet.up(app)
    handle = await app.enqueue(service.held.job(str(tmp_path / "gate")))
    await fleet.begun(handle.id)
    heir = await fleet.up(app)
    assert all(one.presence for one in await app.workers())

    victim.kill()
    died_at = fleet.now()
    second = await fleet.begun(handle.id, times=2)
    assert second.pid == heir.pid
    assert second.at - died_at < SEEN_WITHIN
    (tmp_path / "gate").touch()
    assert await handle.result(timeout=10) == heir.pid
    record = await handle.status()
    assert (record.attempt, record.deliveries, record.losses) == (1, 2, 1)


@pytest.mark.timeout(120)
async def test_a_frozen_worker_loses_its_jobs_with_its_lease_and_cannot_record_them(
    app: offpath.App, fleet: Fleet, tmp_path: Path
) -> None:
    """A stopped process still holds its lock: the lease decides."""
    lease = float(scaled(2, 30))
    victim = await fleet.up(app, lease_seconds=lease)
    handle = await app.enqueue(service.held_in_thread.job(str(tmp_path / "gate")))
    await fleet.begun(handle.id)
    heir = await fleet.up(app, lease_seconds=lease)

    victim.send(signal.SIGSTOP)
    frozen_at = fleet.now()
    second = await fleet.begun(handle.id, times=2, within=lease + 10)
    assert second.pid == heir.pid
    assert second.at - frozen_at < lease + 1.0

    # the first run ends first; what it returned must not become the result
    (tmp_path / "gate").touch()
    victim.send(signal.SIGCONT)
    assert await handle.result(timeout=10) == heir.pid
    await eventually(lambda: _over(fleet, handle.id) == 2, within=10)
    await eventually(lambda: "no longer this worker's" in victim.output, within=10)
    record = await handle.status()
    assert (record.state, record.deliveries, record.losses) == (JobState.SUCCEEDED, 2, 1)
    assert fleet.journal.times("recorded-succeeded")[handle.id] == 1


async def test_a_worker_whose_handler_forks_is_still_seen_to_die(
    app: offpath.App, fleet: Fleet, tmp_path: Path
) -> None:
    """The child inherits every descriptor of the worker, the lock's and the server's too."""
    gate = tmp_path / "gate"
    victim = await fleet.up(app)
    handle = await app.enqueue(service.forking.job(str(gate)))
    await fleet.begun(handle.id)
    heir = await fleet.up(app)

    victim.kill()
    died_at = fleet.now()
    (forked,) = fleet.journal.all("forked", handle.id)
    second = await fleet.begun(handle.id, times=2)
    assert second.at - died_at < SEEN_WITHIN
    assert second.pid == heir.pid
    assert _lives(forked.pid), "the child must outlive this, or nothing was tried"
    gate.touch()
    await handle.result(timeout=10)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_the_fork_of_a_living_worker_does_not_make_it_look_dead(
    app: offpath.App, fleet: Fleet, tmp_path: Path
) -> None:
    """The child ends, and everything it inherited with it; the worker keeps its lock."""
    gate, second_gate = tmp_path / "gate", tmp_path / "second"
    worker = await fleet.up(app)
    forking = await app.enqueue(service.forking.job(str(gate)))
    held = await app.enqueue(service.held.job(str(second_gate)))
    await fleet.begun(held.id)
    other = await fleet.up(app)
    gate.touch()
    await forking.result(timeout=10)
    (forked,) = fleet.journal.all("forked", forking.id)
    await eventually(lambda: not _lives(forked.pid), within=10)

    # two looks of the other worker, a second apart, are what would condemn it
    looked = fleet.now()
    await eventually(lambda: fleet.now() - looked > 2.5, within=10)
    pids = {one.info.pid for one in await app.workers() if not one.late}
    assert pids == {worker.pid, other.pid}
    second_gate.touch()
    assert await held.result(timeout=10) == worker.pid
    assert fleet.journal.times("start")[held.id] == 1


def _lives(pid: int) -> bool:
    from pathlib import Path

    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


# -- poison --------------------------------------------------------------------------------


@pytest.mark.timeout(120)
async def test_a_job_that_kills_its_worker_dies_and_the_others_finish(
    app: offpath.App, fleet: Fleet
) -> None:
    """It is handed out with twenty good ones, by default a hundred at once."""
    killer = await app.enqueue(service.suicidal.job())
    good = await app.enqueue([service.work.job(0.05) for _ in range(20)])
    worker = fleet.start()
    deaths = 0
    while (await killer.status()).state is not JobState.DEAD:
        if worker.popen.poll() is not None:
            deaths += 1
            assert deaths <= 8, "it must die before this"
            worker = fleet.start()
        await eventually(
            lambda worker=worker: _ended_or_dead(killer, worker),  # type: ignore[misc]
            within=30,
            what="the worker dies, or the job does",
        )
    for one in good:
        await one.result(timeout=20)
    with pytest.raises(offpath.JobDead) as caught:
        await killer.result(timeout=1)
    assert caught.value.reason is DeadReason.WORKER_LOST
    record = await killer.status()
    # two crashes make suspects of all that ran; halving twenty-one takes five more
    assert 3 <= record.losses <= 8
    assert record.deliveries == record.losses == fleet.journal.times("start")[killer.id]


async def _ended_or_dead(killer: offpath.Handle[None, None], worker: WorkerProcess) -> bool:
    ended = worker.popen.poll() is not None
    return ended or (await killer.status()).state is JobState.DEAD


def _over(fleet: Fleet, job_id: str) -> int:
    """Runs that are over: a handler that is told of its lost lease may end before it returns."""
    return sum(len(fleet.journal.all(what, job_id)) for what in ("end", "told"))

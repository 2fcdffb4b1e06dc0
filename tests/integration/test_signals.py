"""Stopping by signal: drained, released, aborted; and what the exit code says of it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

import offpath
from offpath import JobState
from tests.integration import service
from tests.integration.fleet import Fleet, WorkerProcess
from tests.integration.polling import eventually

if TYPE_CHECKING:
    from pathlib import Path

ON_SQLITE = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
"""Things that happen inside of the worker only are tried on one backend."""

STOP = 2.0
"""Seconds over its limit that a stop may take."""


async def test_sigterm_drains(app: offpath.App, fleet: Fleet, tmp_path: Path) -> None:
    gate = str(tmp_path / "gate")
    tasks: list[offpath.Task[[str], Any, Any]]
    tasks = [service.held, service.held, service.held, service.held_in_thread, service.flaky]
    worker = await fleet.up(app)
    handles = [await app.enqueue(task.job(gate)) for task in tasks]
    for handle in handles:
        await fleet.begun(handle.id)

    worker.send(signal.SIGTERM)
    await eventually(lambda: "draining" in worker.output, within=10)
    late = await app.enqueue(service.held.job(gate))
    await _refuses_work(app, fleet, worker)
    (tmp_path / "gate").touch()
    assert await worker.ended(within=15) == 0
    assert fleet.journal.times("start")[late.id] == 0, "no new job after the signal"
    assert (await late.status()).state is JobState.QUEUED
    records = [await handle.status() for handle in handles]
    assert {one.state for one in records[:4]} == {JobState.SUCCEEDED}
    assert {one.attempt for one in records[:4]} == {1}
    # one that failed by itself in the meantime is recorded too, and waits for its retry
    assert (records[4].state, records[4].attempt) == (JobState.QUEUED, 2)
    assert worker.pid not in {one.info.pid for one in await app.workers() if one.gone_at is None}


@ON_SQLITE
async def test_what_ends_during_the_drain_is_recorded_whatever_it_is(
    app: offpath.App, fleet: Fleet, tmp_path: Path
) -> None:
    gate = str(tmp_path / "gate")
    worker = await fleet.up(app)
    handles = [
        await app.enqueue(task.job(gate))
        for task in (service.held, service.flaky, service.snoozing)
    ]
    parent = await app.enqueue(service.work.job(0.5))
    for handle in (*handles, parent):
        await fleet.begun(handle.id)
    worker.send(signal.SIGTERM)
    (tmp_path / "gate").touch()
    assert await worker.ended(within=15) == 0
    succeeded, failed, snoozed = [await handle.status() for handle in handles]
    assert succeeded.state is JobState.SUCCEEDED
    assert (failed.state, failed.attempt, len(failed.failures)) == (JobState.QUEUED, 2, 1)
    assert (snoozed.state, snoozed.attempt) == (JobState.QUEUED, 1)
    assert (await parent.status()).state is JobState.SUCCEEDED
    assert len((await app.jobs.find(task="child")).items) == 1
    assert not await app.jobs.count(state=JobState.RUNNING)


@ON_SQLITE
@pytest.mark.parametrize("task", [service.held, service.held_in_thread, service.stubborn])
async def test_after_the_drain_limit_jobs_are_given_back_and_finish_elsewhere(
    app: offpath.App,
    fleet: Fleet,
    tmp_path: Path,
    task: offpath.Task[[str], object, object],
) -> None:
    worker = await fleet.up(app, "--drain-timeout", "0.3")
    handle = await app.enqueue(task.job(str(tmp_path / "gate")))
    await fleet.begun(handle.id)
    heir = await fleet.up(app)
    worker.send(signal.SIGTERM)
    signalled_at = fleet.now()
    second = await fleet.begun(handle.id, times=2)
    assert second.pid == heir.pid
    assert second.at - signalled_at < 0.3 + STOP, "at once, not when the lease has run out"
    assert await worker.ended(within=0.3 + STOP) == 0
    (tmp_path / "gate").touch()
    await handle.result(timeout=10)
    record = await handle.status()
    assert (record.attempt, record.losses, record.deliveries) == (1, 0, 2)
    assert record.failures == ()


@ON_SQLITE
async def test_a_second_signal_aborts(app: offpath.App, fleet: Fleet, tmp_path: Path) -> None:
    worker = await fleet.up(app, "--drain-timeout", "600")
    handle = await app.enqueue(service.held.job(str(tmp_path / "gate")))
    await fleet.begun(handle.id)
    worker.send(signal.SIGINT)
    await _refuses_work(app, fleet, worker)
    assert (await handle.status()).state is JobState.RUNNING, "the first one drains"
    worker.send(signal.SIGTERM)
    assert await worker.ended(within=STOP + 3) == 0
    record = await handle.status()
    assert (record.state, record.attempt, record.losses) == (JobState.QUEUED, 1, 0)


@ON_SQLITE
async def test_an_aborted_job_fails_where_that_is_set(
    app: offpath.App, fleet: Fleet, tmp_path: Path
) -> None:
    worker = await fleet.up(app, "--drain-timeout", "0.1", abort="fail")
    handle = await app.enqueue(service.held.job(str(tmp_path / "gate")))
    await fleet.begun(handle.id)
    worker.send(signal.SIGTERM)
    assert await worker.ended(within=STOP + 3) == 0
    with pytest.raises(offpath.JobDead):
        await handle.result(timeout=1)


async def test_a_draining_worker_keeps_its_lease(
    app: offpath.App, fleet: Fleet, tmp_path: Path
) -> None:
    worker = await fleet.up(app, lease_seconds=1)
    handle = await app.enqueue(service.held.job(str(tmp_path / "gate")))
    await fleet.begun(handle.id)
    idle = await fleet.up(app, lease_seconds=1)
    worker.send(signal.SIGTERM)

    async def renewed() -> bool:
        (one,) = [one for one in await app.workers() if one.info.pid == worker.pid]
        assert not one.late
        return one.seen_at > drained_from and (one.seen_at - drained_from).total_seconds() > 1.5

    drained_from = await app.store().ping()
    await eventually(renewed, within=10, what="its lease is renewed for longer than it lasts")
    (tmp_path / "gate").touch()
    assert await handle.result(timeout=10) == worker.pid
    assert await worker.ended(within=5) == 0
    assert idle.popen.poll() is None
    assert fleet.journal.times("start")[handle.id] == 1


@ON_SQLITE
async def test_several_processes_stop_together(
    app: offpath.App, fleet: Fleet, tmp_path: Path
) -> None:
    parent = fleet.start("--processes", "2", "--concurrency", "1")
    await eventually(lambda: _workers(app, 2), within=30)
    handles = await app.enqueue([service.held.job(str(tmp_path / "gate")) for _ in range(2)])
    entries = [await fleet.begun(handle.id) for handle in handles]
    assert len({one.pid for one in entries} - {parent.pid}) == 2
    parent.send(signal.SIGTERM)
    (tmp_path / "gate").touch()
    assert await parent.ended(within=15) == 0
    for handle in handles:
        assert (await handle.status()).state is JobState.SUCCEEDED
    assert all(one.gone_at for one in await app.workers())


@ON_SQLITE
async def test_a_killed_process_is_started_again(app: offpath.App, fleet: Fleet) -> None:
    fleet.start("--processes", "2")
    await eventually(lambda: _workers(app, 2), within=30)
    first = {one.info.pid for one in await app.workers()}
    await app.enqueue(service.suicidal.job())

    async def replaced() -> bool:
        return bool({one.info.pid for one in await app.workers()} - first)

    await eventually(replaced, within=30)


async def _workers(app: offpath.App, count: int) -> bool:
    return len(await app.workers()) == count


async def _refuses_work(app: offpath.App, fleet: Fleet, worker: WorkerProcess) -> None:
    """Wait until a draining worker has had every chance to take a job, and has not."""
    probe = await fleet.up(app, "--queues", "probe")
    handle = await app.enqueue(service.work.options(queue="probe").job(0.0))
    assert await handle.result(timeout=10) == probe.pid
    assert worker.popen.poll() is None
    probe.kill()

"""Leases, outages, and what is done for the fleet: nothing is recorded twice, nothing spins."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest

from offpath.errors import SchemaMissing, StoreRejected, StoreUnavailable
from offpath.jobs.values.run import Interruption
from offpath.jobs.worker.judge import AttemptRules
from offpath.model.effects import Effects
from offpath.model.event import EventKind
from offpath.model.job import DeadReason, JobState
from offpath.model.tally import Tally
from offpath.runtime.clock import ManualClock
from tests.conformance.log_builders import event
from tests.unit.jobs.worker.rig import Rig, breathe, until

AWAY = StoreUnavailable("the database is away")
EVERYTHING = (
    *("lease", "settle", "extend", "signals", "rescue", "prune", "register", "progress"),
    *("admit", "expire_blocked"),
)


def outage(rig: Rig, *operations: str) -> None:
    for operation in operations or EVERYTHING:
        rig.faulty.fail(operation, AWAY, times=1_000_000)


async def test_long_job_keeps_its_lease(rig: Rig) -> None:
    gate = asyncio.Event()

    async def slow() -> None:
        await gate.wait()

    rig.task(slow)
    job = await rig.enqueue("slow")
    await rig.started(lease_seconds=3.0)
    await rig.started(lease_seconds=3.0)
    await rig.pass_time(60, step=0.5)
    gate.set()
    await breathe()
    record = await rig.record(job)
    assert (record.state, record.deliveries) == (JobState.SUCCEEDED, 1)


async def test_stalled_worker_cannot_record_what_another_has_done(rig: Rig) -> None:
    """B2: the loop was blocked for longer than the lease."""
    gate = threading.Event()
    runs: list[int] = []

    def slow(ctx: Any) -> int:
        runs.append(ctx.deliveries)
        if ctx.deliveries == 1:
            assert gate.wait(10)
        return ctx.deliveries  # type: ignore[no-any-return]

    rig.task(slow)
    job = await rig.enqueue("slow")
    stalled = await rig.started(lease_seconds=1.0)
    await until(lambda: runs == [1])
    # As if its loop had stood still meanwhile: nothing of it moves, and time passes.
    for loop in stalled._loops.values():
        await loop.stop()
    healthy = await rig.started(lease_seconds=1.0)
    await rig.pass_time(2)
    await until(lambda: rig.ended == [job])
    assert (await rig.record(job)).result == "2"
    for loop in stalled._loops.values():
        loop.start()
    gate.set()
    await until(lambda: stalled.active() == [])
    record = await rig.record(job)
    assert (runs, record.result, record.losses) == ([1, 2], "2", 1)
    assert stalled.counts.lease_lost == 1
    assert healthy.counts.succeeded == 1
    assert rig.kinds(job).count(EventKind.GROUP_DONE) == 1
    assert {"lease", "settle"} & set(rig.phases())


async def test_lost_lease_cancels_an_async_handler_and_tells_it(rig: Rig) -> None:
    told: list[Any] = []

    async def slow(ctx: Any) -> None:
        if ctx.deliveries > 1:
            return
        try:
            await asyncio.Event().wait()
        finally:
            told.append((ctx.lease_lost.is_set(), ctx.interruption))

    rig.task(slow)
    job = await rig.enqueue("slow")
    worker = await rig.started()
    await rig.memory.deregister(worker.id)
    await rig.pass_time(2)
    assert told == [(True, Interruption.LOST)]
    assert (await rig.record(job)).state is JobState.SUCCEEDED


async def test_without_the_store_for_a_lease_handlers_are_told_and_nothing_is_taken(
    rig: Rig,
) -> None:
    told: list[Any] = []

    async def slow(ctx: Any) -> None:
        if ctx.deliveries > 1:
            return
        try:
            await asyncio.Event().wait()
        finally:
            told.append((ctx.lease_lost.is_set(), ctx.interruption))

    rig.task(slow)
    job = await rig.enqueue("slow")
    worker = await rig.started(lease_seconds=10.0)
    outage(rig)
    await rig.pass_time(9)
    assert (told, worker.alive) == ([], True)
    await rig.pass_time(3)
    assert (told, worker.alive) == ([(True, Interruption.EXPIRED)], False)
    rig.faulty.heal()
    await rig.pass_time(5)
    assert worker.alive
    record = await rig.record(job)
    assert (record.state, record.attempt) == (JobState.SUCCEEDED, 1)


async def test_a_process_that_stood_still_asks_before_its_handlers_are_told(rig: Rig) -> None:
    """The first renewal says which jobs are still its own; until then nobody is interrupted."""
    told: list[Any] = []

    async def slow(ctx: Any) -> None:
        if ctx.deliveries > 1:
            return
        try:
            await asyncio.Event().wait()
        finally:
            told.append(ctx.interruption)

    rig.task(slow)
    await rig.enqueue("slow")
    worker = await rig.started(lease_seconds=10.0)
    heartbeat, frozen = worker._engine.heartbeat, [True]
    heartbeat.frozen = lambda: frozen[0]
    outage(rig)
    await rig.pass_time(15)
    assert (told, worker.alive, heartbeat.unsure) == ([], False, True)
    frozen[0] = False
    await rig.pass_time(3)
    assert told == [Interruption.EXPIRED]


async def test_outage_loses_no_end_and_work_goes_on_within_five_seconds(rig: Rig) -> None:
    gate = asyncio.Event()

    async def slow() -> None:
        await gate.wait()

    async def quick() -> None:
        return None

    rig.task(slow)
    rig.task(quick)
    held = await rig.enqueue("slow")
    await rig.started(lease_seconds=3_000.0)
    outage(rig)
    gate.set()
    waiting = await rig.enqueue("quick")
    rig.faulty.calls.clear()
    await rig.pass_time(600, step=1)
    (most,) = Counter(rig.faulty.calls).most_common(1)
    assert most[1] <= 600, f"it spins: {most}"
    assert await rig.state(held) is JobState.RUNNING
    rig.faulty.heal()
    await rig.pass_time(5)
    assert [await rig.state(job) for job in (held, waiting)] == [JobState.SUCCEEDED] * 2
    assert (await rig.record(held)).deliveries == 1


async def test_outage_is_logged_once_a_minute(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", logger="offpath")
    await rig.started(lease_seconds=3_000.0)
    outage(rig)
    await rig.pass_time(300, step=1)
    lines = [record for record in caplog.records if record.name.startswith("offpath")]
    loops = 4
    assert 5 <= len(lines) <= 6 * loops


async def test_settle_whose_answer_was_lost_counts_once(rig: Rig) -> None:
    """H5: the commit was carried out, its answer was not."""

    async def parent(ctx: Any) -> int:
        ctx.enqueue(rig.job("child"))
        return 1

    async def child() -> None:
        return None

    rig.task(parent)
    rig.task(child)
    job = await rig.enqueue("parent")
    rig.faulty.fail("settle", AWAY, after=True)
    worker = await rig.started()
    await rig.pass_time(2)
    assert worker.counts.lease_lost == 0
    assert worker.counts.succeeded == 2
    assert rig.kinds(job).count(EventKind.SUCCEEDED) == 1
    assert (await rig.record(job)).deliveries == 1


async def test_end_that_cannot_be_stored_is_dead_and_holds_back_nobody(rig: Rig) -> None:
    async def poison(n: int) -> str:
        return "unstorable" if n == 3 else "fine"

    real = rig.memory.settle

    async def settle(settlements: Any) -> Any:
        rig.faulty.calls.append("settle")
        if any(getattr(each.outcome, "result", "") == '"unstorable"' for each in settlements):
            raise StoreRejected("the value cannot be stored")
        return await real(settlements)

    rig.memory.settle = settle  # type: ignore[method-assign]
    rig.task(poison)
    jobs = [await rig.enqueue("poison", f'{{"n":{n}}}') for n in range(20)]
    rig.faulty.calls.clear()
    await rig.run()
    states = [await rig.state(job) for job in jobs]
    assert states.count(JobState.SUCCEEDED) == 19
    record = await rig.record(jobs[3])
    assert (record.state, record.reason) == (JobState.DEAD, DeadReason.UNSETTLEABLE)
    assert record.failure is not None
    assert record.failure.kind == "unsettleable"
    assert rig.faulty.calls.count("settle") <= 2 * 14, "halving finds it in a few steps"


async def test_end_whose_every_form_is_refused_is_let_go(rig: Rig) -> None:
    async def cursed() -> None:
        return None

    rig.task(cursed)
    await rig.enqueue("cursed")
    rig.faulty.fail("settle", StoreRejected("never"), times=1_000)
    worker = await rig.started()
    await breathe()
    assert worker.active() == []
    assert rig.phases().count("settle") == 3


async def test_start_waits_for_a_store_that_is_away_but_not_for_a_schema(rig: Rig) -> None:
    async def quick() -> None:
        return None

    rig.task(quick)
    job = await rig.enqueue("quick")
    outage(rig)
    await rig.started()
    await rig.pass_time(30, step=1)
    rig.faulty.heal()
    await rig.pass_time(5)
    assert await rig.state(job) is JobState.SUCCEEDED
    rig.faulty.fail("register", SchemaMissing("run offpath migrate"))
    worker = rig.worker()
    with pytest.raises(SchemaMissing):
        await worker.start()
    await worker.start()


async def test_each_loop_survives_an_error_of_its_own(rig: Rig) -> None:
    async def quick() -> None:
        return None

    rig.task(quick)
    worker = await rig.started(lease_seconds=3.0, prune_every=2.0)
    for operation in EVERYTHING:
        rig.faulty.fail(operation, RuntimeError("a bug"), times=1)
    job = await rig.enqueue("quick")
    await rig.pass_time(10)
    assert await rig.state(job) in {JobState.SUCCEEDED, JobState.DEAD}
    assert worker.active() == []
    assert all(status.consecutive_failures == 0 for status in worker.health())
    assert {"claim", "heartbeat", "rescue", "prune"} <= set(rig.phases())


async def test_job_of_a_dead_worker_runs_again_within_its_lease_and_a_second(rig: Rig) -> None:
    runs: list[tuple[int, int]] = []

    async def slow(ctx: Any) -> None:
        runs.append((ctx.attempt, ctx.deliveries))
        if ctx.deliveries == 1:
            await asyncio.Event().wait()

    rig.task(slow)
    job = await rig.enqueue("slow")
    doomed = await rig.started()
    for loop in doomed._loops.values():
        await loop.stop()
    await rig.started()
    await rig.pass_time(29, step=1)
    assert runs == [(1, 1)]
    await rig.pass_time(2, step=0.25)
    assert runs == [(1, 1), (1, 2)]
    assert (await rig.record(job)).losses == 1
    assert EventKind.RESCUED in rig.kinds(job)


async def test_job_that_kills_its_workers_is_dead(rig: Rig) -> None:
    """J1: three deliveries, then worker_lost."""

    async def killer() -> None:
        await asyncio.Event().wait()

    rig.task(killer)
    job = await rig.enqueue("killer")
    for _ in range(3):
        doomed = await rig.started(lease_seconds=1.0)
        await rig.pass_time(0.5)  # the last time it is a suspect, which is looked for now and then
        for loop in doomed._loops.values():
            await loop.stop()
        await rig.memory.deregister(doomed.id)  # as where its death was seen
        await rig.pass_time(2)
    keeper = await rig.started(lease_seconds=1.0)
    await rig.pass_time(2)
    record = await rig.record(job)
    assert (record.state, record.reason) == (JobState.DEAD, DeadReason.WORKER_LOST)
    assert keeper.active() == []
    assert EventKind.DEAD in rig.kinds(job)


async def test_the_log_is_trimmed_of_what_was_kept_long_enough(rig: Rig) -> None:
    await rig.store.commit(Effects(log=(event(),)))
    await rig.started(keep_log=10.0, prune_every=5.0)
    await rig.pass_time(9, step=1)
    assert len(await rig.memory.read_events()) == 1
    await rig.pass_time(7, step=1)
    assert await rig.memory.read_events() == []


async def test_ended_jobs_are_pruned(rig: Rig) -> None:
    async def quick() -> None:
        return None

    rig.task(quick)
    job = await rig.enqueue("quick")
    await rig.started(rules=AttemptRules(keep_succeeded=10.0), prune_every=5.0)
    await rig.pass_time(4)
    assert await rig.state(job) is JobState.SUCCEEDED
    await rig.pass_time(20, step=1)
    assert await rig.memory.get([job]) == []


async def test_dead_jobs_are_put_back_while_there_is_room_and_nothing_is_due(rig: Rig) -> None:
    """One long job in one of three slots keeps no dead one waiting; a full worker does."""
    calls: list[int] = []
    gate = asyncio.Event()

    class Idle:
        async def move(self, limit: int) -> Tally:
            calls.append(limit)
            return Tally()

    async def slow() -> None:
        await gate.wait()

    rig.task(slow)
    await rig.enqueue("slow")
    await rig.started(redrive=Idle(), concurrency=3)
    await rig.pass_time(30, step=1)
    assert calls
    assert set(calls[1:]) == {2}, "as many as there is room for"
    for _ in range(2):
        await rig.enqueue("slow")
    await rig.pass_time(2, step=0.5)
    before = len(calls)
    await rig.pass_time(30, step=1)
    assert len(calls) == before, "no slot is free"
    gate.set()
    await rig.pass_time(30, step=1)
    assert len(calls) > before


async def test_a_lease_whose_answer_was_lost_is_taken_up(rig: Rig) -> None:
    """Else its jobs would be held for ever by a worker that does not know of them."""
    runs: list[int] = []

    async def quick() -> None:
        runs.append(1)

    rig.task(quick)
    rig.faulty.fail("lease", StoreUnavailable("cut after the commit"), after=True)
    jobs = [await rig.enqueue("quick") for _ in range(5)]
    await rig.started()
    await rig.pass_time(10, step=0.5)
    assert [await rig.state(job) for job in jobs] == [JobState.SUCCEEDED] * 5
    assert len(runs) == 5, "each ran once"
    records = await rig.memory.get(jobs)
    assert {job.deliveries for job in records} == {1}


async def test_what_an_unanswered_lease_gave_waits_for_room(rig: Rig) -> None:
    together: list[int] = []
    running = 0
    going = asyncio.Event()

    async def slow() -> None:
        nonlocal running
        running += 1
        together.append(running)
        await going.wait()
        running -= 1

    rig.task(slow, concurrency=2)
    jobs = [await rig.enqueue("slow") for _ in range(4)]
    await rig.started(concurrency=10)
    await breathe()
    rig.faulty.fail("lease", StoreUnavailable("cut after the commit"), after=True, times=1)
    going.set()
    await rig.pass_time(30, step=0.5)
    assert [await rig.state(job) for job in jobs] == [JobState.SUCCEEDED] * 4
    assert max(together) == 2


async def test_calls_that_hang_do_not_hide_that_the_lease_is_over(rig: Rig) -> None:
    """Neither the beat nor the look comes back: the handler is told all the same, and who asks."""
    told: list[Any] = []

    async def slow(ctx: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            told.append((ctx.lease_lost.is_set(), ctx.interruption))

    rig.task(slow)
    await rig.enqueue("slow")
    worker = await rig.started(lease_seconds=2.0)
    await rig.pass_time(1)
    for operation in ("extend", "signals"):
        rig.faulty.doors[operation] = asyncio.Event()
    await rig.pass_time(1)
    lives = [worker.alive]
    await rig.pass_time(2)
    lives.append(worker.alive)
    assert told == [(True, Interruption.EXPIRED)]
    assert any("lease is not held" in one for one in worker.report().reasons)
    for door in rig.faulty.doors.values():
        door.set()
    await rig.pass_time(1)
    assert [*lives, worker.alive] == [True, False, True]


class SettableClock(ManualClock):
    """A clock whose date can be set without any time passing."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_clock_that_is_set_takes_no_job_from_a_living_worker(hours: int) -> None:
    rig = Rig()
    clock = SettableClock()
    rig.clock = rig.memory._clock = clock
    gate = asyncio.Event()

    async def slow() -> None:
        await gate.wait()

    rig.task(slow)
    job = await rig.enqueue("slow")
    await rig.started(lease_seconds=30.0)
    await rig.started(lease_seconds=30.0)
    await rig.pass_time(5)
    clock.ahead += timedelta(hours=hours)
    await rig.pass_time(60, step=0.5)
    gate.set()
    await breathe()
    record = await rig.record(job)
    assert (record.state, record.deliveries) == (JobState.SUCCEEDED, 1)
    await rig.close()

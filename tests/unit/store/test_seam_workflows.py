"""The seam sees every job that moves by gates, groups, limits and waits, and the end of groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from offpath.model.effects import Effects
from offpath.model.event import EventKind, JobEvent
from offpath.model.gate import NewGate
from offpath.model.group import GroupPolicy
from offpath.model.job import DeadReason, NewJob
from offpath.model.limit import LimitSpec
from offpath.model.settlement import Settlement, Waiting
from offpath.model.wait import NewSignal
from offpath.runtime.clock import ManualClock
from offpath.runtime.metrics import Metrics
from offpath.store.memory import MemoryStore
from offpath.store.seam import observed_store
from offpath.store.telemetry import moves
from offpath.store.telemetry.meter import StoreMeter
from offpath.store.telemetry.moves import MoveStep
from tests.conformance.builders import (
    die,
    enqueue,
    fresh_id,
    join,
    new_job,
    start,
    succeed,
    take_one,
)


class Rig:
    """An instrumented store, and what its observers were told."""

    ends_only = False
    tasks = None

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.metrics = Metrics()
        self.events: list[JobEvent] = []
        self.store = observed_store(
            MemoryStore(self.clock), self.clock, StoreMeter(self.metrics, "memory"), [self]
        )

    def moved(self, steps: Sequence[MoveStep], at: datetime) -> None:
        """Keep what hooks would be told."""
        for step in steps:
            self.events += moves.events(step, at)

    def kinds(self, job_id: str) -> list[EventKind]:
        """The reports about a job, in order."""
        return [each.kind for each in self.events if each.id == job_id]

    def counted(self, name: str) -> float:
        """The value of a counter without labels."""
        return sum(reading.value for reading in self.metrics.list(name))

    def rows(self) -> dict[str, float]:
        """For each state, what entered it less what left it."""
        found: dict[str, float] = {}
        for reading in self.metrics.list("offpath_job_moves_total"):
            for label, sign in (("entered", 1), ("left", -1)):
                state = dict(reading.labels)[label]
                found[state] = found.get(state, 0) + sign * reading.value
        found.pop("none", None)
        return {state: number for state, number in found.items() if number}

    async def gated(self, on: Iterable[str], *, within: float | None = None) -> NewJob:
        """Commit a job that waits for these to succeed."""
        ids = tuple(on)
        gate = NewGate(id=fresh_id(), on=ids, need=len(ids), timeout=within)
        job = new_job("later", gate=gate.id)
        await self.store.commit(Effects(jobs=(job,), gates=(gate,)))
        return job


async def test_a_chain_that_dies_with_its_first_job_is_told_whole() -> None:
    rig = Rig()
    first = await start(rig.store)
    second = await rig.gated([first.id])
    third = await rig.gated([second.id])
    await die(rig.store, first)
    for job in (second, third):
        assert rig.kinds(job.id) == [EventKind.QUEUED, EventKind.DEAD, EventKind.GROUP_DONE]
    told = [each.reason for each in rig.events if each.kind is EventKind.DEAD]
    assert told == [DeadReason.EXHAUSTED, DeadReason.UNSATISFIABLE, DeadReason.UNSATISFIABLE]
    assert rig.rows() == {"dead": 3}
    assert rig.counted("offpath_groups_done_total") == 3


async def test_a_group_that_ends_along_a_gate_is_told_once() -> None:
    rig = Rig()
    first = await start(rig.store)
    gate = NewGate(id=fresh_id(), on=(first.id,), need=1)
    member = new_job(gate=gate.id, group_id=first.id)
    await rig.store.commit(Effects(jobs=(member,), gates=(gate,)))
    await die(rig.store, first)
    assert [each.kind for each in rig.events].count(EventKind.GROUP_DONE) == 1


async def test_jobs_that_die_along_a_cancel_and_a_rescue_are_told() -> None:
    rig = Rig()
    await join(rig.store)
    waiting = new_job(delay=60)
    await enqueue(rig.store, waiting)
    after_cancel = await rig.gated([waiting.id])
    await rig.store.cancel([waiting.id])
    lost = await start(rig.store)
    after_loss = await rig.gated([lost.id])
    rig.clock.advance(31)
    await rig.store.rescue(limit=10, max_deliveries=1)
    for job in (after_cancel, after_loss):
        assert rig.kinds(job.id) == [EventKind.QUEUED, EventKind.DEAD, EventKind.GROUP_DONE]
    assert rig.rows() == {"cancelled": 1, "dead": 3}


async def test_an_expired_wait_at_a_gate_is_told_as_a_death() -> None:
    rig = Rig()
    job = await rig.gated([fresh_id()], within=5)
    rig.clock.advance(6)
    await rig.store.expire_blocked(limit=10)
    assert rig.kinds(job.id) == [EventKind.QUEUED, EventKind.DEAD, EventKind.GROUP_DONE]
    assert rig.events[-2].reason is DeadReason.GATE_TIMEOUT
    assert rig.rows() == {"dead": 1}


async def test_a_deadline_that_passes_at_a_gate_is_told_as_expired() -> None:
    rig = Rig()
    gate = NewGate(id=fresh_id(), on=(fresh_id(),), need=1, timeout=500)
    job = new_job(gate=gate.id, deadline=rig.clock.now())
    await rig.store.commit(Effects(jobs=(job,), gates=(gate,)))
    await rig.store.expire_blocked(limit=10)
    assert rig.kinds(job.id)[1:3] == [EventKind.EXPIRED, EventKind.DEAD]


async def test_a_released_job_counts_as_queued_all_the_while() -> None:
    rig = Rig()
    first = await start(rig.store)
    job = await rig.gated([first.id])
    await succeed(rig.store, first)
    assert rig.kinds(job.id) == [EventKind.QUEUED]
    assert rig.rows() == {"succeeded": 1, "queued": 1}
    await take_one(rig.store, task="later")
    assert rig.rows() == {"succeeded": 1, "running": 1}


async def test_a_job_that_waits_for_a_signal_is_told_as_snoozed() -> None:
    rig = Rig()
    job = await start(rig.store)
    await rig.store.settle([Settlement(job=job, outcome=Waiting(target="order", event="paid"))])
    assert rig.kinds(job.id)[-1] is EventKind.SNOOZED
    assert rig.rows() == {"queued": 1}
    await rig.store.send_signal(
        NewSignal(id=fresh_id(), target="order", event="paid", payload="1", keep=60)
    )
    await take_one(rig.store)
    assert rig.rows() == {"running": 1}


async def test_members_of_closed_groups_are_told() -> None:
    rig = Rig()
    root = await start(rig.store, group_policy=GroupPolicy.FAIL_FAST)
    members = [new_job(group_id=root.id) for _ in range(2)]
    await enqueue(rig.store, *members)
    await die(rig.store, root)
    await rig.store.close_groups(limit=10)
    other = new_job()
    await enqueue(rig.store, other)
    await rig.store.cancel_groups([other.id], limit=10)
    for job in (*members, other):
        assert EventKind.CANCELLED in rig.kinds(job.id)
    assert rig.rows() == {"dead": 1, "cancelled": 3}
    assert rig.counted("offpath_groups_done_total") == 2


async def test_admitted_jobs_are_counted() -> None:
    rig = Rig()
    limit = LimitSpec(key="k", max_running=2)
    await enqueue(rig.store, *(new_job(limit=limit) for _ in range(3)))
    await rig.store.admit(limit=10)
    assert rig.counted("offpath_jobs_admitted_total") == 2
    assert rig.rows() == {"queued": 3}


async def test_a_job_that_begins_at_once_is_told_as_queued_and_started() -> None:
    rig = Rig()
    await join(rig.store)
    job = new_job()
    assert await rig.store.start(job, "w1") is not None
    assert await rig.store.start(job, "w1") is None
    assert rig.kinds(job.id) == [EventKind.QUEUED, EventKind.STARTED]
    assert rig.rows() == {"running": 1}


async def test_what_a_compensation_enqueues_is_told() -> None:
    rig = Rig()
    job = await start(rig.store)
    await rig.store.put_undo(job, "pay", "refund")
    await die(rig.store, job)
    undo = new_job()
    assert await rig.store.compensate(job.id, Effects(jobs=(undo,)))
    assert not await rig.store.compensate(job.id, Effects(jobs=(undo,)))
    assert rig.kinds(undo.id) == [EventKind.QUEUED]


async def test_what_is_kept_for_deleted_jobs_does_not_grow_with_them() -> None:
    rig = Rig()
    for _ in range(5):
        await succeed(rig.store, await start(rig.store))
    ended = [each.id for each in rig.events if each.kind is EventKind.SUCCEEDED]
    before = len(rig.store._meter._ways)
    await rig.store.delete(ended)
    assert rig.counted("offpath_jobs_deleted_total") == 5
    assert len(rig.store._meter._ways) == before + 1

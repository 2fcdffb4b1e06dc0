"""A gate hears of every way in which a job can end, and of those that undo an end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from offpath.model.effects import Effects
from offpath.model.gate import Counting, GateState
from offpath.model.group import GroupPolicy
from offpath.model.settlement import Settlement
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.builders import (
    add,
    die,
    end,
    join,
    new_job,
    outcomes,
    record,
    start,
    succeed,
    take,
    take_one,
    unique,
)
from tests.conformance.workflow_builders import (
    LATER,
    fates,
    gate_of,
    gate_on,
    group_of,
    hold_one,
    settle_with,
    waiting,
)

pytestmark = pytest.mark.needs("workflows")

Failing = Callable[[Store, ManualClock, str], Awaitable[None]]
"""Lets the job of this id, which is ready, fail."""


async def _death(store: Store, clock: ManualClock, job_id: str) -> None:
    await die(store, await take_one(store))


async def _own_cancel(store: Store, clock: ManualClock, job_id: str) -> None:
    await end(store, await take_one(store), outcomes()["cancelled"])


async def _cancel_while_ready(store: Store, clock: ManualClock, job_id: str) -> None:
    assert len(await store.cancel([job_id])) >= 1


async def _cancel_while_scheduled(store: Store, clock: ManualClock, job_id: str) -> None:
    await end(store, await take_one(store), outcomes()["retry"])
    await store.cancel([job_id])


async def _cancel_while_waiting_for_a_signal(store: Store, clock: ManualClock, job_id: str) -> None:
    await settle_with(store, await take_one(store), Effects(), waiting())
    await store.cancel([job_id])


async def _cancel_while_running(store: Store, clock: ManualClock, job_id: str) -> None:
    job = await take_one(store)
    await store.cancel([job_id])
    await succeed(store, job)


async def _lost(store: Store, clock: ManualClock, job_id: str) -> None:
    await take_one(store)
    clock.advance(31)
    await store.rescue(limit=10, max_deliveries=1)


async def _lost_after_a_cancel(store: Store, clock: ManualClock, job_id: str) -> None:
    await take_one(store)
    await store.cancel([job_id])
    clock.advance(31)
    await store.rescue(limit=10, max_deliveries=9)


async def _deadline_while_waiting_for_a_signal(
    store: Store, clock: ManualClock, job_id: str
) -> None:
    await settle_with(store, await take_one(store), Effects(), waiting())
    clock.advance(1_001)
    await store.expire_blocked(limit=10)


async def _cancelled_group(store: Store, clock: ManualClock, job_id: str) -> None:
    await store.cancel_groups([job_id], limit=10)


async def _closed_group(store: Store, clock: ManualClock, job_id: str) -> None:
    member = await add(store, group_id=job_id, delay=900)
    await store.cancel([member])
    await store.close_groups(limit=10)


FAILING: dict[str, Failing] = {
    "death": _death,
    "own cancel": _own_cancel,
    "cancel while ready": _cancel_while_ready,
    "cancel while scheduled": _cancel_while_scheduled,
    "cancel while waiting for a signal": _cancel_while_waiting_for_a_signal,
    "cancel while running": _cancel_while_running,
    "lost worker": _lost,
    "lost worker after a cancel": _lost_after_a_cancel,
    "deadline while waiting for a signal": _deadline_while_waiting_for_a_signal,
    "cancelled group": _cancelled_group,
    "closed group": _closed_group,
}


async def _watched(store: Store) -> str:
    await join(store)
    return await add(store, deadline_in=1_000, group_policy=GroupPolicy.FAIL_FAST)


@pytest.mark.parametrize("how", FAILING)
async def test_every_failure_ends_a_gate_that_needs_the_job(
    store: Store, clock: ManualClock, how: str
) -> None:
    job_id = await _watched(store)
    gate = gate_on(job_id)
    held = await hold_one(store, gate)
    behind = await hold_one(store, gate_on(held))
    await FAILING[how](store, clock, job_id)
    assert await fates(store, held, behind) == [("dead", "unsatisfiable")] * 2
    assert (await gate_of(store, gate)).state is GateState.UNSATISFIABLE
    for one in (held, behind):
        group = await group_of(store, one)
        assert (group.open, group.failed) == (0, 1)
    assert (await record(store, held)).failure is not None


@pytest.mark.parametrize("how", FAILING)
async def test_every_failure_counts_where_ends_are_counted(
    store: Store, clock: ManualClock, how: str
) -> None:
    job_id = await _watched(store)
    gate = gate_on(job_id, of=Counting.SETTLED)
    held = await hold_one(store, gate)
    await FAILING[how](store, clock, job_id)
    known = await gate_of(store, gate)
    assert (known.state, known.succeeded, known.failed) == (GateState.FIRED, 0, 1)
    await join(store)
    assert [job.id for job in await take(store, tasks={LATER: 5})] == [held]


@pytest.mark.parametrize("how", FAILING)
async def test_a_redrive_before_the_gate_is_decided_takes_the_failure_back(
    store: Store, clock: ManualClock, how: str
) -> None:
    job_id = await _watched(store)
    other = await add(store, priority=-1)
    gate = gate_on(job_id, other, of=Counting.SETTLED)
    held = await hold_one(store, gate)
    await FAILING[how](store, clock, job_id)
    assert (await gate_of(store, gate)).failed == 1
    (changed,) = await store.redrive([JobRedrive(id=job_id)])
    assert changed.id == job_id
    known = await gate_of(store, gate)
    assert (known.state, known.succeeded, known.failed) == (GateState.OPEN, 0, 0)

    await join(store)
    again = await take_one(store)
    assert again.id == job_id
    await succeed(store, again)
    assert await fates(store, held) == [("blocked", "gate")]
    await succeed(store, await take_one(store))
    known = await gate_of(store, gate)
    assert (known.state, known.succeeded, known.failed) == (GateState.FIRED, 2, 0)


@pytest.mark.parametrize("name", ["retry", "snoozed", "released"])
async def test_an_attempt_that_does_not_end_the_job_counts_nowhere(store: Store, name: str) -> None:
    job = await start(store)
    gate = gate_on(job.id)
    await hold_one(store, gate)
    await end(store, job, outcomes()[name])
    known = await gate_of(store, gate)
    assert (known.state, known.succeeded, known.failed) == (GateState.OPEN, 0, 0)


async def test_a_wait_for_a_signal_counts_nowhere(store: Store) -> None:
    job = await start(store)
    gate = gate_on(job.id)
    held = await hold_one(store, gate)
    await settle_with(store, job, Effects(), waiting())
    assert (await gate_of(store, gate)).state is GateState.OPEN
    assert await fates(store, held) == [("blocked", "gate")]


async def test_a_redrive_after_the_gate_fired_changes_nothing(store: Store) -> None:
    await join(store)
    first, second = await add(store), await add(store)
    gate = gate_on(first, second, need=1)
    held = await hold_one(store, gate)
    one, two = await take(store)
    await die(store, one)
    await succeed(store, two)
    await store.redrive([JobRedrive(id=first)])
    assert (await gate_of(store, gate)).state is GateState.FIRED
    await succeed(store, await take_one(store))
    assert [job.id for job in await take(store, tasks={LATER: 5})] == [held]


async def test_a_redriven_job_of_a_dead_gate_runs_without_it(store: Store) -> None:
    first = await start(store)
    held = await hold_one(store, gate_on(first.id))
    behind = await hold_one(store, gate_on(held))
    await die(store, first)
    assert await store.redrive([JobRedrive(id=held)]) == []
    await store.redrive([JobRedrive(id=held, past_gate=True)])
    assert await fates(store, held, behind) == [("queued", None), ("blocked", "gate")]
    (job,) = await take(store, tasks={LATER: 5})
    assert (job.id, job.attempt) == (held, 1)
    await succeed(store, job)
    assert await fates(store, behind) == [("queued", None)]


async def test_a_waiting_job_at_a_gate_is_not_made_due_by_a_redrive(store: Store) -> None:
    first = await start(store)
    held = await hold_one(store, gate_on(first.id))
    assert await store.redrive([JobRedrive(id=held)]) == []
    assert await fates(store, held) == [("blocked", "gate")]


async def test_a_held_job_that_is_cancelled_is_not_released(store: Store) -> None:
    first = await start(store)
    gate = gate_on(first.id)
    held, other = await hold_one(store, gate), await add(store, LATER, gate=gate.id)
    (changed,) = await store.cancel([held])
    assert changed.group_done
    await succeed(store, first)
    assert [job.id for job in await take(store, tasks={LATER: 5})] == [other]
    assert await fates(store, held) == [("cancelled", "cancelled")]


async def test_a_held_job_counts_as_open_in_its_group(store: Store) -> None:
    first = await start(store)
    held = await hold_one(store, gate_on(first.id), group_id=first.id)
    assert not (await succeed(store, first)).group_done
    assert (await group_of(store, first.id)).open == 1
    (changed,) = await store.cancel([held])
    assert changed.group_done


async def test_a_member_that_dies_at_a_gate_closes_its_group(store: Store) -> None:
    root = await start(store, group_policy=GroupPolicy.FAIL_FAST)
    stranger = await add(store, "other")
    held = await hold_one(store, gate_on(stranger), group_id=root.id)
    waiting_member = await add(store, group_id=root.id, delay=60)
    await store.cancel([stranger])
    assert await fates(store, held) == [("dead", "unsatisfiable")]
    assert (await group_of(store, root.id)).closing
    closed = {each.id for each in await store.close_groups(limit=10)}
    assert closed == {root.id, waiting_member}


async def test_a_batch_that_decides_one_gate_both_ways_is_decided_once(store: Store) -> None:
    await join(store)
    first, second = await add(store), await add(store)
    gate = gate_on(first, second, need=1)
    held = await hold_one(store, gate)
    one, two = await take(store)
    await store.settle(
        [
            Settlement(job=one, outcome=outcomes()["succeeded"]),
            Settlement(job=two, outcome=outcomes()["dead"]),
        ]
    )
    assert (await gate_of(store, gate)).state is GateState.FIRED
    assert await fates(store, held) == [("queued", None)]


async def test_those_who_die_along_gates_are_told(store: Store) -> None:
    first = await start(store)
    same_group = await hold_one(store, gate_on(first.id), group_id=first.id)
    other_group = await hold_one(store, gate_on(same_group))
    answer = await die(store, first)
    assert answer.group_done
    told = {each.id: (each.state.value, each.reason, each.group_done) for each in answer.along}
    assert told == {
        same_group: ("dead", "unsatisfiable", False),
        other_group: ("dead", "unsatisfiable", True),
    }


async def test_those_who_die_along_a_cancel_are_told_behind_it(store: Store) -> None:
    first = await add(store, delay=60)
    held = await hold_one(store, gate_on(first))
    changed = await store.cancel([first])
    assert [(each.id, each.state.value, each.reason) for each in changed] == [
        (first, "cancelled", None),
        (held, "dead", "unsatisfiable"),
    ]


async def test_those_who_die_along_a_rescue_are_told(store: Store, clock: ManualClock) -> None:
    first = await start(store)
    held = await hold_one(store, gate_on(first.id))
    clock.advance(31)
    (rescued,) = await store.rescue(limit=10, max_deliveries=1)
    assert [(each.id, each.group_done) for each in rescued.along] == [(held, True)]


async def test_what_died_is_kept_as_long_as_its_call_says(store: Store) -> None:
    first = await start(store)
    held = await hold_one(store, gate_on(first.id))
    await die(store, first, keep=50)
    dead = await record(store, held)
    assert dead.expires_at is not None


async def test_a_gate_hears_of_a_job_whose_settlement_was_refused_and_then_taken(
    store: Store,
) -> None:
    taken = await add(store, "other")
    job = await start(store)
    gate = gate_on(job.id)
    await hold_one(store, gate)
    bad = Effects(jobs=(new_job(id=taken, input='{"x":1}'),))
    await store.settle([Settlement(job=job, outcome=outcomes()["succeeded"], effects=bad)])
    assert (await gate_of(store, gate)).state is GateState.OPEN
    dead = outcomes()["dead"]
    await end(store, job, dead)
    assert (await gate_of(store, gate)).state is GateState.UNSATISFIABLE


async def test_a_gate_is_not_kept_whose_job_has_attached_to_another(store: Store) -> None:
    """Promise 4: nothing would ever remove it."""
    watched = new_job(delay=3600)
    await store.commit(Effects(jobs=(watched, new_job(LATER, unique=unique("k"), delay=3600))))
    gate = gate_on(watched.id)
    late = new_job(LATER, unique=unique("k"), gate=gate.id)
    (answer,) = await store.commit(Effects(jobs=(late,), gates=(gate,)))
    assert not answer.created
    assert await store.gates([gate.id]) == []

"""A redrive of what gates watch: those that died there wait at them again, in every store."""

from __future__ import annotations

import pytest

from offpath.model.effects import Effects
from offpath.model.gate import Counting, GateState
from offpath.model.job import JobState
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.builders import (
    add,
    die,
    exists,
    join,
    new_job,
    record,
    succeed,
    take,
    take_one,
    unique,
)
from tests.conformance.workflow_builders import (
    LATER,
    family,
    fates,
    gate_of,
    gate_on,
    group_of,
    hold,
    hold_one,
)

pytestmark = pytest.mark.needs("workflows")

GATE = ("blocked", "gate")
DEAD = ("dead", "unsatisfiable")
QUEUED = ("queued", None)


async def _parts(store: Store, *, dead: int, done: int = 0, live: int = 0) -> list[str]:
    """Jobs that have died, then those that have succeeded, then those that wait."""
    await join(store)
    ids = [await add(store) for _ in range(dead + done + live)]
    for place, job in enumerate(await take(store, limit=dead + done)):
        await (die if place < dead else succeed)(store, job)
    return ids


async def _redrive(store: Store, *ids: str, **how: bool) -> dict[str, JobState]:
    changed = await store.redrive([JobRedrive(id=each, **how) for each in ids])
    return {one.id: one.state for one in changed}


async def test_a_join_waits_again_and_its_gate_counts_what_has_ended_meanwhile(
    store: Store,
) -> None:
    ids = await _parts(store, dead=1, done=1, live=2)
    gate = gate_on(*ids)
    held = await hold_one(store, gate)
    assert await fates(store, held) == [DEAD]
    await succeed(store, await take_one(store))
    assert await _redrive(store, ids[0]) == {ids[0]: JobState.QUEUED, held: JobState.BLOCKED}
    known = await gate_of(store, gate)
    assert (known.state, known.succeeded, known.failed) == (GateState.OPEN, 2, 0)
    job = await record(store, held)
    assert (job.reason, job.redrives, job.attempt, job.finished_at) == ("gate", 1, 1, None)
    for one in await take(store, limit=2):
        assert await fates(store, held) == [GATE]
        await succeed(store, one)
    assert await fates(store, held) == [QUEUED]


async def test_while_others_are_dead_it_stays_dead_until_the_last_is_put_back(
    store: Store,
) -> None:
    ids = await _parts(store, dead=3)
    gate = gate_on(*ids)
    held = await hold_one(store, gate)
    assert (await gate_of(store, gate)).failed == 3
    assert list(await _redrive(store, ids[0], held)) == [ids[0]]
    shut = await gate_of(store, gate)
    assert (shut.state, shut.succeeded, shut.failed) == (GateState.UNSATISFIABLE, 0, 2)
    (one,) = await take(store)
    await succeed(store, one)
    assert list(await _redrive(store, ids[1])) == [ids[1]]
    assert await fates(store, held) == [DEAD]
    assert set(await _redrive(store, ids[2])) == {ids[2], held}
    assert await fates(store, held) == [GATE]


async def test_who_waits_behind_it_comes_back_along_the_chain(store: Store) -> None:
    (first,) = await _parts(store, dead=1)
    second = await hold_one(store, gate_on(first))
    third = await hold_one(store, gate_on(second))
    fourth = await hold_one(store, gate_on(third, second))
    assert set(await _redrive(store, first)) == {first, second, third, fourth}
    await succeed(store, await take_one(store))
    for each in (second, third, fourth):
        assert await fates(store, each) == [QUEUED]
        (job,) = await take(store, tasks={LATER: 1})
        await succeed(store, job)


async def test_a_gate_that_needs_some_counts_the_failed_ones_again(store: Store) -> None:
    ids = await _parts(store, dead=2, live=1)
    gate = gate_on(*ids, need=2)
    held = await hold_one(store, gate)
    await _redrive(store, ids[1])
    known = await gate_of(store, gate)
    assert (known.state, known.succeeded, known.failed) == (GateState.OPEN, 0, 1)
    await _redrive(store, ids[0])
    assert (await gate_of(store, gate)).failed == 0
    for one in await take(store, limit=2):
        await die(store, one)
    assert await fates(store, held) == [DEAD]


async def test_parts_that_have_all_succeeded_release_it_at_once(store: Store) -> None:
    """Its parts were put back past it: by a worker of the version before, or one by one."""
    ids = await _parts(store, dead=2)
    gate = gate_on(*ids)
    held = await hold_one(store, gate)
    other = await hold_one(store, gate_on(held))
    await store.delete([other])
    await _redrive(store, ids[0])
    await succeed(store, await take_one(store))
    await _redrive(store, ids[1])
    await store.cancel([held])
    await succeed(store, await take_one(store))
    assert (await gate_of(store, gate)).state is GateState.FIRED
    assert await _redrive(store, held) == {held: JobState.QUEUED}


@pytest.mark.parametrize("past_gate", [False, True])
async def test_who_is_asked_for_alone_waits_unless_told_otherwise(
    store: Store, past_gate: bool
) -> None:
    ids = await _parts(store, dead=0, live=2)
    held = await hold_one(store, gate_on(*ids))
    await store.cancel([held])
    state = JobState.QUEUED if past_gate else JobState.BLOCKED
    assert await _redrive(store, held, past_gate=past_gate) == {held: state}


async def test_it_keeps_its_delay_and_its_relative_deadline_for_its_release(
    store: Store, clock: ManualClock
) -> None:
    (first,) = await _parts(store, dead=1)
    held = await hold_one(store, gate_on(first), delay=60, deadline_in=600)
    await _redrive(store, first)
    job = await record(store, held)
    assert job.deadline is None
    clock.advance(5)
    now = clock.now()
    await succeed(store, await take_one(store))
    job = await record(store, held)
    assert ((job.run_at - now).total_seconds(), job.state) == (60, JobState.QUEUED)
    assert job.deadline is not None
    assert (job.deadline - now).total_seconds() == 600


async def test_its_gate_has_as_much_time_as_at_first(store: Store, clock: ManualClock) -> None:
    await join(store)
    first = await add(store)
    gate = gate_on(first, timeout=100)
    held = await hold_one(store, gate)
    clock.advance(10)
    await die(store, await take_one(store))
    clock.advance(500)
    await _redrive(store, first)
    deadline = (await gate_of(store, gate)).deadline
    assert deadline is not None
    assert (deadline - clock.now()).total_seconds() == pytest.approx(100, abs=0.001)
    assert await store.expire_blocked(limit=10) == []
    clock.advance(101)
    await store.expire_blocked(limit=10)
    assert await fates(store, held) == [("dead", "gate_timeout")]
    assert await _redrive(store, held) == {held: JobState.QUEUED}, "its time is over"


async def test_groups_count_who_waits_again(store: Store) -> None:
    await join(store)
    root, (child,) = await family(store, 1)
    gate = gate_on(child.id)
    held = new_job(LATER, gate=gate.id, group_id=root)
    await store.commit(Effects(jobs=(held,), gates=(gate,)))
    await die(store, child)
    known = await group_of(store, root)
    assert (known.open, known.failed) == (0, 2)
    await _redrive(store, child.id)
    known = await group_of(store, root)
    assert (known.open, known.failed) == (2, 0)


async def test_a_key_that_another_has_leaves_it_dead(store: Store) -> None:
    (first,) = await _parts(store, dead=1)
    held = await hold_one(store, gate_on(first), unique=unique("k"))
    behind = await hold_one(store, gate_on(held))
    await add(store, unique=unique("k"), queue="other")
    assert list(await _redrive(store, first)) == [first]
    assert await fates(store, held, behind) == [DEAD, DEAD]


async def test_a_gate_that_counts_ends_is_not_touched_by_what_it_has_counted(
    store: Store,
) -> None:
    (first,) = await _parts(store, dead=1)
    held = await hold_one(store, gate_on(first, of=Counting.SETTLED))
    assert list(await _redrive(store, first)) == [first]
    assert await fates(store, held) == [QUEUED]


async def test_a_failed_part_that_was_deleted_counts_as_failed(store: Store) -> None:
    ids = await _parts(store, dead=2)
    gate = gate_on(*ids)
    held = await hold_one(store, gate)
    await store.delete([ids[0]])
    assert list(await _redrive(store, ids[1], held)) == [ids[1]]
    assert (await gate_of(store, gate)).state is GateState.UNSATISFIABLE


async def test_one_that_failed_again_and_was_deleted_counts_as_failed(store: Store) -> None:
    ids = await _parts(store, dead=2)
    held = await hold_one(store, gate_on(*ids))
    await _redrive(store, ids[0])
    await die(store, await take_one(store))
    await store.delete([ids[0]])
    assert list(await _redrive(store, ids[1])) == [ids[1]]
    assert await fates(store, held) == [DEAD]


async def test_parts_that_succeeded_are_kept_as_long_as_their_dead_join(
    store: Store, clock: ManualClock
) -> None:
    await join(store)
    ids = [await add(store) for _ in range(2)]
    held = await hold_one(store, gate_on(*ids))
    one, two = await take(store)
    await succeed(store, one, keep=10)
    await die(store, two)
    clock.advance(100)
    await store.prune(limit=10)
    assert await exists(store, ids[0])
    await store.delete([held])
    await store.prune(limit=10)
    assert not await exists(store, ids[0])


async def test_all_jobs_of_one_gate_come_back(store: Store) -> None:
    (first,) = await _parts(store, dead=1)
    held = await hold(store, gate_on(first), count=3)
    assert set(await _redrive(store, first)) == {first, *held}
    assert await _redrive(store, first, *held) == {first: JobState.QUEUED}
    assert await fates(store, *held) == [GATE] * 3

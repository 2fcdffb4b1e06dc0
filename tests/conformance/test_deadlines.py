"""Deadlines of what waits in a queue: they pass whether or not anybody could run the job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from offpath.model.effects import Effects
from offpath.model.gate import Counting
from offpath.model.job import JobState
from offpath.model.settlement import Retry, Snoozed
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.builders import (
    START,
    add,
    ask,
    end,
    failure,
    join,
    new_job,
    record,
    start,
    take,
)
from tests.conformance.workflow_builders import (
    fates,
    gate_of,
    gate_on,
    group_of,
    hold_one,
    limited,
    settle_with,
)

WAYS: dict[str, dict[str, Any]] = {
    "ready": {"deadline_in": 10.0},
    "at a moment": {"deadline": START + timedelta(seconds=10)},
    "scheduled": {"deadline_in": 10.0, "delay": 3600.0},
    "of a task that nobody knows": {"deadline_in": 10.0, "task": "nobody.knows"},
    "in a queue that nobody serves": {"deadline_in": 10.0, "queue": "nobody.serves"},
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_queued_job_ends_with_its_deadline(
    store: Store, clock: ManualClock, way: str
) -> None:
    job_id = await add(store, **WAYS[way])
    clock.advance(9)
    assert await store.expire_blocked(limit=10) == []
    clock.advance(1)
    (changed,) = await store.expire_blocked(limit=10)
    assert (changed.id, changed.was, changed.state, changed.group_done, changed.reason) == (
        job_id, JobState.QUEUED, JobState.DEAD, True, "deadline",
    )  # fmt: skip
    late = await record(store, job_id)
    assert (late.state, late.reason, late.attempt) == (JobState.DEAD, "deadline", 1)
    assert late.finished_at == START + timedelta(seconds=10)
    assert late.failure is not None
    assert (late.failure.kind, late.failure.type) == ("deadline", "DeadlineExceeded")
    await join(store)
    tasks = {late.task: 5}
    assert (await ask(store, tasks=tasks)).jobs == ()
    assert await store.expire_blocked(limit=10) == []


async def test_a_job_without_a_deadline_and_one_that_runs_are_left_alone(
    store: Store, clock: ManualClock
) -> None:
    running = await start(store, deadline_in=10)
    free = await add(store)
    clock.advance(20)
    assert await store.expire_blocked(limit=10) == []
    assert await fates(store, running.id, free) == [("running", None), ("queued", None)]


@pytest.mark.parametrize("outcome", [Retry(delay=50.0, failure=failure()), Snoozed(delay=50.0)])
async def test_one_that_was_run_before_ends_while_it_waits_again(
    store: Store, clock: ManualClock, outcome: Retry | Snoozed
) -> None:
    job = await start(store, deadline_in=10)
    await end(store, job, outcome)
    clock.advance(10)
    assert [each.id for each in await store.expire_blocked(limit=10)] == [job.id]
    assert await fates(store, job.id) == [("dead", "deadline")]


async def test_what_was_rescued_ends_with_its_deadline(store: Store, clock: ManualClock) -> None:
    job = await start(store, deadline_in=10)
    clock.advance(31)
    await store.rescue(limit=10, max_deliveries=5)
    assert [each.id for each in await store.expire_blocked(limit=10)] == [job.id]


async def test_one_that_a_limit_has_let_in_gives_its_room_back(
    store: Store, clock: ManualClock
) -> None:
    late, other = limited(deadline_in=10.0, priority=1), limited()
    await store.commit(Effects(jobs=(late, other)))
    assert (await store.admit(limit=10)).jobs == 1
    clock.advance(10)
    await store.expire_blocked(limit=10)
    await store.admit(limit=10)
    assert await fates(store, late.id, other.id) == [("dead", "deadline"), ("queued", None)]


async def test_it_is_counted_in_its_group_and_at_gates(store: Store, clock: ManualClock) -> None:
    root = await start(store)
    child = new_job("nobody.knows", parent=root.id, deadline_in=10.0)
    await settle_with(store, root, Effects(jobs=(child,)))
    settled = gate_on(child.id, of=Counting.SETTLED)
    succeeded = gate_on(child.id)
    freed = await hold_one(store, settled)
    lost = await hold_one(store, succeeded)
    clock.advance(10)
    ended = await store.expire_blocked(limit=10)
    assert {each.id: each.group_done for each in ended} == {child.id: True, lost: True}
    assert await fates(store, freed, lost) == [("queued", None), ("dead", "unsatisfiable")]
    assert ((await gate_of(store, settled)).failed, (await group_of(store, root.id)).failed) == (
        1,
        1,
    )


async def test_many_end_in_bounded_steps(store: Store, clock: ManualClock) -> None:
    for n in range(5):
        await add(store, deadline_in=1.0 + n, delay=n * 1000.0)
    clock.advance(60)
    sizes = [len(await store.expire_blocked(limit=2)) for _ in range(4)]
    assert sizes == [2, 2, 1, 0]


async def test_a_deadline_that_was_lifted_passes_unnoticed(
    store: Store, clock: ManualClock
) -> None:
    """A redriven job has a deadline of its own, or none when it was a moment."""
    job_id = await add(store, deadline=START + timedelta(seconds=10))
    await store.cancel([job_id])
    await store.redrive([JobRedrive(id=job_id)])
    clock.advance(60)
    assert await store.expire_blocked(limit=10) == []
    await join(store)
    assert [job.id for job in await take(store)] == [job_id]

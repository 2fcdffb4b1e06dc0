"""Jobs of one unique key that come into its scope together: one takes it, and nobody is stopped.

Most tests have three jobs of the key and an innocent fourth, in one call of one store and from two
stores at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from offpath.model.effects import Effects
from offpath.model.job import DeadReason, JobState, LeasedJob, NewJob
from offpath.model.lease import Leased, LeaseRequest, Order
from offpath.model.settlement import (
    Cancelled,
    Dead,
    Outcome,
    Released,
    Retry,
    Settled,
    Settlement,
    SettleStatus,
    Succeeded,
)
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.builders import (
    TASK,
    add,
    die,
    end,
    enqueue,
    failure,
    join,
    new_job,
    record,
    succeed,
    take,
    unique,
)
from tests.conformance.workflow_builders import LATER, gate_on, limited, waiting

QUEUED, RUNNING, BLOCKED = JobState.QUEUED, JobState.RUNNING, JobState.BLOCKED
SUCCEEDED, DEAD, CANCELLED = JobState.SUCCEEDED, JobState.DEAD, JobState.CANCELLED
Scope = tuple[JobState, ...]
WAITS: list[Scope] = [(RUNNING,), (BLOCKED, RUNNING)]
"""Scopes of which one job runs at a time."""
BACK: list[Scope] = [(QUEUED,), (QUEUED, SUCCEEDED)]
"""Scopes that a job comes back into when it waits again."""


def keyed(*scope: JobState, **fields: Any) -> NewJob:
    """A job that claims the key of this page while it is in one of these states."""
    return new_job(unique=unique("k", states=scope), **fields)


async def running(store: Store, *scope: JobState) -> list[LeasedJob]:
    """Three running jobs of the key, which is free, and an innocent fourth: all of w1."""
    await join(store, "w1", "w2")
    held = list[LeasedJob]()
    for _ in range(3):
        await enqueue(store, keyed(*scope))
        held += await take(store, limit=1)
    await add(store)
    held += await take(store, limit=1)
    assert len(held) == 4
    return held


async def one_holds(store: Store, ids: Sequence[str]) -> None:
    """Another claim of the key, whatever its holder's state, finds one of these."""
    (answer,) = await enqueue(store, keyed(*JobState))
    assert not answer.created, "nobody took the key"
    assert answer.job_id in ids


async def in_state(store: Store, state: JobState, *jobs: LeasedJob | NewJob | str) -> list[str]:
    """The ids of these jobs, all of which are in this state."""
    ids = [job if isinstance(job, str) else job.id for job in jobs]
    assert set((await store.states(ids)).values()) == {state}
    return ids


async def lease(store: Store, worker: str = "w1", order: Order = Order.PRIORITY) -> Leased:
    """Ask for ten jobs in some order."""
    return await store.lease(
        LeaseRequest(worker=worker, limit=10, tasks={TASK: 10, LATER: 10}, order=order)
    )


def alike(jobs: Sequence[LeasedJob], outcome: Outcome) -> list[Settlement]:
    """All of these end so."""
    return [Settlement(job=job, outcome=outcome) for job in jobs]


async def settled(
    rivals: tuple[Store, ...], together: bool, settlements: Sequence[Settlement]
) -> list[Settled]:
    """Settle in one call, or in two calls of two stores at once."""
    if together:
        return await rivals[0].settle(settlements)
    halves = (settlements[:2], settlements[2:])
    first, second = await asyncio.gather(
        *(store.settle(half) for store, half in zip(rivals, halves, strict=False))
    )
    return [*first, *second]


both = pytest.mark.parametrize("together", [True, False], ids=["one call", "two stores"])


# -- leases ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", WAITS)
@pytest.mark.parametrize("order", list(Order))
async def test_one_runs_at_a_time_and_the_innocent_beside_it(
    store: Store, scope: Scope, order: Order
) -> None:
    await join(store)
    jobs = [keyed(*scope), keyed(*scope), keyed(*scope), new_job()]
    await enqueue(store, *jobs)

    first = (await lease(store, order=order)).jobs

    assert {job.id for job in first} == {jobs[0].id, jobs[3].id}
    await one_holds(store, [jobs[0].id])
    again = await lease(store, order=order)
    assert (again.jobs, again.more) == ((), False)
    await succeed(store, first[0])
    (second,) = (await lease(store, order=order)).jobs
    assert second.id == jobs[1].id
    await end(store, second, Retry(delay=60, failure=failure()))
    (third,) = (await lease(store, order=order)).jobs
    assert third.id == jobs[2].id


@pytest.mark.parametrize("scope", WAITS)
async def test_the_best_of_them_runs_first(store: Store, scope: Scope) -> None:
    await join(store)
    jobs = [keyed(*scope), keyed(*scope, priority=1), keyed(*scope, priority=9), new_job()]
    await enqueue(store, *jobs)
    assert {job.id for job in (await lease(store)).jobs} == {jobs[2].id, jobs[3].id}


@pytest.mark.parametrize("scope", WAITS)
@pytest.mark.parametrize("order", list(Order))
async def test_those_that_wait_hide_nobody(store: Store, scope: Scope, order: Order) -> None:
    """More of them than a lease takes, before the innocent in every order."""
    await join(store)
    await enqueue(store, keyed(*scope, priority=9))
    (held,) = await take(store, limit=1)
    await enqueue(store, *(keyed(*scope, priority=9) for _ in range(30)))
    innocent = await add(store)
    request = LeaseRequest(worker="w1", limit=3, tasks={TASK: 3}, order=order)
    assert [job.id for job in (await store.lease(request)).jobs] == [innocent]
    await succeed(store, held)
    assert len((await store.lease(request)).jobs) == 1


@pytest.mark.parametrize("scope", WAITS)
@pytest.mark.parametrize("order", list(Order))
async def test_two_stores_that_lease_at_once_run_one(
    rivals: tuple[Store, ...], scope: Scope, order: Order
) -> None:
    store = rivals[0]
    await join(store, "w1", "w2", "w3", "w4")
    for _ in range(5):
        jobs = [keyed(*scope), keyed(*scope), keyed(*scope), new_job()]
        await enqueue(store, *jobs)
        leased = await asyncio.gather(
            *(lease(one, f"w{n}", order) for n, one in enumerate(rivals, 1))
        )
        held = [job for one in leased for job in one.jobs]
        assert len({job.id for job in held} & {job.id for job in jobs[:3]}) == 1
        for job in held:
            await succeed(store, job)
        await store.cancel([job.id for job in jobs])
        await take(store, tasks={TASK: 10, LATER: 10})


async def test_many_keys_are_leased_by_all_at_once_without_an_error(
    rivals: tuple[Store, ...],
) -> None:
    await join(rivals[0], "w1", "w2", "w3", "w4")
    claims = [unique(f"key {n % 10}", states=(RUNNING,)) for n in range(60)]
    await enqueue(rivals[0], *(new_job(unique=claim) for claim in claims))
    done = 0
    while done < 60:
        leased = await asyncio.gather(*(lease(one, f"w{n}") for n, one in enumerate(rivals, 1)))
        held = [job for one in leased for job in one.jobs]
        records = await rivals[0].get([job.id for job in held])
        assert len({job.unique_key for job in records}) == len(held) > 0
        await rivals[0].settle(alike(held, Succeeded()))
        done += len(held)


@pytest.mark.parametrize("scope", WAITS)
async def test_one_that_begins_at_once_waits_too(store: Store, scope: Scope) -> None:
    await join(store)
    first = await store.start(keyed(*scope), "w1")
    assert first is not None
    second = keyed(*scope)
    assert await store.start(second, "w1") is None
    await in_state(store, QUEUED, second)
    await succeed(store, first)
    assert [job.id for job in (await lease(store)).jobs] == [second.id]


async def test_who_would_not_hold_it_while_it_runs_waits_for_nobody(store: Store) -> None:
    await join(store)
    await enqueue(store, keyed(RUNNING))
    await take(store, limit=1)
    await enqueue(store, keyed(CANCELLED))
    assert len((await lease(store)).jobs) == 1


async def test_who_is_out_of_its_period_waits_for_nobody(store: Store, clock: ManualClock) -> None:
    await join(store)
    claims = [unique("k", states=(RUNNING,), period=period) for period in (None, 10)]
    await enqueue(store, *(new_job(unique=claim) for claim in claims))
    (first,) = (await lease(store)).jobs
    assert (await lease(store)).jobs == ()
    clock.advance(10)
    assert len((await lease(store)).jobs) == 1
    await one_holds(store, [first.id])


async def test_an_ended_holder_keeps_nobody_waiting(store: Store) -> None:
    scope = (RUNNING, SUCCEEDED)
    await join(store)
    await enqueue(store, keyed(*scope))
    (first,) = (await lease(store)).jobs
    await succeed(store, first)
    await enqueue(store, keyed(*scope))
    assert len((await lease(store)).jobs) == 1
    await one_holds(store, [first.id])


# -- ends of attempts ------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("scope", BACK)
@pytest.mark.parametrize(
    "outcome", [Retry(delay=0, failure=failure()), Retry(delay=9, failure=failure()), Released()]
)
async def test_put_back_together(
    rivals: tuple[Store, ...], together: bool, scope: Scope, outcome: Outcome
) -> None:
    held = await running(rivals[0], *scope)
    answers = await settled(rivals, together, alike(held, outcome))
    assert {answer.status for answer in answers} == {SettleStatus.APPLIED}
    ids = await in_state(rivals[0], QUEUED, *held)
    await one_holds(rivals[0], ids[:3])


@both
@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        (SUCCEEDED, Succeeded()),
        (DEAD, Dead(reason=DeadReason.EXHAUSTED, failure=failure())),
        (CANCELLED, Cancelled()),
        (BLOCKED, waiting()),
    ],
)
async def test_ended_together(
    rivals: tuple[Store, ...], together: bool, state: JobState, outcome: Outcome
) -> None:
    held = await running(rivals[0], state)
    answers = await settled(rivals, together, alike(held, outcome))
    assert {answer.status for answer in answers} == {SettleStatus.APPLIED}
    ids = await in_state(rivals[0], state, *held)
    await one_holds(rivals[0], ids[:3])


@pytest.mark.parametrize("scope", WAITS)
async def test_a_key_that_is_held_while_it_runs_is_free_for_one_at_its_end(
    store: Store, scope: Scope
) -> None:
    """Two are ready again at the same moment; each runs alone."""
    await join(store)
    jobs = [keyed(*scope), keyed(*scope), keyed(*scope)]
    await enqueue(store, *jobs)
    ran = list[str]()
    while len(ran) < 3:
        (one,) = (await lease(store)).jobs
        ran.append(one.id)
        await succeed(store, one)
    assert ran == [job.id for job in jobs]


# -- workers that are gone -------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("scope", "state", "most"), [(BACK[0], QUEUED, 9), (BACK[1], QUEUED, 9), ((DEAD,), DEAD, 1)]
)
async def test_rescued_together(
    rivals: tuple[Store, ...],
    clock: ManualClock,
    together: bool,
    scope: Scope,
    state: JobState,
    most: int,
) -> None:
    held = await running(rivals[0], *scope)
    clock.advance(31)
    calls = rivals[: 1 if together else 2]
    rescued = await asyncio.gather(
        *(store.rescue(limit=10, max_deliveries=most) for store in calls)
    )
    assert sorted(one.job.id for each in rescued for one in each) == [job.id for job in held]
    ids = await in_state(rivals[0], state, *held)
    await one_holds(rivals[0], ids[:3])


# -- gates, limits, waits --------------------------------------------------------------------------


async def behind_a_gate(store: Store, *scope: JobState, **fields: Any) -> tuple[str, list[NewJob]]:
    """Three jobs of the key and an innocent fourth at one gate; and the job that opens it."""
    await join(store, "w1", "w2")
    opener = await add(store)
    gate = gate_on(opener, timeout=60)
    jobs = [keyed(*scope, gate=gate.id, **fields) for _ in range(3)]
    jobs.append(new_job(gate=gate.id, **fields))
    answers = await store.commit(Effects(jobs=tuple(jobs), gates=(gate,)))
    assert all(answer.created for answer in answers)
    return opener, jobs


@pytest.mark.parametrize("scope", BACK)
async def test_released_by_one_gate(store: Store, scope: Scope) -> None:
    _, jobs = await behind_a_gate(store, *scope)
    await succeed(store, (await take(store, limit=1))[0])
    ids = await in_state(store, QUEUED, *jobs)
    await one_holds(store, ids[:3])
    assert len((await lease(store)).jobs) == 4


@pytest.mark.parametrize("how", ["unsatisfiable", "late"])
async def test_ended_by_one_gate(store: Store, clock: ManualClock, how: str) -> None:
    _, jobs = await behind_a_gate(store, DEAD)
    if how == "late":
        clock.advance(61)
        await store.expire_blocked(limit=10)
    else:
        await die(store, (await take(store, limit=1))[0])
    ids = await in_state(store, DEAD, *jobs)
    await one_holds(store, ids[:3])


async def test_a_gates_job_is_judged_by_the_scope_of_its_first_state(store: Store) -> None:
    opener = await add(store)
    gate = gate_on(opener)
    jobs = [keyed(BLOCKED, gate=gate.id), keyed(BLOCKED, gate=gate.id), keyed(BLOCKED)]
    answers = await store.commit(Effects(jobs=tuple(jobs), gates=(gate,)))
    assert [answer.created for answer in answers] == [True, False, True]
    assert answers[1].job_id == jobs[0].id


@both
@pytest.mark.parametrize("scope", BACK)
async def test_admitted_together(
    rivals: tuple[Store, ...], clock: ManualClock, together: bool, scope: Scope
) -> None:
    """Held by two limits that were closed while nobody had the key."""
    store = rivals[0]
    await join(store, "w1", "w2")
    claim = unique("k", states=scope)
    held = list[LeasedJob]()
    for n in range(3):
        job = limited(f"api {n % 2}", max_running=5, unique=claim)
        await enqueue(store, job)
        await store.admit(limit=10)
        held += await take(store, limit=1)
    await store.commit(Effects(jobs=(innocent := limited("api 1", max_running=5),)))
    until = clock.now() + timedelta(seconds=60)
    for n in range(2):
        await store.close_limit(f"api {n}", until=until)
    await store.settle(alike(held, Released()))
    clock.advance(61)
    keys = [["api 0", "api 1"]] if together else [["api 0"], ["api 1"]]
    await asyncio.gather(
        *(one.admit(limit=10, keys=some) for one, some in zip(rivals, keys, strict=False))
    )
    ids = await in_state(store, QUEUED, *held, innocent)
    await one_holds(store, ids[:3])
    await join(store)
    assert len(await take(store)) == 4


@both
async def test_dead_with_their_deadlines_together(
    rivals: tuple[Store, ...], clock: ManualClock, together: bool
) -> None:
    jobs = [keyed(DEAD, deadline_in=10) for _ in range(3)] + [new_job(deadline_in=10)]
    await enqueue(rivals[0], *jobs)
    clock.advance(11)
    calls = rivals[: 1 if together else 2]
    await asyncio.gather(*(store.expire_blocked(limit=10) for store in calls))
    ids = await in_state(rivals[0], DEAD, *jobs)
    await one_holds(rivals[0], ids[:3])


@both
@pytest.mark.parametrize("scope", BACK)
async def test_waited_in_vain_together(
    rivals: tuple[Store, ...], clock: ManualClock, together: bool, scope: Scope
) -> None:
    held = await running(rivals[0], *scope)
    await rivals[0].settle(alike(held, waiting(timeout=10)))
    await in_state(rivals[0], BLOCKED, *held)
    clock.advance(11)
    calls = rivals[: 1 if together else 2]
    await asyncio.gather(*(store.expire_blocked(limit=10) for store in calls))
    ids = await in_state(rivals[0], QUEUED, *held)
    await one_holds(rivals[0], ids[:3])


# -- an operator's calls ---------------------------------------------------------------------------


@both
async def test_cancelled_together(rivals: tuple[Store, ...], together: bool) -> None:
    jobs = [keyed(CANCELLED), keyed(CANCELLED), keyed(CANCELLED), new_job()]
    await enqueue(rivals[0], *jobs)
    ids = [job.id for job in jobs]
    parts = [ids] if together else [ids[:2], ids[2:]]
    await asyncio.gather(*(one.cancel(some) for one, some in zip(rivals, parts, strict=False)))
    await in_state(rivals[0], CANCELLED, *jobs)
    await one_holds(rivals[0], ids[:3])


@both
@pytest.mark.parametrize("scope", [*BACK, (QUEUED, RUNNING), *WAITS])
async def test_redriven_together(rivals: tuple[Store, ...], together: bool, scope: Scope) -> None:
    """In a scope that has the state that they come back into, all but one stay as they were."""
    store = rivals[0]
    await join(store)
    jobs = list[LeasedJob]()
    for new in (keyed(*scope), keyed(*scope), keyed(*scope), new_job()):
        await enqueue(store, new)
        (held,) = await take(store, limit=1)
        await die(store, held)
        jobs.append(held)
    back = [JobRedrive(id=job.id) for job in jobs]
    parts = [back] if together else [back[:2], back[2:]]

    answers = await asyncio.gather(
        *(one.redrive(some) for one, some in zip(rivals, parts, strict=False))
    )

    moved = {change.id for answer in answers for change in answer}
    assert jobs[3].id in moved
    assert len(moved) == (2 if QUEUED in scope else 4)
    for job in jobs:
        state = (await record(store, job.id)).state
        assert state is (QUEUED if job.id in moved else DEAD)
    if QUEUED in scope:
        await one_holds(store, [job.id for job in jobs[:3]])

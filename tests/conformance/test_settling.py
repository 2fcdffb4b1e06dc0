"""The ends of attempts, and what they leave behind."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from offpath.errors import IdConflict, UniqueConflict
from offpath.model.effects import Effects
from offpath.model.job import (
    DeadReason,
    JobFilter,
    JobState,
    NewJob,
    UniquePolicy,
)
from offpath.model.settlement import (
    Cancelled,
    Dead,
    Released,
    Retry,
    Settlement,
    SettleStatus,
    Snoozed,
    Succeeded,
)
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import (
    OUTCOMES,
    START,
    add,
    die,
    end,
    enqueue,
    exists,
    failure,
    join,
    new_job,
    outcomes,
    record,
    start,
    start_some,
    succeed,
    take,
    take_one,
    unique,
)


def later(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


# -- each outcome ----------------------------------------------------------------------------------


async def test_success_stores_the_result(store: Store, clock: ManualClock) -> None:
    job = await start(store)
    clock.advance(2)

    answer = await end(store, job, Succeeded(result='{"sum":3}'))

    assert answer.state is JobState.SUCCEEDED
    stored = await record(store, job.id)
    assert (stored.state, stored.result) == (JobState.SUCCEEDED, '{"sum":3}')
    assert (stored.worker, stored.reason, stored.failures) == (None, None, ())
    assert (stored.finished_at, stored.expires_at) == (START + later(2), None)
    assert await take(store) == ()


async def test_success_with_nothing(store: Store) -> None:
    job = await start(store)
    await end(store, job, Succeeded())
    assert (await record(store, job.id)).result is None


async def test_a_retry_counts_and_waits(store: Store, clock: ManualClock) -> None:
    job = await start(store)
    clock.advance(1)

    answer = await end(store, job, Retry(delay=5, failure=failure("first")))

    assert (answer.state, answer.run_at) == (JobState.QUEUED, START + later(6))
    stored = await record(store, job.id)
    assert (stored.state, stored.attempt, stored.deliveries) == (JobState.QUEUED, 2, 1)
    assert (stored.run_at, stored.worker) == (START + later(6), None)
    assert (stored.finished_at, stored.expires_at) == (None, None)
    assert [each.message for each in stored.failures] == ["first"]
    clock.advance(4.9)
    assert await take(store) == ()
    clock.advance(0.1)
    again = await take_one(store)
    assert (again.id, again.attempt, again.deliveries) == (job.id, 2, 2)


async def test_a_retry_without_delay_is_due_at_once(store: Store) -> None:
    job = await start(store)
    await end(store, job, Retry(delay=0, failure=failure()))
    assert (await take_one(store)).id == job.id


async def test_a_snooze_does_not_count(store: Store, clock: ManualClock) -> None:
    job = await start(store)
    clock.advance(1)

    answer = await end(store, job, Snoozed(delay=7, reason="rate limit"))

    assert (answer.state, answer.run_at) == (JobState.QUEUED, START + later(8))
    stored = await record(store, job.id)
    assert (stored.attempt, stored.losses, stored.failures) == (1, 0, ())
    assert (stored.reason, stored.run_at) == ("rate limit", START + later(8))
    clock.advance(6.9)
    assert await take(store) == ()
    clock.advance(0.1)
    assert (await take_one(store)).attempt == 1


async def test_a_snooze_until_a_moment(store: Store, clock: ManualClock) -> None:
    job = await start(store)
    until = START + timedelta(days=40, microseconds=7)
    await end(store, job, Snoozed(delay=3, until=until))
    assert (await record(store, job.id)).run_at == until
    clock.set(until)
    await join(store)
    assert (await take_one(store)).id == job.id


async def test_a_snooze_until_the_past_is_due_at_once(store: Store) -> None:
    job = await start(store)
    await end(store, job, Snoozed(until=START - later(60)))
    assert (await take_one(store)).id == job.id


@pytest.mark.parametrize("reason", list(DeadReason))
async def test_death_has_its_reason_and_last_failure(
    store: Store, clock: ManualClock, reason: DeadReason
) -> None:
    job = await start(store)
    clock.advance(3)
    what = failure(
        "no",
        traceback="File x",
        attempt=1,
        kind="aborted",
        type="Bad",
        module="pkg",
        worker="w-1",
        started_at=START,
    )

    answer = await end(store, job, Dead(reason=reason, failure=what))

    assert answer.state is JobState.DEAD
    stored = await record(store, job.id)
    assert (stored.state, stored.reason, stored.worker) == (JobState.DEAD, reason, None)
    assert (stored.finished_at, stored.failures, stored.result) == (START + later(3), (what,), None)
    clock.advance(1000)
    assert await take(store) == ()


@pytest.mark.parametrize("failing", [True, False])
async def test_a_cancelled_run(store: Store, failing: bool) -> None:
    job = await start(store)
    what = failure("stopped", kind="cancelled") if failing else None
    answer = await end(store, job, Cancelled(failure=what))
    assert answer.state is JobState.CANCELLED
    stored = await record(store, job.id)
    assert (stored.state, stored.finished_at) == (JobState.CANCELLED, START)
    assert stored.failures == ((what,) if what else ())


async def test_a_released_job_is_due_at_once_and_nothing_counts(
    store: Store, clock: ManualClock
) -> None:
    job = await start(store)
    clock.advance(4)
    answer = await end(store, job, Released())
    assert answer.state is JobState.QUEUED
    stored = await record(store, job.id)
    assert (stored.attempt, stored.losses, stored.failures) == (1, 0, ())
    await join(store, "w2")
    again = await take_one(store, "w2")
    assert (again.id, again.deliveries, again.attempt) == (job.id, 2, 1)


@pytest.mark.parametrize("name", OUTCOMES)
async def test_keep_counts_from_the_end_and_only_then(
    store: Store, clock: ManualClock, name: str
) -> None:
    job = await start(store)
    clock.advance(2)
    answer = await end(store, job, outcomes()[name], keep=60)
    ended = answer.state is not None and answer.state.terminal
    right = START + later(62) if ended else None
    assert (await record(store, job.id)).expires_at == right


@pytest.mark.parametrize("name", OUTCOMES)
async def test_a_requested_cancel_wins_over_every_outcome(store: Store, name: str) -> None:
    job = await start(store)
    await store.cancel([job.id])
    child = new_job()

    answer = await end(store, job, outcomes()[name], effects=[child])

    assert answer.state is JobState.CANCELLED
    assert answer.enqueued == ()
    stored = await record(store, job.id)
    assert (stored.state, stored.result, stored.attempt) == (JobState.CANCELLED, None, 1)
    assert not await exists(store, child.id)


# -- effects ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OUTCOMES)
async def test_effects_come_with_success_and_snooze_only(store: Store, name: str) -> None:
    job = await start(store)
    child = new_job(parent=job.id)

    answer = await end(store, job, outcomes()[name], effects=[child])

    carried = name in {"succeeded", "snoozed"}
    assert await exists(store, child.id) is carried
    assert [each.job_id for each in answer.enqueued] == ([child.id] if carried else [])


async def test_children_join_the_group_and_keep_their_options(
    store: Store, clock: ManualClock
) -> None:
    job = await start(store)
    clock.advance(1)
    now = new_job(parent=job.id, queue="fast", priority=2, tags=("x",), dependents=(job.id,))
    soon = new_job(parent=job.id, delay=9)

    answer = await end(store, job, Succeeded(), effects=[now, soon])

    assert [(each.id, each.created) for each in answer.enqueued] == [
        (now.id, True),
        (soon.id, True),
    ]
    first, second = await record(store, now.id), await record(store, soon.id)
    assert {first.group_id, second.group_id} == {job.group_id}
    assert (first.parent, first.queue, first.priority) == (job.id, "fast", 2)
    assert (first.tags, first.dependents) == (("x",), (job.id,))
    assert second.run_at == START + later(10)
    assert [each.id for each in await take(store)] == [now.id]


async def test_a_child_that_exists_is_left_as_it_is(store: Store) -> None:
    job = await start(store)
    child = new_job(parent=job.id)
    await end(store, job, Snoozed(), effects=[child])
    again = next(each for each in await take(store) if each.id == job.id)
    answer = await end(store, again, Succeeded(), effects=[child])
    assert [(each.job_id, each.created) for each in answer.enqueued] == [(child.id, False)]


# -- history ---------------------------------------------------------------------------------------


async def test_failures_are_kept_in_order(store: Store, clock: ManualClock) -> None:
    job = await start(store)
    given = []
    for attempt in range(1, 4):
        given.append(failure(f"no {attempt}", attempt=attempt, at=clock.now(), traceback="t"))
        await end(store, job, Retry(delay=1, failure=given[-1]))
        clock.advance(1)
        job = await take_one(store)
    await succeed(store, job)
    stored = await record(store, job.id)
    assert stored.failures == tuple(given)
    assert stored.failure == given[-1]


async def test_the_last_fifty_failures_are_kept(store: Store) -> None:
    job = await start(store)
    for attempt in range(1, 54):
        await end(store, job, Retry(delay=0, failure=failure(str(attempt), attempt=attempt)))
        job = await take_one(store)
    stored = await record(store, job.id)
    assert [each.attempt for each in stored.failures] == list(range(4, 54))
    (listed,) = (await store.find(JobFilter(ids=(job.id,)))).items
    assert [each.attempt for each in listed.failures] == [53]


# -- batches and poison ----------------------------------------------------------------------------


async def test_every_outcome_in_one_batch_answered_in_order(store: Store) -> None:
    jobs = await start_some(store, 24)
    kinds = list(outcomes().values())
    given = [(job, kinds[n % len(kinds)]) for n, job in enumerate(jobs)]
    given.reverse()

    answers = await store.settle([Settlement(job=job, outcome=what) for job, what in given])

    assert [answer.id for answer in answers] == [job.id for job, _ in given]
    assert {answer.status for answer in answers} == {SettleStatus.APPLIED}
    stored = {job.id: job.state for job in await store.get([job.id for job in jobs])}
    assert stored == {answer.id: answer.state for answer in answers}
    right = {Succeeded: "succeeded", Dead: "dead", Cancelled: "cancelled"}
    for job, what in given:
        assert stored[job.id] == right.get(type(what), "queued")


async def test_an_empty_batch(store: Store) -> None:
    assert await store.settle([]) == []


async def test_a_death_twice_in_a_batch_is_one_dead_letter(store: Store) -> None:
    job = await start(store)
    dead = Dead(reason=DeadReason.EXHAUSTED, failure=failure())
    answers = await store.settle([Settlement(job=job, outcome=dead)] * 2)
    assert [one.status for one in answers] == [SettleStatus.APPLIED, SettleStatus.LEASE_LOST]
    assert [one.group_done for one in answers] == [True, False]
    (letter,) = (await store.find(JobFilter(states=(JobState.DEAD,)), limit=10)).items
    assert (letter.id, len(letter.failures)) == (job.id, 1)


async def test_one_attempt_twice_in_a_batch_is_applied_once(store: Store) -> None:
    job = await start(store)
    child = new_job()
    twice = Settlement(job=job, outcome=Succeeded(), effects=Effects(jobs=(child,)))
    first, second = await store.settle([twice, twice])
    assert (first.status, second.status) == (SettleStatus.APPLIED, SettleStatus.LEASE_LOST)
    assert (first.group_done, second.group_done) == (False, False)
    await succeed(store, await take_one(store))


async def test_a_lone_success_is_the_attempts_that_holds_the_lease(store: Store) -> None:
    job = await start(store)
    lost = replace(job, deliveries=job.deliveries - 1)
    mine, late = (Settlement(job=each, outcome=Succeeded(result='"mine"')) for each in (job, lost))
    answers = await store.settle([late, mine, mine])
    assert [answer.status for answer in answers] == [
        SettleStatus.LEASE_LOST,
        SettleStatus.APPLIED,
        SettleStatus.LEASE_LOST,
    ]


async def test_each_lone_success_has_its_own_result_and_time_to_stay(store: Store) -> None:
    jobs = await start_some(store, 4)
    results, keeps = ['"a"', None, None, '"d"'], [60.0, None, 0.5, 1e9]
    fields = list(zip(reversed(jobs), results, keeps, strict=True))
    await store.settle(
        [
            Settlement(job=job, outcome=Succeeded(result=result), keep=keep)
            for job, result, keep in fields
        ]
    )
    for job, result, keep in fields:
        stored = await record(store, job.id)
        assert stored.finished_at is not None
        gone = None if keep is None else stored.finished_at + later(keep)
        assert (stored.result, stored.expires_at) == (result, gone)


async def _poison(store: Store, kind: str) -> tuple[NewJob, type[Exception]]:
    """An effect that the store cannot take, and the error that says so."""
    if kind == "unique":
        holder = new_job(task="held", unique=unique("k"))
        await enqueue(store, holder)
        return new_job(unique=unique("k", policy=UniquePolicy.REFUSE)), UniqueConflict
    taken = await add(store, "held")
    return new_job(id=taken, input='{"other":1}'), IdConflict


@pytest.mark.parametrize("place", [0, 4, 8], ids=["first", "middle", "last"])
@pytest.mark.parametrize("kind", ["unique", "id"])
async def test_poison_holds_back_none_of_the_others(store: Store, kind: str, place: int) -> None:
    jobs = await start_some(store, 9)
    bad, error = await _poison(store, kind)
    children = [new_job(parent=job.id) for job in jobs]
    lost = new_job()
    batch = [
        Settlement(
            job=job,
            outcome=Succeeded(result="1"),
            effects=Effects(jobs=(lost, bad) if n == place else (children[n],)),
        )
        for n, job in enumerate(jobs)
    ]

    answers = await store.settle(batch)

    refused = answers[place]
    assert (refused.status, refused.enqueued) == (SettleStatus.REFUSED, ())
    assert isinstance(refused.error, error)
    others = [answer for n, answer in enumerate(answers) if n != place]
    assert {answer.status for answer in others} == {SettleStatus.APPLIED}
    held = await record(store, jobs[place].id)
    assert (held.state, held.worker, held.result) == (JobState.RUNNING, "w1", None)
    assert not await exists(store, lost.id)
    assert len(await store.get([child.id for child in children])) == 8
    await die(store, jobs[place])


async def test_two_poisons_among_many(store: Store) -> None:
    jobs = await start_some(store, 30)
    bad, _ = await _poison(store, "unique")
    other, _ = await _poison(store, "id")
    batch = [
        Settlement(
            job=job,
            outcome=Succeeded(),
            effects=Effects(jobs=({3: bad, 17: other}.get(n, new_job()),)),
        )
        for n, job in enumerate(jobs)
    ]
    answers = await store.settle(batch)
    refused = [n for n, one in enumerate(answers) if one.status is SettleStatus.REFUSED]
    assert refused == [3, 17]
    counted = await store.count(JobFilter(ids=tuple(job.id for job in jobs)))
    assert {one.state: one.count for one in counted} == {
        JobState.SUCCEEDED: 28,
        JobState.RUNNING: 2,
    }


async def test_two_children_of_one_batch_that_want_the_same_key(store: Store) -> None:
    first, second = await start_some(store, 2)
    batch = [
        Settlement(
            job=job,
            outcome=Succeeded(),
            effects=Effects(
                jobs=(new_job(task="child", unique=unique("k", policy=UniquePolicy.REFUSE)),)
            ),
        )
        for job in (first, second)
    ]
    answers = await store.settle(batch)
    statuses = sorted(answer.status for answer in answers)
    assert statuses == [SettleStatus.APPLIED, SettleStatus.REFUSED]
    (counted,) = await store.count(JobFilter(tasks=("child",)))
    assert counted.count == 1

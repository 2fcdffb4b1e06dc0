"""Unique keys: who holds one, when it is given up, and what another enqueue gets."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from offpath.errors import UniqueConflict
from offpath.model.job import JobFilter, JobState, NewJob, UniquePolicy
from offpath.model.settlement import Retry, Snoozed, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.builders import (
    START,
    TASK,
    die,
    end,
    enqueue,
    exists,
    failure,
    join,
    new_job,
    record,
    succeed,
    take,
    take_one,
    unique,
)

EVERY = tuple(JobState)
LIVE = ("ready", "scheduled", "running", "retry", "snoozed", "rescued", "released")
ENDED = ("succeeded", "dead", "cancelled")


def keyed(policy: str = "attach", **fields: Any) -> NewJob:
    """A job that claims the key of this page; ``scope`` and ``period`` go to the claim."""
    claim = {name: fields.pop(name) for name in ("states", "period") if name in fields}
    return new_job(unique=unique("k", policy=UniquePolicy(policy), **claim), **fields)


async def holder_in(store: Store, clock: ManualClock, state: str, **claim: Any) -> str:
    """A job that claimed the key and came into ``state``; its id."""
    job = keyed(delay=600 if state == "scheduled" else 0, **claim)
    (answer,) = await enqueue(store, job)
    assert answer.created
    if state in {"ready", "scheduled"}:
        return job.id
    if state == "cancelled":
        await store.cancel([job.id])
        return job.id
    await join(store)
    leased = await take_one(store)
    if state == "succeeded":
        await succeed(store, leased)
    elif state == "dead":
        await die(store, leased)
    elif state == "retry":
        await end(store, leased, Retry(delay=60, failure=failure()))
    elif state == "snoozed":
        await end(store, leased, Snoozed(delay=60))
    elif state == "released":
        await end(store, leased, Snoozed())
    elif state == "rescued":
        clock.advance(31)
        await store.rescue(limit=10, max_deliveries=9)
    return job.id


async def alone(store: Store, holder: str) -> bool:
    """True if no other job of this task is there."""
    return [job.id for job in (await store.find(JobFilter(tasks=(TASK,)))).items] == [holder]


@pytest.mark.parametrize("state", LIVE)
async def test_attach_gives_the_live_holder(store: Store, clock: ManualClock, state: str) -> None:
    holder = await holder_in(store, clock, state)
    before = await record(store, holder)
    (answer,) = await enqueue(store, keyed())
    assert (answer.job_id, answer.created) == (holder, False)
    assert await record(store, holder) == before
    assert await alone(store, holder)


@pytest.mark.parametrize("state", ENDED)
async def test_an_ended_job_has_left_the_usual_scope(
    store: Store, clock: ManualClock, state: str
) -> None:
    old = await holder_in(store, clock, state)
    (first,) = await enqueue(store, keyed())
    (second,) = await enqueue(store, keyed())
    assert first.created
    assert first.job_id != old
    assert (second.job_id, second.created) == (first.job_id, False)


@pytest.mark.parametrize("state", ENDED)
async def test_an_ended_job_holds_its_key_when_its_scope_says_so(
    store: Store, clock: ManualClock, state: str
) -> None:
    holder = await holder_in(store, clock, state, states=EVERY)
    (answer,) = await enqueue(store, keyed())
    assert (answer.job_id, answer.created) == (holder, False)
    await store.delete([holder])
    (answer,) = await enqueue(store, keyed())
    assert answer.created


@pytest.mark.parametrize("state", [*LIVE, *ENDED])
@pytest.mark.parametrize("policy", ["attach", "refuse"])
async def test_a_conflict_names_key_and_holder_and_writes_nothing(
    store: Store, clock: ManualClock, state: str, policy: str
) -> None:
    holder = await holder_in(store, clock, state, states=EVERY)
    before = await record(store, holder)
    other = new_job()
    wanted = keyed(policy, input='{"other":1}' if policy == "attach" else "{}")

    with pytest.raises(UniqueConflict) as caught:
        await enqueue(store, other, wanted)

    assert (caught.value.key, caught.value.holder) == (f"{TASK}:k", holder)
    assert f"held by job {holder} ({before.state.value})" in str(caught.value)
    assert f"{TASK}:k" not in str(caught.value), "it may be made of an input"
    assert await record(store, holder) == before
    assert not await exists(store, other.id)
    assert not await exists(store, wanted.id)


@pytest.mark.parametrize("state", ["ready", "scheduled", "retry", "snoozed", "rescued", "released"])
async def test_replace_rewrites_a_waiting_holder_in_place(
    store: Store, clock: ManualClock, state: str
) -> None:
    holder = await holder_in(store, clock, state)
    new = keyed(
        "replace", input='{"n":2}', delay=5, priority=7, queue="fast", options='{"timeout":1}'
    )

    (answer,) = await enqueue(store, new)

    now = clock.now()
    due = now + timedelta(seconds=5)
    assert (answer.job_id, answer.created, answer.run_at) == (holder, False, due)
    stored = await record(store, holder)
    assert (stored.input, stored.fingerprint) == (new.input, new.fingerprint)
    assert (stored.priority, stored.queue, stored.options) == (7, "fast", '{"timeout":1}')
    assert (stored.run_at, stored.state) == (due, JobState.QUEUED)
    assert await alone(store, holder)
    await join(store)
    assert await take(store) == ()
    clock.advance(5)
    assert [(job.id, job.input) for job in await take(store)] == [(holder, '{"n":2}')]


async def test_replace_makes_a_job_of_the_future_due(store: Store, clock: ManualClock) -> None:
    holder = await holder_in(store, clock, "scheduled")
    await enqueue(store, keyed("replace"))
    await join(store)
    assert (await take_one(store)).id == holder


@pytest.mark.parametrize("state", ["running", *ENDED])
async def test_replace_refuses_a_holder_that_does_not_wait(
    store: Store, clock: ManualClock, state: str
) -> None:
    holder = await holder_in(store, clock, state, states=EVERY)
    before = await record(store, holder)
    with pytest.raises(UniqueConflict) as caught:
        await enqueue(store, keyed("replace", input='{"n":2}'))
    assert caught.value.holder == holder
    assert await record(store, holder) == before


@pytest.mark.parametrize("policy", list(UniquePolicy))
async def test_a_free_key_is_taken_whatever_the_policy(store: Store, policy: str) -> None:
    (answer,) = await enqueue(store, keyed(policy))
    assert answer.created
    assert (await record(store, answer.job_id)).unique_key == f"{TASK}:k"


@pytest.mark.parametrize("policy", list(UniquePolicy))
@pytest.mark.parametrize("state", LIVE)
async def test_a_job_never_conflicts_with_itself(
    store: Store, clock: ManualClock, policy: str, state: str
) -> None:
    holder = await holder_in(store, clock, state)
    before = await record(store, holder)
    (answer,) = await enqueue(store, keyed(policy, id=holder))
    assert (answer.job_id, answer.created) == (holder, False)
    assert await record(store, holder) == before


@pytest.mark.parametrize("delay", [0, 30], ids=["at once", "later"])
async def test_a_unique_job_that_fails_runs_again(
    store: Store, clock: ManualClock, delay: float
) -> None:
    job = keyed("refuse")
    await enqueue(store, job)
    await join(store)
    await end(store, await take_one(store), Retry(delay=delay, failure=failure()))
    clock.advance(delay)
    await join(store)
    again = await take_one(store)
    assert (again.id, again.attempt) == (job.id, 2)
    assert (await end(store, again, Succeeded())).state is JobState.SUCCEEDED


async def test_keys_are_apart(store: Store) -> None:
    jobs = [new_job(unique=unique(key)) for key in ("a", "A", "a ", "ä", "a" * 490)]
    answers = await enqueue(store, *jobs)
    assert [answer.created for answer in answers] == [True] * 5


# -- scope and period ------------------------------------------------------------------------------


async def test_a_key_held_while_waiting_is_free_once_it_runs(
    store: Store, clock: ManualClock
) -> None:
    first = await holder_in(store, clock, "running", states=(JobState.QUEUED,))
    (second,) = await enqueue(store, keyed(states=(JobState.QUEUED,)))
    assert second.created
    leased = await record(store, first)
    assert leased.state is JobState.RUNNING


@pytest.mark.parametrize("queue", ["default", "other"])
@pytest.mark.parametrize("priority", [-5, 5])
async def test_a_key_that_is_given_up_in_a_lease_is_free_for_the_next_one(
    store: Store, queue: str, priority: int
) -> None:
    """One lease is one look, whichever of its jobs comes first."""
    states = {"runs": (JobState.RUNNING,), "waits": (JobState.QUEUED,)}
    later = keyed(states=states["runs"], priority=priority, queue=queue)
    holder = keyed(states=states["waits"])
    await enqueue(store, later)
    await enqueue(store, holder)
    await join(store)
    assert [job.id for job in await take(store, limit=8)] == [holder.id]
    assert [job.id for job in await take(store, limit=8)] == [later.id]


async def test_a_job_that_comes_back_into_its_scope_finds_its_key_taken(
    store: Store, clock: ManualClock
) -> None:
    """It is not thrown away for that: both live, and the newer one keeps the key."""
    job = keyed(states=(JobState.QUEUED,))
    await enqueue(store, job)
    await join(store)
    first = await take_one(store)
    (second,) = await enqueue(store, keyed(states=(JobState.QUEUED,)))
    await end(store, first, Retry(delay=0, failure=failure()))
    assert (await record(store, job.id)).state is JobState.QUEUED
    (third,) = await enqueue(store, keyed(states=(JobState.QUEUED,)))
    assert (third.job_id, third.created) == (second.job_id, False)
    assert {each.id for each in await take(store)} == {job.id, second.job_id}


async def test_a_job_that_comes_back_into_its_scope_takes_its_free_key_again(store: Store) -> None:
    job = keyed(states=(JobState.QUEUED,))
    await enqueue(store, job)
    await join(store)
    await end(store, await take_one(store), Retry(delay=0, failure=failure()))
    (answer,) = await enqueue(store, keyed(states=(JobState.QUEUED,)))
    assert (answer.job_id, answer.created) == (job.id, False)


@pytest.mark.parametrize("policy", list(UniquePolicy))
async def test_after_its_period_a_holder_loses_the_key(
    store: Store, clock: ManualClock, policy: str
) -> None:
    old = keyed(period=60, delay=600)
    await enqueue(store, old)
    clock.advance(59)
    (attached,) = await enqueue(store, keyed())
    assert attached.job_id == old.id

    clock.advance(2)
    new = keyed(policy, input='{"n":2}', period=60)
    (answer,) = await enqueue(store, new)

    assert (answer.job_id, answer.created) == (new.id, True)
    assert (await record(store, old.id)).state is JobState.QUEUED
    (last,) = await enqueue(store, keyed(input='{"n":2}'))
    assert last.job_id == new.id


async def test_a_period_ends_with_the_scope(store: Store, clock: ManualClock) -> None:
    await holder_in(store, clock, "succeeded", period=600)
    (answer,) = await enqueue(store, keyed())
    assert answer.created


async def test_once_per_period_whatever_became_of_it(store: Store, clock: ManualClock) -> None:
    holder = await holder_in(store, clock, "succeeded", states=EVERY, period=600)
    clock.advance(599)
    (attached,) = await enqueue(store, keyed(states=EVERY, period=600))
    clock.advance(2)
    (fresh,) = await enqueue(store, keyed(states=EVERY, period=600))
    assert attached.job_id == holder
    assert fresh.created


async def test_pruning_frees_the_key(store: Store, clock: ManualClock) -> None:
    await enqueue(store, keyed(states=EVERY))
    await join(store)
    await succeed(store, await take_one(store), keep=10)
    clock.advance(11)
    assert (await store.prune(limit=10)).total == 1
    (answer,) = await enqueue(store, keyed())
    assert answer.created


# -- one batch, many callers -----------------------------------------------------------------------


async def test_the_same_key_twice_in_one_commit(store: Store) -> None:
    jobs = [keyed(), keyed(), new_job(), keyed()]
    answers = await enqueue(store, *jobs)
    assert [answer.created for answer in answers] == [True, False, True, False]
    assert [answer.job_id for answer in answers] == [
        jobs[0].id,
        jobs[0].id,
        jobs[2].id,
        jobs[0].id,
    ]


async def test_the_same_key_twice_in_one_commit_with_refuse(store: Store) -> None:
    jobs = [keyed("refuse"), new_job(), keyed("refuse")]
    with pytest.raises(UniqueConflict) as caught:
        await enqueue(store, *jobs)
    assert caught.value.holder == jobs[0].id
    assert await store.get([job.id for job in jobs]) == []


async def test_the_same_key_twice_in_one_commit_with_replace(store: Store) -> None:
    first, second = keyed("replace"), keyed("replace", input='{"n":2}')
    answers = await enqueue(store, first, second)
    assert [answer.job_id for answer in answers] == [first.id, first.id]
    assert (await record(store, first.id)).input == '{"n":2}'
    assert not await exists(store, second.id)


@pytest.mark.parametrize("same", [True, False])
async def test_who_attaches_meets_the_work_that_the_same_commit_put_there(
    store: Store, same: bool
) -> None:
    """Attached to other work, a caller would wait for what never runs."""
    holder = keyed(fingerprint="1", input="1")
    await enqueue(store, holder)
    other = keyed("replace", fingerprint="2", input="2")
    again = keyed(fingerprint="2" if same else "1", input="2" if same else "1")
    if same:
        answers = await enqueue(store, other, again)
        assert [each.job_id for each in answers] == [holder.id] * 2
        assert (await record(store, holder.id)).input == "2"
    else:
        with pytest.raises(UniqueConflict):
            await enqueue(store, other, again)
        assert (await record(store, holder.id)).input == "1"


async def test_twenty_at_once_make_one_job_and_twenty_equal_answers(
    rivals: tuple[Store, ...],
) -> None:
    for each in range(3):
        claim = unique(f"race {each}")
        answers = await asyncio.gather(
            *(enqueue(rivals[n % 4], new_job(unique=claim)) for n in range(20))
        )
        assert len({answer.job_id for (answer,) in answers}) == 1
        assert sum(answer.created for (answer,) in answers) == 1
    (counted,) = await rivals[0].count(JobFilter())
    assert counted.count == 3


async def test_twenty_at_once_with_refuse_let_one_through(rivals: tuple[Store, ...]) -> None:
    claim = unique("race", policy=UniquePolicy.REFUSE)
    answers = await asyncio.gather(
        *(enqueue(rivals[n % 4], new_job(unique=claim)) for n in range(20)),
        return_exceptions=True,
    )
    refused = [answer for answer in answers if isinstance(answer, UniqueConflict)]
    (created,) = [answer for answer in answers if isinstance(answer, list)]
    assert len(refused) == 19
    assert {error.holder for error in refused} == {created[0].job_id}


async def test_enqueue_and_the_holders_end_at_once(rivals: tuple[Store, ...]) -> None:
    """Whichever is first: the answer names a job that holds the key, or held it just now."""
    store = rivals[0]
    await join(store)
    for _ in range(10):
        await enqueue(store, keyed())
        leased = await take_one(store)
        answer, _ = await asyncio.gather(enqueue(rivals[1], keyed()), succeed(store, leased))
        (given,) = answer
        assert given.created is (given.job_id != leased.id)
        live = [job.id for job in (await store.find(JobFilter(states=(JobState.QUEUED,)))).items]
        assert live == ([given.job_id] if given.created else [])
        await store.cancel(live)


# -- redrive ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["dead", "cancelled"])
async def test_a_redrive_leaves_a_job_alone_whose_key_is_taken(
    store: Store, clock: ManualClock, state: str
) -> None:
    old = await holder_in(store, clock, state)
    before = await record(store, old)
    (new,) = await enqueue(store, keyed())
    assert await store.redrive([JobRedrive(id=old)]) == []
    assert await record(store, old) == before
    await store.cancel([new.job_id])
    assert [one.id for one in await store.redrive([JobRedrive(id=old)])] == [old]


async def test_a_redrive_takes_the_key_again(store: Store, clock: ManualClock) -> None:
    old = await holder_in(store, clock, "dead")
    await store.redrive([JobRedrive(id=old)])
    (answer,) = await enqueue(store, keyed())
    assert (answer.job_id, answer.created) == (old, False)
    assert (await record(store, old)).enqueued_at == START


async def test_of_two_dead_with_one_key_one_redrive_is_let_through(
    store: Store, clock: ManualClock
) -> None:
    first = await holder_in(store, clock, "dead")
    second = await holder_in(store, clock, "dead")
    free = new_job()
    await enqueue(store, free)
    await store.cancel([free.id])
    changed = await store.redrive([JobRedrive(id=one) for one in (first, second, free.id)])
    assert len(changed) == 2
    assert free.id in {one.id for one in changed}
    states = await store.states([first, second])
    assert sorted(states.values()) == [JobState.DEAD, JobState.QUEUED]


@pytest.mark.parametrize("said", ["limit", "the partner rests"])
async def test_what_put_off_a_job_is_forgotten_when_another_replaces_it(
    store: Store, said: str
) -> None:
    # Found by the random comparison of the stores (seed 11).
    await join(store)
    claim = unique("k", policy=UniquePolicy.REPLACE)
    await enqueue(store, new_job(unique=claim))
    held = await take_one(store)
    await end(store, held, Snoozed(delay=10.0, reason=said))
    assert (await record(store, held.id)).reason == said
    (answer,) = await enqueue(store, new_job(unique=claim, input="2"))
    assert answer.job_id == held.id
    replaced = await record(store, held.id)
    assert (replaced.state, replaced.reason) == (JobState.QUEUED, None)

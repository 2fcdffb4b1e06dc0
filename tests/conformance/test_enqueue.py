"""New jobs: what is stored, what a repeat does, and that a commit is all or nothing."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from offpath.errors import IdConflict
from offpath.model.effects import NOTHING
from offpath.model.job import Enqueued, JobFilter, JobRecord, JobState
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import (
    START,
    TASK,
    add,
    die,
    end,
    enqueue,
    exists,
    fresh_id,
    join,
    new_job,
    outcomes,
    record,
    succeed,
    take_one,
    uid,
    unique,
)


async def test_a_plain_job_is_stored_with_its_defaults(store: Store, clock: ManualClock) -> None:
    clock.advance(1.5)
    job = new_job(input='{"a":1}')

    (answer,) = await enqueue(store, job)

    now = START + timedelta(seconds=1.5)
    assert answer == Enqueued(id=job.id, job_id=job.id, created=True, run_at=now)
    assert await record(store, job.id) == JobRecord(
        id=job.id,
        task=TASK,
        queue="default",
        state=JobState.QUEUED,
        priority=0,
        run_at=now,
        enqueued_at=now,
        attempt=1,
        deliveries=0,
        losses=0,
        redrives=0,
        group_id=job.id,
        input='{"a":1}',
        options="{}",
        fingerprint=job.fingerprint,
    )


async def test_every_option_is_stored(store: Store) -> None:
    job = new_job(
        queue="fast",
        priority=-4,
        delay=90.5,
        deadline_in=3600.25,
        options='{"timeout":3}',
        group_id=fresh_id(),
        parent=fresh_id(),
        dependents=(fresh_id(), fresh_id()),
        unique=unique("k"),
        tags=("b", "a", "tenant:7"),
    )
    await enqueue(store, job)
    stored = await record(store, job.id)
    assert (stored.queue, stored.priority, stored.options) == ("fast", -4, '{"timeout":3}')
    assert (stored.group_id, stored.parent) == (job.group_id, job.parent)
    assert stored.dependents == job.dependents
    assert sorted(stored.tags) == ["a", "b", "tenant:7"]
    assert stored.unique_key == f"{TASK}:k"
    assert stored.run_at == START + timedelta(seconds=90.5)
    assert stored.deadline == START + timedelta(seconds=3600.25)


@pytest.mark.parametrize("priority", [-(2**31), 2**31 - 1])
async def test_the_widest_priorities(store: Store, priority: int) -> None:
    job_id = await add(store, priority=priority)
    assert (await record(store, job_id)).priority == priority


async def test_nothing_to_do(store: Store) -> None:
    assert await store.commit(NOTHING) == []
    assert await store.count(JobFilter()) == []


async def test_answers_are_in_the_order_given(store: Store) -> None:
    jobs = [new_job(id=uid((n * 7919) % 1000 + 1)) for n in range(1_000)]
    answers = await enqueue(store, *jobs)
    assert [answer.id for answer in answers] == [job.id for job in jobs]
    assert all(answer.created for answer in answers)
    (counted,) = await store.count(JobFilter())
    assert (counted.state, counted.count) == (JobState.QUEUED, 1_000)


# -- repeats ---------------------------------------------------------------------------------------

STATES = ("ready", "scheduled", "running", "retry", "succeeded", "dead", "cancelled")


async def _bring(store: Store, job_id: str, state: str) -> None:
    """Bring a ready job into another state."""
    if state == "cancelled":
        await store.cancel([job_id])
    elif state not in {"ready", "scheduled"}:
        await join(store)
        leased = await take_one(store)
        if state == "succeeded":
            await succeed(store, leased)
        elif state == "dead":
            await die(store, leased)
        elif state == "retry":
            await end(store, leased, outcomes()["retry"])


@pytest.mark.parametrize("state", STATES)
async def test_a_repeat_leaves_the_job_as_it_is(
    store: Store, clock: ManualClock, state: str
) -> None:
    job = new_job(delay=60 if state == "scheduled" else 0)
    await enqueue(store, job)
    await _bring(store, job.id, state)
    before = await record(store, job.id)
    clock.advance(1)

    (answer,) = await enqueue(store, job)

    assert (answer.id, answer.job_id, answer.created) == (job.id, job.id, False)
    assert await record(store, job.id) == before


@pytest.mark.parametrize("state", STATES)
async def test_an_id_with_another_payload_is_a_conflict(store: Store, state: str) -> None:
    job = new_job(delay=60 if state == "scheduled" else 0)
    await enqueue(store, job)
    await _bring(store, job.id, state)
    before = await record(store, job.id)
    with pytest.raises(IdConflict):
        await enqueue(store, new_job(id=job.id, input='{"other":1}'))
    assert await record(store, job.id) == before


async def test_a_deleted_id_is_free_again(store: Store) -> None:
    job = new_job()
    await enqueue(store, job)
    await store.cancel([job.id])
    await store.delete([job.id])
    (answer,) = await enqueue(store, job)
    assert answer.created
    assert (await record(store, job.id)).state is JobState.QUEUED


async def test_a_repeat_of_a_whole_batch_and_more(store: Store) -> None:
    first = [new_job() for _ in range(3)]
    more = [new_job() for _ in range(3)]
    await enqueue(store, *first)
    mixed = [job for pair in zip(first, more, strict=True) for job in pair]
    answers = await enqueue(store, *mixed)
    assert [answer.created for answer in answers] == [False, True] * 3
    assert [answer.job_id for answer in answers] == [job.id for job in mixed]


# -- all or nothing --------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 5, 10], ids=["first", "middle", "last"])
async def test_a_conflict_undoes_the_whole_commit(store: Store, place: int) -> None:
    taken = await add(store)
    jobs = [new_job() for _ in range(10)]
    batch = [*jobs[:place], new_job(id=taken, input='{"other":1}'), *jobs[place:]]
    with pytest.raises(IdConflict):
        await enqueue(store, *batch)
    assert await store.get([job.id for job in jobs]) == []


async def test_the_same_job_twice_in_one_commit_is_one_job(store: Store) -> None:
    job = new_job()
    first, second = await enqueue(store, job, job)
    assert (first.created, second.created) == (True, False)
    assert (first.job_id, second.job_id) == (job.id, job.id)
    assert len(await store.get([job.id])) == 1


async def test_one_id_for_two_payloads_in_one_commit_is_a_conflict(store: Store) -> None:
    job, good = new_job(), new_job()
    with pytest.raises(IdConflict):
        await enqueue(store, good, job, new_job(id=job.id, input='{"other":1}'))
    assert not await exists(store, job.id)
    assert not await exists(store, good.id)


async def test_concurrent_commits_do_not_share_their_conflicts(store: Store) -> None:
    taken = await add(store)
    good = [new_job() for _ in range(30)]
    bad = [new_job(id=taken, input=f'{{"n":{n}}}') for n in range(3)]
    calls = [*good[:15], *bad, *good[15:]]

    answers = await asyncio.gather(*(enqueue(store, job) for job in calls), return_exceptions=True)

    refused = [n for n, answer in enumerate(answers) if isinstance(answer, IdConflict)]
    assert refused == [15, 16, 17]
    assert len(await store.get([job.id for job in good])) == 30


async def test_twenty_at_once_with_one_id_make_one_job(rivals: tuple[Store, ...]) -> None:
    for _ in range(3):
        job = new_job()
        answers = await asyncio.gather(*(enqueue(rivals[n % 4], job) for n in range(20)))
        assert [answer.job_id for (answer,) in answers] == [job.id] * 20
        assert sum(answer.created for (answer,) in answers) == 1


async def test_batches_that_overlap_at_once(rivals: tuple[Store, ...]) -> None:
    """Taken in opposite orders, the same ids must neither deadlock nor double."""
    jobs = [new_job() for _ in range(40)]
    answers = await asyncio.gather(
        *(enqueue(rivals[n % 4], *(jobs if n % 2 else jobs[::-1])) for n in range(8))
    )
    created = [answer.job_id for batch in answers for answer in batch if answer.created]
    assert sorted(created) == sorted(job.id for job in jobs)


async def test_a_commit_is_seen_by_another_process(store: Store, other: Store) -> None:
    job_id = await add(store)
    await join(other)
    assert (await take_one(other)).id == job_id
    assert (await record(store, job_id)).state is JobState.RUNNING

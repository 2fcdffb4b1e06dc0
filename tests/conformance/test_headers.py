"""Headers of a job: stored with it, handed out with every lease, kept whatever becomes of it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from offpath.model.job import JobFilter, NewJob, UniquePolicy
from offpath.model.lease import LeaseRequest, Order
from offpath.model.settlement import Released, Retry, Snoozed
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.builders import (
    LEASE,
    TASK,
    add,
    die,
    end,
    enqueue,
    failure,
    join,
    new_job,
    record,
    start,
    take,
    take_one,
    unique,
)

HEADERS = '{"tenant":"acme","traceparent":"00-ä"}'


def with_headers(**fields: Any) -> NewJob:
    """A job with headers."""
    return new_job(headers=HEADERS, **fields)


async def test_they_are_stored_and_seen(store: Store) -> None:
    job, plain = with_headers(), new_job()
    await enqueue(store, job, plain)
    assert (await record(store, job.id)).headers == HEADERS
    assert (await record(store, plain.id)).headers is None
    for newest in (True, False):
        page = await store.find(JobFilter(), newest=newest)
        assert {one.id: one.headers for one in page.items} == {job.id: HEADERS, plain.id: None}
    (found,) = (await store.find(JobFilter(ids=(job.id,)))).items
    assert found.headers == HEADERS


async def test_each_job_of_a_batch_has_its_own(store: Store) -> None:
    jobs = [new_job(headers=f'{{"n":"{n}"}}') for n in range(3)]
    await enqueue(store, *jobs, new_job())
    for job in jobs:
        assert (await record(store, job.id)).headers == job.headers


@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize("tasks", [(TASK,), (TASK, "other")])
async def test_a_lease_hands_them_out(store: Store, order: Order, tasks: tuple[str, ...]) -> None:
    await join(store)
    jobs = [with_headers(task=task, queue=queue) for task in tasks for queue in ("a", "b")]
    await enqueue(store, *jobs)
    rooms = dict.fromkeys(tasks, 10)
    leased = await store.lease(LeaseRequest(worker="w1", limit=10, tasks=rooms, order=order))
    assert [one.headers for one in leased.jobs] == [HEADERS] * len(jobs)
    assert {one.headers for one in await store.held("w1")} == {HEADERS}


async def test_a_lease_of_one_queue_hands_them_out(store: Store) -> None:
    await join(store)
    await enqueue(store, with_headers(), new_job(priority=-1), with_headers(task="other"))
    rooms = {TASK: 1, "other": 1}
    leased = await store.lease(LeaseRequest(worker="w1", limit=10, tasks=rooms))
    assert [one.headers for one in leased.jobs] == [HEADERS, HEADERS]
    assert (await take_one(store)).headers is None


@pytest.mark.parametrize(
    "outcome",
    [Retry(delay=0.0, failure=failure()), Snoozed(delay=0.0), Released()],
    ids=["retry", "snoozed", "released"],
)
async def test_the_next_attempt_has_them(store: Store, outcome: Retry | Snoozed | Released) -> None:
    job = await start(store, headers=HEADERS)
    await end(store, job, outcome)
    again = await take_one(store)
    assert (again.id, again.headers) == (job.id, HEADERS)


async def test_a_redriven_job_has_them(store: Store) -> None:
    job = await start(store, headers=HEADERS)
    await die(store, job)
    await store.redrive([JobRedrive(id=job.id)])
    assert (await take_one(store)).headers == HEADERS


async def test_a_rescued_job_has_them(store: Store, clock: ManualClock) -> None:
    job = await start(store, headers=HEADERS)
    clock.advance(LEASE + 1)
    (rescued,) = await store.rescue(limit=10, max_deliveries=3)
    assert rescued.job.headers == HEADERS
    await join(store, "w2")
    (again,) = await take(store, "w2")
    assert (again.id, again.headers) == (job.id, HEADERS)


async def test_a_job_that_begins_at_once_has_them(store: Store) -> None:
    await join(store)
    held = await store.start(with_headers(), "w1")
    assert held is not None
    assert held.headers == HEADERS


async def test_a_repeat_is_still_one_and_changes_none(store: Store) -> None:
    job = with_headers()
    await enqueue(store, job)
    (answer,) = await enqueue(store, replace(job, headers='{"tenant":"other"}'))
    assert not answer.created
    assert (await record(store, job.id)).headers == HEADERS


async def test_who_attaches_changes_none(store: Store) -> None:
    first = with_headers(unique=unique("k"))
    await enqueue(store, first)
    again = new_job(unique=unique("k"), headers='{"tenant":"other"}')
    (answer,) = await enqueue(store, replace(again, fingerprint=first.fingerprint))
    assert answer.job_id == first.id
    assert (await record(store, first.id)).headers == HEADERS


@pytest.mark.parametrize("headers", ['{"tenant":"other"}', None])
async def test_who_replaces_brings_its_own(store: Store, headers: str | None) -> None:
    held = await add(store, unique=unique("k"), headers=HEADERS)
    claim = unique("k", policy=UniquePolicy.REPLACE)
    await enqueue(store, new_job(unique=claim, input='{"n":2}', headers=headers))
    assert (await record(store, held)).headers == headers

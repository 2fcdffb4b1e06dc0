"""Time is the store's: a caller says how long, never what time it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from offpath.runtime.clock import ManualClock, SystemClock
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.builders import (
    START,
    add,
    ask,
    enqueue,
    join,
    new_job,
    record,
    take,
    worker_info,
)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


async def test_ping_answers_with_the_clock(store: Store, clock: ManualClock) -> None:
    assert await store.ping() == START
    clock.advance(0.000_001)
    now = await store.ping()
    assert now == at(0.000_001)
    assert now.utcoffset() == timedelta(0)


async def test_without_a_clock_it_is_the_real_time(backend: Backend) -> None:
    store = backend.store(None)
    await store.open()
    try:
        before = SystemClock().now()
        now = await store.ping()
        job_id = await add(store)
        stored = await record(store, job_id)
    finally:
        await store.close()
    assert abs(now - before) < timedelta(seconds=60)
    assert now <= stored.enqueued_at < now + timedelta(seconds=60)


async def test_delays_and_limits_count_from_the_stores_now(
    store: Store, clock: ManualClock
) -> None:
    clock.set(datetime(2001, 2, 3, 4, 5, 6, 789_012, tzinfo=UTC))
    job_id = await add(store, delay=10.5, deadline_in=60.25)
    stored = await record(store, job_id)
    assert stored.enqueued_at == clock.now()
    assert stored.run_at == clock.now() + timedelta(seconds=10.5)
    assert stored.deadline == clock.now() + timedelta(seconds=60.25)


async def test_an_absolute_time_beats_a_delay(store: Store) -> None:
    moment = START + timedelta(hours=5, microseconds=1)
    job_id = await add(store, run_at=moment, delay=10)
    assert (await record(store, job_id)).run_at == moment


@pytest.mark.parametrize("hours", [-11, 0, 5.5, 14])
async def test_zones_are_the_same_moment(store: Store, hours: float) -> None:
    zone = timezone(timedelta(hours=hours))
    moment = at(90)
    job_id = await add(store, run_at=moment.astimezone(zone), deadline=at(900).astimezone(zone))
    stored = await record(store, job_id)
    assert (stored.run_at, stored.deadline) == (moment, at(900))
    assert stored.run_at.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "moment",
    [
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2100, 2, 28, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(9000, 1, 1, tzinfo=UTC),
    ],
    ids=str,
)
async def test_far_times_are_kept_exactly(store: Store, moment: datetime) -> None:
    job_id = await add(store, run_at=moment, deadline=moment)
    stored = await record(store, job_id)
    assert (stored.run_at, stored.deadline) == (moment, moment)


async def test_a_run_time_in_the_past_is_due(store: Store) -> None:
    await join(store)
    job_id = await add(store, run_at=START - timedelta(days=4_000))
    (leased,) = await take(store)
    assert leased.id == job_id
    assert leased.run_at == START - timedelta(days=4_000)


async def test_a_job_is_due_at_its_very_microsecond(store: Store, clock: ManualClock) -> None:
    await join(store)
    job_id = await add(store, run_at=at(10))
    clock.set(at(9.999_999))
    assert await take(store) == ()
    clock.set(at(10))
    assert [job.id for job in await take(store)] == [job_id]


async def test_a_lease_ends_by_the_stores_clock(store: Store, clock: ManualClock) -> None:
    await store.register(worker_info(), lease_seconds=2.5)
    job_id = await add(store)
    await take(store)
    clock.advance(2.4)
    assert await store.rescue(limit=10, max_deliveries=3) == []
    clock.advance(0.2)
    (rescued,) = await store.rescue(limit=10, max_deliveries=3)
    assert rescued.job.id == job_id


async def test_a_clock_set_back_loses_and_doubles_nothing(store: Store, clock: ManualClock) -> None:
    await join(store)
    first = await add(store)
    clock.set(START - timedelta(hours=1))
    second = await add(store)
    third = await add(store, delay=60)
    early = await take(store)
    clock.set(START)
    late = await take(store)
    assert sorted(job.id for job in (*early, *late)) == [first, second, third]
    assert third not in {job.id for job in early}


async def test_due_in_follows_the_clock(store: Store, clock: ManualClock) -> None:
    await join(store)
    await enqueue(store, new_job(delay=20), new_job(run_at=at(25)))
    clock.advance(5)
    assert (await ask(store)).due_in == pytest.approx(15)
    clock.advance(15)
    answer = await ask(store)
    assert len(answer.jobs) == 1
    assert answer.due_in == pytest.approx(5)

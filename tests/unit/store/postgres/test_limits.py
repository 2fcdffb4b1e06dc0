"""Limits under a crowd, and beside open transactions."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec
import psycopg

from offpath.model.effects import Effects
from offpath.model.job import DeadReason, JobState, LeasedJob, NewJob
from offpath.model.lease import LeaseRequest
from offpath.model.limit import LimitSpec
from offpath.model.settlement import Dead, Released, Retry, Settlement, Snoozed, Succeeded
from offpath.store.postgres import PostgresStore
from offpath.store.protocol import JobRedrive
from tests.conformance.builders import TASK, failure, new_job, worker_info

from .conftest import Ask, Opened, until

KEYS = tuple(f"key-{n}" for n in range(5))
MOST = 20
ROUNDS = 25
_PEAK = """
    select coalesce(max(n), 0) from (
        select count(*) as n from offpath.job
        where limit_key is not null and state in ('ready', 'running')
        group by limit_key
    ) as counts
"""

_WAITING = """
    select count(*) from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'
    having count(*) > 0
"""


def _limited(key: str, most: int = MOST, **fields: Any) -> NewJob:
    return new_job(limit=LimitSpec(key=key, max_running=most), **fields)


async def _work(store: PostgresStore, worker: str, chance: random.Random) -> None:
    await store.register(worker_info(worker), lease_seconds=300)
    for n in range(ROUNDS):
        leased = await store.lease(LeaseRequest(worker=worker, limit=30, tasks={TASK: 30}))
        jobs = list(leased.jobs)
        chance.shuffle(jobs)
        outcomes = (
            Succeeded(result="1"),
            Retry(delay=0.0, failure=failure()),
            Released(),
            Snoozed(delay=0.01),
        )
        settlements = [
            Settlement(job=job, outcome=chance.choices(outcomes, (8, 1, 1, 1))[0])
            for job in jobs[:25]  # the others are left to a rescue
        ]
        await asyncio.gather(
            store.settle(settlements),
            store.cancel([job.id for job in jobs[20:24]]),
            store.redrive([JobRedrive(id=job.id) for job in jobs[22:24]]),
            store.admit(limit=100),
            store.commit(Effects(jobs=tuple(_limited(chance.choice(KEYS)) for _ in range(5)))),
        )
        if n % 5 == 4:
            await store.deregister(worker)
            await store.rescue(limit=500, max_deliveries=3)
            await store.register(worker_info(worker), lease_seconds=300)


async def _drain(store: PostgresStore, ask: Ask) -> None:
    """End what is left."""
    await store.register(worker_info("last"), lease_seconds=300)
    async with asyncio.timeout(60):
        while ask("select 1 from offpath.job where finished_at is null limit 1"):
            await store.rescue(limit=500, max_deliveries=99)
            await store.admit(limit=1000)
            for apart in (False, True):  # what was lost with a worker is handed out apart
                request = LeaseRequest(
                    worker="last", limit=500, tasks={TASK: 500}, suspects_only=apart
                )
                jobs = (await store.lease(request)).jobs
                await store.begin(jobs)
                await store.settle([Settlement(job=job, outcome=Succeeded()) for job in jobs])


async def test_a_crowd_never_exceeds_a_limit_and_gives_all_room_back(
    opened: Opened, ask: Ask, url: str
) -> None:
    stores = [await opened(url, pool_size=4) for _ in range(4)]
    for key in KEYS:
        await stores[0].commit(Effects(jobs=tuple(_limited(key) for _ in range(100))))
    peaks: list[int] = []
    crowd = asyncio.gather(
        *(_work(store, f"w{n}", random.Random(n)) for n, store in enumerate(stores))
    )
    while not crowd.done():
        peaks += [row[0] for row in await asyncio.to_thread(ask, _PEAK)]
        await asyncio.wait([crowd], timeout=0.02)
    await crowd
    for n in range(4):
        await stores[0].deregister(f"w{n}")
    await _drain(stores[0], ask)
    await stores[0].admit(limit=1000)

    assert max(peaks) == MOST
    assert ask("select distinct admitted from offpath.limit_key") == [(0,)]
    assert ask("select count(*) from offpath.limit_nudge") == [(0,)]


async def test_a_callers_open_transaction_freezes_nobodys_key(opened: Opened, url: str) -> None:
    store = await opened()
    await store.commit(Effects(jobs=(_limited("api"),)))
    async with await psycopg.AsyncConnection.connect(url) as caller:
        await store.commit_within(caller, Effects(jobs=(_limited("api", 2),)))
        async with asyncio.timeout(5):
            assert (await store.admit(limit=10)).jobs == 1
            await store.commit(Effects(jobs=(_limited("api"),)))
            assert (await store.admit(limit=10)).jobs == 1
        await caller.commit()
    assert (await store.admit(limit=10)).jobs == 0, "what was said last holds: two at once"


async def test_a_key_that_is_locked_lets_work_be_enqueued_and_ended(
    opened: Opened, url: str
) -> None:
    store = await opened()
    await store.register(worker_info(), lease_seconds=300)
    await store.commit(Effects(jobs=(_limited("api"), _limited("api"))))
    await store.admit(limit=1)
    leased = await store.lease(LeaseRequest(worker="w1", limit=5, tasks={TASK: 5}))
    async with await psycopg.AsyncConnection.connect(url) as other:
        await other.execute("select from offpath.limit_key for update")
        async with asyncio.timeout(5):
            await store.commit(Effects(jobs=(_limited("api"),)))
            await store.cancel([job.id for job in leased.jobs])
            await store.lease(LeaseRequest(worker="w1", limit=5, tasks={TASK: 5}))


async def test_a_job_that_becomes_ready_in_another_way_is_held(opened: Opened, ask: Ask) -> None:
    store = await opened()
    job = _limited("api", delay=3600.0)
    await store.commit(Effects(jobs=(job,)))
    ask("update offpath.job set state = 'ready'")
    assert ask("select state, reason from offpath.job") == [("blocked", "limit")]
    assert (await store.admit(limit=10)).jobs == 1
    assert (await store.limits())[0].admitted == 1


async def _held(store: PostgresStore, *jobs: NewJob) -> list[LeasedJob]:
    await store.register(worker_info(), lease_seconds=300)
    await store.commit(Effects(jobs=jobs))
    await store.admit(limit=1000)
    leased = await store.lease(LeaseRequest(worker="w1", limit=1000, tasks={TASK: 1000}))
    return list(leased.jobs)


async def test_many_jobs_say_once_what_they_have_to_say_of_their_key(
    opened: Opened, ask: Ask
) -> None:
    store = await opened()
    said = "select key, freed, spec is not null from offpath.limit_nudge order by key, id"
    jobs = [_limited(f"key-{n % 2}", 100) for n in range(60)]
    await store.commit(Effects(jobs=tuple(jobs)))
    assert ask(said) == [("key-0", 0, True), ("key-1", 0, True)]
    leased = await _held(store)
    assert ask(said) == []
    root = new_job(group_id=leased[0].id)  # now one of them has company, and the settle two kinds
    await store.commit(Effects(jobs=(root,)))
    well, ill = Succeeded(result="1"), Dead(reason=DeadReason.ABORTED, failure=failure())
    await store.settle([Settlement(job=job, outcome=well) for job in leased[:40]])
    await store.settle([Settlement(job=job, outcome=ill) for job in leased[40:58]])
    rows = ask("select key, sum(freed)::int, count(*)::int from offpath.limit_nudge group by key")
    assert sorted(rows) == [("key-0", 29, 3), ("key-1", 29, 2)]
    assert (await store.admit(limit=10)).jobs == 0
    assert [one.admitted for one in await store.limits()] == [1, 1]
    assert ask("select admitted from offpath.limit_key") == [(1,), (1,)]


async def test_a_limit_is_said_by_those_of_a_call_that_were_added(
    opened: Opened, ask: Ask, url: str
) -> None:
    store = await opened()
    first = _limited("api", 5)
    await store.commit(Effects(jobs=(first,)))
    async with await psycopg.AsyncConnection.connect(url) as caller:
        again = msgspec.structs.replace(first, limit=LimitSpec(key="api", max_running=1))
        both = (again, _limited("api", 2), _limited("api", 3))
        await store.commit_within(caller, Effects(jobs=both))
        await store.commit_within(caller, Effects(jobs=(_limited("other", 7),)))
        await caller.commit()
    await store.admit(limit=10)
    known = {one.key: one.max_running for one in await store.limits()}
    assert known == {"api": 3, "other": 7}


async def test_what_is_given_back_while_its_key_is_closed_is_held(opened: Opened, ask: Ask) -> None:
    store = await opened()
    first, second = await _held(store, _limited("api", 2), _limited("api", 2))
    await store.close_limit("api")
    (answer,) = await store.settle([Settlement(job=first, outcome=Released())])
    assert answer.state is JobState.BLOCKED
    await store.deregister("w1")
    (rescued,) = await store.rescue(limit=10, max_deliveries=3)
    assert (rescued.job.id, rescued.state) == (second.id, JobState.BLOCKED)
    assert ask("select state, reason from offpath.job") == [("blocked", "limit")] * 2
    await store.open_limit("api")
    assert (await store.admit(limit=10)).jobs == 2


async def test_who_closes_a_key_does_not_miss_what_is_being_given_back(
    opened: Opened, ask: Ask, url: str
) -> None:
    store, other = await opened(), await opened()
    (job,) = await _held(store, _limited("api", 1))
    async with await psycopg.AsyncConnection.connect(url) as watcher:
        await watcher.execute("select from offpath.limit_key for update")
        giving = asyncio.create_task(store.settle([Settlement(job=job, outcome=Released())]))
        await until(lambda: bool(ask(_WAITING)))
        closing = asyncio.create_task(other.close_limit("api"))
        await until(lambda: ask(_WAITING)[0][0] == 2)
        await watcher.rollback()
    await asyncio.gather(giving, closing)
    assert ask("select state, reason from offpath.job") == [("blocked", "limit")]


async def test_a_settle_leaves_its_room_to_the_pass_that_is_under_way(
    opened: Opened, ask: Ask, url: str
) -> None:
    store = await opened()
    (job,) = await _held(store, _limited("api", 1), _limited("api", 1))
    async with await psycopg.AsyncConnection.connect(url) as other:
        await other.execute("select from offpath.limit_key for update")
        admitting = asyncio.create_task(store.admit(limit=10, keys=["other", "api"]))
        await until(lambda: bool(ask(_WAITING)))
        async with asyncio.timeout(10):
            await store.settle([Settlement(job=job, outcome=Succeeded())])
    await admitting
    states = "select state from offpath.job order by state"
    assert ask(states) == [("ready",), ("succeeded",)]


async def test_what_was_left_to_a_pass_that_failed_is_taken_by_the_next(
    opened: Opened, ask: Ask, url: str
) -> None:
    store = await opened()
    (job,) = await _held(store, _limited("api", 1), _limited("api", 1))
    async with await psycopg.AsyncConnection.connect(url) as other:
        await other.execute("select from offpath.limit_key for update")
        admitting = asyncio.create_task(store.admit(limit=10, keys=["api"]))
        await until(lambda: bool(ask(_WAITING)))
        await store.settle([Settlement(job=job, outcome=Succeeded())])
        admitting.cancel()
        await asyncio.wait([admitting])
    await store.admit(limit=0)
    assert ask("select state from offpath.job order by state") == [("ready",), ("succeeded",)]

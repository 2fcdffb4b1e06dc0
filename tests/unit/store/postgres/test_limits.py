"""Limits under a crowd, and beside open transactions."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import psycopg

from offpath.model.effects import Effects
from offpath.model.job import NewJob
from offpath.model.lease import LeaseRequest
from offpath.model.limit import LimitSpec
from offpath.model.settlement import Released, Retry, Settlement, Snoozed, Succeeded
from offpath.store.postgres import PostgresStore
from offpath.store.protocol import Redrive
from tests.conformance.builders import TASK, failure, new_job, worker_info

from .conftest import Ask, Opened

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
            store.redrive([Redrive(id=job.id) for job in jobs[22:24]]),
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
            leased = await store.lease(LeaseRequest(worker="last", limit=500, tasks={TASK: 500}))
            await store.settle([Settlement(job=job, outcome=Succeeded()) for job in leased.jobs])


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

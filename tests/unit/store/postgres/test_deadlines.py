"""Deadlines of queued jobs, beside others who hold their rows."""

from __future__ import annotations

import asyncio

import psycopg

from offpath.model.effects import Effects
from tests.conformance.builders import new_job

from .conftest import Ask, Opened


async def test_an_overdue_job_that_somebody_holds_is_left_for_the_next_time(
    opened: Opened, url: str
) -> None:
    store = await opened()
    held, free = new_job(deadline_in=0.0), new_job(deadline_in=0.0, delay=3600.0)
    await store.commit(Effects(jobs=(held, free)))
    async with await psycopg.AsyncConnection.connect(url) as other:
        await other.execute("select from offpath.job where id = %s for update", (held.id,))
        async with asyncio.timeout(5):
            assert [one.id for one in await store.expire_blocked(limit=10)] == [free.id]
            assert await store.expire_blocked(limit=10) == []
    assert [one.id for one in await store.expire_blocked(limit=10)] == [held.id]


async def test_no_more_end_at_once_than_were_asked_for(opened: Opened) -> None:
    store = await opened()
    jobs = tuple(new_job(deadline_in=0.0) for _ in range(5))
    await store.commit(Effects(jobs=jobs))
    ends = [len(await store.expire_blocked(limit=2)) for _ in range(4)]
    assert ends == [2, 2, 1, 0]


async def test_only_jobs_with_a_deadline_are_in_its_index(opened: Opened, ask: Ask) -> None:
    store = await opened()
    await store.commit(Effects(jobs=tuple(new_job() for _ in range(500))))
    assert await store.expire_blocked(limit=10) == []
    # a page for the index itself, and none of entries
    assert ask("select pg_relation_size('offpath.job_overdue')") == [(8192,)]

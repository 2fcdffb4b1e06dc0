"""Row locks are taken in one order: who waits for a gate or a root holds nothing behind it.

Each test keeps one row still in a transaction of its own, lets a call run into it, and looks at
what that call holds already.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from offpath.model.effects import Effects
from offpath.model.gate import NewGate
from offpath.model.limit import LimitSpec
from offpath.model.settlement import Settlement, Snoozed, Succeeded
from offpath.store.postgres import PostgresStore
from tests.conformance.builders import fresh_id, join, new_job, take, unique
from tests.integration.polling import eventually


@pytest.fixture
async def store(pg_url: str) -> AsyncIterator[PostgresStore]:
    made = PostgresStore(pg_url)
    await made.open()
    await join(made)
    yield made
    await made.close()


class Rows:
    """Looks at rows from outside."""

    def __init__(self, url: str) -> None:
        self.url = url

    @asynccontextmanager
    async def kept_still(self, table: str, key: str) -> AsyncIterator[None]:
        """Hold a row for as long as the block runs."""
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            await connection.execute(_look(table), (key,))
            yield

    async def is_free(self, table: str, key: str) -> bool:
        """True if nobody holds a row, which is there."""
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            cursor = await connection.execute(_look(table) + b" skip locked", (key,))
            return await cursor.fetchone() is not None

    async def waits(self) -> bool:
        """True if somebody waits for a lock."""
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            cursor = await connection.execute(
                "select from pg_stat_activity"
                " where datname = current_database() and wait_event_type = 'Lock'"
            )
            return await cursor.fetchone() is not None


def _look(table: str) -> bytes:
    column = "key" if table == "limit_key" else "id"
    return f"select from offpath.{table} where {column}::text = %s for update".encode()


@asynccontextmanager
async def held_up(rows: Rows, table: str, key: str, call: Awaitable[Any]) -> AsyncIterator[None]:
    """A call that waits for this row while the block runs, and then comes to its end."""
    async with rows.kept_still(table, key):
        task = asyncio.ensure_future(call)
        await eventually(rows.waits, within=20)
        yield
        assert not task.done()
    await task


async def watched(store: PostgresStore, gate: str, **fields: Any) -> str:
    """A job that a gate of this id watches."""
    job = new_job(**fields)
    held = new_job("later.run", gate=gate)
    gates = (NewGate(id=gate, on=(job.id,), need=1, timeout=3600),)
    await store.commit(Effects(jobs=(job, held), gates=gates))
    return job.id


async def test_a_settlement_locks_the_gates_that_it_counts_in_and_those_it_joins_in_one_order(
    store: PostgresStore, pg_url: str
) -> None:
    rows, low, high = Rows(pg_url), fresh_id(), fresh_id()
    await watched(store, low)
    (job,) = await take(store)
    await watched(store, high, delay=3600)
    joins = Effects(jobs=(new_job("later.run", gate=high),))
    end = Settlement(job=job, outcome=Succeeded(), effects=joins)
    async with held_up(rows, "job_gate", low, store.settle([end])):
        assert await rows.is_free("job_gate", high)


async def test_a_settlement_locks_gates_before_the_limits_that_it_closes(
    store: PostgresStore, pg_url: str
) -> None:
    rows, gate = Rows(pg_url), fresh_id()
    await store.close_limit("api", seconds=0)
    limit = LimitSpec(key="api", max_running=1)
    await watched(store, gate)
    await store.commit(Effects(jobs=(new_job(limit=limit),)))
    await store.admit(limit=10)
    held = {job.limit_key: job for job in await take(store)}
    ends = [
        Settlement(job=held[None], outcome=Succeeded()),
        Settlement(job=held["api"], outcome=Snoozed(delay=1, cool_down=1)),
    ]
    async with held_up(rows, "job_gate", gate, store.settle(ends)):
        assert await rows.is_free("limit_key", "api")


async def test_an_expiry_locks_the_gates_that_are_over_and_those_it_counts_in_in_one_order(
    store: PostgresStore, pg_url: str
) -> None:
    rows, low, high = Rows(pg_url), fresh_id(), fresh_id()
    other, waits = new_job(delay=3600), new_job("later.run", gate=high)
    gates = (
        NewGate(id=high, on=(other.id,), need=1, timeout=0),
        NewGate(id=low, on=(waits.id,), need=1),
    )
    behind = new_job("later.run", gate=low)
    await store.commit(Effects(jobs=(other, waits, behind), gates=gates))
    expiry = store.expire_blocked(limit=10)
    async with held_up(rows, "job_gate", low, expiry):
        assert await rows.is_free("job_gate", high)


async def test_who_adds_to_a_group_waits_for_its_root_before_it_takes_a_unique_key(
    store: PostgresStore, pg_url: str
) -> None:
    rows, root = Rows(pg_url), new_job()
    await store.commit(Effects(jobs=(root,)))
    child = new_job(group_id=root.id, unique=unique("k"))
    commit = store.commit(Effects(jobs=(child,)))
    async with held_up(rows, "job", root.id, commit):
        other = PostgresStore(pg_url)
        await other.open()
        (answer,) = await asyncio.wait_for(
            other.commit(Effects(jobs=(new_job(unique=unique("k")),))), timeout=20
        )
        await other.close()
        assert answer.created


async def test_a_held_job_that_somebody_keeps_locked_holds_back_no_other_of_its_key(
    store: PostgresStore, pg_url: str
) -> None:
    limit = LimitSpec(key="api", max_running=1)
    best, next_one = new_job(limit=limit, priority=1), new_job(limit=limit)
    await store.commit(Effects(jobs=(best, next_one)))
    async with Rows(pg_url).kept_still("job", best.id):
        await store.admit(limit=10)
    assert [job.id for job in await take(store)] == [next_one.id]

"""A lone enqueue behind others goes out without a task; what happens on its way changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest

from offpath.errors import StoreUnavailable
from offpath.model.effects import Effects
from offpath.store.postgres import PostgresStore
from offpath.store.postgres.group_commit import Joiner
from tests.conformance.builders import new_job

from .conftest import Ask, Opened, until

_ENQUEUES = (
    "select pid from pg_stat_activity"
    " where wait_event_type = 'Lock' and datname = current_database()"
    " and starts_with(query, 'insert into offpath.job')"
)


def one() -> Effects:
    return Effects(jobs=(new_job(),))


@asynccontextmanager
async def held(url: str) -> AsyncIterator[psycopg.Connection]:
    """No job can be written meanwhile."""
    with psycopg.connect(url) as holder:
        holder.execute("lock table offpath.job in access exclusive mode")
        yield holder


async def warm(opened: Opened, **options: float) -> PostgresStore:
    """A store whose session has the statement ready."""
    store = await opened(pool_size=2, **options)
    for _ in range(3):
        await store.commit(one())
    return store


async def waits(ask: Ask) -> None:
    await until(lambda: len(ask(_ENQUEUES)) == 1)


async def test_one_after_the_other_goes_without_a_task(
    opened: Opened, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await warm(opened)
    monkeypatch.setattr(Joiner, "_flush", lambda *_: pytest.fail("a task was started"))
    for _ in range(3):
        (made,) = await store.commit(one())
        assert made.created
    assert ask("select count(*) from offpath.job") == [(6,)]


async def test_a_repeat_is_answered_as_ever(opened: Opened) -> None:
    store, job = await warm(opened), one()
    (first,), (second,) = [await store.commit(job) for _ in range(2)]
    assert (first.created, second.created) == (True, False)
    assert first.run_at == second.run_at


async def test_who_comes_meanwhile_shares_the_next_commit(
    opened: Opened, url: str, ask: Ask
) -> None:
    store = await warm(opened)
    async with held(url):
        calls = [asyncio.create_task(store.commit(one()))]
        await waits(ask)
        sent = list[str]()
        store._before_statement = sent.append
        calls += [asyncio.create_task(store.commit(one())) for _ in range(5)]
        await asyncio.sleep(0)
    answers = await asyncio.gather(*calls)
    assert all(made.created for (made,) in answers)
    assert sent == ["enqueue"]


async def test_a_caller_that_goes_leaves_at_once_and_its_job_is_written(
    opened: Opened, url: str, ask: Ask
) -> None:
    store = await warm(opened)
    async with held(url):
        call = asyncio.create_task(store.commit(one()))
        await waits(ask)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(call, 1)
    await until(lambda: ask("select count(*) from offpath.job") == [(4,)])
    assert (await store.commit(one()))[0].created


async def test_a_connection_that_is_lost_on_the_way_costs_another_try(
    opened: Opened, url: str, ask: Ask
) -> None:
    store = await warm(opened)
    async with held(url):
        call = asyncio.create_task(store.commit(one()))
        await waits(ask)
        ask(f"select pg_terminate_backend(pid) from ({_ENQUEUES}) as a")
        await waits(ask)
    ((made,),) = await asyncio.gather(call)
    assert made.created
    assert (await store.commit(one()))[0].created


async def test_a_server_that_says_nothing_is_given_up_in_time(
    opened: Opened, url: str, ask: Ask
) -> None:
    store = await warm(opened, call_timeout=1.0)
    async with held(url):
        with pytest.raises(StoreUnavailable, match="did not answer in time"):
            await asyncio.wait_for(store.commit(one()), 20)
    assert (await store.commit(one()))[0].created


async def test_a_store_that_is_closed_waits_for_it(opened: Opened, url: str, ask: Ask) -> None:
    store = await warm(opened)
    async with held(url):
        call = asyncio.create_task(store.commit(one()))
        await waits(ask)
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0)
        assert not closing.done()
    await closing
    assert (await call)[0].created

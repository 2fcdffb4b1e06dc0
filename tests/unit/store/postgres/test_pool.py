"""The connection that was used last is used next; a silent server is hung up on, by one timer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from offpath.errors import StoreUnavailable
from offpath.model.effects import Effects
from offpath.store.postgres import pool
from offpath.store.programs.dialect import one
from offpath.store.sql import statement
from tests.conformance.builders import new_job

if TYPE_CHECKING:
    from .conftest import Ask, Opened

_SLEEP = statement("sleep", "select pg_sleep(:seconds::text::double precision)")
_HERE = """
    select count(*) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
"""


async def test_a_lone_caller_never_asks_the_pool_again(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened()
    await store.ping()
    asked = list[float]()
    its = store._database._pool
    assert its is not None
    getconn = its._pool.getconn

    async def counted(timeout: float | None = None) -> pool.Connection:  # noqa: ASYNC109
        asked.append(timeout or 0.0)
        return await getconn(timeout=timeout)

    monkeypatch.setattr(its._pool, "getconn", counted)
    for _ in range(5):
        await store.commit(Effects(jobs=(new_job(),)))
    assert asked == []
    monkeypatch.setattr(pool, "_KEPT_FOR", 0.0)
    await store.ping()  # old enough now for the pool to look at it
    await store.ping()
    assert len(asked) == 1


async def test_who_waits_for_a_connection_gets_the_one_that_is_given_back(opened: Opened) -> None:
    store = await opened(pool_size=1)
    async with asyncio.timeout(10):
        await asyncio.gather(*(store.ping() for _ in range(20)))
        await store.ping()


async def test_no_kept_connection_is_left_behind(opened: Opened, ask: Ask) -> None:
    store = await opened()
    await store.ping()
    await store.close()
    assert ask(_HERE) == [(0,)]


async def test_each_answer_has_its_bound_though_one_timer_serves_all(opened: Opened) -> None:
    store = await opened(call_timeout=0.2)
    loop = asyncio.get_running_loop()
    database = store._database
    long = asyncio.create_task(database.write(lambda: one(_SLEEP(seconds="0.6"))))
    await asyncio.sleep(0)
    began = loop.time()
    with pytest.raises(StoreUnavailable):
        await database.write(lambda: one(_SLEEP(seconds="5")), call=True)
    assert 0.2 <= loop.time() - began < 5
    assert await long  # its bound is another: it is not disturbed


async def test_answers_just_in_time_do_not_add_up_without_end(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offpath.store.postgres.session.PATIENCE", 0.3)
    store = await opened()
    loop = asyncio.get_running_loop()

    def steps():  # type: ignore[no-untyped-def]  # noqa: ANN202
        for _ in range(20):
            yield from one(_SLEEP(seconds="0.1"))

    began = loop.time()
    with pytest.raises(StoreUnavailable):
        await store._database.write(steps)
    assert loop.time() - began < 1.5

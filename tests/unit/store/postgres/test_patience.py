"""Waits: schema steps for readers, callers for nobody, a worker for its store."""

from __future__ import annotations

import asyncio
import logging

import psycopg
import pytest

import offpath
from offpath.cli.worker import open_patiently
from offpath.errors import StoreBusy, StoreUnavailable
from offpath.model.effects import Effects
from offpath.runtime.clock import ManualClock
from offpath.store.postgres import PostgresStore, migrate
from offpath.store.schema import SchemaStep, step
from tests.conformance.builders import new_job

from .conftest import Ask, Opened, until

_CUT = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
"""
_TAKING = "select count(*) from pg_locks where relation = 'offpath.job'::regclass and not granted"


def later() -> tuple[SchemaStep, ...]:
    """The steps of a later version, which changes the table of jobs."""
    shipped = migrate.known()
    text = "alter table offpath.job add column later integer"
    return (*shipped, step(f"{len(shipped) + 1:04}_later.sql", text))


async def test_a_schema_step_lets_everybody_go_first(
    url: str, opened: Opened, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened()
    steps = later()
    monkeypatch.setattr(migrate, "known", lambda: steps)
    loop = asyncio.get_running_loop()
    with psycopg.connect(url) as reader:
        reader.execute("select count(*) from offpath.job")
        migration = asyncio.create_task(PostgresStore(url).migrate())
        for _ in range(3):
            await until(lambda: ask(_TAKING) != [(0,)])
            began = loop.time()
            await store.commit(Effects(jobs=(new_job(),)))
            assert loop.time() - began < 1
        assert not migration.done()
        reader.rollback()
        assert len(await migration) == 1


async def test_a_step_that_never_gets_its_turn_is_given_up(
    url: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    await opened()
    steps = later()
    monkeypatch.setattr(migrate, "known", lambda: steps)
    monkeypatch.setattr(migrate, "PATIENCE", 0.0)
    with psycopg.connect(url) as reader:
        reader.execute("select count(*) from offpath.job")
        with pytest.raises(StoreBusy):
            await PostgresStore(url).migrate()


async def test_an_opening_that_is_cancelled_leaves_nothing(url: str) -> None:
    before = asyncio.all_tasks()
    for moment in range(20):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.002 * moment), offpath.App(url):
                await asyncio.Event().wait()
    left = asyncio.all_tasks() - before
    if left:
        await asyncio.wait(left, timeout=5)
    assert {task.get_name() for task in asyncio.all_tasks() - before} == set()


async def test_an_outage_is_one_line_when_it_begins_and_one_when_it_ends(
    url: str, ask: Ask, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING)
    app = offpath.App(url)

    @app.task
    async def work() -> None: ...

    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    server = psycopg.conninfo.make_conninfo(url, dbname="postgres")
    with psycopg.connect(server, autocommit=True) as admin:
        async with app, app.worker() as worker:
            admin.execute(f'alter database "{name}" with allow_connections off'.encode())
            admin.execute(
                b"select pg_terminate_backend(pid) from pg_stat_activity where datname = %s",
                [name],
            )
            await until(lambda: sum(one.consecutive_failures for one in worker.loops()) > 3)
            admin.execute(f'alter database "{name}" with allow_connections on'.encode())
            await until(lambda: all(not one.consecutive_failures for one in worker.loops()))
    lines = [one.getMessage() for one in caplog.records if "database is" in one.getMessage()]
    assert [line.split(" after")[0].split(":")[0] for line in lines] == [
        "the database is away",
        "the database is back",
    ]
    assert [one.getMessage() for one in caplog.records if one.name == "psycopg.pool"] == []
    assert [
        one.getMessage() for one in caplog.records if "StoreUnavailable" in one.getMessage()
    ] == []


@pytest.mark.parametrize("comes", [True, False], ids=["it comes", "it stays away"])
async def test_a_worker_waits_for_its_store_and_says_so(
    comes: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "offpath.cli")
    clock = ManualClock()
    app = offpath.App(clock=clock)
    tries = list[float]()

    async def away() -> None:
        tries.append(clock.monotonic())
        if not comes or len(tries) < 5:
            raise StoreUnavailable("cannot reach postgresql://db")

    app.open = away  # type: ignore[method-assign]
    waiting = asyncio.create_task(open_patiently(app, 60.0))
    while not waiting.done():
        clock.advance(0.5)
        await asyncio.sleep(0)
    lines = [one.getMessage() for one in caplog.records]
    assert lines[0] == (
        "the worker waits for its store for 60 s (start_timeout): cannot reach postgresql://db"
    )
    if comes:
        await waiting
        assert "the store is there, after" in lines[1]
        return
    with pytest.raises(StoreUnavailable):
        await waiting
    assert 50 < tries[-1] - tries[0] <= 60
    assert len(lines) == 1

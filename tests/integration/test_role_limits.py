"""Roles and sessions to which the server sets tight limits: work and tidying up go on."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

import offpath
from offpath.jobs.worker.upkeep import PRUNE_BATCH
from offpath.model.changes import Pruned
from offpath.store.postgres import PostgresStore
from tests.integration.polling import eventually
from tests.integration.scale import scaled

OLD = scaled(6_000, 120_000)
RESTS = {"idle_session_timeout": "150ms", "idle_in_transaction_session_timeout": "300ms"}
"""For how long a session may rest, until the server ends it."""

_ENDED = """
    insert into offpath.job (
        id, state, task, queue, priority, enqueued_at, run_at, started_at, finished_at, expires_at,
        deliveries, input, fingerprint, options
    )
    select
        gen_random_uuid(), 'succeeded', 'old', 'default', 0, now(), now(), now(), now(),
        now() - n * interval '1 second', 1, '{}', '', '{}'
    from generate_series(1, %s) as n
"""
_TIGHT = {
    "statement_timeout": "1s",
    "lock_timeout": "500ms",
    "search_path": "pg_catalog",
    "default_transaction_read_only": "on",
    "default_transaction_isolation": "serializable",
}


def run(url: str, *statements: sql.Composed) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        for statement in statements:
            admin.execute(statement)


@pytest.fixture
def tight_role(pg_url: str) -> Iterator[str]:
    """The database's address for a role that is not a superuser and has tight limits."""
    name = urlsplit(pg_url).path[1:]
    database, role = sql.Identifier(name), sql.Identifier(f"tight_{name}")
    grants = (
        "grant usage on schema offpath to {}",
        "grant select, insert, update, delete on all tables in schema offpath to {}",
        "grant usage on all sequences in schema offpath to {}",
        "grant execute on all functions in schema offpath to {}",
    )
    run(
        pg_url,
        sql.SQL("create role {} login password 'x'").format(role),
        *(sql.SQL(grant).format(role) for grant in grants),
        *(
            sql.SQL("alter role {} in database {} set {} to {}").format(
                role, database, sql.Identifier(setting), sql.Literal(value)
            )
            for setting, value in _TIGHT.items()
        ),
    )
    known = psycopg.conninfo.conninfo_to_dict(pg_url)
    host, port = known.get("host", "127.0.0.1"), known.get("port", "5432")
    yield f"postgresql://tight_{name}:x@{host}:{port}/{name}"
    run(pg_url, sql.SQL("drop owned by {}").format(role), sql.SQL("drop role {}").format(role))


def old_ones(url: str) -> int:
    with psycopg.connect(url) as reader:
        row = reader.execute("select count(*) from offpath.job where task = 'old'").fetchone()
        assert row is not None
        return int(row[0])


async def test_retention_fits_the_limits_of_its_role_and_work_goes_on(
    pg_url: str,
    tight_role: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    passes: list[Pruned] = []
    prune = PostgresStore.prune

    async def noted(self: PostgresStore, *, limit: int) -> Pruned:
        passes.append(await prune.__get__(self, type(self))(limit=limit))
        return passes[-1]

    monkeypatch.setattr(PostgresStore, "prune", noted)
    app = offpath.App(tight_role)

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    results: list[int] = []

    async def works_on() -> bool:
        results.append(await (await app.enqueue(double.job(len(results)))).result(timeout=30))
        return old_ones(pg_url) == 1

    with psycopg.connect(pg_url) as other, caplog.at_level(logging.WARNING, "offpath"):
        other.execute(_ENDED, (OLD,))
        other.commit()
        locked = "select from offpath.job order by expires_at limit 1 for update"
        assert other.execute(locked).rowcount == 1  # it stays, and holds up no other
        async with app, app.worker(poll_interval=0.1) as worker:
            await eventually(works_on, within=30, what="all old ones are removed but the locked")
            assert worker.report().ready
    assert results == [2 * n for n in range(len(results))]
    assert sum(one.jobs for one in passes) == OLD - 1
    assert max(one.jobs for one in passes) == PRUNE_BATCH
    assert caplog.records == []


@pytest.fixture
def impatient_server(pg_url: str) -> str:
    """A database that ends sessions which rest, in a transaction or between two."""
    database = sql.Identifier(urlsplit(pg_url).path[1:])
    alter = sql.SQL("alter database {} set {} to {}")
    run(
        pg_url,
        *(
            alter.format(database, sql.Identifier(name), sql.Literal(value))
            for name, value in RESTS.items()
        ),
    )
    return pg_url


def sessions(url: str) -> set[int]:
    """The server processes that serve others in this database now."""
    with psycopg.connect(url) as reader:
        found = reader.execute(
            "select pid from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )
        return {pid for (pid,) in found}


async def test_jobs_outlive_the_sessions_that_the_server_ends(impatient_server: str) -> None:
    holder, idle = offpath.App(impatient_server), offpath.App(impatient_server)
    runs: list[tuple[str, str]] = []
    go_on, go_on_in_thread = asyncio.Event(), threading.Event()

    @holder.task(queue="held")
    async def waits(ctx: offpath.Context) -> None:
        runs.append(("waits", ctx.id))
        await go_on.wait()

    @holder.task(queue="held")
    def waits_in_thread(ctx: offpath.Context) -> None:
        runs.append(("waits_in_thread", ctx.id))
        assert go_on_in_thread.wait(30)

    @idle.task
    async def quick() -> None:
        pass

    taking = holder.worker(lease_seconds=3.0, queues=["held"])
    async with holder, idle, taking as first, idle.worker(lease_seconds=3.0) as second:
        long = [await holder.enqueue(task.job()) for task in (waits, waits, waits_in_thread)]
        await eventually(lambda: len(runs) == 3, within=20)
        for _ in range(2):
            await _all_replaced(impatient_server)
            await eventually(lambda: _both_show_that_they_live(idle), within=20)
            await (await idle.enqueue(quick.job())).result(timeout=20)
        assert first.report().ready, first.report().reasons
        assert second.report().ready, second.report().reasons
        go_on.set()
        go_on_in_thread.set()
        for handle in long:
            await handle.result(timeout=20)
            record = await handle.status()
            assert (record.attempt, record.deliveries, record.losses) == (1, 1, 0)
    assert len(runs) == 3


async def _all_replaced(url: str) -> None:
    """Wait until the server has ended every session that is there now."""
    had: set[int] = await eventually(lambda: sessions(url), within=20, what="sessions")
    await eventually(lambda: not had & sessions(url), within=20, what="they are ended")


async def _both_show_that_they_live(app: offpath.App) -> bool:
    """By locks of sessions that rest, and which they take again in the next one."""
    workers = await app.workers()
    return len(workers) == 2 and all(one.presence and not one.late for one in workers)

"""Roles and sessions to which the server sets tight limits: work and tidying up go on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

import offpath
from offpath.jobs.worker.maintenance import PRUNE_BATCH
from offpath.store.postgres import PostgresStore
from offpath.store.protocol import Pruned
from tests.integration.polling import eventually
from tests.integration.scale import scaled

OLD = scaled(6_000, 120_000)

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
    """The database's address for a role that is no superuser and has tight limits."""
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
        passes.append(await prune(self, limit=limit))
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

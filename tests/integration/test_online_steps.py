"""Steps that make indexes run beside all work, and what was cut off is repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from offpath.errors import StoreError
from offpath.store.postgres import PostgresStore, migrate, store
from offpath.store.postgres.migrate import script
from offpath.store.schema import SchemaStep, pieces, steps
from tests.integration.polling import eventually

_JOBS = """
    insert into offpath.job (
        id, state, task, queue, enqueued_at, run_at, input, fingerprint, options
    )
    select gen_random_uuid(), 'ready', 'task', 'mail', now(), now(), '{}', '', '{}'
    from generate_series(1, %s)
"""
_SHIPPED = steps(f"{migrate.PACKAGE}.migrations")
_ONLINE = SchemaStep(
    number=len(_SHIPPED) + 1,
    name="extra",
    online=True,
    checksum="of this test",
    sql="""
        drop index concurrently if exists offpath.job_extra;
        -- a note; with a semicolon
        create index concurrently job_extra on offpath.job (public.slow(input));
    """,
)
_SLOW = """
    create function public.slow(text) returns text language plpgsql immutable as $$
    begin
        perform pg_catalog.md5(pg_catalog.repeat($1, 50000));
        return '';
    end $$
"""
_VALID = """
    select i.indisvalid from pg_index i join pg_class c on c.oid = i.indexrelid
    where c.relname = 'job_extra'
"""
_BUILDING = "select pid from pg_stat_progress_create_index where command like '%CONCURRENTLY'"


@pytest.fixture
def filled(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection[Any]]:
    """A database with a job table of which an index is still to be made, which takes a moment."""
    with psycopg.connect(pg_url, autocommit=True) as connection:
        connection.execute(_SLOW)
        connection.execute(_JOBS, (5_000,))
        for module in (migrate, store):
            monkeypatch.setattr(module, "known", lambda: (*_SHIPPED, _ONLINE))
        yield connection


async def building(connection: psycopg.Connection[Any]) -> int:
    """The process of the server that makes an index, once one does."""
    found: list[tuple[Any, ...]] = []

    async def begun() -> bool:
        found[:] = connection.execute(_BUILDING).fetchall()
        return bool(found)

    await eventually(begun, within=60.0, what="an index is being made")
    return int(found[0][0])


async def test_writes_go_on_while_an_index_is_made(
    pg_url: str, filled: psycopg.Connection[Any]
) -> None:
    migrating = asyncio.create_task(PostgresStore(pg_url).migrate())
    pid = await building(filled)
    async with await psycopg.AsyncConnection.connect(pg_url, autocommit=True) as line:
        await line.execute("set lock_timeout = '1s'")
        await line.execute(_JOBS, (1,))
        await line.execute(
            "update offpath.job set priority = 1 where id in (select id from offpath.job limit 1)"
        )
    # it is still at it: what was written did not wait for its end
    assert filled.execute(_BUILDING).fetchone() == (pid,)
    assert [one.number for one in await migrating] == [_ONLINE.number]
    assert filled.execute(_VALID).fetchall() == [(True,)]


async def test_one_that_was_cut_off_is_repeated(
    pg_url: str, filled: psycopg.Connection[Any]
) -> None:
    migrator = PostgresStore(pg_url)
    migrating = asyncio.create_task(migrator.migrate())
    filled.execute("select pg_terminate_backend(%s)", (await building(filled),))
    with pytest.raises(StoreError):
        await migrating
    assert filled.execute(_VALID).fetchall() == [(False,)]
    assert (await migrator.migrations())[-1].applied_at is None
    assert [one.number for one in await migrator.migrate()] == [_ONLINE.number]
    assert filled.execute(_VALID).fetchall() == [(True,)]
    assert await migrator.migrate() == []


async def test_several_at_once_make_it_once(pg_url: str, filled: psycopg.Connection[Any]) -> None:
    made = await asyncio.gather(*(PostgresStore(pg_url).migrate() for _ in range(3)))
    assert sorted(len(one) for one in made) == [0, 0, 1]
    assert filled.execute(_VALID).fetchall() == [(True,)]


@pytest.mark.usefixtures("filled")
async def test_the_script_prints_it_outside_of_a_transaction(pg_url: str) -> None:
    text = script(after=_ONLINE.number - 1)
    assert "begin;" not in text
    assert "index concurrently" in text
    assert "index concurrently" not in script(), "a new database has nobody whom it could stop"
    with psycopg.connect(pg_url, autocommit=True) as connection:
        for one in pieces(text):
            connection.execute(one.encode())
    assert await PostgresStore(pg_url).migrate() == []

"""The schema: who may make it, what a DBA can run by hand, and another name for it."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql as compose

from offpath.errors import InvalidArgument, SchemaMissing, StoreError
from offpath.model.effects import Effects
from offpath.store.postgres import PostgresStore
from offpath.store.postgres.migrate import script
from tests.conformance.builders import new_job
from tests.servers import with_database

_SHAPE = """
    select c.relname, a.attname, format_type(a.atttypid, a.atttypmod)
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
    where n.nspname = %s
    order by 1, 2
"""


def shape(url: str, schema: str = "offpath") -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(_SHAPE, (schema,)).fetchall()


async def test_the_script_makes_what_the_runner_makes(postgres_url: str, url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(script().encode())
    assert shape(postgres_url) == shape(url)
    store = PostgresStore(postgres_url)
    assert await store.migrate() == []
    assert all(one.applied_at is not None for one in await store.migrations())


def test_a_script_for_what_is_up_to_date_is_empty() -> None:
    assert script(after=10_000) == ""


async def test_another_schema_beside_the_first(url: str) -> None:
    store = PostgresStore(url, schema="tenant_1", migrate=True)
    await store.open()
    try:
        await store.commit(Effects(jobs=(new_job(),)))
    finally:
        await store.close()
    assert shape(url, "tenant_1") == shape(url)
    with psycopg.connect(url) as connection:
        counts = connection.execute(
            "select (select count(*) from tenant_1.job), (select count(*) from offpath.job)"
        ).fetchone()
    assert counts == (1, 0)


def test_a_schema_name_is_an_identifier() -> None:
    with pytest.raises(InvalidArgument, match="cannot be a schema name"):
        PostgresStore("postgresql://h/db", schema="a;drop schema b")


async def test_a_missing_schema_says_what_to_do(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    with pytest.raises(SchemaMissing, match="offpath migrate"):
        await store.open()
    await store.close()


async def test_a_role_without_rights_is_told_so(postgres_url: str) -> None:
    role = compose.Identifier(f"guest_{postgres_url.rpartition('/')[2]}")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(compose.SQL("create role {} login").format(role))
        database = postgres_url.rpartition("/")[2]
        try:
            guest = postgres_url.replace("//", f"//guest_{database}@", 1)
            if "@" in postgres_url:
                guest = f"postgresql://guest_{database}@{postgres_url.rpartition('@')[2]}"
            with pytest.raises(StoreError, match=r"no right to do this.*offpath migrate --sql"):
                await PostgresStore(with_database(guest, database)).migrate()
        finally:
            connection.execute(compose.SQL("drop role {}").format(role))

"""A collation of the operating system that changed under a database is told of by doctor."""

from __future__ import annotations

import psycopg

from offpath.store.postgres import PostgresStore
from offpath.store.protocol import Finding, Level

from .conftest import Ask, Opened


async def _finding(store: PostgresStore) -> Finding:
    return {each.name: each for each in await store.diagnose()}["collation"]


async def test_another_version_of_the_systems_collation_is_a_problem(english: str) -> None:
    store = PostgresStore(english)
    await store.migrate()
    await store.open()
    assert (await _finding(store)).level is Level.FINE
    with psycopg.connect(english, autocommit=True) as owner:
        owner.execute(
            "update pg_database set datcollversion = '0.1' where datname = current_database()"
        )
        name = owner.info.dbname
    found = await _finding(store)
    assert found.level is Level.PROBLEM
    assert "ordered by version 0.1" in found.message
    assert f'reindex database "{name}"' in found.message
    with psycopg.connect(english, autocommit=True) as owner:
        owner.execute(f"alter database {name} refresh collation version".encode())
    assert (await _finding(store)).level is Level.FINE
    await store.close()


async def test_an_order_that_is_not_the_systems_has_no_version(opened: Opened, ask: Ask) -> None:
    store = await opened()
    ((made, actual),) = ask(
        "select datcollversion, pg_database_collation_actual_version(oid) from pg_database"
        " where datname = current_database()"
    )
    assert made == actual
    assert (await _finding(store)).level is Level.FINE

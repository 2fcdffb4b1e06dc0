"""Keys are ordered by code points in every database; the step to that leaves all else alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final

import psycopg
import pytest

from offpath.errors import StoreError
from offpath.model.effects import Effects
from offpath.model.job import JobFilter
from offpath.store.postgres import PostgresStore, migrate
from offpath.store.postgres import store as postgres_store
from offpath.store.schema import SchemaStep
from offpath.store.sql import catalogue
from tests.conformance.builders import add, join, new_job, succeed, take_one, unique

from .conftest import until

STEP: Final = "keys_by_code_points"
SQL: Final = catalogue(migrate.PACKAGE)

_KEYS = """
    select c.relname || '.' || a.attname
    from pg_index i
    join pg_class c on c.oid = i.indrelid
    join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
    where c.relnamespace = 'offpath'::regnamespace and a.attcollation <> 0
        and a.attcollation <> (select oid from pg_collation where collname = 'C')
"""
_ORDERS = """
    select i.indexrelid::regclass::text
    from pg_index i
    join pg_class c on c.oid = i.indrelid
    cross join unnest(i.indcollation::oid[]) as used (id)
    where c.relnamespace = 'offpath'::regnamespace and used.id <> 0
        and used.id <> (select oid from pg_collation where collname = 'C')
"""
_SHAPES = (
    """
    select relname, relkind, reloptions::text, relowner::regrole::text, relacl::text
    from pg_class
    where relnamespace = 'offpath'::regnamespace
    """,
    """
    select c.relname, a.attname, a.atttypid, a.attacl::text
    from pg_attribute a
    join pg_class c on c.oid = a.attrelid
    where c.relnamespace = 'offpath'::regnamespace
    """,
    "select viewname, definition from pg_views where schemaname = 'offpath'",
    "select tgenabled, pg_get_triggerdef(oid) from pg_trigger where not tgisinternal",
    "select conname, convalidated, pg_get_constraintdef(oid) from pg_constraint",
    "select pg_get_indexdef(indexrelid) from pg_index",
)


_LATER = """
    alter table offpath.job add column headers text, add column error_key text;
    alter table offpath.failure
        add column module text, add column started_at timestamptz, add column worker text;
    alter table offpath.worker
        add column asked jsonb, add column answer jsonb, add column answered_at timestamptz
"""
"""Tables that later steps bring, and statements of today name."""


def rows(url: str, statement: str) -> set[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return set(cursor.fetchall()) if cursor.description else set()


def shape(url: str) -> list[set[tuple[Any, ...]]]:
    return [rows(url, statement) for statement in _SHAPES]


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """The version whose last step is the one before; called, it and the one that checks it come."""
    shipped = migrate.known()
    (number,) = (step.number for step in shipped if step.name == STEP)

    def ship(steps: tuple[SchemaStep, ...]) -> None:
        monkeypatch.setattr(migrate, "known", lambda: steps)
        monkeypatch.setattr(postgres_store, "known", lambda: steps)

    ship(shipped[: number - 1])
    return lambda: ship(shipped[: number + 1])


async def test_every_text_in_an_index_is_ordered_by_code_points(english: str) -> None:
    await PostgresStore(english).migrate()
    assert rows(english, _KEYS) == set()
    assert rows(english, _ORDERS) == set()


async def test_keys_are_in_the_order_of_python(english: str) -> None:
    store = PostgresStore(english, migrate=True)
    await store.open()
    names = ["b", "B", "a", "A", "é", "_x", "z-1", "z_1", "Z", "ä", "10", "9", "😀", "\uffee"]
    for name in names:
        await add(store, queue=name)
    assert [one.name for one in await store.queues()] == sorted(names)
    await store.close()
    said = "select string_agg(queue, ',' order by queue) from offpath.job"
    assert rows(english, said) == {(",".join(sorted(names)),)}


async def test_rows_are_made_in_the_order_in_which_all_lock_them(english: str) -> None:
    await PostgresStore(english).migrate()
    names = ["b", "B", "a", "_x", "A"]
    batches: dict[str, dict[str, Any]] = {
        "add_groups": {
            "batch": json.dumps([{"id": name, "more": 1, "failed": 0} for name in names]),
            "now": None,
        },
        "make_limits": {"keys": json.dumps(names)},
        "keep_templates": {"batch": json.dumps([{"task": name} for name in names])},
    }
    with psycopg.connect(english, autocommit=True) as connection:
        for name, values in batches.items():
            connection.execute(SQL[name].pyformat.encode(), values)
        for made in (
            "select id from offpath.job_group order by ctid",
            "select key from offpath.limit_key order by ctid",
            "select task from offpath.task_default order by ctid",
        ):
            assert [key for (key,) in connection.execute(made.encode())] == sorted(names)


async def test_a_database_of_before_goes_on_under_its_workers(
    english: str, before: Callable[[], None]
) -> None:
    worker = PostgresStore(english, migrate=True)
    await worker.open()
    rows(english, _LATER)
    await join(worker)
    held = await add(worker, "other", unique=unique("k"))
    await worker.pause_queue("mail")
    assert await worker.claim("lead", "w1")
    for _ in range(3):  # statements are prepared in the session
        await add(worker)
        await succeed(worker, await take_one(worker))
    left = await worker.find(JobFilter(), limit=10)
    queues = await worker.queues()
    before()
    assert STEP in [step.name for step in await PostgresStore(english).migrate()]
    assert (await worker.find(JobFilter(), limit=10)) == left
    assert await worker.queues() == queues
    assert not await worker.claim("lead", "w2")
    (again,) = await worker.commit(Effects(jobs=(new_job("other", unique=unique("k")),)))
    assert (again.job_id, again.created) == (held, False)
    await add(worker)
    await succeed(worker, await take_one(worker))
    await succeed(worker, await take_one(worker, task="other"))
    assert (await worker.commit(Effects(jobs=(new_job("other", unique=unique("k")),))))[0].created
    await worker.close()
    assert rows(english, _KEYS) == set()


async def test_views_rights_triggers_and_rules_are_as_they_were(
    english: str, before: Callable[[], None]
) -> None:
    store = PostgresStore(english, migrate=True)
    await store.open()
    await store.grant_roles()
    await store.close()
    for statement in (
        "grant select (id) on offpath.v_job to public",
        "grant select on offpath.v_worker to offpath_enqueuer with grant option",
        "alter table offpath.job disable trigger announce_change",
    ):
        rows(english, statement)
    was = shape(english)
    before()
    separator = "&" if "?" in english else "?"
    owner = f"{english}{separator}options=-c%20role%3Doffpath_owner"
    await PostgresStore(owner).migrate()
    assert shape(english) == was


async def test_somebody_elses_view_of_a_key_is_named_and_stays(
    english: str, before: Callable[[], None]
) -> None:
    await PostgresStore(english).migrate()
    rows(english, "create view public.free as select input from offpath.job")
    rows(english, "create view public.mine as select queue, count(*) from offpath.job group by 1")
    before()
    with pytest.raises(StoreError, match=r"the view public\.mine reads keys of the schema offpath"):
        await PostgresStore(english).migrate()
    assert rows(english, "select * from public.mine") == set()
    rows(english, "drop view public.mine")
    await PostgresStore(english).migrate()
    assert rows(english, _KEYS) == set()


async def test_a_view_of_a_view_is_named_too(english: str, before: Callable[[], None]) -> None:
    store = PostgresStore(english, migrate=True)
    await store.open()
    await store.grant_roles()
    await store.close()
    rows(english, "create view public.mine as select id from offpath.v_job")
    before()
    with pytest.raises(StoreError, match=r"the view public\.mine reads keys"):
        await PostgresStore(english).migrate()


async def test_the_step_waits_for_readers_and_nobody_waits_for_it(
    english: str, before: Callable[[], None]
) -> None:
    store = PostgresStore(english, migrate=True)
    await store.open()
    rows(english, _LATER)
    before()
    loop = asyncio.get_running_loop()
    taking = (
        "select 1 from pg_locks where relation = 'offpath.queue_pause'::regclass and not granted"
    )
    with psycopg.connect(english) as reader:
        reader.execute("select count(*) from offpath.queue_pause")  # the last of the tables
        migration = asyncio.create_task(PostgresStore(english).migrate())
        for _ in range(3):
            await until(lambda: rows(english, taking) != set())
            began = loop.time()
            await store.commit(Effects(jobs=(new_job(),)))
            assert loop.time() - began < 1
        assert not migration.done()
        reader.rollback()
        assert STEP in [step.name for step in await migration]
    await store.close()

"""Opening, closing, and bringing the schema up to date."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from offpath.errors import (
    CapabilityMissing,
    SchemaChanged,
    SchemaMissing,
    SchemaOutdated,
    SchemaTooNew,
    StoreError,
)
from offpath.model.effects import Effects
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from offpath.store.schema import SchemaStep, step
from tests.conformance.backends import Backend
from tests.conformance.builders import add, exists, new_job

New = Callable[[], Store]


@pytest.fixture
async def new(empty_backend: Backend, clock: ManualClock) -> AsyncIterator[New]:
    """Makes stores of a place where nothing is yet; closed after the test."""
    made: list[Store] = []

    def make() -> Store:
        made.append(empty_backend.store(clock))
        return made[-1]

    yield make
    for store in made:
        await store.close()


def needs_schema(store: Store) -> None:
    try:
        store.migration_script()
    except CapabilityMissing as error:
        pytest.skip(str(error))


def extra(backend: Backend, sql: str | None = None) -> tuple[SchemaStep, ...]:
    """The steps of a later version."""
    shipped = backend.steps()
    table = backend.migration_table.replace("migration", "extra")
    text = sql or f"create table {table} (n integer primary key);"
    return (*shipped, step(f"{len(shipped) + 1:04}_extra.sql", text))


# -- open and close --------------------------------------------------------------------------------


async def test_opening_twice_is_opening_once(new: New) -> None:
    store = new()
    await store.migrate()
    await store.open()
    job_id = await add(store)
    await store.open()
    assert await exists(store, job_id)


async def test_closing_does_nothing_before_opening_and_a_second_time(new: New) -> None:
    store = new()
    await store.close()
    await store.migrate()
    await store.open()
    await store.close()
    await store.close()
    await store.open()
    assert await exists(store, await add(store))


async def test_what_was_committed_is_there_after_closing(new: New) -> None:
    first = new()
    if not first.capabilities.durable:
        pytest.skip("lost with the process, as declared")
    await first.migrate()
    await first.open()
    job_id = await add(first)
    await first.close()
    second = new()
    await second.open()
    assert await exists(second, job_id)


async def test_many_lives_leave_no_thread_behind(new: New) -> None:
    def own() -> list[str]:
        # asyncio keeps a few threads for the loop's own use
        names = (thread.name for thread in threading.enumerate())
        return [name for name in names if not name.startswith("asyncio_")]

    async def settled() -> list[str]:
        """The threads once those of single calls, which end after their answer, are gone."""
        for thread in threading.enumerate():
            if thread.name.startswith("offpath-once"):
                await asyncio.to_thread(thread.join, 10)
        return own()

    await new().migrate()
    before = await settled()
    for _ in range(5):
        store = new()
        await store.open()
        await store.ping()
        await store.close()
    assert await settled() == before


async def test_joining_a_transaction_is_refused_where_it_cannot_be(store: Store) -> None:
    if store.capabilities.within:
        pytest.skip("this backend joins transactions")
    effects = Effects(jobs=(new_job(),))
    with pytest.raises(CapabilityMissing):
        await store.commit_within(object(), effects)
    with pytest.raises(CapabilityMissing):
        store.commit_within_blocking(object(), effects)


# -- the schema ------------------------------------------------------------------------------------


async def test_migrating_makes_everything_once(new: New) -> None:
    store = new()
    needs_schema(store)
    pending = await store.migrations()
    assert pending
    assert [one.applied_at for one in pending] == [None] * len(pending)
    assert await store.migrations() == pending

    applied = await store.migrate()

    assert [one.number for one in applied] == list(range(1, len(pending) + 1))
    assert await store.migrate() == []
    listed = await store.migrations()
    assert listed == applied
    assert [(one.name, one.checksum) for one in listed] == [
        (one.name, one.checksum) for one in pending
    ]
    assert all(one.applied_at is not None for one in listed)


async def test_memory_has_nothing_to_migrate(new: New) -> None:
    store = new()
    if store.capabilities.durable:
        pytest.skip("has a schema")
    assert await store.migrate() == []
    assert await store.migrations() == []
    with pytest.raises(CapabilityMissing):
        store.migration_script()


async def test_opening_an_empty_place(new: New) -> None:
    store = new()
    if not store.capabilities.self_migrating:
        with pytest.raises(SchemaMissing, match="offpath migrate"):
            await store.open()
        await store.close()
        await store.migrate()
    await store.open()
    await add(store)


async def test_eight_at_once_migrate_once(new: New) -> None:
    stores = [new() for _ in range(8)]
    needs_schema(stores[0])
    done = await asyncio.gather(*(store.migrate() for store in stores))
    numbers = [one.number for batch in done for one in batch]
    assert sorted(numbers) == [one.number for one in await stores[0].migrations()]


async def test_eight_processes_migrate_once(new: New, empty_backend: Backend) -> None:
    """Cases P2."""
    store = new()
    if not store.capabilities.shared:
        pytest.skip("the data cannot be shared between processes")
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            _MIGRATE,
            *empty_backend.address(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        for _ in range(8)
    ]
    outputs = await asyncio.gather(*(process.communicate() for process in processes))
    assert [errors.decode() for _, errors in outputs] == [""] * 8
    numbers = [int(word) for text, _ in outputs for word in text.decode().split()]
    assert sorted(numbers) == [one.number for one in await store.migrations()]
    await store.open()
    await add(store)


_MIGRATE = """
import asyncio, importlib, sys

async def main():
    store = getattr(importlib.import_module(sys.argv[1]), sys.argv[2])(sys.argv[3])
    applied = await store.migrate()
    await store.open()
    await store.ping()
    await store.close()
    print(*(one.number for one in applied))

asyncio.run(main())
"""


async def test_a_schema_of_a_later_version_is_refused(
    new: New, empty_backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new()
    needs_schema(store)
    with monkeypatch.context() as later:
        empty_backend.ship(later, extra(empty_backend))
        await store.migrate()
    for refused in (store.open, store.migrate):
        with pytest.raises(SchemaTooNew, match="upgrade offpath"):
            await refused()


async def test_an_older_schema_is_brought_up_to_date(
    new: New, empty_backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = new()
    needs_schema(old)
    await old.migrate()
    await old.open()
    job_id = await add(old)
    await old.close()
    empty_backend.ship(monkeypatch, extra(empty_backend))
    store = new()
    assert (await store.migrations())[-1].applied_at is None
    if not store.capabilities.self_migrating:
        with pytest.raises(SchemaOutdated, match="offpath migrate"):
            await store.open()
        await store.close()
        assert [one.name for one in await store.migrate()] == ["extra"]
    await store.open()
    assert (await store.migrations())[-1].applied_at is not None
    assert await exists(store, job_id)


async def test_a_changed_step_is_refused(new: New, empty_backend: Backend) -> None:
    store = new()
    needs_schema(store)
    await store.migrate()
    empty_backend.execute(f"update {empty_backend.migration_table} set checksum = 'other'")
    for refused in (store.open, store.migrate):
        with pytest.raises(SchemaChanged):
            await refused()
    await store.close()


async def test_a_step_that_fails_leaves_nothing_of_itself(
    new: New, empty_backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new()
    needs_schema(store)
    await store.migrate()
    before = empty_backend.schema()
    good = extra(empty_backend)[-1].sql
    with monkeypatch.context() as later:
        empty_backend.ship(later, extra(empty_backend, f"{good}\ncreate table offpath_nonsense ("))
        with pytest.raises(StoreError):
            await store.migrate()
    assert empty_backend.schema() == before
    assert await store.migrate() == []
    await store.open()
    await add(store)


async def test_step_by_step_gives_the_schema_of_one_go(
    new: New, empty_backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new()
    needs_schema(store)
    every = extra(empty_backend)
    empty_backend.ship(monkeypatch, every)
    assert len(await store.migrate()) == len(every)
    whole = empty_backend.schema()
    _forget_everything(empty_backend)
    for count in range(1, len(every) + 1):
        empty_backend.ship(monkeypatch, every[:count])
        assert [one.number for one in await store.migrate()] == [count]
    assert whole
    assert empty_backend.schema() == whole


async def test_the_script_run_by_hand_is_a_migration(new: New, empty_backend: Backend) -> None:
    store = new()
    needs_schema(store)
    script = store.migration_script()
    await store.migrate()
    whole = empty_backend.schema()
    names = [(one.number, one.name, one.checksum) for one in await store.migrations()]
    _forget_everything(empty_backend)

    empty_backend.run_script(script)

    assert empty_backend.schema() == whole
    assert await store.migrate() == []
    assert [(one.number, one.name, one.checksum) for one in await store.migrations()] == names
    await store.open()
    await add(store)


async def test_the_script_starts_after_what_is_applied(
    new: New, empty_backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new()
    needs_schema(store)
    await store.migrate()
    empty_backend.ship(monkeypatch, extra(empty_backend))
    empty_backend.run_script(store.migration_script(after=len(extra(empty_backend)) - 1))
    assert (await store.migrations())[-1].applied_at is not None
    assert await store.migrate() == []


def _forget_everything(backend: Backend) -> None:
    if backend.name == "postgres":
        backend.execute("drop schema offpath cascade")
        return
    views = backend.execute("select name from sqlite_schema where type = 'view'")
    for (view,) in views:  # they name columns of tables that are to go
        backend.execute(f"drop view {view}")
    for table in (*backend.tables(), backend.migration_table):
        backend.execute(f"drop table {table}")

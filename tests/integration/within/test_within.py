"""Jobs enqueued over the caller's connection share the fate of the caller's rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

import offpath
from offpath.errors import IdConflict, JobNotFound, UniqueConflict, WrongConnection
from offpath.runtime.ids import new_id
from tests.integration.within.callers import CALLERS, INSERT, Caller, file_of

MISSING = new_id()
AppMaker = Callable[[str], offpath.App]
UrlOf = Callable[[str], str]

every_caller = pytest.mark.parametrize("caller", CALLERS, ids=lambda one: one.name)


def rows_of(url: str) -> int:
    """The caller's rows, as another connection sees them."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(file_of(url))
        try:
            return int(connection.execute("select count(*) from caller_row").fetchone()[0])
        finally:
            connection.close()
    import psycopg

    with psycopg.connect(url) as postgres:
        row = postgres.execute("select count(*) from caller_row").fetchone()
        assert row is not None
        return int(row[0])


async def enqueue(app: offpath.App, caller: Caller, within: Any, *numbers: int) -> list[str]:
    task = app.tasks["double"]
    jobs = [task.job(n) for n in numbers]
    if caller.blocking:
        return [handle.id for handle in app.blocking.enqueue(jobs, within=within)]
    return [handle.id for handle in await app.enqueue(jobs, within=within)]


@every_caller
@pytest.mark.parametrize("first", [False, True], ids=["row-first", "job-first"])
async def test_commits_with_the_caller(
    caller: Caller, first: bool, url_of: UrlOf, make_app: AppMaker
) -> None:
    url = url_of(caller.dialect)
    app = make_app(url)
    await app.open()
    async with caller.open(url, first) as (connection, _):
        ids = await enqueue(app, caller, connection, 1, 2, 3)
        assert await app.store().states(ids) == {}, "visible before the caller has committed"
    assert set(await app.store().states(ids)) == set(ids)
    assert rows_of(url) == (0 if first else 1)


@every_caller
@pytest.mark.parametrize("first", [False, True], ids=["row-first", "job-first"])
async def test_rolls_back_with_the_caller(
    caller: Caller, first: bool, url_of: UrlOf, make_app: AppMaker
) -> None:
    """With ``job-first`` on asyncpg through SQLAlchemy, a statement on the raw driver connection
    would survive: SQLAlchemy has not sent its BEGIN yet."""
    url = url_of(caller.dialect)
    app = make_app(url)
    await app.open()
    async with caller.open(url, first) as (connection, end):
        ids = await enqueue(app, caller, connection, 1, 2, 3)
        end.commit = False
    assert await app.store().states(ids) == {}
    assert rows_of(url) == 0


@every_caller
async def test_a_worker_runs_what_was_committed(
    caller: Caller, url_of: UrlOf, make_app: AppMaker
) -> None:
    url = url_of(caller.dialect)
    app = make_app(url)
    await app.open()
    async with caller.open(url, False) as (connection, _):
        (job,) = await enqueue(app, caller, connection, 21)
    await app.worker().run_until_idle()
    assert await app.tasks["double"].handle(job).result(timeout=5) == 42


@every_caller
async def test_conflicts_are_found_without_breaking_the_transaction(
    caller: Caller, url_of: UrlOf, make_app: AppMaker
) -> None:
    url = url_of(caller.dialect)
    app = make_app(url)
    task = app.tasks["double"]
    holder = await task.options(unique="k").enqueue(1)

    async def send(job: offpath.Job[Any, Any]) -> offpath.Handle[Any, Any] | Any:
        if caller.blocking:
            return app.blocking.enqueue(job, within=connection)
        return await app.enqueue(job, within=connection)

    async with caller.open(url, False) as (connection, _):
        attached = await send(task.options(unique="k").job(1))
        assert attached.id == holder.id
        with pytest.raises(UniqueConflict):
            await send(task.options(unique="k").job(2))
        with pytest.raises(IdConflict):
            await send(task.options(id=holder.id).job(3))
        (kept,) = await enqueue(app, caller, connection, 4)
    assert await app.store().states([kept])
    assert rows_of(url) == 1
    assert await app.jobs.count() == 2


@every_caller
async def test_the_other_database_is_refused_before_anything_is_sent(
    caller: Caller, url_of: UrlOf, make_app: AppMaker
) -> None:
    other = "sqlite" if caller.dialect == "postgres" else "postgres"
    app = make_app(url_of(other))
    await app.open()
    url = url_of(caller.dialect)
    async with caller.open(url, False) as (connection, _):
        with pytest.raises(WrongConnection, match="two databases"):
            await enqueue(app, caller, connection, 1)
    assert rows_of(url) == 1


@pytest.mark.parametrize(
    "caller", [one for one in CALLERS if not one.blocking], ids=lambda one: one.name
)
async def test_an_async_connection_in_a_blocking_call_is_refused(
    caller: Caller, url_of: UrlOf, make_app: AppMaker
) -> None:
    url = url_of(caller.dialect)
    app = make_app(url)
    await app.open()
    async with caller.open(url, False) as (connection, _):
        with pytest.raises(WrongConnection, match=r"await app\.enqueue"):
            app.blocking.enqueue(app.tasks["double"].job(1), within=connection)


@pytest.mark.parametrize(
    "caller", [one for one in CALLERS if one.blocking], ids=lambda one: one.name
)
async def test_a_blocking_connection_can_be_joined_from_async_code(
    caller: Caller, url_of: UrlOf, make_app: AppMaker
) -> None:
    url = url_of(caller.dialect)
    app = make_app(url)
    await app.open()
    async with caller.open(url, False) as (connection, _):
        handle = await app.enqueue(app.tasks["double"].job(1), within=connection)
    assert await app.store().states([handle.id])


async def test_what_is_no_connection_is_refused(url_of: UrlOf, make_app: AppMaker) -> None:
    import sqlalchemy as sa

    url = url_of("sqlite")
    app = make_app(url)
    for wrong in (object(), "connection", sa.create_engine("sqlite://")):
        with pytest.raises(WrongConnection, match="cannot join"):
            await app.enqueue(app.tasks["double"].job(1), within=wrong)


async def test_options_can_name_the_connection(url_of: UrlOf, make_app: AppMaker) -> None:
    url = url_of("sqlite")
    app = make_app(url)
    await app.open()
    connection = sqlite3.connect(file_of(url))
    handle = await app.tasks["double"].options(within=connection).enqueue(1)
    assert await app.store().states([handle.id]) == {}
    connection.commit()
    connection.close()
    assert await app.store().states([handle.id])


async def test_another_sqlite_file_is_refused(
    url_of: UrlOf, make_app: AppMaker, tmp_path: Any
) -> None:
    app = make_app(url_of("sqlite"))
    await app.open()
    connection = sqlite3.connect(tmp_path / "other.db")
    try:
        with pytest.raises(WrongConnection, match=r"other\.db"):
            await app.enqueue(app.tasks["double"].job(1), within=connection)
    finally:
        connection.close()


async def test_an_autocommit_connection_commits_the_jobs_at_once(
    url_of: UrlOf, make_app: AppMaker
) -> None:
    import psycopg

    url = url_of("postgres")
    app = make_app(url)
    await app.open()
    with psycopg.connect(url, autocommit=True) as connection:
        ids = [
            one.id
            for one in app.blocking.enqueue(
                [app.tasks["double"].job(n) for n in range(3)], within=connection
            )
        ]
        assert len(await app.store().states(ids)) == 3


async def test_a_savepoint_takes_its_jobs_back(url_of: UrlOf, make_app: AppMaker) -> None:
    import psycopg

    url = url_of("postgres")
    app = make_app(url)
    task = app.tasks["double"]
    await app.open()
    with psycopg.connect(url) as connection:
        kept = app.blocking.enqueue(task.job(1), within=connection)
        with connection.transaction(force_rollback=True):
            undone = app.blocking.enqueue(task.job(2), within=connection)
        connection.execute(INSERT.format(1))
    assert set(await app.store().states([kept.id, undone.id])) == {kept.id}


@pytest.mark.parametrize(
    "caller", [one for one in CALLERS if one.dialect == "postgres"], ids=lambda one: one.name
)
async def test_a_transaction_that_only_reads_is_refused_with_the_remedy(
    caller: Caller, url_of: UrlOf, make_app: AppMaker
) -> None:
    """Its connection cannot be joined; the jobs themselves are right."""
    url = url_of("postgres")
    app = make_app(url)
    await app.open()
    import psycopg

    name = url.rpartition("/")[2].partition("?")[0]
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f'alter database "{name}" set default_transaction_read_only = on'.encode())
    async with caller.open(url, True) as (connection, end):
        with pytest.raises(WrongConnection, match="read only: begin it READ WRITE"):
            await enqueue(app, caller, connection, 1)
        end.commit = False
    assert await app.jobs.count() == 0


@every_caller
async def test_a_job_that_was_enqueued_is_read_in_the_same_transaction(
    caller: Caller, url_of: UrlOf, make_app: AppMaker
) -> None:
    url = url_of(caller.dialect)
    app = make_app(url)
    await app.open()
    before = await app.tasks["double"].enqueue(1)
    async with caller.open(url, False) as (connection, end):
        (new,) = await enqueue(app, caller, connection, 2)
        for job in (new, before.id):
            if caller.blocking:
                found = app.blocking.bound(connection).get(job)
                assert await app.bound(connection).get(job) == found
            else:
                found = await app.bound(connection).get(job)
            assert (found.id, found.task, found.state) == (job, "double", offpath.JobState.QUEUED)
        with pytest.raises(JobNotFound, match=MISSING):
            await app.bound(connection).get(MISSING)
        with pytest.raises(JobNotFound, match="any more"):
            await app.jobs.get(new)
        end.commit = False
    assert rows_of(url) == 0


async def test_what_is_read_leaves_the_callers_names_as_they_were(
    url_of: UrlOf, make_app: AppMaker
) -> None:
    import psycopg

    url = url_of("postgres")
    app = make_app(url)
    with psycopg.connect(url) as connection:
        connection.execute("set search_path = public, pg_catalog")
        with pytest.raises(JobNotFound):
            app.blocking.bound(connection).get(MISSING)
        assert connection.execute("show search_path").fetchone() == ("public, pg_catalog",)


async def test_a_file_that_is_not_the_stores_is_not_read(url_of: UrlOf, make_app: AppMaker) -> None:
    app = make_app(url_of("sqlite"))
    await app.open()
    with sqlite3.connect(":memory:") as other, pytest.raises(WrongConnection):
        app.blocking.bound(other).get(MISSING)
    other.close()

"""Waiting jobs of a real Procrastinate become ours: once, in their order, with what they had."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import procrastinate
import psycopg
import pytest

import offpath
from offpath.contrib.imports import ImportReport, Procrastinate, import_jobs, open_tables
from offpath.errors import InvalidArgument
from offpath.testing import drain
from tests.contrib.imports.conftest import SEEN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from offpath.contrib.imports.tables import TheirTables


@pytest.fixture
async def theirs(server: str) -> AsyncIterator[procrastinate.App]:
    """An app of theirs with its schema, in the same database."""
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=server))

    @app.task(name="shop.mail", queue="mail")
    async def send(to: str, copies: int = 1) -> None: ...

    @app.task(name="shop.own")
    async def own(number: int) -> None: ...

    @app.task(name="their.only")
    async def only() -> None: ...

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        yield app


def statuses(server: str) -> list[str]:
    """The statuses of their jobs, by id."""
    with psycopg.connect(server) as connection:
        rows = connection.execute("select status::text from procrastinate_jobs order by id")
        return [one for (one,) in rows]


async def moved(
    app: offpath.App, *, dry_run: bool = False, names: Mapping[str, str] | None = None
) -> ImportReport:
    """The report of an import."""
    with open_tables(app) as tables:
        return await import_jobs(app, Procrastinate(), tables, dry_run=dry_run, names=names)


async def test_jobs_run_here_with_their_arguments_in_their_order(
    app: offpath.App, theirs: procrastinate.App, server: str
) -> None:
    for number in range(3):
        await theirs.tasks["shop.mail"].defer_async(to=f"{number}", copies=number)
    await theirs.tasks["shop.mail"].configure(priority=5).defer_async(to="first")
    looked = await moved(app, dry_run=True)
    assert (looked.dry_run, looked.moved, looked.left) == (True, {"shop.mail": 4}, [])
    assert statuses(server) == ["todo"] * 4
    assert await app.jobs.count() == 0

    assert (await moved(app)).moved == {"shop.mail": 4}
    assert statuses(server) == ["cancelled"] * 4
    assert (await app.jobs.find(queue="mail", tags=["procrastinate:1"])).items
    assert (await moved(app)).moved == {}
    await drain(app)
    assert SEEN == [("first", 1), ("0", 0), ("1", 1), ("2", 2)]
    await theirs.run_worker_async(wait=False, install_signal_handlers=False)
    assert statuses(server) == ["cancelled"] * 4


async def test_a_time_a_lock_and_a_queueing_lock_come_along(
    app: offpath.App, theirs: procrastinate.App
) -> None:
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    mail = theirs.tasks["shop.mail"]
    await mail.configure(schedule_at=later, lock="user 1", queueing_lock="once").defer_async(to="a")
    await moved(app)
    (job,) = (await app.jobs.find()).items
    assert job.run_at == later
    assert (job.limit_key, job.unique_key) == ("user 1", "shop.mail:once")
    send: Any = app.tasks["shop.mail"]
    again = await send.options(unique="once").enqueue(to="a")
    assert (again.id, again.created) == (job.id, False)


async def test_limits_and_keys_of_the_task_itself_count_more(
    app: offpath.App, theirs: procrastinate.App
) -> None:
    own = theirs.tasks["shop.own"]
    await own.configure(lock="theirs", queueing_lock="theirs").defer_async(number=1)
    await moved(app)
    (job,) = (await app.jobs.find()).items
    assert (job.limit_key, job.unique_key) == ("shop.own", "shop.own:one")


async def test_what_does_not_fit_stays_and_is_told_and_the_rest_moves(
    app: offpath.App, theirs: procrastinate.App, server: str
) -> None:
    mail = theirs.tasks["shop.mail"]
    await mail.defer_async(to=7)
    await mail.defer_async(to="b")
    await theirs.tasks["their.only"].defer_async()
    own = app.tasks["shop.own"]
    await own.enqueue(number=1)
    await theirs.tasks["shop.own"].defer_async(number=2)  # the key has another job
    report = await moved(app)
    assert report.moved == {"shop.mail": 1}
    reasons = {one.name: (one.example, one.reason) for one in report.left}
    assert reasons["shop.mail"][0] == "1"
    assert "to" in reasons["shop.mail"][1]
    assert "--task their.only=" in reasons["their.only"][1]
    assert "unique" in reasons["shop.own"][1]
    assert statuses(server) == ["todo", "cancelled", "todo", "todo"]


async def test_a_name_may_be_another_here(app: offpath.App, theirs: procrastinate.App) -> None:
    await theirs.tasks["their.only"].defer_async()

    @app.task(name="ours")
    async def ours() -> None:
        SEEN.append("ours")

    assert (await moved(app, names={"their.only": "ours"})).moved == {"ours": 1}
    await drain(app)
    assert SEEN == ["ours"]


async def test_a_job_that_runs_is_left_to_its_worker(
    app: offpath.App, theirs: procrastinate.App, server: str
) -> None:
    await theirs.tasks["shop.mail"].defer_async(to="a")
    await theirs.tasks["shop.mail"].defer_async(to="b")
    with psycopg.connect(server) as worker:
        worker.execute("update procrastinate_jobs set status = 'doing' where id = 1")
    with psycopg.connect(server) as worker:
        worker.execute("select from procrastinate_jobs where id = 2 for update")  # it begins
        assert (await moved(app)).moved == {}
    report = await moved(app)
    assert (report.moved, report.running) == ({"shop.mail": 1}, 1)


async def test_what_breaks_off_leaves_each_job_in_one_of_the_two(
    app: offpath.App, theirs: procrastinate.App, server: str
) -> None:
    class Broken(Procrastinate):
        def take(self, tables: TheirTables, ids: Sequence[str]) -> None:
            super().take(tables, ids)
            raise ConnectionError

    await theirs.tasks["shop.mail"].defer_async(to="a")
    with pytest.raises(ConnectionError), open_tables(app) as tables:
        await import_jobs(app, Broken(), tables)
    assert statuses(server) == ["todo"]
    assert await app.jobs.count() == 0
    assert (await moved(app)).moved == {"shop.mail": 1}


async def test_a_database_without_its_tables_says_so(app: offpath.App) -> None:
    with pytest.raises(InvalidArgument, match="--schema"):
        await moved(app)


async def test_tables_in_a_schema_of_their_own_are_found(app: offpath.App, server: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("create schema old")
    options = {"options": "-c search_path=old"}
    connector = procrastinate.PsycopgConnector(conninfo=server, kwargs=options)
    theirs = procrastinate.App(connector=connector)
    async with theirs.open_async():
        await theirs.schema_manager.apply_schema_async()
        await theirs.configure_task("shop.mail").defer_async(to="a")
    with open_tables(app, schema="old") as tables:
        report = await import_jobs(app, Procrastinate(), tables)
    assert report.moved == {"shop.mail": 1}

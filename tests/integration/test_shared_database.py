"""Two services in one database, each in a schema of its own: neither sees anything of the other."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, closing

import psycopg
import pytest
from click.testing import CliRunner

from offpath import App, Context, Plan
from offpath.cli.main import cli
from offpath.config import Settings, load_settings
from offpath.contrib import alembic
from offpath.contrib.schema_steps import known_steps, run_steps
from offpath.errors import ConfigurationError, SchemaMissing
from offpath.model.schema_url import PARAMETER
from offpath.store.backends import make_store, sqlite_path
from offpath.store.protocol import Level
from offpath.store.sql import prefixed
from offpath.store.sqlite.session import SQL
from offpath.store.within import Dialect


def named(url: str, schema: str) -> str:
    """The same database, another schema."""
    return f"{url}{'&' if '?' in url else '?'}{PARAMETER}={schema}"


def service(url: str, **given: object) -> App:
    """An app with the tasks of both services."""
    app = App(url, auto_start=False, migrate=True, **given)  # type: ignore[arg-type]

    @app.task
    async def part(n: int) -> int:
        return n

    @app.task
    async def total(ctx: Context) -> int:
        return sum(await ctx.results(part))

    @app.task
    async def split(ctx: Context) -> Plan[None, int]:
        return ctx.queue(part.job(1), part.job(2)).next(total.job())

    return app


@pytest.fixture
def shared(url: str, database_from_template: Callable[[str, Callable[[str], None]], str]) -> str:
    """A database with both schemas: that of Postgres is made once."""
    if url.startswith("sqlite"):
        _both(url)
        return url
    return database_from_template("two schemas", _both)


def _both(url: str) -> None:
    with ThreadPoolExecutor(1) as thread:
        for place in (url, named(url, "shop")):
            thread.submit(asyncio.run, make_store(place).migrate()).result()


@pytest.fixture
async def two(shared: str) -> AsyncIterator[tuple[App, App]]:
    """Two services, of which one is in a schema of another name."""
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(service(shared))
        other = await stack.enter_async_context(service(named(shared, "shop")))
        yield one, other


async def test_each_does_its_own_work(two: tuple[App, App]) -> None:
    for app in two:
        await app.tasks["split"].enqueue()
    await two[0].worker().run_until_idle()
    assert [await app.jobs.count(state="succeeded") for app in two] == [4, 0]
    assert [await app.jobs.count() for app in two] == [4, 1]
    await two[1].worker().run_until_idle()
    (done,) = (await two[1].jobs.find(task="total")).items
    assert done.result == "3"


async def test_what_is_made_in_a_transaction_is_its_own(two: tuple[App, App], shared: str) -> None:
    if shared.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite_path(shared))) as connection:
            two[1].blocking.enqueue([two[1].tasks["part"].job(1)], within=connection)
            connection.commit()
    else:
        with psycopg.connect(shared) as connection:
            two[1].blocking.enqueue([two[1].tasks["part"].job(1)], within=connection)
    assert [await app.jobs.count() for app in two] == [0, 1]


async def test_work_of_another_app_wakes_a_worker(shared: str) -> None:
    done = asyncio.Event()
    app = service(named(shared, "shop"))

    @app.task
    async def told() -> None:
        done.set()

    async with app, app.worker(poll_interval=60.0), service(named(shared, "shop")) as sender:
        await sender.enqueue(told.job())
        async with asyncio.timeout(20):
            await done.wait()


async def test_the_doctor_finds_nothing_wrong(two: tuple[App, App]) -> None:
    for app in two:
        bad = [one for one in await app.store().diagnose() if one.level is Level.PROBLEM]
        assert bad == []


async def test_a_schema_that_nobody_made_is_missing(url: str) -> None:
    if url.startswith("sqlite"):
        pytest.skip("a file makes its tables by itself")
    store = make_store(named(url, "nobody"))
    with pytest.raises(SchemaMissing):
        await store.open()
    await store.close()


def test_every_command_takes_it_from_the_url_or_the_settings(
    shared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran(*words: str) -> str:
        done = CliRunner().invoke(cli, list(words))
        assert done.exit_code == 0, done.output
        return done.stdout

    def listed(place: str) -> int:
        return len(json.loads(ran("jobs", "list", "--url", place, "--json"))["items"])

    other = named(shared, "shop")
    assert "up to date" in ran("migrate", "--url", other)
    ran("enqueue", "mail.send", "--url", other)
    assert (listed(other), listed(shared)) == (1, 0)
    assert "third" in ran("migrate", "--sql", "--url", named(shared, "third"))
    monkeypatch.setenv("OFFPATH_SCHEMA", "shop")
    assert listed(shared) == 1


def test_migrations_of_others_make_it(url: str) -> None:
    sqlite = url.startswith("sqlite")
    dialect: Dialect = "sqlite" if sqlite else "postgres"
    connection = sqlite3.connect(sqlite_path(url)) if sqlite else psycopg.connect(url)
    with closing(connection):
        made = run_steps(connection, dialect, schema="shop")
        connection.commit()
    assert len(made) == len(known_steps(dialect))

    async def works() -> int:
        async with service(named(url, "shop")) as app:
            await app.tasks["split"].enqueue()
            await app.worker().run_until_idle()
            return await app.jobs.count(state="succeeded")

    assert asyncio.run(works()) == 4


# -- names -----------------------------------------------------------------------------------------


def test_a_setting_becomes_a_part_of_the_url() -> None:
    found = load_settings(url="postgresql://h/db", schema="shop", environ={})
    assert found.url == "postgresql://h/db?offpath_schema=shop"
    assert Settings(url="sqlite:///a.db", schema="shop").url == "sqlite:///a.db?offpath_schema=shop"
    assert Settings(url="memory://", schema="shop").url == "memory://"
    assert Settings(url="sqlite:///a.db", schema="offpath").url == "sqlite:///a.db"


@pytest.mark.parametrize(
    ("url", "schema"),
    [
        ("postgresql://h/db?offpath_schema=a", "b"),
        ("redis://h", "shop"),
        ("postgresql://h/db", "no-name"),
        ("sqlite:///a.db", 'x"; drop table'),
        ("postgresql://h/db", "pg_mine"),
        ("postgresql://h/db", "public"),
        ("sqlite:///a.db", "sqlite_mine"),
    ],
)
def test_what_is_no_schema_is_refused(url: str, schema: str) -> None:
    with pytest.raises(ConfigurationError):
        Settings(url=url, schema=schema)


@pytest.mark.parametrize(
    "url", ["sqlite:///a.db?offpath_schema=A", "postgresql://h/db?offpath_schema=a-b"]
)
def test_a_url_with_a_wrong_name_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        make_store(url)


def test_alembic_leaves_the_tables_of_named_schemas_alone() -> None:
    asked = alembic.include_name(schema=["shop", "offpath"])
    assert not asked("shop", "schema", {})
    assert not asked("shop_job", "table", {"schema_name": None})
    assert not asked("offpath_job", "table", {"schema_name": None})
    assert asked("orders", "table", {"schema_name": None})
    assert alembic.include_name()("shop_job", "table", {"schema_name": None})


def test_every_statement_of_sqlite_is_about_the_named_tables() -> None:
    for one in SQL.values():
        assert "offpath_" not in prefixed(one, "shop").named, one.name
        assert prefixed(one, "offpath") is one

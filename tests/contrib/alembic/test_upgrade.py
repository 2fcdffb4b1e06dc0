"""Our schema steps in a revision of Alembic: in its transaction, mixed with ``offpath migrate``."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from alembic import command
from sqlalchemy import create_engine, text

import offpath
from offpath.contrib.alembic import upgrade
from offpath.contrib.schema_steps import known_steps
from offpath.errors import InvalidArgument
from offpath.store.schema import pieces
from tests.architecture.page import ROOT, blocks
from tests.contrib.alembic.project import add_revision, make_async_project, make_project
from tests.contrib.urls import async_urls, blocking_url, run_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from offpath.store.within import Dialect


def dialect_of(url: str) -> Dialect:
    return "sqlite" if url.startswith("sqlite") else "postgres"


def applied(url: str) -> list[int]:
    table = "offpath_migration" if dialect_of(url) == "sqlite" else "offpath.migration"
    return [number for (number,) in run_sql(url, f"select number from {table} order by number")]


def every(url: str) -> list[int]:
    return [step.number for step in known_steps(dialect_of(url))]


def in_a_loop(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work()).result()


async def run_one_job(url: str) -> int:
    app = offpath.App(url, auto_start=False, migrate=False)

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    async with app:
        handle = await double.enqueue(4)
        await app.worker().run_until_idle()
        return await handle.result()


def test_a_revision_makes_our_schema(empty_url: str, tmp_path: Path) -> None:
    config = make_project(tmp_path, empty_url, "")
    add_revision(tmp_path, "ours.upgrade(op.get_bind())")
    command.upgrade(config, "head")
    assert applied(empty_url) == every(empty_url)
    assert in_a_loop(lambda: run_one_job(empty_url)) == 8


def test_the_revision_of_the_page_makes_a_schema_that_workers_take(
    empty_url: str, tmp_path: Path
) -> None:
    """Whichever steps came since the page was written."""
    page = (ROOT / "docs" / "integrations" / "sqlalchemy.md").read_text("utf-8")
    (shown,) = (one.text for one in blocks(page) if one.text.startswith("def upgrade"))
    config = make_project(tmp_path, empty_url, "")
    (tmp_path / "alembic" / "versions" / "page.py").write_text(
        f'revision = "page"\ndown_revision = None\n\n\n{shown}'
    )
    command.upgrade(config, "head")
    assert applied(empty_url) == every(empty_url)
    assert in_a_loop(lambda: run_one_job(empty_url)) == 8


def test_a_revision_stops_at_its_step_and_a_later_one_goes_on(empty_url: str) -> None:
    engine = create_engine(blocking_url(empty_url))
    with engine.begin() as connection:
        assert upgrade(connection, to=3) == [1, 2, 3]
    assert applied(empty_url) == [1, 2, 3]
    with engine.begin() as connection:
        assert upgrade(connection) == every(empty_url)[3:]
    with engine.begin() as connection:
        assert upgrade(connection) == []
        assert upgrade(connection, to=2) == []
    engine.dispose()


def test_our_own_migrate_goes_on_where_a_revision_stopped(empty_url: str) -> None:
    engine = create_engine(blocking_url(empty_url))
    with engine.begin() as connection:
        upgrade(connection, to=4)
    engine.dispose()
    app = offpath.App(empty_url, auto_start=False)
    in_a_loop(app.migrate)
    assert applied(empty_url) == every(empty_url)


def test_a_revision_finds_nothing_to_do_after_our_own_migrate(url: str) -> None:
    engine = create_engine(blocking_url(url))
    with engine.begin() as connection:
        assert upgrade(connection) == []
    engine.dispose()


def test_what_is_rolled_back_leaves_nothing(empty_url: str) -> None:
    engine = create_engine(blocking_url(empty_url))
    with engine.connect() as connection:
        assert upgrade(connection) == every(empty_url)
        connection.rollback()
        kind = "sqlite_schema" if dialect_of(empty_url) == "sqlite" else "pg_namespace"
        name = "name like 'offpath%'" if kind == "sqlite_schema" else "nspname = 'offpath'"
        assert connection.execute(text(f"select count(*) from {kind} where {name}")).scalar() == 0
    engine.dispose()


def test_the_callers_settings_are_as_they_were(postgres_url: str) -> None:
    engine = create_engine(blocking_url(postgres_url))
    ask = text(
        "select current_setting('search_path'), current_setting('lock_timeout'), current_user"
    )
    with engine.begin() as connection:
        connection.execute(text("set search_path = public, pg_temp"))
        before = connection.execute(ask).one()
        upgrade(connection)
        assert connection.execute(ask).one() == before
    engine.dispose()


def test_an_async_engine_does_it_too(empty_url: str, tmp_path: Path) -> None:
    for number, url in enumerate(async_urls(empty_url)):
        config = make_async_project(tmp_path / str(number), url)
        add_revision(tmp_path / str(number), "ours.upgrade(op.get_bind())")
        command.upgrade(config, "head")
        command.stamp(config, "base")
        assert applied(empty_url) == every(empty_url)


def test_asyncpg_runs_the_steps(postgres_url: str, tmp_path: Path) -> None:
    config = make_async_project(tmp_path, async_urls(postgres_url)[1])
    add_revision(tmp_path, "ours.upgrade(op.get_bind())")
    command.upgrade(config, "head")
    assert applied(postgres_url) == every(postgres_url)


def test_the_schema_is_the_one_that_our_own_migrate_makes(
    empty_url: str, tmp_path: Path, postgres_databases: Any
) -> None:
    engine = create_engine(blocking_url(empty_url))
    with engine.begin() as connection:
        upgrade(connection)
    engine.dispose()
    sqlite = dialect_of(empty_url) == "sqlite"
    other = f"sqlite:///{tmp_path / 'own.db'}" if sqlite else postgres_databases.create()
    try:
        in_a_loop(offpath.App(other, auto_start=False).migrate)
        assert described(empty_url) == described(other)
    finally:
        if not sqlite:
            postgres_databases.drop(other)


def described(url: str) -> list[Any]:
    """All columns, checks, indexes, triggers and functions, as the database has them."""
    if dialect_of(url) == "sqlite":
        rows = run_sql(url, "select type, name, sql from sqlite_schema order by 1, 2")
        return [(kind, name, bare(sql)) for kind, name, sql in rows]
    ours = "'offpath'::regnamespace order by 1, 2"
    place = "where table_schema = 'offpath'"
    columns = "table_name, column_name, data_type, column_default, is_nullable"
    parts = (
        f"select {columns} from information_schema.columns {place} order by 1, 2",
        "select indexdef from pg_indexes where schemaname = 'offpath' order by 1",
        f"select conname, pg_get_constraintdef(oid) from pg_constraint where connamespace = {ours}",
        "select tgname, pg_get_triggerdef(oid) from pg_trigger where not tgisinternal order by 1",
        f"select proname, prosrc, proconfig::text from pg_proc where pronamespace = {ours}",
    )
    return [run_sql(url, part) for part in parts]


def bare(sql: str | None) -> str:
    """A statement without comments, and with single blanks."""
    lines = (line.partition("--")[0] for line in (sql or "").splitlines())
    return "".join(" ".join(lines).split())


@pytest.mark.parametrize("to", [0, -1, 999])
def test_a_step_that_does_not_exist_is_refused(empty_url: str, to: int) -> None:
    engine = create_engine(blocking_url(empty_url))
    with engine.begin() as connection, pytest.raises(InvalidArgument, match=f"no schema step {to}"):
        upgrade(connection, to=to)
    engine.dispose()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select 1; select 2;", ["select 1;", "select 2;"]),
        ("select ';'; -- a; b\nselect 2", ["select ';';", "-- a; b\nselect 2"]),
        ("do $$ begin; end $$; select 1;", ["do $$ begin; end $$;", "select 1;"]),
        ("do $a$ $$;$$ ; $a$;", ["do $a$ $$;$$ ; $a$;"]),
        ("select 1; -- the end\n", ["select 1;"]),
    ],
)
def test_a_step_is_cut_into_its_statements(text: str, expected: list[str]) -> None:
    assert list(pieces(text)) == expected

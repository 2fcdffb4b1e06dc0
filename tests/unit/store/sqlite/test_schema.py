"""Schema steps: what is pending, and what is refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from offpath.errors import SchemaChanged, SchemaMissing, SchemaOutdated, SchemaTooNew
from offpath.store.protocol import Migration
from offpath.store.schema import SchemaStep, listing, pending, require_current, step, steps
from offpath.store.sqlite import SqliteStore
from offpath.store.sqlite.migrate import KNOWN, statements

AT = datetime(2026, 1, 1, tzinfo=UTC)
FIRST = step("0001_core.sql", "create table a (b)")
SECOND = step("0002_more_words.sql", "create table c (d)")


def applied(*done: SchemaStep) -> list[Migration]:
    return [
        Migration(number=one.number, name=one.name, checksum=one.checksum, applied_at=AT)
        for one in done
    ]


def test_a_step_is_named_and_numbered_by_its_file() -> None:
    assert (SECOND.number, SECOND.name) == (2, "more_words")
    assert len(SECOND.checksum) == 64
    for name in ("1_core.sql", "0001_Core.sql", "0001.sql", "core.sql"):
        with pytest.raises(ValueError, match="NNNN"):
            step(name, "")


def test_line_ends_do_not_change_a_checksum() -> None:
    assert step("0001_a.sql", "x\r\ny\r\n").checksum == step("0001_a.sql", "x\ny\n").checksum
    assert step("0001_a.sql", "x\ny").checksum != step("0001_a.sql", "x\nz").checksum


def test_the_shipped_steps_load_in_order() -> None:
    assert [one.number for one in steps("offpath.store.sqlite.migrations")] == list(
        range(1, len(KNOWN) + 1)
    )


def test_pending_is_what_was_not_applied() -> None:
    known = [FIRST, SECOND]
    assert pending(known, []) == known
    assert pending(known, applied(FIRST)) == [SECOND]
    assert pending(known, applied(FIRST, SECOND)) == []


def test_missing_outdated_and_current() -> None:
    known = [FIRST, SECOND]
    require_current(known, applied(FIRST, SECOND))
    with pytest.raises(SchemaMissing, match="offpath migrate"):
        require_current(known, [])
    with pytest.raises(SchemaOutdated, match="0002_more_words"):
        require_current(known, applied(FIRST))


def test_too_new_and_changed_are_refused_by_both() -> None:
    changed = step("0001_core.sql", "create table other (b)")
    for judge in (pending, require_current):
        with pytest.raises(SchemaTooNew, match="upgrade"):
            judge([FIRST], applied(FIRST, SECOND))
        with pytest.raises(SchemaChanged, match="0001_core"):
            judge([FIRST], applied(changed))


def test_the_listing_shows_what_is_pending() -> None:
    times = [one.applied_at for one in listing([FIRST, SECOND], applied(FIRST))]
    assert times == [AT, None]


def test_a_script_is_split_where_sqlite_says() -> None:
    script = """
        -- a comment; with a semicolon
        create table a (b text default ';');
        create trigger t after insert on a begin
            delete from a;
        end;
        insert into a values (1)
    """
    found = list(statements(script))
    assert len(found) == 3
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in found:
            connection.execute(statement)


async def test_a_failing_step_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = step("0001_core.sql", "create table offpath_job (a); create table offpath_job (b);")
    monkeypatch.setattr("offpath.store.sqlite.migrate.KNOWN", (broken,))
    with pytest.raises(Exception, match="already exists"):
        await SqliteStore(path).migrate()
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("select name from sqlite_schema").fetchall()
    assert tables == []


async def test_a_file_that_needs_nothing_is_not_locked(store: SqliteStore, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    assert await SqliteStore(path, busy_timeout=0.05).migrate() == []
    other.close()

"""The baseline: a new file has what the steps make, at once."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from offpath.store.schema import SchemaStep
from offpath.store.sql import Row
from offpath.store.sqlite import SqliteStore, baseline, migrate
from offpath.store.sqlite.session import Session
from tools.baseline import FILE, written

_SCHEMA = "select type, name, tbl_name, sql from sqlite_schema order by rowid"
_RECORD = "select number, name, checksum from offpath_migration order by number"


def _found(path: Path) -> tuple[list[object], list[object]]:
    with closing(sqlite3.connect(path)) as connection:
        schema = connection.execute(_SCHEMA).fetchall()
        record = connection.execute(_RECORD).fetchall()
    return schema, record


async def _migrated(path: Path) -> tuple[list[object], list[object]]:
    store = SqliteStore(path)
    applied = await store.migrate()
    await store.close()
    assert [one.number for one in applied] == [one.number for one in migrate.KNOWN]
    return _found(path)


def test_its_text_is_what_the_steps_make() -> None:
    assert FILE.read_text("utf-8") == written(), "run: python -m tools.baseline"


async def test_a_new_file_is_as_if_each_step_had_been_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await _migrated(tmp_path / "whole.db")
    monkeypatch.setattr(migrate, "baseline", lambda _: None)
    stepped = await _migrated(tmp_path / "stepped.db")
    assert whole[1] == stepped[1]
    assert sorted(map(str, whole[0])) == sorted(map(str, stepped[0]))


def test_it_stands_for_the_steps_as_they_are_and_for_no_others() -> None:
    found = baseline.baseline(migrate.KNOWN)
    assert found is not None
    assert found[0] == migrate.KNOWN
    assert baseline.baseline((*migrate.KNOWN[1:], migrate.KNOWN[0])) is None
    assert baseline.baseline(migrate.KNOWN[:-1]) is None


async def test_a_later_step_is_run_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = SchemaStep(
        number=len(migrate.KNOWN) + 1, name="later", sql="create table later (a)", checksum="0"
    )
    monkeypatch.setattr(migrate, "KNOWN", (*migrate.KNOWN, later))
    schema, record = await _migrated(tmp_path / "jobs.db")
    assert ("table", "later", "later", "CREATE TABLE later (a)") in schema
    assert record[-1] == (later.number, "later", "0")


async def test_what_was_cut_off_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = Session.raw

    def cut(session: Session, sql: str) -> list[Row]:
        if "offpath_schedule" in sql:
            raise OSError
        return raw(session, sql)

    monkeypatch.setattr(Session, "raw", cut)
    store = SqliteStore(tmp_path / "jobs.db")
    with pytest.raises(OSError):
        await store.migrate()
    await store.close()
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
        assert connection.execute(_SCHEMA).fetchall() == []

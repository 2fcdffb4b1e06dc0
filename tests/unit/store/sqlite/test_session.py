"""The demands on a file, and which errors leave the package."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from offpath.errors import (
    ConfigurationError,
    InvalidArgument,
    OffpathError,
    SchemaMissing,
    StoreBusy,
    StoreRejected,
    StoreUnavailable,
)
from offpath.store.programs.dialect import Send, Steps
from offpath.store.sqlite import SqliteStore
from offpath.store.sqlite.faults import translated
from offpath.store.sqlite.file import DatabaseFile
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.session import SQL, connect, file_path, require_version


@pytest.mark.parametrize("path", ["", ":memory:", "file::memory:", "file:x?mode=memory"])
def test_memory_is_refused_with_a_hint(path: str) -> None:
    with pytest.raises(InvalidArgument):
        file_path(path)


def test_the_hint_names_the_memory_backend() -> None:
    with pytest.raises(InvalidArgument, match="memory://"):
        SqliteStore(":memory:")


def test_an_old_library_is_refused() -> None:
    require_version((3, 38, 0))
    with pytest.raises(ConfigurationError, match=r"3\.37\.2.*3\.38"):
        require_version((3, 37, 2))


async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "nowhere" / "jobs.db")
    with pytest.raises(StoreUnavailable, match="nowhere does not exist"):
        await store.open()
    await store.close()


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to look like a header of one\n" * 20)
    with pytest.raises(StoreUnavailable, match="not a database"):
        await SqliteStore(path).open()
    assert path.read_text().startswith("not a database")


def _error(code: int, text: str = "text") -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (_error(sqlite3.SQLITE_BUSY), StoreBusy),
        (_error(sqlite3.SQLITE_BUSY_SNAPSHOT), StoreBusy),
        (_error(sqlite3.SQLITE_PROTOCOL), StoreBusy),
        (_error(sqlite3.SQLITE_IOERR_FSYNC), StoreUnavailable),
        (_error(sqlite3.SQLITE_FULL), StoreUnavailable),
        (_error(sqlite3.SQLITE_READONLY), StoreUnavailable),
        (_error(sqlite3.SQLITE_CORRUPT), StoreUnavailable),
        (_error(sqlite3.SQLITE_CONSTRAINT_CHECK), StoreRejected),
        (_error(sqlite3.SQLITE_TOOBIG), StoreRejected),
        (_error(sqlite3.SQLITE_ERROR, "no such table: offpath_job"), SchemaMissing),
        (OverflowError("too large"), StoreRejected),
    ],
)
def test_every_driver_error_has_a_typed_one(error: Exception, kind: type[OffpathError]) -> None:
    assert type(translated(error)) is kind


def test_other_errors_stay_what_they_are() -> None:
    bug = TypeError("a bug of ours")
    assert translated(bug) is bug


def test_a_translated_error_does_not_quote_what_could_not_be_encoded() -> None:
    with pytest.raises(UnicodeEncodeError) as raised:
        "secret\ud800".encode()
    assert "secret" not in str(translated(raised.value))


@pytest.mark.parametrize("text", ["a\0b", "\0", "\\\0", "x\ud800"])
def test_texts_that_json_would_change_are_refused(text: str) -> None:
    with pytest.raises(StoreRejected):
        batch([[text]])


@pytest.mark.parametrize("text", ["\\u0000", "\\\\u0000", '{"a":"\\u0000"}', "\ufffe", "\x01"])
def test_texts_that_only_look_like_it_are_not(text: str) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        [[given]] = connection.execute("select value ->> 0 from json_each(?)", (batch([[text]]),))
    assert given == text


async def test_a_statement_that_is_nothing_is_not_sent(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    store = SqliteStore(path)
    await store.open()
    await store.close()
    sent: list[str] = []
    session = connect(
        DatabaseFile(path), before=sent.append, patience=1.0, create=False, reading=True
    )

    def locked() -> Steps[int]:
        lock, read = SQL["lock_schedule"](name="x"), SQL["all_schedules"]()
        nobody, rows = yield Send((lock, read))
        assert nobody == []
        return len(rows)

    with closing(session):
        assert session.perform(locked()) == 0
    assert sent == ["all_schedules"]

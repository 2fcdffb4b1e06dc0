"""The offpath error that a sqlite3 error is. No sqlite3 exception leaves this package."""

from __future__ import annotations

import sqlite3
from typing import Final

from offpath.errors import (
    OffpathError,
    SchemaMissing,
    StoreBusy,
    StoreRejected,
    StoreUnavailable,
)

# PROTOCOL is a race for the locks of the log that lasted too long, so a repeat helps.
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_REJECTED: Final = frozenset(
    {sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH}
)

CAUGHT: Final = (sqlite3.Error, OverflowError, UnicodeEncodeError)
"""The errors that running a statement can raise: the driver's own, and values it cannot bind."""


def primary_code(error: BaseException) -> int:
    """SQLite's primary result code, 0 when the error is not SQLite's own."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else 0


def is_busy(error: BaseException) -> bool:
    """True if another connection holds a lock: trying again may help."""
    return isinstance(error, sqlite3.OperationalError) and primary_code(error) in _BUSY


def translated(error: Exception) -> Exception:
    """The error of ``error`` for a caller: the driver's become ours, all others stay as they are.

    Holds no value that was to be stored.
    """
    return _translated(error) if isinstance(error, CAUGHT) else error


def _translated(error: Exception) -> OffpathError:
    code = primary_code(error)
    if code in _BUSY:
        return StoreBusy(
            "the SQLite file is locked by somebody else; nothing was written. Retry; keep other "
            "write transactions short, and begin them with BEGIN IMMEDIATE"
        )
    if code in _REJECTED or _is_a_value(error):
        return StoreRejected(f"SQLite refused a value: {_text(error)}")
    if "no such table" in str(error):
        return SchemaMissing(
            "the database has no offpath tables: open the store, or run `offpath migrate`"
        )
    return StoreUnavailable(f"SQLite cannot be used: {_text(error)}")


def is_environment(error: BaseException) -> bool:
    """True if the file or its lock is at fault, not what was asked: the whole batch is lost."""
    return isinstance(error, StoreBusy | StoreUnavailable)


def _is_a_value(error: Exception) -> bool:
    kinds = (sqlite3.DataError, sqlite3.InterfaceError, OverflowError, UnicodeEncodeError)
    return isinstance(error, kinds)


def _text(error: Exception) -> str:
    # A UnicodeEncodeError's own text quotes what could not be encoded: user data.
    if isinstance(error, UnicodeEncodeError):
        return "a text holds a lone surrogate"
    name = getattr(error, "sqlite_errorname", None)
    return f"{error} ({name})" if name else str(error)

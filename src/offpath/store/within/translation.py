"""The errors of the caller's library, as errors of ours; the original stays as the cause."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from offpath.errors import (
    OffpathError,
    SchemaMissing,
    StoreBusy,
    StoreError,
    StoreRejected,
    StoreUnavailable,
    WrongConnection,
)


@contextmanager
def typed_errors() -> Iterator[None]:
    """Turn what the caller's library raises into our errors; the original stays as the cause."""
    try:
        yield
    except OffpathError:
        raise
    except Exception as error:
        typed = _typed(error)
        if typed is None:
            raise
        raise typed from error


_LOCKED = (
    "the database is locked: the transaction given as within= had read before another process "
    "wrote. Begin it with BEGIN IMMEDIATE (Django: OPTIONS transaction_mode IMMEDIATE) and retry"
)
_NO_TABLES = (
    "the database of the connection given as within= has no offpath tables: is it the one in the "
    "app's URL? If so, run `offpath migrate`"
)
# By SQLSTATE: exceptions of the connection, and servers that an operator stops.
_CUT_STATES = ("08", "57P")
_CUT_WORDS = ("closed", "connection was lost", "server closed", "not connected", "no active conn")


def _typed(error: Exception) -> OffpathError | None:
    cause: BaseException = getattr(error, "orig", None) or error  # SQLAlchemy wraps the driver's
    state = str(getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None) or "")
    text = str(cause).lower()
    if type(error).__name__ == "SynchronousOnlyOperation":
        return WrongConnection(
            "Django's connection cannot be used from async code: call app.blocking.enqueue(..., "
            "within=connection) in the thread of the transaction (sync_to_async)"
        )
    if "database is locked" in text or "database table is locked" in text:
        return StoreBusy(_LOCKED)
    if state in ("42P01", "3F000") or "no such table" in text:
        return SchemaMissing(_NO_TABLES)
    return _typed_by_state(state, text, cause)


def _typed_by_state(state: str, text: str, cause: BaseException) -> OffpathError | None:
    if state.startswith(_CUT_STATES) or any(word in text for word in _CUT_WORDS):
        return StoreUnavailable(f"the connection given as within= does not work: {cause}")
    if state == "25P02":
        return StoreError(
            "the transaction given as within= has failed: roll it back, then repeat all of it"
        )
    if state == "25006" or "readonly database" in text:
        return WrongConnection(
            "the transaction given as within= is read only: begin it READ WRITE. If its connection "
            "was not made so, look at default_transaction_read_only of its role and database, and "
            "whether its address leads to a standby"
        )
    if state == "53100" or "disk is full" in text:
        return StoreUnavailable(
            f"the disk of the database is full ({cause}): make room, then repeat the transaction"
        )
    if state in ("40001", "40P01"):
        return StoreBusy("the transaction given as within= lost a conflict: repeat all of it")
    if state or _is_database_error(cause):
        return StoreRejected(f"the database refused the jobs: {cause}")
    return None


def _is_database_error(cause: BaseException) -> bool:
    """True if it is of a PEP 249 library: those have a base of this name."""
    # By the name, since no library is imported that the caller does not use.
    return any(each.__name__ == "DatabaseError" for each in type(cause).__mro__)

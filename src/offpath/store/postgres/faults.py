"""The driver's errors in our own words: no error of psycopg leaves the package."""

from __future__ import annotations

import psycopg
from psycopg_pool import PoolTimeout, TooManyRequests

from offpath.errors import (
    SchemaMissing,
    SchemaOutdated,
    StoreBusy,
    StoreError,
    StoreRejected,
    StoreUnavailable,
)

_MISSING = frozenset({"42P01", "3F000"})
_OUTDATED = frozenset({"42703", "42883", "42704"})
# The server has undone the transaction in both cases, so a repeat writes nothing twice.
_AGAIN = frozenset({"40001", "40P01"})
_FORGOTTEN = frozenset({"26000", "42P05"})
_PROTOCOL = "08P01"
_UNSUPPORTED = "0A000"
_STALE_PLAN = "RevalidateCachedQuery"
"""The server's function that finds that a plan does not fit its table any more."""
_READ_ONLY = "25006"
_DISK_FULL = "53100"
_ON_A_STANDBY = frozenset({_READ_ONLY, _UNSUPPORTED, "40001", "40P01"})
"""The errors of a standby: for a write, or for a read that its recovery is in the way of."""
# A lock that was not free in time, or a statement that was ended at its limit.
_BUSY = frozenset({"55P03", "57014"})
_TAKEN = "23505"
_UNIQUE_KEY = "job_unique"
_CHANGES_HANDS = frozenset(
    {
        _UNIQUE_KEY,
        "ledger_key_pkey",
        "ledger_link_pkey",
        "ledger_side_pkey",
        "ledger_side_unique",
        "ledger_attempt_key",
    }
)
"""Unique indexes of which a transaction looks first who holds a key, and then writes it."""
_FORBIDDEN = "42501"
# Bad values, violated constraints, and rows or keys that are too big for the server.
_REFUSED_CLASSES = frozenset({"22", "23", "54"})
# Class 25 is among them for 25P03: the server ends a session that rests in a transaction.
_GONE_CLASSES = frozenset({"08", "53", "57", "58", "25"})


class KeyMoved(StoreBusy):
    """A job's unique key changed hands at each attempt. Nothing was written; retry later.

    It is nobody's fault: who answers for a batch tells it of the job it concerns, and of no other.
    """


_COUNTERS = {"log_pkey": "catch_up_log", "message_position": "catch_up_messages"}
"""Unique indexes of positions that a counter gives, and what moves the counter past the rows."""


class CounterBehind(StoreBusy):
    """A counter gave a position that a row has already. Nothing was written.

    A row was written by hand, or a backup was restored without its counters. A store moves the
    counter on and writes again; in a caller's transaction it can only say so.
    """

    def __init__(self, index: str) -> None:
        super().__init__(
            f"the counter behind {index} gives positions that rows have already: nothing was "
            "written. A write outside of your transaction sets it right; `offpath doctor` shows it"
        )
        self.catch_up = _COUNTERS[index]


def behind(error: Exception) -> CounterBehind | None:
    """``error`` as that of a counter, if it is one."""
    if isinstance(error, CounterBehind):
        return error
    if not isinstance(error, psycopg.Error):
        return None
    index = error.diag.constraint_name
    taken = error.sqlstate == _TAKEN and index in _COUNTERS
    return CounterBehind(index) if taken and index is not None else None


class OnStandby(psycopg.errors.ReadOnlySqlTransaction):
    """A standby answers at the address: it cannot write. Nothing was written."""


def forgotten(error: psycopg.Error) -> bool:
    """True if the session does not have the prepared statement that we believe it has.

    Another session is serving us: there is a pooler that we took for none. Nothing was done then.
    """
    return error.sqlstate in _FORGOTTEN


def stale(error: psycopg.Error) -> bool:
    """True if a table was altered since a statement was prepared. Nothing was done then.

    The code stands for much else; the name of the server's function is the same in each language.
    """
    return error.sqlstate == _UNSUPPORTED and (
        error.diag.source_function == _STALE_PLAN or "cached plan" in str(error)
    )


def pools_statements(error: psycopg.Error) -> bool:
    """True if a pooler refused BEGIN, since it hands out its sessions for one statement each."""
    return error.sqlstate == _PROTOCOL and "statement pooling" in str(error)


def from_standby(error: psycopg.Error, *, standby: bool) -> bool:
    """True if it means that a standby answered; ``standby``: the session says that it is one.

    A pooler in between may not pass that on, and then the server's own words tell.
    """
    # A stale plan has the code of an unsupported statement, and says nothing about a standby.
    if error.sqlstate not in _ON_A_STANDBY or stale(error):
        return False
    return standby or "recovery" in str(error)


def retryable(error: psycopg.Error) -> bool:
    """True if the whole transaction may succeed when it is run again at once.

    A unique key taken by somebody else between a statement's look and its write is one of these:
    the next look sees it.
    """
    if isinstance(error, OnStandby):
        return False
    again = error.sqlstate in _AGAIN or forgotten(error) or stale(error)
    return again or (error.sqlstate == _TAKEN and error.diag.constraint_name in _CHANGES_HANDS)


def translated(error: Exception, shown: str) -> StoreError:
    """``error`` as one of ours. ``shown`` is the address without its password."""
    # Without a code the driver itself has refused the value, and nothing was sent.
    if isinstance(error, psycopg.DataError) and error.sqlstate is None:
        return StoreRejected(f"Postgres cannot store a value: {_text(error)}")
    if isinstance(error, TimeoutError):
        return StoreUnavailable(
            f"{shown} did not answer in time; what was asked may have been done or not"
        )
    if (counter := behind(error)) is not None:
        return counter
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    # Before the classes: by its class 23 the error would be that of a value, and blame the job.
    if isinstance(error, psycopg.Error) and error.diag.constraint_name == _UNIQUE_KEY:
        return KeyMoved("a unique key changes hands too fast: nothing was written, try again")
    if isinstance(error, psycopg.Error) and pools_statements(error):
        return StoreError(
            f"{shown} is a pooler in statement mode, which keeps no transaction together: nothing "
            "was written. Set pool_mode = transaction there, or give the address of the server"
        )
    if state is None or isinstance(error, (PoolTimeout, TooManyRequests)):
        text = _text(error)
        return StoreUnavailable(f"cannot reach {shown}: {text}{_advice(text)}")
    return _by_state(state, _text(error), shown)


def _by_state(state: str, text: str, shown: str) -> StoreError:
    if state in _AGAIN | _BUSY:
        return StoreBusy(f"{shown} was busy for too long ({text}): nothing was written, try again")
    if state in _MISSING:
        return SchemaMissing(f"{shown} has no offpath tables ({text}): run `offpath migrate`")
    if state in _OUTDATED:
        return SchemaOutdated(f"the schema in {shown} does not fit ({text}): run `offpath migrate`")
    if state == _FORBIDDEN:
        return StoreError(
            f"the role has no right to do this in {shown} ({text}): grant it, or let an owner run "
            "what `offpath migrate --sql` prints"
        )
    if state[:2] in _REFUSED_CLASSES:
        return StoreRejected(f"Postgres refused a value: {text}")
    if state == _READ_ONLY:
        return StoreUnavailable(
            f"{shown} is read only ({text}): the address leads to a standby, or writing was turned "
            "off there (default_transaction_read_only). Nothing was written; repeat the call when "
            "it leads to the primary again, or writing is on"
        )
    if state == _DISK_FULL:
        return StoreUnavailable(
            f"the disk of {shown} is full ({text}): nothing was written. Make room on the server, "
            "then repeat the call"
        )
    if state[:2] in _GONE_CLASSES:
        return StoreUnavailable(f"{shown} is not available: {text}")
    return StoreError(f"{shown} failed with {state}: {text}")


def _advice(text: str) -> str:
    """The remedy for a connection that the server refused; the driver keeps no code of that."""
    if not text.endswith("does not exist"):
        return ""
    if 'FATAL:  database "' in text:
        return ". Create it (CREATE DATABASE), or correct the name in the address"
    return ". Create it (CREATE ROLE … LOGIN), or correct the user in the address"


def _text(error: Exception) -> str:
    """One line without the values of a row, which may be secret.

    The server puts these into its DETAIL and CONTEXT lines; only its first message is used.
    """
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        return error.diag.message_primary
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__

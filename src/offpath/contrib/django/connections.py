"""Django's connections around a handler: none is left stale, none leaks with its thread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from asgiref.sync import sync_to_async
from django.db import (
    InterfaceError,
    OperationalError,
    close_old_connections,
    connections,
    reset_queries,
)
from django.utils import translation

from offpath.errors import Snooze

_DRIVERS: Final = frozenset({"psycopg", "psycopg2", "psycopg_pool"})
_AWAY: Final = frozenset({"57P01", "57P02", "57P03", "53300"})
"""States of a server that goes down, comes up, or has no connection left."""
PATIENCE: Final = 2.0
"""Seconds after which a job runs again whose handler met a database that was away."""
MOST_SNOOZES: Final = 50
"""Runs of one job that are forgiven so: after them the error is the handler's, and counts."""


@contextmanager
def fresh_connections(_run: object = None) -> Iterator[None]:
    """Close this thread's stale connections before and after what runs inside.

    It fits ``around=`` of an app or a sync task of yours. Inside of an atomic block, as in a test,
    it closes nothing. The query log and the language are set back too.
    """
    close_stale()
    reset_queries()
    language = translation.get_language()
    try:
        yield
    finally:
        _set_back(language)
        close_stale()


@asynccontextmanager
async def fresh_async_connections(_run: object = None) -> AsyncIterator[None]:
    """Do the same for an async handler, in the thread that its ORM calls share."""
    await sync_to_async(close_stale)()
    language = translation.get_language()
    try:
        yield
    finally:
        _set_back(language)
        await sync_to_async(close_stale)()


def close_stale() -> None:
    """Close what is broken or too old, unless this thread is in the middle of a transaction."""
    if not any(one.in_atomic_block for one in connections.all(initialized_only=True)):
        close_old_connections()


def _set_back(language: str | None) -> None:
    if language is None:
        translation.deactivate_all()
    else:
        translation.activate(language)


def is_away(error: BaseException) -> bool:
    """True if an error says that Postgres is away or full, and not that a query failed.

    Of a deadlock, or of a SQLite file that is busy, the task's own retries take care.
    """
    cause = error.__cause__
    if not isinstance(error, OperationalError | InterfaceError) or cause is None:
        return False
    if type(cause).__module__.partition(".")[0] not in _DRIVERS:
        return False
    # a driver that could not connect, or was cut off, has no state from the server
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    return state is None or state[:2] == "08" or state in _AWAY


def snooze(deliveries: int) -> Snooze | None:
    """The way to put a job off whose database is away; None when it was put off too often."""
    if deliveries > MOST_SNOOZES:
        return None
    return Snooze(PATIENCE, reason="database_away")

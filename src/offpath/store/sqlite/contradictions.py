"""Jobs whose columns deny each other: set aside, so that no statement fails for all by one of them.

The rules of the table's first day keep such rows out, and so does no tool but one that turns the
checks of SQLite off. Once there, the same rules refuse each change of them, and with it the whole
statement: a promotion, a rescue, a bulk redrive.
"""

from __future__ import annotations

import sqlite3
import time
from typing import Final

from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.session import SQL, Session

EVERY: Final = 60.0
"""Seconds between two looks: each walks over jobs, and what it could find is rare."""

# The write lock is held meanwhile, so the look has a bound.
_AT_ONCE: Final = 10_000


class Contradictions:
    """The looks for such jobs of one connection, not more often than now and then."""

    __slots__ = ("_looked",)

    def __init__(self) -> None:
        self._looked: dict[bool, float] = {}

    def set_aside(self, session: Session, now: int, *, everywhere: bool) -> bool:
        """Set aside the ready jobs that deny themselves, or all; True if there was one.

        Within a transaction. ``now`` is in microseconds.
        """
        at = time.monotonic()
        if at - self._looked.get(everywhere, float("-inf")) < EVERY:
            return False
        self._looked[everywhere] = at
        found = session.run(SQL["contradictory"](everywhere=everywhere, limit=_AT_ONCE))
        if not found:
            return False
        jobs = batch([seq for (seq,) in found])
        changed = session.run(SQL["set_contradictory_aside"](jobs=jobs, now=now))
        if len(changed) >= _AT_ONCE:
            del self._looked[everywhere]  # there may be more than one look takes
        return bool(changed)


def is_contradiction(error: BaseException) -> bool:
    """True if a rule about values refused a statement."""
    cause = error if isinstance(error, sqlite3.Error) else error.__cause__
    return getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_CONSTRAINT_CHECK

"""Running the schema steps: each in one transaction, under the write lock, exactly once."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from typing import Final

from offpath.store.protocol import Migration
from offpath.store.schema import Step, pending, steps
from offpath.store.sqlite.instants import instant
from offpath.store.sqlite.session import SQL, Session

KNOWN: Final = steps("offpath.store.sqlite.migrations")


def applied(session: Session) -> list[Migration]:
    """What the file says was applied, oldest first."""
    if not session.run(SQL["migration_table"]()):
        return []
    return [
        Migration(number=number, name=name, checksum=checksum, applied_at=instant(at))
        for number, name, checksum, at in session.run(SQL["migration_list"]())
    ]


def migrate(session: Session, now: int) -> list[Migration]:
    """Apply what is pending; returns what this call applied.

    Others may do the same at once: each step looks again under the lock. A file that needs
    nothing is not locked.
    """
    done: list[Migration] = []
    while pending(KNOWN, applied(session)):
        session.control(SQL["begin"])
        try:
            done += _next(session, now)
            session.control(SQL["commit"])
        except BaseException:
            session.rollback()
            raise
    return done


def _next(session: Session, now: int) -> list[Migration]:
    """Apply the first step that is still pending now that the lock is held."""
    left = pending(KNOWN, applied(session))
    if not left:
        return []
    step = left[0]
    session.run(SQL["migration_make"]())
    session.before(f"migration_{step.number:04}")
    for statement in statements(step.sql):
        session.raw(statement)
    values = {"number": step.number, "name": step.name, "checksum": step.checksum}
    session.run(SQL["migration_add"](**values, applied_at=now))
    return [_migration(step, now)]


def _migration(step: Step, now: int) -> Migration:
    return Migration(
        number=step.number, name=step.name, checksum=step.checksum, applied_at=instant(now)
    )


def statements(script: str) -> Iterator[str]:
    """The statements of a script, one by one.

    ``executescript`` would commit first; SQLite's own test says where a statement ends.
    """
    statement = ""
    for piece in re.split(r"(?<=;)", script):
        statement += piece
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement

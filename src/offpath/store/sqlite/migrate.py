"""Running the schema steps: each in one transaction, under the write lock, exactly once.

A new file takes the baseline instead, which is what all of them make, in one transaction.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from typing import Final

from offpath.store.programs.instants import instant
from offpath.store.protocol import Migration
from offpath.store.schema import SchemaStep, pending, steps
from offpath.store.sqlite.baseline import baseline
from offpath.store.sqlite.session import SQL, Session

KNOWN: Final = steps("offpath.store.sqlite.migrations")


def applied(session: Session) -> list[Migration]:
    """The migrations that the file has as applied, oldest first."""
    if not session.run(SQL["has_record"]()):
        return []
    return [
        Migration(number=number, name=name, checksum=checksum, applied_at=instant(at))
        for number, name, checksum, at in session.run(SQL["applied"]())
    ]


def migrate(session: Session, now: int) -> list[Migration]:
    """Apply what is pending; returns what this call applied.

    Others may do the same at once: each step looks again under the lock. A file that needs
    nothing is not locked.
    """
    done = [] if applied(session) else _locked(session, now, _whole)
    while pending(KNOWN, applied(session)):
        done += _locked(session, now, _next)
    return done


def _locked(
    session: Session, now: int, step: Callable[[Session, int], list[Migration]]
) -> list[Migration]:
    session.control(SQL["begin"])
    try:
        done = step(session, now)
        session.control(SQL["commit"])
    except BaseException:
        session.rollback()
        raise
    return done


def _whole(session: Session, now: int) -> list[Migration]:
    """Give a new file at once what all steps would make of it, and record them as applied."""
    found = baseline(KNOWN)
    if found is None or applied(session):  # another was first, now that the lock is held
        return []
    covered, text = found
    session.run(SQL["make_record"]())
    session.before("baseline")
    for statement in statements(text):
        session.raw(statement)
    return [_recorded(session, step, now) for step in covered]


def _next(session: Session, now: int) -> list[Migration]:
    """Apply the first step that is still pending now that the lock is held."""
    left = pending(KNOWN, applied(session))
    if not left:
        return []
    step = left[0]
    session.run(SQL["make_record"]())
    session.before(f"migration_{step.number:04}")
    for statement in statements(step.sql):
        session.raw(statement)
    return [_recorded(session, step, now)]


def _recorded(session: Session, step: SchemaStep, now: int) -> Migration:
    values = {"number": step.number, "name": step.name, "checksum": step.checksum}
    session.run(SQL["record"](**values, applied_at=now))
    return Migration(
        number=step.number, name=step.name, checksum=step.checksum, applied_at=instant(now)
    )


def script(*, after: int = 0) -> str:
    """SQL that brings a file from step ``after`` (0: nothing) up to date, to run by hand.

    It records what it applied, so that no process applies it again.
    """
    head = f"{SQL['make_record'].named};\n\n"
    return "\n".join(_step_text(step, head) for step in KNOWN if step.number > after)


def _step_text(step: SchemaStep, head: str) -> str:
    # number, name and checksum are of our own making: digits, lower-case words and hex
    note = SQL["record"].named
    for name, value in (
        ("number", str(step.number)),
        ("name", f"'{step.name}'"),
        ("checksum", f"'{step.checksum}'"),
        ("applied_at", "unixepoch() * 1000000"),
    ):
        note = note.replace(f":{name}", value)
    return f"begin immediate;\n\n{head}{step.sql.strip()}\n\n{note};\n\ncommit;\n"


def statements(text: str) -> Iterator[str]:
    """The statements of a script, one by one.

    ``executescript`` would commit first; SQLite's own test says where a statement ends.
    """
    statement = ""
    for piece in re.split(r"(?<=;)", text):
        statement += piece
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement

"""One connection to the file: how it is set up, and how statements run on it."""

from __future__ import annotations

import math
import os
import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from offpath.errors import ConfigurationError, InvalidArgument, StoreBusy, StoreUnavailable
from offpath.store.programs.dialect import Queries, Steps
from offpath.store.sql import (
    DEFAULT_SCHEMA,
    Catalogue,
    Query,
    Row,
    Statement,
    catalogue,
    prefixed,
    with_prefix,
)
from offpath.store.sqlite.faults import CAUGHT, is_busy, primary_code, translated
from offpath.store.sqlite.file import DatabaseFile
from offpath.store.sqlite.forks import GATE

T = TypeVar("T")

MINIMUM: Final = (3, 38, 0)
"""RETURNING, STRICT tables, ``->>`` and JSON built in."""

_LOOK_EVERY: Final = 10_000
"""Instructions of SQLite's machine between two looks at the clock: less than a millisecond."""
_FIRST_PAUSE: Final = 0.0002
_LONGEST_PAUSE: Final = 0.005
# Twice what the driver keeps by itself: a statement that is not kept is compiled anew each time.
_CACHED_STATEMENTS: Final = 256
_STALL: Final = 0.5
_GRACE: Final = 1.0

SQL: Final[Catalogue] = catalogue("offpath.store.sqlite")


def file_path(path: str | os.PathLike[str]) -> Path:
    """``path`` as an absolute path. Raises ``InvalidArgument`` for what is not a file."""
    text = os.fspath(path)
    if not text or text == ":memory:" or "mode=memory" in text:
        message = (
            "an in-memory SQLite database is private to one connection and cannot be a store: "
            'use "memory://" or give a file'
        )
        raise InvalidArgument(message)
    if text.startswith("file:") or "\0" in text:
        message = f"{text!r} is not a plain file path: give one, or a sqlite:///… URL"
        raise InvalidArgument(message)
    return Path(text).absolute()


def require_version(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> None:
    """Raise ``ConfigurationError`` when the SQLite library is too old."""
    if version < MINIMUM:
        have = ".".join(map(str, version))
        need = ".".join(map(str, MINIMUM[:2]))
        message = (
            f"Python is linked with SQLite {have}; offpath needs {need} or newer: "
            "use a Python with a newer SQLite"
        )
        raise ConfigurationError(message)


def patiently(
    action: Callable[[], T], *, limit: float, waited: Callable[[float], None] | None = None
) -> T:
    """Run ``action`` until the file is not locked, for at most ``limit`` seconds.

    Short jittered pauses give more throughput and a far lower worst case than SQLite's own
    waiting, which backs off to 100 ms. ``waited`` is told for how long others had the file.
    """
    try:
        return action()
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise
    started = time.monotonic()
    try:
        return _again(action, started + limit)
    finally:
        if waited is not None:
            waited(time.monotonic() - started)


def _again(action: Callable[[], T], until: float) -> T:
    pause = _FIRST_PAUSE
    while True:
        # With jitter: processes that met at the lock would meet there again.
        time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - not a secret
        pause = min(pause * 2, _LONGEST_PAUSE)
        try:
            return action()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= until:
                raise


class Session:
    """A connection, used by one thread at a time."""

    __slots__ = (
        "__weakref__",
        "_connection",
        "_durable",
        "_limit",
        "_schema",
        "_stalled",
        "_until",
        "before",
        "closed",
        "patience",
        "released",
        "stirred",
    )

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        before: Callable[[str], None],
        patience: float,
        schema: str = DEFAULT_SCHEMA,
        limit: float | None = None,
    ) -> None:
        self._connection = connection
        self._schema = schema
        self._limit = limit
        self._until = math.inf
        if limit is not None:
            connection.set_progress_handler(self._too_late, _LOOK_EVERY)
        self._durable = True  # as _set_up leaves it
        self._stalled = float("-inf")
        self.before = before
        self.patience = patience
        self.stirred = False
        """True if the transition at hand wrote messages or events, or made messages due."""
        self.released = False
        """True if it let jobs go that waited for others."""
        self.closed = False
        """True if it is closed: by its holder, or before a fork."""

    @property
    def in_transaction(self) -> bool:
        """True if a transaction is open."""
        return self._connection.in_transaction

    def run(self, query: Query) -> list[Row]:
        """Run one statement and give back all its rows. Raises offpath errors only."""
        self.before(query.statement.name)
        if self._limit is not None:
            self._until = time.monotonic() + self._limit
        try:
            return self._rows(query)
        except CAUGHT as error:
            if primary_code(error) == sqlite3.SQLITE_INTERRUPT and self._too_late():
                raise StoreBusy(f"a read of more than {self._limit:g} s was stopped") from error
            # Inside of a transaction a wait helps nobody: its snapshot would be as old afterwards.
            if not is_busy(error) or self._connection.in_transaction:
                raise translated(error) from error
        return self._patiently(lambda: self._rows(query))

    def _too_late(self) -> bool:
        """True if the statement has had its time; SQLite ends it then."""
        return time.monotonic() >= self._until

    def _rows(self, query: Query) -> list[Row]:
        text = prefixed(query.statement, self._schema).named
        return self._connection.execute(text, query.params).fetchall()

    def _patiently(self, action: Callable[[], T]) -> T:
        try:
            return patiently(action, limit=self.patience, waited=self._note_wait)
        except CAUGHT as error:
            raise translated(error) from error

    def _note_wait(self, seconds: float) -> None:
        if seconds > _STALL:
            self._stalled = time.monotonic()

    @property
    def stalled(self) -> bool:
        """True if this connection has just waited long for another transaction.

        Nobody could renew a lease in that time, so an expired one proves nothing yet.
        """
        return time.monotonic() - self._stalled < _GRACE

    def drive(self, steps: Queries[T]) -> T:
        """Run a transition to its end."""
        try:
            query = next(steps)
            while True:
                query = steps.send(self.run(query))
        except StopIteration as end:
            answer: T = end.value
            return answer

    def perform(self, steps: Steps[T]) -> T:
        """Run a program to its end; what this database does not need is not sent."""
        try:
            send = next(steps)
            while True:
                rows = [
                    [] if query.statement.nothing else self.run(query) for query in send.queries
                ]
                send = steps.send(rows)
        except StopIteration as end:
            answer: T = end.value
            return answer

    def control(self, statement: Statement) -> None:
        """Run a statement of the transaction's own life, waiting while the file is locked."""
        self.before(statement.name)
        self.raw(statement.named)

    def raw(self, sql: str) -> list[Row]:
        """Run plain SQL without parameters, waiting while the file is locked."""
        text = with_prefix(sql, self._schema)
        return self._patiently(lambda: self._connection.execute(text).fetchall())

    def once(self, sql: str) -> list[Row]:
        """Run plain SQL without waiting for anybody."""
        try:
            return self._connection.execute(with_prefix(sql, self._schema)).fetchall()
        except CAUGHT as error:
            raise translated(error) from error

    def sync(self, *, durably: bool) -> None:
        """Set if the next commits wait for the disk; outside a transaction only."""
        if durably != self._durable:
            self.raw(SQL["synchronous" if durably else "synchronous_later"].named)
            self._durable = durably

    def rollback(self) -> None:
        """Leave the transaction, if one is still open; some errors have ended it already."""
        if self._connection.in_transaction:
            try:
                self._connection.rollback()
            except CAUGHT as error:
                raise translated(error) from error

    def interrupt(self) -> None:
        """Abort the running statement; may be called from another thread."""
        if not self.closed:
            self._connection.interrupt()

    def close(self) -> None:
        """Close the connection; an open transaction is rolled back."""
        self.closed = True
        try:
            self._connection.close()
        except CAUGHT as error:
            raise translated(error) from error


def connect(
    file: DatabaseFile,
    *,
    before: Callable[[str], None],
    patience: float,
    create: bool,
    reading: bool,
    schema: str = DEFAULT_SCHEMA,
    limit: float | None = None,
) -> Session:
    """Open the file, set up as every connection of offpath must be.

    ``limit``: seconds after which a statement is ended; None: it has its time.

    Without ``create`` a missing file is an error: a file that was moved away under a running
    worker must not come back empty. Raises offpath errors only.
    """
    path = file.path
    if create:
        require_folder(path)
    with GATE:
        GATE.require()
        file.check()
        if create:
            file.make()
        connection = _opened(file, create=create)
        session = Session(connection, before=before, patience=patience, schema=schema, limit=limit)
        GATE.add(session)
        try:
            _set_up(session, path, reading=reading)
            file.remember()
        except BaseException:
            session.close()
            raise
    return session


def _opened(file: DatabaseFile, *, create: bool) -> sqlite3.Connection:
    path = file.path
    try:
        return sqlite3.connect(
            f"{path.as_uri()}?mode={'rwc' if create else 'rw'}",
            uri=True,
            timeout=_LONGEST_PAUSE,  # as busy_timeout in connection.sql
            # The driver would begin deferred transactions: they can fail as they turn to writing.
            isolation_level=None,
            # Used by one thread at a time, and interrupted from another.
            check_same_thread=False,
            cached_statements=_CACHED_STATEMENTS,
        )
    except sqlite3.Error as error:
        message = f"cannot open {path}: {error}"
        raise StoreUnavailable(message) from error


def require_folder(path: Path) -> None:
    """Raise ``StoreUnavailable`` where a file cannot be: nobody made its directory."""
    if not path.parent.is_dir():
        message = f"cannot open {path}: the directory {path.parent} does not exist"
        raise StoreUnavailable(message)


def _set_up(session: Session, path: Path, *, reading: bool) -> None:
    [[mode]] = session.raw(SQL["journal_mode"].named)
    if mode != "wal":
        message = (
            f"{path} cannot be put into WAL mode (it stays {mode!r}): it must lie on a local, "
            "writable file system"
        )
        raise StoreUnavailable(message)
    for name in ("synchronous", "no_autocheckpoint", "no_mmap", "temp_store", "cache_size"):
        session.raw(SQL[name].named)
    if reading:
        session.raw(SQL["query_only"].named)

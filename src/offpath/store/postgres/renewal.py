"""Renewing a lease from a thread: a connection of its own, blocking, for one statement.

The pool belongs to the event loop, which is blocked when this is wanted.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen, PQGenConn
from psycopg.conninfo import make_conninfo

from offpath.store.postgres.address import Address
from offpath.store.postgres.announcements import PostgresPart
from offpath.store.postgres.dialect import PostgresDialect
from offpath.store.postgres.faults import translated
from offpath.store.programs import workers
from offpath.store.sql import Query

T = TypeVar("T")

PATIENCE: Final = 5.0
"""Seconds for each answer of the server: a renewal that waits longer is made anew."""
AT_ONCE: Final = 2
"""Connections at once, while the server answers: two hundred workers in one process whose loop is
blocked would otherwise open as many in the same moment, and hold up the loop by it."""
_UNHEARD: Final = {"tcp_user_timeout": "5000"}
"""Milliseconds after which a network that swallows what is sent is noticed."""


class RenewalConnection(psycopg.Connection[Any]):
    """A connection that is waited for in a thread, and not for ever."""

    def wait(self, gen: PQGen[T] | PQGenConn[T], *args: Any, **options: Any) -> T:  # noqa: ANN401 - as the driver's
        """Wait as the driver does; it asks again each tenth of a second."""
        answer: T = super().wait(_bounded(gen, time.monotonic() + PATIENCE), *args, **options)
        return answer


def _bounded(gen: Any, end: float) -> Any:  # noqa: ANN401 - as the driver's
    """The driver's generator; raises once the server has not answered until ``end``."""
    ready = None
    while True:
        try:
            wanted = gen.send(ready)
        except StopIteration as over:
            return over.value
        ready = yield wanted
        if not ready and time.monotonic() > end:
            raise psycopg.OperationalError("the server did not answer a renewal in time")


class RenewalConnections:
    """The connection of the thread that renews, kept from one renewal to the next.

    A block of the loop lasts for many renewals, and a server that is short of connections refuses
    new ones. Where two threads renew at once, each has one. A third waits, but no longer than an
    answer may take: what holds up others must not cost it its lease.
    """

    def __init__(self, address: Address) -> None:
        self._conninfo = make_conninfo(address.conninfo, **_UNHEARD)
        self._kept: deque[RenewalConnection] = deque()
        self._turns = threading.Semaphore(AT_ONCE)
        self._closed = False

    def run(self, act: Callable[[RenewalConnection], T]) -> T:
        """Call ``act`` with a connection. Raises ``psycopg.Error``."""
        in_turn = self._turns.acquire(timeout=PATIENCE)
        try:
            return self._run(act)
        finally:
            if in_turn:
                self._turns.release()

    def _run(self, act: Callable[[RenewalConnection], T]) -> T:
        try:
            kept = self._kept.pop()
        except IndexError:
            return self._used(self._made(), act)
        try:
            return self._used(kept, act)
        except psycopg.Error:  # it was cut, or its server leads no more: a new one finds out
            return self._used(self._made(), act)

    def release(self) -> None:
        """Close the one that is kept, if no thread has it just now. Does not wait."""
        self._trim(0)

    def close(self) -> None:
        """Keep none any more. Idempotent."""
        self._closed = True
        self.release()

    def _made(self) -> RenewalConnection:
        made = RenewalConnection.connect(self._conninfo, prepare_threshold=None)
        # whatever the role's transactions do by default
        made.read_only = False
        made.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        return made

    def _used(self, connection: RenewalConnection, act: Callable[[RenewalConnection], T]) -> T:
        try:
            answer = act(connection)
        # A connection in an unknown state is not kept: the next renewal may be the one that counts.
        except BaseException:
            connection.close()
            raise
        self._kept.append(connection)
        # all that may be at work: one that is opened for each renewal would cost more than it
        self._trim(0 if self._closed else AT_ONCE)
        return answer

    def _trim(self, most: int) -> None:
        while len(self._kept) > most:
            try:
                self._kept.pop().close()
            except IndexError:  # another thread took it
                return


class Vouching(PostgresPart):
    """Renews the leases of workers whose event loops are blocked."""

    _address: Address
    _renewals: RenewalConnections

    def vouch(self, worker: str, *, lease_seconds: float, report: str | None = None) -> bool:
        """Renew the lease of a worker whose event loop is blocked, over a connection of its own.

        Returns False for a worker that is not known. Blocks.
        """
        dialect = PostgresDialect(self._sql, self._now())
        query = workers.vouch(dialect, worker, lease_seconds, report)
        try:
            return self._renewals.run(lambda connection: self._vouched(connection, query))
        except psycopg.Error as error:
            raise translated(error, self._address.shown) from error

    def _vouched(self, connection: RenewalConnection, query: Query) -> bool:
        limits = self._sql["pin"]().statement.pyformat.encode()
        text = query.statement.pyformat.encode()
        # Within a transaction, for a pooler may give each statement another session.
        with connection.transaction():
            connection.execute(limits)
            return connection.execute(text, query.params).fetchone() is not None

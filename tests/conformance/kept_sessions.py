"""Sessions of Postgres that outlive the stores of a test: the next store gets one with its plans.

A new session learns of each table and plans each statement anew, which is two thirds of what a
server does for a test. A kept one has no settings, no locks and hears nothing.
"""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import psycopg
from psycopg.pq import ConnStatus, TransactionStatus
from psycopg.pq.abc import PGconn

from offpath.store.postgres import pool

SPARE = 8
"""Sessions of one address that are kept: a test opens few stores at once, a server takes 200."""
_PLAIN = b"reset all; unlisten *; select pg_advisory_unlock_all()"

_Key = tuple[str, str]
_IDLE: dict[_Key, list[tuple[PGconn, Any]]] = {}


class KeptConnection(pool.Connection):
    """A connection whose session is kept when it is closed."""

    _key: _Key | None = None
    _given_up = False

    @classmethod
    async def connect(cls, conninfo: str = "", **given: Any) -> Self:
        """A session that is kept, or a new one."""
        key = (conninfo, repr(sorted(given.items())))
        idle = _IDLE.get(key, [])
        while idle:
            made = cls._revived(*idle.pop(), **given)
            made._key = key
            try:
                await made.execute(_PLAIN)
            except psycopg.Error:
                await made.close()
            else:
                return made
        made = await super().connect(conninfo, **given)
        made._key = key
        return made

    @classmethod
    def _revived(
        cls, session: PGconn, prepared: Any, *, cursor_factory: Any, autocommit: bool, **given: Any
    ) -> Self:
        made = cls(session)
        made.wire.prepared = prepared
        made._autocommit = autocommit
        made.cursor_factory = cursor_factory
        made.prepare_threshold = given["prepare_threshold"]
        return made

    @property
    def closed(self) -> bool:
        """True for one whose session is kept, too."""
        return self._given_up or super().closed

    async def close(self) -> None:
        """Keep the session, if nobody would notice."""
        idle = [] if self._key is None else _IDLE.setdefault(self._key, [])
        sound = self.pgconn.transaction_status == TransactionStatus.IDLE
        if self._key is None or self.closed or not sound or len(idle) >= SPARE or self._pipeline:
            await super().close()
            return
        try:
            await asyncio.wait_for(self.execute(_PLAIN), 5)
        except (psycopg.Error, TimeoutError):
            await super().close()
            return
        self.wire.leave()
        self._given_up = self._closed = True
        idle.append((self.pgconn, self.wire.prepared))


@contextmanager
def kept_sessions() -> Iterator[None]:
    """Stores that are opened meanwhile keep their sessions."""
    ordinary = pool.Connection
    pool.Connection = KeptConnection  # type: ignore[misc]
    try:
        yield
    finally:
        pool.Connection = ordinary  # type: ignore[misc]


def forget() -> None:
    """Close the sessions that are kept."""
    for sessions in _IDLE.values():
        for session, _ in sessions:
            if session.status == ConnStatus.OK:
                session.finish()
    _IDLE.clear()


atexit.register(forget)

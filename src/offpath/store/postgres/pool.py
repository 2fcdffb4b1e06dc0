"""Our connections to one server: a pool of the driver's, and the one that was used last."""

from __future__ import annotations

import asyncio
import contextlib
import math
import select
from typing import TYPE_CHECKING, Any, Final, Self

import psycopg
from psycopg import AsyncRawCursor
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool, PoolClosed

from offpath.errors import AppClosed
from offpath.store.postgres.address import Address
from offpath.store.postgres.outage import POOL, quieten
from offpath.store.postgres.resolver import connected_at, with_addresses
from offpath.store.postgres.silence import Silence, SilenceWatch
from offpath.store.postgres.wire import Conversation
from offpath.store.sql import Catalogue

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

PATIENCE: Final = 40.0
"""Seconds for one transaction at most; the server's own limit for a statement is 30."""
POOL_PATIENCE: Final = 5.0
"""Seconds that anybody waits for a connection."""
_KEPT_FOR: Final = 60.0
"""Seconds until a connection that is in use all the time goes through the pool, which replaces
those that are old."""
_ASK_AFTER: Final = 10.0
"""Seconds of rest after which a connection is asked: a firewall may have dropped it unseen."""
_ANSWERS_IN: Final = 1.0
"""Seconds that a connection has to answer such a question; it is replaced otherwise."""
_poll = getattr(select, "poll", None)  # not there on Windows


class NamedConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection whose server's name was looked up in threads of our own."""

    # Made once for each connection: it is looked at before each use.
    _eye: Any = None

    @classmethod
    async def connect(cls, conninfo: str = "", **given: Any) -> Self:  # noqa: ANN401 - the driver's
        """Look the name up, and connect as the driver does."""
        connection = await super().connect(await with_addresses(conninfo), **given)
        connected_at(connection.info.host, connection.info.hostaddr)
        return connection

    def readable(self) -> bool:
        """True if the server has said anything, or hung up, while nothing was asked."""
        if _poll is None:
            return False
        if self._eye is None:
            self._eye = _poll()
            self._eye.register(self.fileno(), select.POLLIN)
        return bool(self._eye.poll(0))


class Connection(NamedConnection):
    """A connection that knows whether the session behind it is ours alone.

    Then its settings are made once, statements are prepared, and a transaction of one statement
    needs no BEGIN and COMMIT around it.
    """

    direct = False
    freely = False
    """It is of one who looks: it plans by values, and waits little, unless a transaction pins that.
    """
    of_offpath = True
    rested_at = 0.0
    """The time when it was given back, by the loop's clock."""
    taken_at = 0.0
    """The time when it came from the driver's pool."""
    patience = 0.0
    """Seconds for each answer, of the transaction that has it."""
    until = math.inf
    """The time at which that transaction must be over."""
    watch: SilenceWatch
    """Looks after its waits."""

    def __init__(self, pgconn: PGconn) -> None:
        super().__init__(pgconn)
        self.wire: Final = Conversation(pgconn)

    async def wait(self, gen: Any, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - the driver's
        """Talk by the driver, which watches the socket itself."""
        self.wire.leave()
        return await super().wait(gen, *args, **options)

    async def close(self) -> None:
        """Close it, and watch it no more: its number may be another socket's next."""
        self.wire.leave()
        await super().close()


class Pool:
    """The connections of one store, in the event loop that opened it.

    The one that was used last is kept beside the driver's pool and is the next to be used: a lone
    caller's statements follow each other on it without a visit to the pool, which costs as much as
    sending one. While somebody waits for a connection none is kept.
    """

    def __init__(self, address: Address, sql: Catalogue, *, size: int, freely: bool) -> None:
        self._watch: Final = SilenceWatch()
        self.pooled = address.direct is False
        """A pooler is known to be in between."""
        self._address = address
        self._sql = sql
        self._freely = freely
        self._kept: Connection | None = None
        self._asking = 0
        self._closed = False
        quieten()
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            address.conninfo,
            connection_class=Connection,
            # Our texts have the server's own marks: nothing is left to be read out of them. And
            # behind a pooler a prepared statement may be another session's.
            kwargs={
                "autocommit": True,
                "prepare_threshold": None,
                "cursor_factory": AsyncRawCursor,
            },
            configure=self._settle_in,
            # One at least, so that an address that does not work is found when the store opens.
            min_size=1,
            max_size=size,
            open=False,
            timeout=POOL_PATIENCE,
            # bounds the pool's own growing delay: work goes on soon after the server is back
            reconnect_timeout=3.0,
            name=POOL,
        )

    async def open(self) -> None:
        """Connect; raises the driver's error when that is not possible within seconds."""
        try:
            await self._pool.open(wait=True, timeout=POOL_PATIENCE)
        except psycopg.Error:
            await self._pool.close()
            raise
        except BaseException:
            await self._close_unheard()
            raise

    async def close(self) -> None:
        """Close every connection; those in use when they are given back."""
        self._closed = True
        self._watch.close()
        kept, self._kept = self._kept, None
        # Given back first: the pool closes only what it has.
        if kept is not None:
            await self._pool.putconn(kept)
        await self._pool.close()

    async def take(self, patience: float) -> Connection:
        """A connection that answers. One that died while it rested is replaced: nothing was sent.

        Raises ``AppClosed``, and the driver's ``PoolTimeout``.
        """
        # One bound for all tries: after a restart each connection of the pool may be dead.
        until = asyncio.get_running_loop().time() + min(patience, POOL_PATIENCE)
        while True:
            connection = await self._next(until)
            try:
                living = await self._answers(connection)
            except BaseException:
                # Also where the caller is cancelled: the pool counts a connection until it is given
                # back.
                await self._discard(connection)
                raise
            if living:
                connection.patience, connection.until = patience, math.inf
                return connection
            await self._discard(connection)

    def take_kept(self, patience: float) -> Connection | None:
        """The connection that was used last, if it needs no question. Nothing is waited for."""
        kept = self._kept
        if kept is None or not self._fresh(kept):
            return None
        self._kept = None
        kept.patience, kept.until = patience, math.inf
        return kept

    def keep(self, connection: Connection) -> bool:
        """Have it ready for the next caller; False: it belongs into the driver's pool."""
        # Those who wait for a connection are in the pool's line, so it must pass through there.
        now = connection.rested_at = asyncio.get_running_loop().time()
        if (
            self._kept is None
            and not self._asking
            and not self._closed
            and now - connection.taken_at < _KEPT_FOR
            and connection.pgconn.transaction_status == TransactionStatus.IDLE
        ):
            self._kept = connection
            return True
        return False

    async def give_back(self, connection: Connection) -> None:
        """Have it ready for the next, through the driver's pool, which may replace it."""
        await self._pool.putconn(connection)

    async def _next(self, until: float) -> Connection:
        kept, self._kept = self._kept, None
        if kept is not None:
            return kept
        now = asyncio.get_running_loop().time()
        self._asking += 1
        try:
            # Never without time: the tries before may have used it up, and a free one needs none.
            connection = await self._pool.getconn(timeout=max(until - now, 0.001))
        except PoolClosed:
            raise AppClosed("the store was closed during this call") from None
        finally:
            self._asking -= 1
        connection.taken_at, connection.watch = now, self._watch
        return connection

    def _fresh(self, connection: Connection) -> bool:
        """True if it has not rested for long, and the server has said nothing meanwhile."""
        if connection.closed or connection.readable():
            return False
        return asyncio.get_running_loop().time() - connection.rested_at < _ASK_AFTER

    async def _answers(self, connection: Connection) -> bool:
        """True if a connection that has rested can be used; a doubtful one is asked.

        A server that closed it has left its end, and often a last word, to be read. To look for
        that is a system call without a wait, so it is done before each use.
        """
        if connection.closed:
            return False
        if self._fresh(connection):
            return True
        try:
            until = asyncio.get_running_loop().time() + _ANSWERS_IN
            with connection.watch.bounded(connection, until):
                await connection.execute(b"")
        except (psycopg.Error, Silence):
            return False
        return not connection.closed

    async def _discard(self, connection: Connection) -> None:
        await connection.close()
        # The pool counts it until it is back, and then makes another one in its place.
        await self._pool.putconn(connection)

    async def _close_unheard(self) -> None:
        """Close the pool, also where who asks is cancelled meanwhile: its tasks end with it."""
        closing = asyncio.ensure_future(self._pool.close())
        while not closing.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(closing)

    async def _settle_in(self, connection: Connection) -> None:
        """Find out whether the session is ours alone, and if so make its settings.

        A pooler tells its clients a process of its own invention, not the one that serves them.
        """
        self.pooled = self._address.direct is False
        connection.freely = self._freely
        if self.pooled:
            return
        cursor = await connection.execute(self._sql["backend"].wire)
        if await cursor.fetchone() == (connection.info.backend_pid,):
            await connection.execute(self._sql["settle_in"].wire)
            connection.direct = True
            if self._freely:
                await connection.execute(self._sql["settle_in_freely"].wire)
        self.pooled = not connection.direct

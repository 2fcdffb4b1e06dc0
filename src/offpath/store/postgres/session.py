"""Our own connections: a pool, and transactions that are run again when the server says so."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg_pool import PoolTimeout

from offpath.errors import AppClosed, StoreError, StoreUnavailable
from offpath.store.postgres.address import Address
from offpath.store.postgres.faults import (
    CounterBehind,
    KeyMoved,
    OnStandby,
    behind,
    forgotten,
    from_standby,
    pools_statements,
    retryable,
    stale,
    translated,
)
from offpath.store.postgres.lone import LoneDoor
from offpath.store.postgres.outage import Outage
from offpath.store.postgres.pool import PATIENCE, POOL_PATIENCE, Connection, NamedConnection, Pool
from offpath.store.programs.dialect import Rows, Send, Steps, one
from offpath.store.sql import Catalogue, Query

if TYPE_CHECKING:
    from types import TracebackType

T = TypeVar("T")

Pin = Literal["pin", "limit"]
"""The settings that a transaction gets: see ``session.sql``."""

_IN_OUR_SESSION: Final[dict[Pin, tuple[str, ...]]] = {"pin": (), "limit": ("unpin",)}
"""The settings that are left to be made where the session itself was settled in."""
_IN_FREE_SESSION: Final[dict[Pin, tuple[str, ...]]] = {"pin": ("pin",), "limit": ()}
"""The same for one that plans by values."""


# The pauses between them add up to about two seconds at most.
_TRIES: Final = 10
_WAIT: Final = 0.002
"""Seconds, doubled with each attempt: the longest wait before the second one is twice that."""
CALL_PATIENCE: Final = 5.0
"""Seconds that a call in a request waits for each answer, unless a setting says otherwise."""
_ENDED: Final = frozenset({"57P01", "57P02", "57P05", "25P03", "08003", "08006"})
"""The server ended the session: it was stopped, or the session rested for too long."""

_chance = random.Random()  # noqa: S311 - only spreads retries


class Database:
    """Transactions over a pool of connections.

    ``before`` is called with each statement's name before it is sent; tests raise from it.
    ``freely``: its sessions plan by values, which spares reads of many rows a setting each.
    """

    def __init__(
        self,
        address: Address,
        sql: Catalogue,
        *,
        pool_size: int,
        call_patience: float = CALL_PATIENCE,
        freely: bool = False,
    ) -> None:
        self._call_patience = call_patience
        self._freely = freely
        self._outage = Outage(address.shown)
        self.before: Callable[[str], None] | None = None
        self.address = address
        self._sql = sql
        self._size = pool_size
        self._pool: Pool | None = None
        self.door: LoneDoor | None = None
        """The way of a lone plain job; None while there are no connections."""

    @property
    def is_open(self) -> bool:
        """True if there are connections to use."""
        return self._pool is not None

    async def open(self) -> None:
        """Connect; raises ``StoreUnavailable`` when that is not possible within seconds."""
        # Of this call alone until it stands: a pool that could not connect must not look open.
        pool = Pool(self.address, self._sql, size=self._size, freely=self._freely)
        try:
            await pool.open()
        except psycopg.Error as error:
            reason = await self._why_not(error)
            raise translated(reason, self.address.shown) from None
        self._pool = pool
        self.door = LoneDoor(
            pool, self._sql, patience=self._call_patience, left=self._left, told=self._told
        )
        self._outage.over()

    async def close(self) -> None:
        """Close every connection. Repeating it does nothing."""
        # Taken away first, so that whoever calls meanwhile is told that the store is closed.
        pool, self._pool, self.door = self._pool, None, None
        if pool is not None:
            await pool.close()

    async def write(
        self,
        make: Callable[[], Steps[T]],
        pin: Pin = "pin",
        *,
        call: bool = False,
        harmless: bool = False,
    ) -> T:
        """Run the transition that ``make`` returns in one transaction.

        It is made and run anew, with a growing random delay, when the server could not serialise
        it or broke a deadlock, or a unique key went to a job that we may not wait for: nothing of
        it was written then. A counter of positions that is behind its rows is moved on first.
        ``harmless``: a repeat is, so where the connection is lost it is done once more.
        """
        lost = 0
        for attempt in range(1, _TRIES + 1):
            try:
                done = await self._attempt(make(), pin, self._call_patience if call else PATIENCE)
            except KeyMoved:
                if attempt == _TRIES:
                    raise
            except (psycopg.Error, CounterBehind) as error:
                # A restored table may have rows above its counter. Each try would meet the same
                # position again, so the counter is moved on first.
                late = behind(error)
                if late is not None and attempt < _TRIES:
                    await self._attempt(one(self._sql[late.catch_up]()), "pin", PATIENCE)
                elif isinstance(error, CounterBehind):
                    raise
                else:
                    # Repeated after one cut only: a second one means that the server is away, which
                    # callers must know.
                    lost += _cut_off(error)
                    again = retryable(error) or (harmless and lost == 1 and _cut_off(error))
                    if not again or attempt == _TRIES:
                        raise self._told(await self._why_cut(error)) from error
            else:
                self._outage.over()
                return done
            # By chance, and longer each time: two that broke each other's locks would otherwise
            # meet again.
            await asyncio.sleep(_chance.uniform(0.0, _WAIT * 2**attempt))
        raise AssertionError("unreachable")

    async def call(self, make: Callable[[], Steps[T]], pin: Pin = "pin") -> T:
        """Run as :meth:`write` does, a transition that a request waits for and that may be
        repeated.

        It reads, or its ids make a repeat harmless. So where the connection is lost it is done
        once more; and the silence of the server has a bound of its own.
        """
        return await self.write(make, pin, call=True, harmless=True)

    async def read(self, make: Callable[[], Steps[T]], pin: Pin = "pin") -> T:
        """Run as :meth:`write` does, a transition that only reads: repeated once where the
        connection is lost.

        It may take its time, as a count of many rows does.
        """
        return await self.write(make, pin, harmless=True)

    async def rehearse(self, make: Callable[[], Steps[T]]) -> None:
        """Run a transition and undo it. Raises what running it in earnest would raise."""
        try:
            await self.write(lambda: _rehearsed(make()))
        except _Undo:
            return

    @contextlib.asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Snapshot]:
        """A transaction that only reads, all of it as of one moment. It holds a connection."""
        try:
            async with self._connection() as connection:
                # The settings travel behind BEGIN, for they hold until the end of the transaction.
                pins = (self._sql[name]() for name in _pins(connection, "pin"))
                await self._pipeline(connection, (self._sql["begin_snapshot"](), *pins))
                yield Snapshot(functools.partial(self._one, connection), self.address.shown)
                await self._one(connection, self._sql["commit"]())
        except psycopg.Error as error:
            raise self._told(error) from error

    def _told(self, error: Exception) -> StoreError:
        return self._outage.noticed(translated(error, self.address.shown))

    # -- one transaction ---------------------------------------------------------------------

    async def _attempt(self, steps: Steps[T], pin: Pin, patience: float) -> T:
        try:
            async with self._connection(patience) as connection:
                connection.until = asyncio.get_running_loop().time() + PATIENCE
                return await self._transact(connection, steps, pin)
        except TimeoutError as error:
            raise self._told(error) from error
        finally:
            # Steps that are collected later would clean up in whatever task collects them.
            steps.close()

    async def _transact(self, connection: Connection, steps: Steps[T], pin: Pin) -> T:
        """Drive the steps. BEGIN travels with the first statements and COMMIT with the last."""
        pins = _pins(connection, pin)
        begun = False
        answer: list[Rows] | None = None
        try:
            while True:
                send = next(steps) if answer is None else steps.send(answer)
                # The server makes a transaction of it by itself, which saves the two statements
                # around it.
                if not begun and connection.direct and not pins and _whole(send):
                    answer = await self._pipeline(connection, send.queries)
                    continue
                opening = (
                    () if begun else (self._sql["begin"](), *(self._sql[one]() for one in pins))
                )
                closing = (self._sql["commit"](),) if send.last else ()
                rows = await self._pipeline(connection, opening + send.queries + closing)
                answer = rows[len(opening) : len(opening) + len(send.queries)]
                begun = True
        except StopIteration as done:
            # The steps ended without a last statement, so COMMIT could not travel with one.
            if connection.pgconn.transaction_status != TransactionStatus.IDLE:
                await self._pipeline(connection, (self._sql["commit"](),))
            result: T = done.value
            return result

    async def _pipeline(self, connection: Connection, queries: Sequence[Query]) -> list[Rows]:
        # Each answer has a bound of its own, and there is one for all of them: statements that are
        # answered just in time would otherwise add up without end.
        until = asyncio.get_running_loop().time() + connection.patience
        with connection.watch.bounded(connection, min(until, connection.until)):
            return await self._answered(connection, queries)

    async def _answered(self, connection: Connection, queries: Sequence[Query]) -> list[Rows]:
        # our own texts from the package's .sql files; values are only ever bound
        return await connection.wire.ask(
            connection, queries, prepare=connection.direct, before=self.before
        )

    async def _one(self, connection: Connection, query: Query) -> Rows:
        (rows,) = await self._answered(connection, (query,))
        return rows

    # -- connections -------------------------------------------------------------------------

    def _connection(self, patience: float = PATIENCE) -> _Lent:
        """A block that has a connection of the pool. Raises ``AppClosed``."""
        if self._pool is None:
            raise AppClosed("the store is not open: use it inside `async with app`")
        return _Lent(self._pool, patience, self._left)

    async def _left(self, connection: Connection, error: BaseException) -> None:
        """Have a connection fit for the next, whatever ended its use. Raises ``OnStandby``."""
        if not isinstance(error, psycopg.Error):
            # A cancelled caller leaves a transaction open. Given back like that, it would hold its
            # locks.
            await self._abandon(connection)
            return
        # Asked before anything is sent: what fails from here on may have been done.
        standby = from_standby(error, standby=_is_standby(connection))
        await self._doubt(connection, error)
        if standby:
            raise OnStandby(str(error)) from error

    async def _doubt(self, connection: Connection, error: psycopg.Error) -> None:
        """Keep a connection that an error leaves of use, with the trust that is left in it.

        Each connection is trusted for itself: what went wrong with one may be over with the next.
        """
        if stale(error):
            await connection.close()  # the next one prepares its statements anew
        elif forgotten(error):
            connection.direct = False
        await self._abandon(connection)

    async def _abandon(self, connection: Connection) -> None:
        """Undo what a failed transaction did, or give the connection up."""
        if connection.closed:
            return
        try:
            # A rollback that is not answered must not keep the caller: the session ends with the
            # connection.
            async with asyncio.timeout(POOL_PATIENCE):
                await connection.rollback()
        except (psycopg.Error, TimeoutError):
            await connection.close()

    async def _why_not(self, error: psycopg.Error) -> Exception:
        """The reason why the pool could not connect, which it does not tell."""
        try:
            connection = await NamedConnection.connect(self.address.conninfo)
        except psycopg.Error as reason:
            return reason
        await connection.close()
        return error

    async def _why_cut(self, error: psycopg.Error) -> psycopg.Error:
        """The reason why a pooler hung up, where it is that it pools statements.

        It says so as it hangs up, and the driver reads no last word in a pipeline. So BEGIN is sent
        once more, alone.
        """
        pooled = self._pool is not None and self._pool.pooled
        if not (pooled and error.sqlstate is None and _cut_off(error)):
            return error
        try:
            async with asyncio.timeout(POOL_PATIENCE):
                connection = await NamedConnection.connect(self.address.conninfo, autocommit=True)
                async with connection:
                    await connection.execute(self._sql["begin"].wire)
        except psycopg.Error as reason:
            return reason if pools_statements(reason) else error
        except TimeoutError:
            return error
        return error


def _is_standby(connection: Connection) -> bool:
    """True if the server reports itself as a standby; it tells its sessions when that ends."""
    return not connection.closed and connection.info.parameter_status("in_hot_standby") == "on"


def _cut_off(error: psycopg.Error) -> bool:
    """True if the connection was lost on the way, and not the wait for one."""
    if isinstance(error, PoolTimeout):
        return False
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate in _ENDED


class _Lent:
    """A connection for a block. A class, for a generator costs a lone statement as much again."""

    __slots__ = ("_connection", "_left", "_patience", "_pool")

    _connection: Connection

    def __init__(
        self,
        pool: Pool,
        patience: float,
        left: Callable[[Connection, BaseException], Awaitable[None]],
    ) -> None:
        self._pool = pool
        self._patience = patience
        self._left = left

    async def __aenter__(self) -> Connection:
        pool, patience = self._pool, self._patience
        self._connection = pool.take_kept(patience) or await pool.take(patience)
        return self._connection

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is not None:
                await self._left(self._connection, error)
        finally:
            if not self._pool.keep(self._connection):
                await self._pool.give_back(self._connection)


class Snapshot:
    """Reads of one moment, one after the other, whoever asks at the same time."""

    def __init__(self, ask: Callable[[Query], Awaitable[Rows]], shown: str) -> None:
        self._ask = ask
        self._shown = shown
        self._turn = asyncio.Lock()

    async def ask(self, query: Query) -> Rows:
        """Run one statement."""
        try:
            # In turn: a connection runs one statement at a time, and a snapshot is of one
            # connection.
            async with self._turn, asyncio.timeout(PATIENCE):
                return await self._ask(query)
        except (psycopg.Error, TimeoutError) as error:
            raise translated(error, self._shown) from error


def _pins(connection: Connection, pin: Pin) -> tuple[str, ...]:
    """The settings that are left to be made for a transaction on this connection."""
    if connection.direct:
        return (_IN_FREE_SESSION if connection.freely else _IN_OUR_SESSION)[pin]
    return ("limit", "look") if connection.freely and pin == "limit" else (pin,)


def _whole(send: Send) -> bool:
    """True if these are a whole transaction without BEGIN and COMMIT.

    The server makes one of what is sent at once. But when we fail on the way to a later statement,
    the earlier ones are kept, so it must be one statement, or be said not to matter.
    """
    return send.last and (len(send.queries) == 1 or send.severable)


class _Undo(Exception):
    """Ends a rehearsal, and its transaction with it."""


def _rehearsed(steps: Steps[T]) -> Steps[T]:
    """The same steps, whose last is not the last, for they end in a rollback."""
    try:
        send = next(steps)
        while True:
            send = steps.send((yield Send(send.queries)))
    except StopIteration:
        raise _Undo from None


def unavailable(error: BaseException) -> bool:
    """True if ``error`` only says that the server cannot be reached now."""
    return isinstance(error, (StoreUnavailable, OSError, psycopg.OperationalError))


__all__ = ["Connection", "Database", "Pin", "Send", "Snapshot", "unavailable"]

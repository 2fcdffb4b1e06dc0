"""The part of the SQLite store that keeps a ledger."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from offpath.errors import StoreUnavailable
from offpath.model.ledger.decision import Decided, LedgerOp
from offpath.runtime.threads import in_own_thread
from offpath.store.ledger import LedgerReads
from offpath.store.programs.dialect import Dialect, How, Steps
from offpath.store.programs.store import SqlLedgerReads
from offpath.store.sqlite.dialect import SqliteDialect
from offpath.store.sqlite.forks import GATE
from offpath.store.sqlite.ledger_post import post_steps
from offpath.store.sqlite.part import SqlitePart
from offpath.store.sqlite.session import SQL, Session

T = TypeVar("T")


class SqliteLedger(SqlitePart):
    """Accounts, postings, side rows and checkpoints on SQLite."""

    def _connect_reader(self) -> Session:
        """A connection that only reads."""
        raise NotImplementedError

    async def post(self, operations: Sequence[LedgerOp]) -> list[Decided]:
        """Decide operations in order and commit what they did."""
        if not operations:
            return []

        def decide(session: Session) -> list[Decided]:
            posted = session.drive(post_steps(operations, self._now()))
            session.stirred = session.stirred or posted.stirred
            return posted.decided

        return await self._write(decide)

    @asynccontextmanager
    async def ledger_snapshot(self) -> AsyncIterator[LedgerReads]:
        """Reads of one moment, on a connection of their own."""
        moment = SqliteLedgerMoment(await self._block(self._connect_reader), self._block)
        try:
            await moment.runner.begin()
            yield moment
        finally:
            await moment.runner.close()


class SqliteLedgerMoment(SqlLedgerReads):
    """The ledger at one moment, whatever is posted meanwhile."""

    def __init__(self, session: Session, block: Callable[[Callable[[], Any]], Any]) -> None:
        self.runner: MomentRunner = MomentRunner(session, block)


class MomentRunner:
    """Runs programs that only read, on a connection of their own, in one transaction."""

    def __init__(
        self, session: Session, block: Callable[[Callable[[], Any]], Awaitable[Any]]
    ) -> None:
        self._session = session
        self._block = block
        # A read whose caller was cancelled may still run in its thread.
        self._using = threading.Lock()
        self._closed = False

    async def begin(self) -> None:
        """From now on nothing that is committed is seen."""
        await self._alone(_begin)

    async def run(
        self,
        program: Callable[[Dialect], Steps[T]],
        how: How,  # noqa: ARG002 - it only reads
        peek: Callable[[Dialect], Steps[T | None]] | None = None,  # noqa: ARG002 - so it has no lock
    ) -> T:
        """The answer of ``program``; reads of a ledger do not ask for the time."""
        return await self._alone(lambda session: session.perform(program(SqliteDialect(0))))

    async def close(self) -> None:
        """End it. A read that is still running, since its caller was cancelled, is aborted."""
        self._closed = True
        self._session.interrupt()
        await in_own_thread(self._end)

    def _end(self) -> None:
        with GATE, self._using:
            self._session.close()

    async def _alone(self, work: Callable[[Session], T]) -> T:
        """Run ``work`` while nobody else uses the connection."""

        def locked() -> T:
            with GATE, self._using:
                if self._session.closed and not self._closed:
                    raise StoreUnavailable("a fork has ended the snapshot: begin another one")
                if self._closed:
                    raise StoreUnavailable("the snapshot has ended: read within its `async with`")
                return work(self._session)

        answer: T = await self._block(locked)
        return answer


def _begin(session: Session) -> None:
    session.control(SQL["begin_snapshot"])
    session.run(SQL["ledger_last"]())  # the moment is that of the first read

"""The store's part for the ledger; each write is one transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from offpath.model.ledger.decision import Decided, LedgerOp
from offpath.store.hints import Hint
from offpath.store.ledger import LedgerReads
from offpath.store.postgres.announcements import PostgresPart
from offpath.store.postgres.dialect import PostgresDialect
from offpath.store.postgres.ledger_post import KnownAccounts, post_steps
from offpath.store.postgres.session import Snapshot
from offpath.store.programs.dialect import Dialect, How, Steps
from offpath.store.programs.store import SqlLedgerReads
from offpath.store.sql import Catalogue

T = TypeVar("T")


class PostgresLedgerMoment(SqlLedgerReads):
    """The ledger at one moment, whatever is posted meanwhile."""

    def __init__(self, snapshot: Snapshot, sql: Catalogue) -> None:
        self.runner = _MomentRunner(snapshot, sql)


class _MomentRunner:
    """Runs programs that only read, in the transaction of a snapshot."""

    def __init__(self, snapshot: Snapshot, sql: Catalogue) -> None:
        self._snapshot = snapshot
        self._d = PostgresDialect(sql, None)

    async def run(
        self,
        program: Callable[[Dialect], Steps[T]],
        how: How,  # noqa: ARG002 - the transaction is there
        peek: Callable[[Dialect], Steps[T | None]] | None = None,  # noqa: ARG002 - nor a write lock
    ) -> T:
        """The answer of ``program``."""
        steps = program(self._d)
        try:
            send = next(steps)
            while True:
                send = steps.send([await self._snapshot.ask(query) for query in send.queries])
        except StopIteration as end:
            answer: T = end.value
            return answer


class LedgerTables(PostgresPart):
    """Accounts, postings, side rows and checkpoints on Postgres."""

    _accounts: KnownAccounts

    async def post(self, operations: Sequence[LedgerOp]) -> list[Decided]:
        """Decide operations and commit what they did."""
        if not operations:
            return []
        now = self._now()
        posted = await self._database.call(
            lambda: post_steps(operations, now, self._accounts, sql=self._sql)
        )
        if posted.told:
            self._tell(Hint.MESSAGES)
        return posted.decided

    @asynccontextmanager
    async def ledger_snapshot(self) -> AsyncIterator[LedgerReads]:
        """The ledger as it is now, on a connection that is held until the end."""
        async with self._database.snapshot() as snapshot:
            yield PostgresLedgerMoment(snapshot, self._sql)

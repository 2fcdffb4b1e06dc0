"""Postgres' way to say a program, and how one is run: a transaction of our own connections."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeVar

from offpath.errors import WrongConnection
from offpath.model.effects import Effects
from offpath.model.job import Enqueued
from offpath.runtime.clock import Clock
from offpath.store.postgres import groups
from offpath.store.postgres.effects import carry_out
from offpath.store.postgres.ledger_post import OperationsFailed
from offpath.store.postgres.limits import hold_again_steps
from offpath.store.postgres.log import Horizon, look_steps
from offpath.store.postgres.session import Database, Pin
from offpath.store.postgres.words import PostgresWording
from offpath.store.programs.dialect import (
    Announced,
    Dialect,
    How,
    Queries,
    Sight,
    Steps,
    ask,
    embed,
)
from offpath.store.programs.group_work import GroupWork, Left
from offpath.store.programs.instants import micros
from offpath.store.sql import Catalogue

T = TypeVar("T")


class PostgresDialect(PostgresWording):
    """A transaction of our own connections."""

    __slots__ = ("_horizon", "_now", "announced")

    home: Final = "public"

    def __init__(
        self, sql: Catalogue, now: datetime | None, horizon: Horizon | None = None
    ) -> None:
        super().__init__(sql, now)
        self.announced: Final = Announced()
        self._now = now
        # A program without the store's horizon looks at the log as for the first time.
        self._horizon = horizon or Horizon()

    @property
    def milliseconds(self) -> int | None:
        """The time that was given, in milliseconds."""
        return None if self._now is None else micros(self._now) // 1000

    @property
    def stalled(self) -> bool:
        """The server lets others write meanwhile, so nobody waits for its lock."""
        return False

    def commit(self, effects: Effects) -> Steps[tuple[Sequence[Enqueued], Steps[None]]]:
        """Write effects; the rows of groups are left for the end."""
        answers, work = yield from embed(carry_out({0: effects}, self._now, sql=self.sql))
        return answers[0], _last(groups.lasting(work, self._now, sql=self.sql))

    def hold_again(self, keys: Sequence[str]) -> Steps[Collection[str]]:
        """Hold what was put back of closed limits."""
        return hold_again_steps(keys, self._now, sql=self.sql)

    def write_groups(self, work: GroupWork) -> Steps[Mapping[str, Left]]:
        """Write the changes to groups."""
        return groups.lasting(work, self._now, sql=self.sql)

    def prune_limits(self, limit: int) -> Steps[None]:
        """One statement reads what a rate remembers."""
        yield from ask(self.sql["prune_limits"](limit=limit, now=self.now))

    def add(self, effects: Effects) -> Queries[None]:
        """Write effects as the last of anybody's transaction."""
        if effects:
            _, work = yield from carry_out({0: effects}, self._now, sql=self.sql)
            yield from groups.writing(work, self._now, sql=self.sql)

    def settled(self) -> Queries[Sight]:
        """Look at who may still write what was given to them."""
        sight = yield from look_steps(self._horizon, sql=self.sql)
        return sight.told()

    def require_present(self) -> Queries[None]:
        """A snapshot would hide events below positions that are settled."""
        ((isolation,),) = yield self.sql["isolation"]()
        if isolation != "read committed":
            raise WrongConnection(
                f"a router cannot run in a transaction that is {isolation}: it sees the log as it "
                "was when it began, and would pass events that it cannot see; use read committed"
            )


class PostgresRunner:
    """Runs programs over the pool of a store."""

    def __init__(
        self, database: Database, sql: Catalogue, clock: Clock | None, tell: Callable[..., None]
    ) -> None:
        self._database = database
        self._sql = sql
        self._clock = clock
        self._tell = tell

    async def run(
        self,
        program: Callable[[Dialect], Steps[T]],
        how: How,
        peek: Callable[[Dialect], Steps[T | None]] | None = None,  # noqa: ARG002 - no write lock here
    ) -> T:
        """The answer of ``program``, once it is committed."""
        # Made once: where the transaction is run again, its delays still count from the same time.
        d = self._dialect()
        pin: Pin = "limit" if how.unpinned else "pin"
        try:
            return await self._database.write(
                lambda: program(d), pin, call=how.call, harmless=how.reads or how.call
            )
        finally:
            # also where the outcome is unknown: a hint too much does no harm
            self._tell(*d.announced.hints())

    def _dialect(self) -> PostgresDialect:
        return PostgresDialect(self._sql, None if self._clock is None else self._clock.now())


def _last(steps: Steps[object]) -> Steps[None]:
    """The end of one commit: it belongs to one caller, who is given the error of the ledger."""
    try:
        yield from steps
    except OperationsFailed as failed:
        raise failed.first from failed.first.__cause__

"""Postgres' way to say a program, and how one is run: a transaction of our own connections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from offpath.errors import WrongConnection
from offpath.model.effects import Effects
from offpath.model.job import Enqueued
from offpath.runtime.clock import Clock
from offpath.store.postgres.aftermath import conclude_steps
from offpath.store.postgres.effects import carry_out
from offpath.store.postgres.ledger_post import OperationsFailed
from offpath.store.postgres.log import Horizon, look_steps
from offpath.store.postgres.session import Database, Pin
from offpath.store.postgres.steps import ids_json, job_id, moment, to_json
from offpath.store.programs.aftermath import Aftermath, End, Overdue
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
from offpath.store.programs.instants import micros
from offpath.store.sql import Catalogue, Query, Row

T = TypeVar("T")


class PostgresDialect:
    """Times are ISO texts, batches JSON; without a time that was given, the server's clock."""

    __slots__ = ("_horizon", "_now", "announced", "now", "sql")

    home: Final = "public"

    def __init__(
        self, sql: Catalogue, now: datetime | None, horizon: Horizon | None = None
    ) -> None:
        self.sql: Final = sql
        self.now: Final = moment(now)
        self.announced: Final = Announced()
        self._now = now
        self._horizon = horizon or Horizon()

    @property
    def milliseconds(self) -> int | None:
        """The time that was given, in milliseconds."""
        return None if self._now is None else micros(self._now) // 1000

    @property
    def failures_first(self) -> bool:
        """The trigger that writes the message about an end reads the failures that are there."""
        return True

    @property
    def stalled(self) -> bool:
        """The server lets others write meanwhile, so nobody waits for its lock."""
        return False

    def at(self, moment_: datetime | None) -> str | None:
        """A time as a parameter."""
        return moment(moment_)

    def span(self, seconds: float | None) -> float | None:
        """A duration in seconds; the server refuses one that leads to no time."""
        return seconds

    def json(self, value: Any) -> str:  # noqa: ANN401 - whatever msgspec encodes
        """A document as it is kept."""
        return to_json(value)

    def batch(self, rows: Iterable[Any]) -> str:
        """Rows as one parameter."""
        return to_json(rows if isinstance(rows, list | tuple) else list(rows))

    def ids(self, ids: Iterable[str]) -> str:
        """Ids that are UUIDs, once each."""
        return ids_json(ids)

    def id(self, text: str) -> str | None:
        """An id that is a UUID."""
        return job_id(text)

    def any_of(self, values: Sequence[str]) -> list[str] | None:
        """A list, by which the server chooses an index."""
        return list(values) or None

    def told_the_time(self) -> tuple[Query, ...]:
        """Triggers write the messages about announced jobs, and would otherwise take their own."""
        return () if self.now is None else (self.sql["tell_the_time"](now=self.now),)

    def commit(self, effects: Effects) -> Steps[tuple[Sequence[Enqueued], Steps[None]]]:
        """Write effects; the rows of groups are left for the end."""
        answers, work = yield from embed(carry_out({0: effects}, self._now, sql=self.sql))
        return answers[0], _last(work.lasting(self._now, sql=self.sql))

    def conclude(
        self,
        ends: Sequence[End],
        keep: float | None,
        *,
        closing: Sequence[str] = (),
        roots: Sequence[Row] = (),
        given_back: Sequence[str] = (),
        overdue: Overdue | None = None,
    ) -> Steps[Aftermath]:
        """Count ends in gates and groups."""
        return conclude_steps(
            ends,
            keep,
            self._now,
            self.announced,
            closing=closing,
            roots=roots,
            given_back=given_back,
            overdue=overdue,
            sql=self.sql,
        )

    def prune_limits(self, limit: int) -> Steps[None]:
        """One statement reads what a rate remembers."""
        yield from ask(self.sql["prune_limits"](limit=limit, now=self.now))

    def add(self, effects: Effects) -> Queries[None]:
        """Write effects as the last of anybody's transaction."""
        if effects:
            _, work = yield from carry_out({0: effects}, self._now, sql=self.sql)
            yield from work.writing(self._now, sql=self.sql)

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

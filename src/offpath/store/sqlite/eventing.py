"""The part of the SQLite store for messages, the log, its routers and endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from offpath.model.effects import Effects
from offpath.model.message import (
    LeasedMessages,
    MessageRequest,
    MessageSettled,
    MessageSettlement,
)
from offpath.model.route import (
    Cursor,
    Decisions,
    LogPage,
    RouterFacts,
    RouterRecord,
    RouterSpec,
)
from offpath.model.table import TablePage
from offpath.store.events import Decide
from offpath.store.hints import Hint
from offpath.store.programs.dialect import Queries
from offpath.store.programs.instants import micros
from offpath.store.sql import Row
from offpath.store.sqlite import deliveries, routing
from offpath.store.sqlite.enqueue import on_file
from offpath.store.sqlite.part import Part


class Eventing(Part):
    """The part of the store that implements :class:`~offpath.store.events.EventStore`."""

    # -- messages --------------------------------------------------------------------------

    async def lease_messages(self, request: MessageRequest) -> LeasedMessages:
        """Hand out messages that are due, to each stream its share."""
        return await self._write(
            lambda session: deliveries.lease(session, self._now(), request),
            peek=lambda session: deliveries.nothing_to_lease(session, self._now(), request),
            relaxed=True,  # lost with the power, it leaves them due, and their holder is gone
        )

    async def settle_messages(
        self, settlements: Sequence[MessageSettlement]
    ) -> list[MessageSettled]:
        """End attempts, each with its effects."""
        if not settlements:
            return []
        settled = await self._write(
            lambda session: deliveries.settle(session, self._now(), settlements)
        )
        self._tell_of_jobs(*(one.effects for one in settlements))
        return settled

    # -- the log and its routers -------------------------------------------------------------

    async def declare_router(self, spec: RouterSpec) -> RouterRecord:
        """Add a router, or the routes that it lacks."""
        return await self._write(lambda session: routing.declare(session, self._now(), spec))

    async def read_log(self, router: str, partition: int, *, after: int, limit: int) -> LogPage:
        """Settled events of a partition."""
        place = router, partition
        return await self._read(
            lambda session: routing.read_log(session, self._now(), place, after, limit)
        )

    async def advance(self, cursor: Cursor, decisions: Decisions) -> bool:
        """Write decisions and move the cursor."""
        moved = await self._write(
            lambda session: routing.advance(session, self._now(), cursor, decisions)
        )
        if moved:
            self._tell_of_jobs(decisions.effects)
        return moved

    async def route_within(
        self,
        connection: Any,  # noqa: ANN401
        router: str,
        partition: int,
        *,
        limit: int,
        decide: Decide,
    ) -> Decisions | None:
        """One step of a router on the caller's connection, in its transaction."""
        from offpath.store import within

        steps = self._route_steps(router, partition, limit, decide)
        return await within.run_within(connection, steps, dialect="sqlite")

    def route_within_blocking(
        self,
        connection: Any,  # noqa: ANN401
        router: str,
        partition: int,
        *,
        limit: int,
        decide: Decide,
    ) -> Decisions | None:
        """Route as :meth:`route_within` does, on the caller's blocking connection."""
        from offpath.store import within

        steps = self._route_steps(router, partition, limit, decide)
        return within.run_within_blocking(connection, steps, dialect="sqlite")

    def _route_steps(
        self, router: str, partition: int, limit: int, decide: Decide
    ) -> Queries[Decisions | None]:
        place = router, partition
        return on_file(self.path, routing.route_steps(place, limit, decide, self._now()))

    async def table_columns(self, table: tuple[str, ...]) -> dict[str, bool]:
        """The columns of a table of the user's own."""
        return await self._read(lambda session: routing.columns(session, table))

    async def read_table(self, page: TablePage) -> list[Row]:
        """Rows of a table of the user's own."""
        return await self._read(lambda session: routing.read_table(session, page))

    async def router_facts(self, router: str) -> RouterFacts:
        """Count what ``verify`` compares."""
        return await self._read(lambda session: routing.facts(session, self._now(), router))

    async def trim_log(self, *, before: datetime, limit: int) -> int:
        """Remove old events that everybody has passed."""
        return await self._write(lambda session: routing.trim(session, micros(before), limit))

    def _tell_of_jobs(self, *effects: Effects) -> None:
        if any(each.jobs for each in effects):
            self._hints.emit(Hint.WORK)

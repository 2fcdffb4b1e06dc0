"""The part of the SQLite store for messages, the log, its routers and endpoints."""

from __future__ import annotations

from collections.abc import Sequence

from offpath.model.effects import Effects
from offpath.model.message import (
    LeasedMessages,
    MessageRequest,
    MessageSettled,
    MessageSettlement,
)
from offpath.model.route import Decisions
from offpath.store.events import Decide
from offpath.store.hints import Hint
from offpath.store.programs import events as log
from offpath.store.programs import routers
from offpath.store.programs.dialect import READS, Queries, Runner, transition
from offpath.store.sqlite import deliveries
from offpath.store.sqlite.dialect import SqliteDialect
from offpath.store.sqlite.enqueue import on_file
from offpath.store.sqlite.part import SqlitePart


class SqliteEvents(SqlitePart):
    """The part of the store that implements :class:`~offpath.store.events.EventStore`."""

    runner: Runner

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

    declare_router = transition(routers.declare)
    read_log = transition(log.of_router, READS)
    router_facts = transition(routers.facts, READS)

    def _route_steps(
        self, router: str, partition: int, limit: int, decide: Decide
    ) -> Queries[Decisions | None]:
        d = SqliteDialect(self._now())
        return on_file(self.path, self.schema, routers.route(d, router, partition, limit, decide))

    def _tell_of_jobs(self, *effects: Effects) -> None:
        if any(each.jobs for each in effects):
            self._hints.emit(Hint.WORK)

"""The store's part for messages, the log, its routers and endpoints."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import Final

from offpath.errors import OffpathError, StoreBusy
from offpath.model.message import (
    LeasedMessages,
    MessageRequest,
    MessageSettled,
    MessageSettlement,
)
from offpath.model.route import (
    Decisions,
    LogPage,
    RouterFacts,
    RouterRecord,
    RouterSpec,
)
from offpath.model.settlement import Released, Retry
from offpath.store.events import Decide
from offpath.store.hints import Hint
from offpath.store.postgres import deliveries
from offpath.store.postgres.announcements import PostgresPart
from offpath.store.postgres.dialect import PostgresDialect
from offpath.store.postgres.isolation import settle_apart
from offpath.store.postgres.log import Horizon, LogLook, SharedLook, look_steps
from offpath.store.programs import events as log
from offpath.store.programs import routers
from offpath.store.programs.dialect import WRITES, How, Queries, Runner, embed, one

NOW_PATIENCE: Final = 5.0
"""Seconds that a new router waits for open writers of the log, to begin at the present."""
# Beyond it the numbers are told up to a lower horizon, with the names of those it waits for.
FACTS_PATIENCE: Final = 1.0


class EventTables(PostgresPart):
    """Messages, log, routers and endpoints on Postgres; each method is one transaction."""

    runner: Runner
    _horizon: Horizon
    _shared_look: SharedLook

    # -- messages --------------------------------------------------------------------------

    async def lease_messages(self, request: MessageRequest) -> LeasedMessages:
        """Hand out due messages; in a second step, where those that may go are hidden."""
        now, sql = self._now(), self._sql
        found = await self._database.write(lambda: deliveries.lease_steps(request, now, sql=sql))
        if not found.hidden:
            return found.answer
        # To look behind those that wait walks over them, so it is done only where the quick look
        # could not see what may go.
        rest = deliveries.rest_of(request, found.answer)
        behind = await self._database.write(
            lambda: deliveries.lease_steps(rest, now, walk=True, sql=sql)
        )
        return deliveries.both(found.answer, behind.answer)

    async def settle_messages(
        self, settlements: Sequence[MessageSettlement]
    ) -> list[MessageSettled]:
        """End attempts in one commit if all can be stored."""
        if not settlements:
            return []
        answers = await settle_apart(
            settlements, self._end_messages, self._rehearse_messages, deliveries.refused
        )
        for settlement, answer in zip(settlements, answers, strict=True):
            if answer.enqueued or settlement.effects.log or settlement.effects.operations:
                self._tell_effects(settlement.effects)
        # They are due again, and a relay elsewhere may have nothing to do until then.
        if any(isinstance(each.outcome, (Released, Retry)) for each in settlements):
            self._tell(Hint.MESSAGES)
        return answers

    async def _end_messages(self, some: Sequence[MessageSettlement]) -> list[MessageSettled]:
        if not some:
            return []
        now, sql = self._now(), self._sql
        return await self._database.write(lambda: deliveries.settle_steps(some, now, sql=sql))

    async def _rehearse_messages(self, some: Sequence[MessageSettlement]) -> None:
        now = self._now()
        await self._database.rehearse(
            functools.partial(deliveries.settle_steps, some, now, sql=self._sql)
        )

    # -- routers ---------------------------------------------------------------------------

    async def declare_router(self, spec: RouterSpec) -> RouterRecord:
        """Add a router, or the routes that it lacks."""
        # Before the transaction of the router: within it, a wait for open writers would hold its
        # locks.
        start = await self._start_of(spec)
        return await self.runner.run(lambda d: routers.declare(d, spec, start), WRITES)

    async def _start_of(self, spec: RouterSpec) -> int:
        if spec.start != "now":
            return routers.begun(spec.start)
        known = self._sql["router_shape"](name=spec.name)
        if await self._database.write(lambda: one(known)):
            return 0  # it has begun long ago
        sight = await self._shared_look.settled(NOW_PATIENCE)
        if sight.waiting_for and sight.horizon < sight.given:
            waiting = ", ".join(sight.waiting_for)
            raise StoreBusy(
                f"open transactions write to the log ({waiting}), so its present is not known: "
                "try again when they have ended, or begin at a position"
            )
        return sight.horizon

    async def read_log(self, router: str, partition: int, *, after: int, limit: int) -> LogPage:
        """Settled events above ``after``."""
        sight = (await self._shared_look.look()).told()
        if sight.horizon <= after:
            return LogPage(events=(), horizon=sight.horizon, waiting_for=sight.waiting_for)
        return await self.runner.run(
            lambda d: log.of_router(d, router, partition, after=after, limit=limit, sight=sight),
            WRITES,
        )

    def _route_steps(
        self, router: str, partition: int, limit: int, decide: Decide
    ) -> Queries[Decisions | None]:
        d = PostgresDialect(self._sql, self._now(), self._horizon)
        return routers.route(d, router, partition, limit, decide)

    async def router_facts(self, router: str) -> RouterFacts:
        """The numbers that ``verify`` compares."""
        sight = (await self._shared_look.settled(FACTS_PATIENCE)).told()
        return await self.runner.run(
            lambda d: routers.facts(d, router, sight=sight), How(reads=True, unpinned=True)
        )

    # -- inside ----------------------------------------------------------------------------

    async def _look(self) -> LogLook:
        return await self._database.write(lambda: embed(look_steps(self._horizon, sql=self._sql)))

    async def _learn_horizon(self) -> None:
        """Look at the log for the first time as soon as we have written to it ourselves, so that
        who opens a transaction after that holds back nothing that was there before.
        """
        if self._horizon.settled == 0:
            with contextlib.suppress(OffpathError):  # what was asked for is committed
                await self._shared_look.look()

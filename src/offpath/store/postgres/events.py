"""The store's part for messages, the log, its routers and endpoints."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from offpath.errors import OffpathError, StoreBusy
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
from offpath.model.settlement import Released, Retry
from offpath.model.table import TablePage
from offpath.store.events import Decide
from offpath.store.hints import Hint
from offpath.store.postgres import deliveries, routing
from offpath.store.postgres.log import Horizon, Lookout, Sight, look_steps
from offpath.store.postgres.part import Part
from offpath.store.postgres.parting import settle_apart
from offpath.store.programs.dialect import embed, one
from offpath.store.sql import Row

NOW_PATIENCE: Final = 5.0
"""Seconds that a new router waits for open writers of the log, to begin at the present."""
FACTS_PATIENCE: Final = 1.0


class EventTables(Part):
    """Messages, log, routers and endpoints on Postgres; each method is one transaction."""

    _horizon: Horizon
    _lookout: Lookout

    # -- messages --------------------------------------------------------------------------

    async def lease_messages(self, request: MessageRequest) -> LeasedMessages:
        """Hand out due messages; in a second step, where those that may go are hidden."""
        now, sql = self._now(), self._sql
        found = await self._database.write(lambda: deliveries.lease_steps(request, now, sql=sql))
        if not found.hidden:
            return found.answer
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
        start = await self._start_of(spec)
        now = self._now()
        return await self._database.write(
            lambda: routing.declare_steps(spec, start, now, sql=self._sql)
        )

    async def _start_of(self, spec: RouterSpec) -> int:
        if isinstance(spec.start, int):
            return spec.start
        if spec.start == "beginning":
            return 0
        known = self._sql["router_shape"](name=spec.name)
        if await self._database.write(lambda: one(known)):
            return 0  # it has begun long ago
        sight = await self._lookout.settled(NOW_PATIENCE)
        if sight.waiting_for and sight.horizon < sight.given:
            waiting = ", ".join(sight.waiting_for)
            message = (
                f"open transactions write to the log ({waiting}), so its present is not known: "
                "try again when they have ended, or begin at a position"
            )
            raise StoreBusy(message)
        return sight.horizon

    async def read_log(self, router: str, partition: int, *, after: int, limit: int) -> LogPage:
        """Settled events above ``after``."""
        sight = await self._lookout.look()
        if sight.horizon <= after:
            return LogPage(events=(), horizon=sight.horizon, waiting_for=sight.waiting_for)
        return await self._database.write(
            lambda: embed(routing.read_steps(router, partition, after, limit, sight, sql=self._sql))
        )

    async def advance(self, cursor: Cursor, decisions: Decisions) -> bool:
        """Write what was decided and move the cursor on."""
        now = self._now()
        moved = await self._database.write(
            lambda: routing.advance_steps(cursor, decisions, now, sql=self._sql)
        )
        if moved:
            self._tell_effects(decisions.effects)
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
        """One step of a router in the caller's transaction."""
        from offpath.store.within import run_within

        now, sql = self._now(), self._sql
        steps = routing.route_steps(router, partition, limit, decide, self._horizon, now, sql=sql)
        return await run_within(connection, steps, dialect="postgres")

    def route_within_blocking(
        self,
        connection: Any,  # noqa: ANN401
        router: str,
        partition: int,
        *,
        limit: int,
        decide: Decide,
    ) -> Decisions | None:
        """Route as :meth:`route_within` does, for a blocking connection."""
        from offpath.store.within import run_within_blocking

        now, sql = self._now(), self._sql
        steps = routing.route_steps(router, partition, limit, decide, self._horizon, now, sql=sql)
        return run_within_blocking(connection, steps, dialect="postgres")

    async def table_columns(self, table: tuple[str, ...]) -> dict[str, bool]:
        """The columns of a table of the user's own."""
        return await self._database.write(lambda: routing.columns_steps(table, sql=self._sql))

    async def read_table(self, page: TablePage) -> list[Row]:
        """Rows of a table of the user's own."""
        return await self._database.write(lambda: routing.table_steps(page))

    async def router_facts(self, router: str) -> RouterFacts:
        """The facts that ``verify`` compares."""
        sight = await self._lookout.settled(FACTS_PATIENCE)
        now, sql = self._now(), self._sql
        return await self._database.read(
            lambda: routing.facts_steps(router, sight.horizon, now, sql=sql), "limit"
        )

    async def trim_log(self, *, before: datetime, limit: int) -> int:
        """Remove old events. What may go is looked up first, so that the table's lock is short."""
        positions = await self._database.write(
            lambda: routing.trimmable_steps(before, limit, sql=self._sql)
        )
        if not positions:
            return 0
        return await self._database.write(lambda: routing.trim_steps(positions, sql=self._sql))

    # -- inside ----------------------------------------------------------------------------

    async def _look(self) -> Sight:
        return await self._database.write(lambda: embed(look_steps(self._horizon, sql=self._sql)))

    async def _learn_horizon(self) -> None:
        """Look at the log for the first time as soon as we have written to it ourselves, so that
        who opens a transaction after that holds back nothing that was there before.
        """
        if self._horizon.settled == 0:
            with contextlib.suppress(OffpathError):  # what was asked for is committed
                await self._lookout.look()

"""The store's part for messages, the log, its routers and endpoints."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from offpath.errors import OffpathError, StoreBusy
from offpath.model.effects import NOTHING, Effects
from offpath.model.message import (
    LeasedMessages,
    MessageRequest,
    MessageSettled,
    MessageSettlement,
)
from offpath.model.route import (
    Attempt,
    AttemptStatus,
    Cursor,
    Decisions,
    Letter,
    LogEvent,
    LogPage,
    RouterFacts,
    RouterRecord,
    RouterSpec,
)
from offpath.model.settlement import Released, Retry
from offpath.model.table import TablePage
from offpath.store.events import Decide
from offpath.store.hints import Hint
from offpath.store.postgres import deliveries, routers
from offpath.store.postgres.log import Horizon, Lookout, Sight, look_steps
from offpath.store.postgres.part import Part
from offpath.store.postgres.parting import settle_apart
from offpath.store.postgres.steps import moment
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
            lambda: routers.declare_steps(spec, start, now, sql=self._sql)
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

    async def routers(self) -> list[RouterRecord]:
        """Every router, by name."""
        now = self._now()
        return await self._database.read(lambda: routers.routers_steps(now, sql=self._sql))

    async def set_gate(self, router: str | None, *, opened: bool) -> bool:
        """Open or close a gate."""
        query = self._sql["set_gate"](router=router, opened=int(opened))
        return await self._database.write(lambda: routers.found_steps(query))

    async def set_route(
        self, router: str, route: str, *, enabled: bool | None = None, dry_run: bool | None = None
    ) -> bool:
        """Turn a route's switches."""
        query = self._sql["set_route"](
            router=router,
            route=route,
            enabled=None if enabled is None else int(enabled),
            dry_run=None if dry_run is None else int(dry_run),
        )
        return await self._database.write(lambda: routers.found_steps(query))

    async def lease_cursor(
        self, router: str, partition: int, holder: str, *, lease_seconds: float
    ) -> Cursor | None:
        """Take a partition's cursor for a time."""
        now, sql = self._now(), self._sql
        return await self._database.write(
            lambda: routers.lease_cursor_steps(
                router, partition, holder, lease_seconds, now, sql=sql
            )
        )

    async def read_log(self, router: str, partition: int, *, after: int, limit: int) -> LogPage:
        """Settled events above ``after``."""
        sight = await self._lookout.look()
        if sight.horizon <= after:
            return LogPage(events=(), horizon=sight.horizon, waiting_for=sight.waiting_for)
        return await self._database.write(
            lambda: embed(routers.read_steps(router, partition, after, limit, sight, sql=self._sql))
        )

    async def advance(self, cursor: Cursor, decisions: Decisions) -> bool:
        """Write what was decided and move the cursor on."""
        now = self._now()
        moved = await self._database.write(
            lambda: routers.advance_steps(cursor, decisions, now, sql=self._sql)
        )
        if moved:
            self._tell_effects(decisions.effects)
        return moved

    async def release_cursor(self, cursor: Cursor) -> None:
        """Give a cursor back."""
        query = self._sql["release_cursor"](
            router=cursor.router, partition=cursor.partition, holder=cursor.holder or ""
        )
        await self._database.write(lambda: one(query))

    async def move_cursor(self, router: str, partition: int, position: int) -> bool:
        """Put a cursor elsewhere."""
        query = self._sql["move_cursor"](router=router, partition=partition, position=position)
        return await self._database.write(lambda: routers.found_steps(query))

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
        steps = routers.route_steps(router, partition, limit, decide, self._horizon, now, sql=sql)
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
        """As :meth:`route_within`, for a blocking connection."""
        from offpath.store.within import run_within_blocking

        now, sql = self._now(), self._sql
        steps = routers.route_steps(router, partition, limit, decide, self._horizon, now, sql=sql)
        return run_within_blocking(connection, steps, dialect="postgres")

    async def attempts(
        self,
        router: str,
        *,
        event: str | None = None,
        status: AttemptStatus | None = None,
        limit: int = 100,
        after: tuple[int, int] | None = None,
    ) -> list[Attempt]:
        """Attempts by position and number."""
        sql = self._sql
        return await self._database.read(
            lambda: routers.attempts_steps(router, event, status, limit, after, sql=sql)
        )

    async def attempted(self, router: str, events: Sequence[str]) -> frozenset[str]:
        """Those of some events that have an attempt."""
        sql = self._sql
        return await self._database.read(lambda: routers.attempted_steps(router, events, sql=sql))

    async def table_columns(self, table: tuple[str, ...]) -> dict[str, bool]:
        """The columns of a table of the user's own."""
        return await self._database.write(lambda: routers.columns_steps(table, sql=self._sql))

    async def read_table(self, page: TablePage) -> list[Row]:
        """Rows of a table of the user's own."""
        return await self._database.write(lambda: routers.table_steps(page))

    async def letters(
        self,
        router: str,
        *,
        ids: Sequence[str] = (),
        unresolved: bool = True,
        limit: int = 100,
        after: int | None = None,
    ) -> list[Letter]:
        """Dead letters by position."""
        sql = self._sql
        return await self._database.read(
            lambda: routers.letters_steps(router, ids, limit, after, unresolved=unresolved, sql=sql)
        )

    async def record_replay(
        self, letter: Letter, attempt: Attempt, *, resolution: str | None, effects: Effects
    ) -> bool:
        """Write a replay of a dead letter."""
        now, sql = self._now(), self._sql
        written = await self._database.write(
            lambda: routers.replay_steps(letter, attempt, resolution, effects, now, sql=sql)
        )
        self._tell_effects(effects if written else NOTHING)
        return written

    async def redoable(
        self,
        router: str,
        statuses: Sequence[AttemptStatus],
        *,
        since: datetime | None = None,
        after: tuple[int, str] | None = None,
        limit: int = 100,
    ) -> list[Attempt]:
        """The last attempts that ended so, by position and event."""
        sql = self._sql
        return await self._database.read(
            lambda: routers.redoable_steps(router, statuses, since, after, limit, sql=sql)
        )

    async def find_events(self, ids: Sequence[str]) -> list[LogEvent]:
        """Events of the log by id."""
        return await self._database.read(lambda: routers.find_steps(ids, sql=self._sql))

    async def record_redo(self, attempt: Attempt, letter: Letter | None, effects: Effects) -> bool:
        """Write one more attempt at an event."""
        now, sql = self._now(), self._sql
        written = await self._database.write(
            lambda: routers.redo_steps(attempt, letter, effects, now, sql=sql)
        )
        self._tell_effects(effects if written else NOTHING)
        return written

    async def resolve_letter(self, letter: str, resolution: str) -> bool:
        """End a dead letter without a replay."""
        query = self._sql["resolve_letter"](
            now=moment(self._now()), id=letter, resolution=resolution
        )
        return await self._database.write(lambda: routers.found_steps(query))

    async def router_facts(self, router: str) -> RouterFacts:
        """What ``verify`` compares."""
        sight = await self._lookout.settled(FACTS_PATIENCE)
        now, sql = self._now(), self._sql
        return await self._database.read(
            lambda: routers.facts_steps(router, sight.horizon, now, sql=sql), "limit"
        )

    async def read_events(
        self, *, domain: str | None = None, after: int = 0, limit: int = 100
    ) -> list[LogEvent]:
        """Committed events by position."""
        return await self._database.read(
            lambda: routers.events_steps(domain, after, limit, sql=self._sql)
        )

    async def trim_log(self, *, before: datetime, limit: int) -> int:
        """Remove old events. What may go is looked up first, so that the table's lock is short."""
        positions = await self._database.write(
            lambda: routers.trimmable_steps(before, limit, sql=self._sql)
        )
        if not positions:
            return 0
        return await self._database.write(lambda: routers.trim_steps(positions, sql=self._sql))

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

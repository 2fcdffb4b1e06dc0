"""The instrumented store's messages, log, routers and endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import structs

from offpath.errors import StoreUnavailable
from offpath.model.effects import Effects
from offpath.model.endpoint import Endpoint, EndpointNote, EndpointState
from offpath.model.job import Enqueued
from offpath.model.message import (
    LeasedMessage,
    LeasedMessages,
    MessageBacklog,
    MessageFilter,
    MessagePage,
    MessageRecord,
    MessageRequest,
    MessageSettled,
    MessageSettlement,
    MessageState,
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
from offpath.model.settlement import SettleStatus
from offpath.runtime.clock import Clock
from offpath.store import observed, observed_events
from offpath.store.events import Decide
from offpath.store.metering import COMMITTED, Metering
from offpath.store.protocol import Store
from offpath.store.watching import MOST_DOUBTED, Observer, Watching

if TYPE_CHECKING:
    from offpath.model.table import TablePage
    from offpath.store.sql import Row

_LOST = SettleStatus.LEASE_LOST


class InstrumentedEvents(Watching):
    """The part of the instrumented store that is an event store."""

    def __init__(
        self, inner: Store, clock: Clock, metering: Metering, observers: Sequence[Observer] = ()
    ) -> None:
        super().__init__(inner, clock, metering, observers)
        self._doubted_messages: dict[tuple[str, str], None] = {}

    # -- messages --------------------------------------------------------------------------

    async def lease_messages(self, request: MessageRequest) -> LeasedMessages:
        """As the store does."""
        leased = await self._timed("lease_messages", self._inner.lease_messages(request))
        self._sighted("message", [message.unreadable for message in leased.messages])
        return leased

    async def settle_messages(
        self, settlements: Sequence[MessageSettlement]
    ) -> list[MessageSettled]:
        """As the store does, and clears doubts as :meth:`settle` does for jobs. A release is not
        looked into: whoever gave a message back has nothing to do, whichever the answer is.
        """
        call = self._inner.settle_messages(settlements)
        try:
            answers = await self._timed("settle_messages", call)
        except StoreUnavailable:
            self._doubt_messages(settlements)
            raise
        if self._doubted_messages:
            answers = await self._undoubted_messages(settlements, answers)
        self._messages_moved(observed_events.settled(settlements, answers))
        for settlement, answer in zip(settlements, answers, strict=True):
            if settlement.effects and observed_events.carried_out(settlement, answer):
                self._carried_out(settlement.effects, answer.enqueued)
        return answers

    def _doubt_messages(self, settlements: Sequence[MessageSettlement]) -> None:
        for settlement in settlements:
            self._doubted_messages[_fence(settlement.message)] = None
        while len(self._doubted_messages) > MOST_DOUBTED:
            del self._doubted_messages[next(iter(self._doubted_messages))]

    async def _undoubted_messages(
        self, settlements: Sequence[MessageSettlement], answers: Sequence[MessageSettled]
    ) -> list[MessageSettled]:
        refused: dict[str, LeasedMessage] = {}
        for settlement, answer in zip(settlements, answers, strict=True):
            message = settlement.message
            again = self._doubted_messages.pop(_fence(message), self) is None
            if again and answer.status is _LOST:
                refused[message.id] = message
        known = await self._known_messages(tuple(refused))
        taken = {
            each.id: each.state for each in known.values() if _was_taken(refused[each.id], each)
        }
        return [
            structs.replace(answer, status=SettleStatus.APPLIED, state=taken[answer.id])
            if answer.status is _LOST and answer.id in taken
            else answer
            for answer in answers
        ]

    async def _known_messages(self, ids: Sequence[str]) -> dict[str, MessageRecord]:
        """What is known of these messages; nothing when the store cannot be asked."""
        if not ids:
            return {}
        where = MessageFilter(ids=tuple(ids))
        try:
            page = await self.find_messages(where, limit=len(where.ids))
        except StoreUnavailable:
            return {}
        return {each.id: each for each in page.items}

    async def find_messages(
        self,
        where: MessageFilter,
        *,
        limit: int = 100,
        after: str | None = None,
        newest: bool = True,
    ) -> MessagePage:
        """As the store does."""
        call = self._inner.find_messages(where, limit=limit, after=after, newest=newest)
        return await self._timed("find_messages", call)

    async def revive_messages(self, ids: Sequence[str]) -> list[str]:
        """As the store does; asks before what they are, to tell which states they left."""
        known = await self._known_messages(ids)
        revived = await self._timed("revive_messages", self._inner.revive_messages(ids))
        self._messages_moved(observed_events.revived(revived, known))
        return revived

    async def delete_messages(self, ids: Sequence[str]) -> list[str]:
        """As the store does; asks before what they are, to tell which states they left."""
        known = await self._known_messages(ids)
        deleted = await self._timed("delete_messages", self._inner.delete_messages(ids))
        self._messages_moved(observed_events.deleted(deleted, known))
        return deleted

    async def message_backlog(self, *, limit: int = 1000) -> list[MessageBacklog]:
        """As the store does."""
        return await self._timed("message_backlog", self._inner.message_backlog(limit=limit))

    # -- endpoints -------------------------------------------------------------------------

    async def put_endpoint(self, endpoint: Endpoint) -> bool:
        """As the store does."""
        return await self._timed("put_endpoint", self._inner.put_endpoint(endpoint))

    async def endpoints(self) -> list[Endpoint]:
        """As the store does."""
        return await self._timed("endpoints", self._inner.endpoints())

    async def set_endpoint(self, name: str, state: EndpointState, reason: str | None) -> bool:
        """As the store does."""
        return await self._timed("set_endpoint", self._inner.set_endpoint(name, state, reason))

    async def note_endpoint(self, note: EndpointNote) -> Endpoint | None:
        """As the store does."""
        return await self._timed("note_endpoint", self._inner.note_endpoint(note))

    async def delete_endpoint(self, name: str) -> bool:
        """As the store does."""
        return await self._timed("delete_endpoint", self._inner.delete_endpoint(name))

    # -- the log and its routers -----------------------------------------------------------

    async def declare_router(self, spec: RouterSpec) -> RouterRecord:
        """As the store does."""
        return await self._timed("declare_router", self._inner.declare_router(spec))

    async def routers(self) -> list[RouterRecord]:
        """As the store does."""
        return await self._timed("routers", self._inner.routers())

    async def set_gate(self, router: str | None, *, opened: bool) -> bool:
        """As the store does."""
        return await self._timed("set_gate", self._inner.set_gate(router, opened=opened))

    async def set_route(
        self, router: str, route: str, *, enabled: bool | None = None, dry_run: bool | None = None
    ) -> bool:
        """As the store does."""
        call = self._inner.set_route(router, route, enabled=enabled, dry_run=dry_run)
        return await self._timed("set_route", call)

    async def lease_cursor(
        self, router: str, partition: int, holder: str, *, lease_seconds: float
    ) -> Cursor | None:
        """As the store does."""
        call = self._inner.lease_cursor(router, partition, holder, lease_seconds=lease_seconds)
        return await self._timed("lease_cursor", call)

    async def read_log(self, router: str, partition: int, *, after: int, limit: int) -> LogPage:
        """As the store does."""
        call = self._inner.read_log(router, partition, after=after, limit=limit)
        return await self._timed("read_log", call)

    async def advance(self, cursor: Cursor, decisions: Decisions) -> bool:
        """As the store does."""
        advanced = await self._timed("advance", self._inner.advance(cursor, decisions))
        if advanced:
            self._decided(cursor.router, decisions)
        return advanced

    async def release_cursor(self, cursor: Cursor) -> None:
        """As the store does."""
        await self._timed("release_cursor", self._inner.release_cursor(cursor))

    async def move_cursor(self, router: str, partition: int, position: int) -> bool:
        """As the store does."""
        call = self._inner.move_cursor(router, partition, position)
        return await self._timed("move_cursor", call)

    async def route_within(
        self,
        connection: Any,  # noqa: ANN401
        router: str,
        partition: int,
        *,
        limit: int,
        decide: Decide,
    ) -> Decisions | None:
        """As the store does. Told as soon as it is written: it may still be rolled back."""
        call = self._inner.route_within(connection, router, partition, limit=limit, decide=decide)
        decisions = await self._timed("route_within", call)
        if decisions is not None:
            self._decided(router, decisions)
        return decisions

    def route_within_blocking(
        self,
        connection: Any,  # noqa: ANN401
        router: str,
        partition: int,
        *,
        limit: int,
        decide: Decide,
    ) -> Decisions | None:
        """As the store does; not observed, since it may be called in any thread."""
        return self._inner.route_within_blocking(
            connection, router, partition, limit=limit, decide=decide
        )

    async def attempts(
        self,
        router: str,
        *,
        event: str | None = None,
        status: AttemptStatus | None = None,
        limit: int = 100,
        after: tuple[int, int] | None = None,
    ) -> list[Attempt]:
        """As the store does."""
        call = self._inner.attempts(router, event=event, status=status, limit=limit, after=after)
        return await self._timed("attempts", call)

    async def attempted(self, router: str, events: Sequence[str]) -> frozenset[str]:
        """As the store does."""
        return await self._timed("attempted", self._inner.attempted(router, events))

    async def table_columns(self, table: tuple[str, ...]) -> dict[str, bool]:
        """As the store does."""
        return await self._timed("table_columns", self._inner.table_columns(table))

    async def read_table(self, page: TablePage) -> list[Row]:
        """As the store does."""
        return await self._timed("read_table", self._inner.read_table(page))

    async def letters(
        self,
        router: str,
        *,
        ids: Sequence[str] = (),
        unresolved: bool = True,
        limit: int = 100,
        after: int | None = None,
    ) -> list[Letter]:
        """As the store does."""
        call = self._inner.letters(router, ids=ids, unresolved=unresolved, limit=limit, after=after)
        return await self._timed("letters", call)

    async def record_replay(
        self, letter: Letter, attempt: Attempt, *, resolution: str | None, effects: Effects
    ) -> bool:
        """As the store does."""
        call = self._inner.record_replay(letter, attempt, resolution=resolution, effects=effects)
        recorded = await self._timed("record_replay", call)
        if recorded:
            self._metering.messages.decided([attempt])
            self._presume(effects)
        return recorded

    async def redoable(
        self,
        router: str,
        statuses: Sequence[AttemptStatus],
        *,
        since: datetime | None = None,
        after: tuple[int, str] | None = None,
        limit: int = 100,
    ) -> list[Attempt]:
        """As the store does."""
        call = self._inner.redoable(router, statuses, since=since, after=after, limit=limit)
        return await self._timed("redoable", call)

    async def find_events(self, ids: Sequence[str]) -> list[LogEvent]:
        """As the store does."""
        return await self._timed("find_events", self._inner.find_events(ids))

    async def record_redo(self, attempt: Attempt, letter: Letter | None, effects: Effects) -> bool:
        """As the store does."""
        call = self._inner.record_redo(attempt, letter, effects)
        recorded = await self._timed("record_redo", call)
        if recorded:
            self._metering.messages.decided([attempt])
            self._presume(effects)
        return recorded

    async def resolve_letter(self, letter: str, resolution: str) -> bool:
        """As the store does."""
        return await self._timed("resolve_letter", self._inner.resolve_letter(letter, resolution))

    async def router_facts(self, router: str) -> RouterFacts:
        """As the store does."""
        return await self._timed("router_facts", self._inner.router_facts(router))

    async def read_events(
        self, *, domain: str | None = None, after: int = 0, limit: int = 100
    ) -> list[LogEvent]:
        """As the store does."""
        call = self._inner.read_events(domain=domain, after=after, limit=limit)
        return await self._timed("read_events", call)

    async def trim_log(self, *, before: datetime, limit: int) -> int:
        """As the store does."""
        return await self._timed("trim_log", self._inner.trim_log(before=before, limit=limit))

    # -- telling ---------------------------------------------------------------------------

    def _wrote(self, effects: Effects, answers: Sequence[Enqueued]) -> None:
        """These effects were committed, and this became of their jobs, then of their messages."""
        jobs = effects.jobs
        self._moved(observed.enqueued(jobs, answers[: len(jobs)]))
        if effects.messages:
            self._messages_moved(observed_events.written(effects.messages, answers))
        if effects.log:
            self._metering.messages.appended(effects.log)
        if effects.operations:
            self._metering.operated(COMMITTED, len(effects.operations))

    def _carried_out(self, effects: Effects, answers: Sequence[Enqueued]) -> None:
        """As :meth:`_wrote`; of a repeated settlement it is not known what became of them."""
        known = bool(answers)
        sure = Effects(log=effects.log, operations=effects.operations)
        self._wrote(effects if known else sure, answers)

    def _decided(self, router: str, decisions: Decisions) -> None:
        self._metering.messages.decided(decisions.attempts)
        self._metering.messages.passed(router, decisions.passed)
        self._presume(decisions.effects)

    def _presume(self, effects: Effects) -> None:
        """These effects were committed. That each of them is new is not known, only likely: a
        router decides about an event once.
        """
        made = [job.id for job in effects.jobs] + [message.id for message in effects.messages]
        self._wrote(effects, [Enqueued(id=each, job_id=each, created=True) for each in made])


def _fence(message: LeasedMessage) -> tuple[str, str]:
    return message.id, message.holder


def _was_taken(message: LeasedMessage, record: MessageRecord) -> bool:
    """Whether the attempt at ``message`` has ended as its holder said.

    Another holder would have raised the deliveries; a lease that only ran out ends nothing.
    """
    if record.deliveries != message.deliveries:
        return False
    return record.state is not MessageState.PENDING or record.attempt == message.attempt + 1

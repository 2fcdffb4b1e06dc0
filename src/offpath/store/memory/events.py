"""The memory backend's messages, log, routers and endpoints: each facet's file does the work."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NoReturn

from offpath.errors import CapabilityMissing
from offpath.model.effects import Effects
from offpath.model.endpoint import Endpoint, EndpointNote, EndpointState
from offpath.model.message import (
    LeasedMessages,
    MessageBacklog,
    MessageFilter,
    MessagePage,
    MessageRequest,
    MessageSettled,
    MessageSettlement,
    MessageState,
)
from offpath.model.post import PostRecord
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
    RouterStanding,
)
from offpath.model.table import TablePage
from offpath.store.events import Decide
from offpath.store.memory import endpoints, letters, log, messages, routers
from offpath.store.memory.part import MemoryPart
from offpath.store.sql import Row


class MemoryEvents(MemoryPart):
    """The part of the memory store that is an :class:`~offpath.store.events.EventStore`."""

    # -- messages --------------------------------------------------------------------------

    async def lease_messages(self, request: MessageRequest) -> LeasedMessages:
        """Hand out messages that are due."""
        return messages.lease(self._tables, self._clock.now(), request)

    async def settle_messages(
        self, settlements: Sequence[MessageSettlement]
    ) -> list[MessageSettled]:
        """End attempts, each with its effects."""
        answers = messages.settle(self._tables, self._clock.now(), settlements)
        if any(each.state is MessageState.PENDING for each in answers):
            self._tables.mailbox.stirred = True  # due again, perhaps at once
        self._tell(waiting=any(each.enqueued for each in answers))
        return answers

    async def find_messages(
        self,
        where: MessageFilter,
        *,
        limit: int = 100,
        after: str | None = None,
        newest: bool = True,
    ) -> MessagePage:
        """One page of the messages that match."""
        now = self._clock.now()
        return messages.find(self._tables, now, where, limit=limit, after=after, newest=newest)

    async def revive_messages(self, ids: Sequence[str]) -> list[str]:
        """Put ended messages back as fresh."""
        revived = messages.revive(self._tables, self._clock.now(), ids)
        self._tell()
        return revived

    async def delete_messages(self, ids: Sequence[str]) -> list[str]:
        """Remove ended messages."""
        return messages.delete(self._tables, ids)

    async def message_backlog(self, *, limit: int = 1000) -> list[MessageBacklog]:
        """The number that waits in each stream."""
        return messages.backlog(self._tables, self._clock.now(), limit)

    # -- endpoints -------------------------------------------------------------------------

    async def put_endpoint(self, endpoint: Endpoint) -> bool:
        """Add or change an endpoint."""
        return endpoints.put(self._tables, self._clock.now(), endpoint)

    async def endpoints(self) -> list[Endpoint]:
        """Every endpoint."""
        return endpoints.listed(self._tables)

    async def set_endpoint(self, name: str, state: EndpointState, reason: str | None) -> bool:
        """Enable, pause or disable an endpoint."""
        found = endpoints.switch(self._tables, name, state, reason)
        self._tell()
        return found

    async def note_endpoint(self, note: EndpointNote) -> Endpoint | None:
        """Record how a post went."""
        return endpoints.note(self._tables, self._clock.now(), note)

    async def delete_endpoint(self, name: str) -> bool:
        """Remove an endpoint."""
        return endpoints.delete(self._tables, name)

    async def put_posts(self, posts: Sequence[PostRecord]) -> None:
        """Keep how posts to endpoints went."""
        endpoints.put_posts(self._tables, posts)

    async def posts(self, endpoint: str) -> list[PostRecord]:
        """The newest posts to an endpoint."""
        return endpoints.posts_to(self._tables, endpoint)

    # -- the log and its routers -------------------------------------------------------------

    async def declare_router(self, spec: RouterSpec) -> RouterRecord:
        """Add a router, or what one lacks."""
        return routers.declare(self._tables, self._clock.now(), spec)

    async def routers(self) -> list[RouterRecord]:
        """Every router."""
        return routers.listed(self._tables, self._clock.now())

    async def set_gate(self, router: str | None, *, opened: bool) -> bool:
        """Open or close a gate."""
        return routers.set_gate(self._tables, router, opened=opened)

    async def set_route(
        self, router: str, route: str, *, enabled: bool | None = None, dry_run: bool | None = None
    ) -> bool:
        """Switch a route."""
        return routers.set_route(self._tables, router, route, enabled=enabled, dry_run=dry_run)

    async def lease_cursor(
        self, router: str, partition: int, holder: str, *, lease_seconds: float
    ) -> Cursor | None:
        """Take a cursor for a time."""
        now = self._clock.now()
        return routers.lease_cursor(self._tables, now, router, partition, holder, lease_seconds)

    async def read_log(self, router: str, partition: int, *, after: int, limit: int) -> LogPage:
        """The page of events that a router may read."""
        return routers.read(self._tables, router, partition, after=after, limit=limit)

    async def advance(self, cursor: Cursor, decisions: Decisions) -> bool:
        """Write what was decided and move the cursor."""
        advanced = routers.advance(self._tables, self._clock.now(), cursor, decisions)
        self._tell(waiting=advanced and bool(decisions.effects.jobs))
        return advanced

    async def release_cursor(self, cursor: Cursor) -> None:
        """Give a cursor back."""
        routers.release_cursor(self._tables, cursor)

    async def move_cursor(self, router: str, partition: int, position: int) -> bool:
        """Put a cursor elsewhere."""
        return routers.move_cursor(self._tables, router, partition, position)

    async def route_within(
        self,
        connection: Any,  # noqa: ANN401, ARG002 - the protocol's
        router: str,  # noqa: ARG002 - as above
        partition: int,  # noqa: ARG002 - as above
        *,
        limit: int,  # noqa: ARG002 - as above
        decide: Decide,  # noqa: ARG002 - as above
    ) -> Decisions | None:
        """Memory has no transactions to join."""
        no_transactions()

    def route_within_blocking(
        self,
        connection: Any,  # noqa: ANN401, ARG002 - the protocol's
        router: str,  # noqa: ARG002 - as above
        partition: int,  # noqa: ARG002 - as above
        *,
        limit: int,  # noqa: ARG002 - as above
        decide: Decide,  # noqa: ARG002 - as above
    ) -> Decisions | None:
        """Memory has no transactions to join."""
        no_transactions()

    async def attempts(
        self,
        router: str,
        *,
        event: str | None = None,
        status: AttemptStatus | None = None,
        limit: int = 100,
        after: tuple[int, int] | None = None,
        newest: bool = False,
    ) -> list[Attempt]:
        """Attempts by position and number."""
        return letters.attempts(
            self._tables,
            router,
            event=event,
            status=status,
            limit=limit,
            after=after,
            newest=newest,
        )

    async def attempted(self, router: str, events: Sequence[str]) -> frozenset[str]:
        """The events among these that have an attempt."""
        return letters.attempted(self._tables, router, events)

    async def router_standing(
        self, router: str, *, most: int = 1_000, newest: int = 5_000
    ) -> RouterStanding:
        """The lag of each partition, and the newest decisions by route."""
        return letters.standing(self._tables, router, most, newest)

    async def table_columns(self, table: tuple[str, ...]) -> dict[str, bool]:
        """Memory has no tables of the user's."""
        raise _no_tables(table)

    async def read_table(self, page: TablePage) -> list[Row]:
        """Memory has no tables of the user's."""
        raise _no_tables(page.table)

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
        return letters.letters(
            self._tables, router, ids=ids, unresolved=unresolved, limit=limit, after=after
        )

    async def record_replay(
        self, letter: Letter, attempt: Attempt, *, resolution: str | None, effects: Effects
    ) -> bool:
        """Write how a replay went."""
        now = self._clock.now()
        recorded = letters.record_replay(
            self._tables, now, letter, attempt, resolution=resolution, effects=effects
        )
        self._tell(waiting=recorded and bool(effects.jobs))
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
        """The last attempts that ended so, by position and event."""
        return letters.redoable(
            self._tables, router, statuses, since=since, after=after, limit=limit
        )

    async def find_events(self, ids: Sequence[str]) -> list[LogEvent]:
        """Events by id."""
        return letters.find(self._tables.log, ids)

    async def record_redo(self, attempt: Attempt, letter: Letter | None, effects: Effects) -> bool:
        """Write one more attempt at an event."""
        recorded = letters.record(self._tables, self._clock.now(), attempt, letter, effects)
        self._tell(waiting=recorded and bool(effects.jobs))
        return recorded

    async def resolve_letter(self, letter: str, resolution: str) -> bool:
        """End a dead letter."""
        return letters.resolve(self._tables, self._clock.now(), letter, resolution)

    async def router_facts(self, router: str) -> RouterFacts:
        """Count what is compared."""
        return routers.facts(self._tables, self._clock.now(), router)

    async def read_events(
        self, *, domain: str | None = None, after: int = 0, limit: int = 100
    ) -> list[LogEvent]:
        """Events by position, for looking at."""
        return log.read(self._tables.log, domain=domain, after=after, limit=limit)

    async def trim_log(self, *, before: datetime, limit: int) -> int:
        """Remove old events that were passed."""
        return routers.trim(self._tables, before, limit)


def no_transactions() -> NoReturn:
    """Refuse to join a transaction."""
    raise CapabilityMissing(
        "the memory backend cannot join a transaction: use sqlite:/// or postgresql:// with within="
    )


def _no_tables(table: tuple[str, ...]) -> CapabilityMissing:
    return CapabilityMissing(
        f"the memory backend has no table {'.'.join(table)!r}: use sqlite:/// or postgresql://, "
        "or read=, which asks a function of yours"
    )

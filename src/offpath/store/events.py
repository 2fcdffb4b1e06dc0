"""The part of the store that holds messages, the event log, routers and webhook endpoints.

The rules of :mod:`offpath.store.protocol` hold here too. New messages and events of the log come
to be only through its doors: ``commit``, ``commit_within`` and ``settle``, and through
:meth:`EventStore.settle_messages` and :meth:`EventStore.advance`, which carry effects as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

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
from offpath.store.absence import none_of, refused
from offpath.store.capabilities import Profile

if TYPE_CHECKING:
    from offpath.model.table import TablePage
    from offpath.store.sql import Row

Decide = Callable[[RouterRecord, Sequence[LogEvent]], Decisions]
"""The decision of a router about some events: pure, called under the cursor's lock."""


class EventStore(Protocol):
    """Messages, log, routers, endpoints."""

    # -- messages ----------------------------------------------------------------------------

    async def lease_messages(self, request: MessageRequest) -> LeasedMessages:
        """Hand out pending messages that are due and not held, of the streams asked for.

        Within a stream by due time, then position; no stream gets more than its room, and none
        starves behind another. Each gets ``deliveries`` + 1 and is held by ``request.holder`` until
        it is settled or ``lease_seconds`` have passed. Of an *ordered* stream, a message with a key
        is handed out only when every earlier pending one of its key is free and due and handed out
        before it in the same answer (so by position, not by due time); dead ones hold nobody back.
        Two calls at once never break that order.
        """
        ...

    async def settle_messages(
        self, settlements: Sequence[MessageSettlement]
    ) -> list[MessageSettled]:
        """End attempts, each with its effects, in one commit if all can be stored.

        The fence is ``(id, holder)``: when another holder has it, or nobody, the answer is
        ``LEASE_LOST`` and nothing is written; one whose lease has run out, but that nobody else was
        handed, still counts. ``Succeeded`` makes it done; ``Retry`` raises ``attempt`` and sets
        when it is due; ``Dead`` keeps the reason; ``Released`` gives it back unchanged
        (``deliveries`` - 1, due as it was). ``REFUSED`` as for jobs. Repeating a settlement that
        was applied answers ``LEASE_LOST``.
        """
        ...

    async def find_messages(
        self,
        where: MessageFilter,
        *,
        limit: int = 100,
        after: str | None = None,
        newest: bool = True,
    ) -> MessagePage:
        """Messages that match, by position (newest first by default), one page."""
        ...

    async def revive_messages(self, ids: Sequence[str]) -> list[str]:
        """Put ended messages (done or dead) back as fresh: pending, attempt 1, deliveries 0, due at
        once. Pending and unknown ones are left alone and not answered. Positions stay.
        """
        ...

    async def delete_messages(self, ids: Sequence[str]) -> list[str]:
        """Remove ended messages. Others are left alone and not answered."""
        ...

    async def message_backlog(self, *, limit: int = 1000) -> list[MessageBacklog]:
        """The number that waits in each stream that has pending or dead messages, sorted by box and
        stream.
        """
        ...

    # -- endpoints -----------------------------------------------------------------------------

    async def put_endpoint(self, endpoint: Endpoint) -> bool:
        """Add an endpoint, or replace url, secrets, patterns and headers of the one of that name;
        state and health of an existing one are kept. Returns whether it is new.
        """
        ...

    async def endpoints(self) -> list[Endpoint]:
        """Every endpoint, by name (at most 10,000)."""
        ...

    async def set_endpoint(self, name: str, state: EndpointState, reason: str | None) -> bool:
        """Enable, pause or disable one. Enabling clears failures and blocks. False: unknown."""
        ...

    async def note_endpoint(self, note: EndpointNote) -> Endpoint | None:
        """Record how a post went: a failure counts and starts ``failing_since`` if need be, a
        success clears both and the block; ``block`` only ever moves ``blocked_until`` later.
        ``disable`` changes an enabled one only. Answers with the endpoint; None: unknown.
        """
        ...

    async def delete_endpoint(self, name: str) -> bool:
        """Remove an endpoint with its posts; its messages stay. False: unknown."""
        ...

    async def put_posts(self, posts: Sequence[PostRecord]) -> None:
        """Keep how posts went: the newest :data:`~offpath.model.post.MOST_POSTS` of each endpoint,
        by time. One that is there already is not kept twice; those of unknown endpoints are left
        out.
        """
        ...

    async def posts(self, endpoint: str) -> list[PostRecord]:
        """The newest posts to an endpoint, the newest first; none for an unknown one."""
        ...

    # -- the log and its routers -----------------------------------------------------------------

    async def declare_router(self, spec: RouterSpec) -> RouterRecord:
        """Add a router with closed gate and its cursors at the start; for one that exists, add the
        routes it lacks (existing ones keep their switches and get the new ``deliver``).

        Raises ``Conflict`` when it exists with another domain or number of partitions. ``now`` is
        the horizon at this moment: events that are settled already are not read.
        """
        ...

    async def routers(self) -> list[RouterRecord]:
        """Every router, by name (at most 1,000)."""
        ...

    async def set_gate(self, router: str | None, *, opened: bool) -> bool:
        """Open or close a router's gate, or with None the master's. False: unknown router."""
        ...

    async def set_route(
        self, router: str, route: str, *, enabled: bool | None = None, dry_run: bool | None = None
    ) -> bool:
        """Switch a route; None leaves a switch as it is. False: unknown."""
        ...

    async def lease_cursor(
        self, router: str, partition: int, holder: str, *, lease_seconds: float
    ) -> Cursor | None:
        """Take a partition's cursor for a time; None while somebody else has it.

        The holder may repeat it to renew. Raises ``Conflict`` for an unknown router or partition.
        """
        ...

    async def read_log(self, router: str, partition: int, *, after: int, limit: int) -> LogPage:
        """Settled events of the router's domain and partition above ``after``, by position, each
        with whether the router has an attempt of it. Takes no lock and writes nothing.

        Settled: no transaction that is still open, or becomes visible later, can write an event of
        a lower position. Gaps are normal and never waited for.
        """
        ...

    async def advance(self, cursor: Cursor, decisions: Decisions) -> bool:
        """Write attempts, letters and effects and move the cursor, in one transaction.

        False, and nothing is written, when ``cursor.holder`` does not hold it any more. An attempt
        that exists (same router, event and number) is left as it is. The cursor never moves back.
        """
        ...

    async def release_cursor(self, cursor: Cursor) -> None:
        """Give a cursor back before its lease ends; without effect when another has it."""
        ...

    async def move_cursor(self, router: str, partition: int, position: int) -> bool:
        """Put a cursor elsewhere, also back, and take it from whoever holds it. False: unknown.
        A mark is forgotten.

        Moved forth, it skips what is between on purpose: that counts as never meant for this
        router, so :meth:`router_facts` asks for no attempts up to the new position. Moved back, it
        reads all above the new position again, and attempts are asked for from there on.
        """
        ...

    async def route_within(
        self,
        connection: Any,  # noqa: ANN401
        router: str,
        partition: int,
        *,
        limit: int,
        decide: Decide,
    ) -> Decisions | None:
        """One step of a router in the caller's own transaction: the cursor's row is locked, events
        are read, ``decide`` says what to write, and it is written. None: somebody has the cursor;
        one whose lease has ended has lost it by this.

        Needs the capability ``within``, otherwise raises ``CapabilityMissing``.
        """
        ...

    def route_within_blocking(
        self,
        connection: Any,  # noqa: ANN401
        router: str,
        partition: int,
        *,
        limit: int,
        decide: Decide,
    ) -> Decisions | None:
        """Route as :meth:`route_within` does, for a blocking connection, without an event loop."""
        ...

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
        """Attempts by (position, number), above ``after`` if given; the ``newest`` first and below
        it, if that is asked for.
        """
        ...

    async def attempted(self, router: str, events: Sequence[str]) -> frozenset[str]:
        """The events among these, given by id, that the router has decided about."""
        ...

    async def router_standing(
        self, router: str, *, most: int = 1_000, newest: int = 5_000
    ) -> RouterStanding:
        """The lag of each partition of a router, and its ``newest`` decisions by route.

        Behind the cursor of each partition the next ``most`` events of the domain are looked at,
        whose partition they may be. Nothing of an unknown router.
        """
        ...

    async def table_columns(self, table: tuple[str, ...]) -> dict[str, bool]:
        """The columns of a table of the user's own in this database, and whether each may be null;
        none for a table that is not there. Raises ``CapabilityMissing`` where there are no tables.
        """
        ...

    async def read_table(self, page: TablePage) -> list[Row]:
        """Rows of a table of the user's own in this database. Takes no lock and writes nothing."""
        ...

    async def letters(
        self,
        router: str,
        *,
        ids: Sequence[str] = (),
        unresolved: bool = True,
        limit: int = 100,
        after: int | None = None,
    ) -> list[Letter]:
        """Dead letters by the position of their event, above ``after`` if given."""
        ...

    async def record_replay(
        self, letter: Letter, attempt: Attempt, *, resolution: str | None, effects: Effects
    ) -> bool:
        """Write a replay's attempt (number = the letter's + 1), its effects and, with
        ``resolution``, the letter's end, in one transaction.

        False, and nothing is written, when the letter is resolved or has another number.
        """
        ...

    async def redoable(
        self,
        router: str,
        statuses: Sequence[AttemptStatus],
        *,
        since: datetime | None = None,
        after: tuple[int, str] | None = None,
        limit: int = 100,
    ) -> list[Attempt]:
        """The last attempt at each event, where it ended with one of these statuses at that time or
        later: by (position, event), above ``after`` if given.
        """
        ...

    async def find_events(self, ids: Sequence[str]) -> list[LogEvent]:
        """Events of the log by id, in no particular order; unknown ids are left out."""
        ...

    async def record_redo(self, attempt: Attempt, letter: Letter | None, effects: Effects) -> bool:
        """Write one more attempt at an event with its effects, and its dead letter if it failed, in
        one transaction.

        False, and nothing is written, when the event has an attempt of that number.
        """
        ...

    async def resolve_letter(self, letter: str, resolution: str) -> bool:
        """End a dead letter without a replay. False: unknown, or resolved before."""
        ...

    async def router_facts(self, router: str) -> RouterFacts:
        """Count what ``verify`` compares. Reads only. Raises ``Conflict`` for an unknown router."""
        ...

    async def read_events(
        self, *, domain: str | None = None, after: int = 0, limit: int = 100
    ) -> list[LogEvent]:
        """Committed events by position, for looking at; it makes no promise about late ones."""
        ...

    async def trim_log(self, *, before: datetime, limit: int) -> int:
        """Remove up to ``limit`` events written before that time which every router of their domain
        has passed (an event of a domain without routers goes too), and the attempts at them that
        have no dead letter. Returns how many events.
        """
        ...


class WithoutMessages:
    """A store without messages and endpoints."""

    lease_messages = refused(Profile.MESSAGES, EventStore.lease_messages)
    settle_messages = refused(Profile.MESSAGES, EventStore.settle_messages)
    find_messages = refused(Profile.MESSAGES, EventStore.find_messages)
    revive_messages = refused(Profile.MESSAGES, EventStore.revive_messages)
    delete_messages = refused(Profile.MESSAGES, EventStore.delete_messages)
    message_backlog = none_of(EventStore.message_backlog, list)
    put_endpoint = refused(Profile.MESSAGES, EventStore.put_endpoint)
    endpoints = none_of(EventStore.endpoints, list)
    set_endpoint = refused(Profile.MESSAGES, EventStore.set_endpoint)
    note_endpoint = refused(Profile.MESSAGES, EventStore.note_endpoint)
    delete_endpoint = refused(Profile.MESSAGES, EventStore.delete_endpoint)
    put_posts = none_of(EventStore.put_posts, lambda: None)
    posts = none_of(EventStore.posts, list)


class WithoutLog:
    """A store without an event log and its routers."""

    declare_router = refused(Profile.LOG, EventStore.declare_router)
    routers = none_of(EventStore.routers, list)
    set_gate = refused(Profile.LOG, EventStore.set_gate)
    set_route = refused(Profile.LOG, EventStore.set_route)
    lease_cursor = refused(Profile.LOG, EventStore.lease_cursor)
    read_log = refused(Profile.LOG, EventStore.read_log)
    advance = refused(Profile.LOG, EventStore.advance)
    release_cursor = refused(Profile.LOG, EventStore.release_cursor)
    move_cursor = refused(Profile.LOG, EventStore.move_cursor)
    attempts = refused(Profile.LOG, EventStore.attempts)
    attempted = refused(Profile.LOG, EventStore.attempted)
    router_standing = refused(Profile.LOG, EventStore.router_standing)
    table_columns = refused(Profile.LOG, EventStore.table_columns)
    read_table = refused(Profile.LOG, EventStore.read_table)
    letters = refused(Profile.LOG, EventStore.letters)
    record_replay = refused(Profile.LOG, EventStore.record_replay)
    redoable = refused(Profile.LOG, EventStore.redoable)
    find_events = refused(Profile.LOG, EventStore.find_events)
    record_redo = refused(Profile.LOG, EventStore.record_redo)
    resolve_letter = refused(Profile.LOG, EventStore.resolve_letter)
    router_facts = refused(Profile.LOG, EventStore.router_facts)
    read_events = refused(Profile.LOG, EventStore.read_events)
    trim_log = none_of(EventStore.trim_log, lambda: 0)

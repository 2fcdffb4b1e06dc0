"""The event log's values and the router's pure rules: which route an event takes, and what for."""

from __future__ import annotations

import zlib
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from offpath.model.effects import NOTHING, Effects
from offpath.model.new import SLOTS, NewLogEvent
from offpath.model.quiet import Quiet

__all__ = [
    "NO_ROUTE",
    "SLOTS",
    "Attempt",
    "AttemptStatus",
    "Cursor",
    "Letter",
    "LogEvent",
    "LogPage",
    "NewLogEvent",
    "PartitionLag",
    "Route",
    "RouteCount",
    "RouterFacts",
    "RouterLag",
    "RouterRecord",
    "RouterSpec",
    "RouterStanding",
    "slot_of",
]

NO_ROUTE = "-"
"""The route of an attempt at an event that no route takes."""


def slot_of(key: str) -> int:
    """The slot of a key: the same in every process and version."""
    return zlib.crc32(key.encode()) % SLOTS


class LogEvent(Quiet, frozen=True, kw_only=True, gc=False):
    """An event of the log. ``position`` grows in an order that is causal for each key."""

    position: int
    id: str
    domain: str
    type: str
    stream: str
    payload: str
    at: datetime
    key: str | None = None
    decided: bool = False
    """True if the router that reads it has an attempt of it on record already."""
    unreadable: str | None = None
    """The columns of its row that cannot be read, with their content: it is not to be delivered."""
    mark: str | None = None
    """Its encoded place in a table of the user's own; None for an event of the log."""
    headers: str | None = None
    """Encoded: a JSON object of texts; None where it has none."""


class LogPage(Struct, frozen=True, kw_only=True):
    """The page that a reader gets: events that are settled, by position.

    ``horizon`` is the position up to which everything is settled: a reader that got fewer events
    than it asked for has passed all up to it. ``waiting_for`` names open writers that hold it back.
    """

    events: tuple[LogEvent, ...]
    horizon: int
    waiting_for: tuple[str, ...] = ()


class Route(Struct, frozen=True, kw_only=True):
    """A rule: events of this type and stream go there. ``*`` means any."""

    name: str
    type: str = "*"
    stream: str = "*"
    deliver: str = ""
    """The target of the deliveries, for people: ``task:mail``, ``outbox:iu``, ``callable:send``."""
    enabled: bool = False
    dry_run: bool = True


class RouterSpec(Struct, frozen=True, kw_only=True):
    """A router as it is declared. ``start``: ``beginning``, ``now`` or a position; ``mark``: the
    encoded place at which it begins in a table of the user's own.
    """

    name: str
    domain: str
    start: str | int
    partitions: int = 1
    routes: tuple[Route, ...] = ()
    mark: str | None = None


class Cursor(Struct, frozen=True, kw_only=True):
    """A partition's place in the log. ``(router, partition, holder)`` fences its advance."""

    router: str
    partition: int
    position: int
    """Everything up to here was passed."""
    holder: str | None = None
    """The token of the run that has it now; None when its lease has ended."""
    passed: int = 0
    """Events passed in its life."""
    ran_at: datetime | None = None
    summary: str | None = None
    """The summary of the last run: a JSON object."""
    mark: str | None = None
    """The encoded place in a table of the user's own; ``position`` counts its events then."""


class RouterRecord(Struct, frozen=True, kw_only=True):
    """A router as the store has it. Gates that are missing or malformed are closed."""

    name: str
    domain: str
    partitions: int
    open: bool
    """Its own gate."""
    master: bool
    """The gate of all routers."""
    routes: tuple[Route, ...]
    cursors: tuple[Cursor, ...]
    created_at: datetime


class AttemptStatus(StrEnum):
    """The decision about an event, and its result."""

    DRY_RUN = "dry_run"
    """Decided; nothing was sent."""
    DISABLED = "disabled"
    SKIPPED = "skipped"
    """No route takes it."""
    SENT = "sent"
    FAILED = "failed"

    __hash__ = str.__hash__
    """Enum's own is a Python function."""


class Attempt(Quiet, frozen=True, kw_only=True, gc=False):
    """The one decision of a router about an event, and those that redrives of its letter add."""

    router: str
    event: str
    """The event's id."""
    position: int
    status: AttemptStatus
    route: str = NO_ROUTE
    number: int = 1
    """1 for the run's own; each redrive of the letter adds one."""
    detail: str | None = None
    """The reason why it failed, in a line without secrets."""
    at: datetime | None = None
    """Set by the store."""

    @property
    def key(self) -> str:
        """The key by which receivers drop duplicates: the same at every attempt."""
        return f"{self.router}:{self.route}:{self.event}"


class Letter(Quiet, frozen=True, kw_only=True):
    """A dead letter of a router: an event that failed, whole, so that it needs no log."""

    id: str
    """Made by the caller."""
    router: str
    route: str
    event: LogEvent
    reason: str
    """A stable word: ``failed``, ``not_supported``, ``broken``, …"""
    detail: str = ""
    number: int = 1
    """The last attempt's number."""
    created_at: datetime | None = None
    """Set by the store."""
    resolved_at: datetime | None = None
    resolution: str | None = None
    """The resolution of the letter; letters are never deleted."""


class Decisions(Struct, frozen=True, kw_only=True):
    """The writes of one step of a router, in one transaction with the cursor's advance."""

    position: int
    """The new position of the cursor."""
    attempts: tuple[Attempt, ...] = ()
    letters: tuple[Letter, ...] = ()
    effects: Effects = NOTHING
    passed: int = 0
    """The number of events that were passed."""
    summary: str | None = None
    mark: str | None = None
    """The new position of the cursor in a table of the user's own."""


class RouterLag(Struct, frozen=True, kw_only=True):
    """The lag of a router."""

    router: str
    open: bool
    """True if its gate and the master's are open: else it is meant to stand."""
    oldest_at: datetime | None
    """The time when the oldest committed event that it has not passed was written; None without
    one.
    """


class PartitionLag(Struct, frozen=True, kw_only=True):
    """The committed events that a partition of a router has not passed.

    Of the events of its domain behind its cursor the next ones are looked at, up to a limit.
    """

    partition: int
    waiting: int
    """Its own ones among them."""
    more: bool
    """True if there are further events, which were not looked at."""
    oldest_at: datetime | None
    """The time when the oldest of them was written; None without one."""


class RouteCount(Struct, frozen=True, kw_only=True):
    """The decisions for one route that ended alike."""

    route: str
    status: str
    """An :class:`AttemptStatus`, or the word that the row has in its place."""
    count: int


class RouterStanding(Struct, frozen=True, kw_only=True):
    """A router's lag by partition, and its newest decisions by route; none of an unknown router."""

    partitions: tuple[PartitionLag, ...]
    """By number. One that reads a table of the user's own is left out: the log knows of no lag."""
    decisions: tuple[RouteCount, ...]
    """By route and status."""

    @property
    def counted(self) -> int:
        """The number of decisions that were counted."""
        return sum(one.count for one in self.decisions)


class RouterFacts(Struct, frozen=True, kw_only=True):
    """The numbers that ``verify`` compares, counted by the store; reads only."""

    head: int
    """The highest position of the router's domain."""
    horizon: int
    events_passed: int
    """Events of the domain at or below their partition's cursor and above its start, which is where
    the router began, or where its cursor was put by hand.
    """
    events_with_attempt: int
    """The number of those events with exactly one attempt, numbered 1."""
    attempts_without_event: int
    """Attempts whose event is not in the log, nor whole in a dead letter, as after a trim."""
    attempts_ahead: int
    """Attempts whose position is above their partition's cursor."""
    failed_without_letter: int
    letters_without_failure: int
    open_letters: int
    oldest_lag: float
    """Seconds since the oldest committed event that is not passed was written; 0 without one. It
    may wait for a writer that is still open, and then counts all the same."""

"""Reading an event table of the user's own instead of the log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from msgspec import structs

from offpath.errors import InvalidArgument
from offpath.events.position import Position, decode, encode, follows
from offpath.model import checks
from offpath.model.quiet import Quiet
from offpath.model.route import Cursor, LogEvent, LogPage, RouterSpec

if TYPE_CHECKING:
    from datetime import timedelta

    from offpath.runtime.clock import Clock
    from offpath.store.protocol import Store


class SourceEvent(Quiet, frozen=True, kw_only=True):
    """An event of a table of the user's own.

    ``position`` is what its table is ordered by: one value or a tuple, unique for each event.
    """

    position: Position
    id: str
    type: str
    payload: str
    """JSON text."""
    at: datetime
    stream: str = "-"
    key: str | None = None


Keyset: TypeAlias = (
    Callable[[int, int], Awaitable[Sequence[LogEvent]]]
    | Callable[[Any, int], Awaitable[Sequence[SourceEvent]]]
)
"""``read(after, limit)``: events above a position, by position, at most so many.

At the beginning ``after`` is 0, then the last position that was passed, as it was given.
"""
Found: TypeAlias = Sequence[LogEvent | SourceEvent]


class PositionTied(InvalidArgument):
    """Two events of a source have one position: a page that ended between them would lose one."""

    code = "position_tied"


class PositionUnordered(InvalidArgument):
    """A source returned an event that is not above the one before it."""

    code = "position_unordered"


class Reader(Protocol):
    """A keyset query over a table."""

    async def start(self, store: Store, spec: RouterSpec) -> RouterSpec:
        """The declaration of a router that is new, with the place at which it begins."""
        ...

    async def read(self, store: Store, cursor: Cursor, limit: int) -> Found:
        """Events above the cursor, at most so many."""
        ...

    async def find(self, store: Store, ids: Sequence[str]) -> Found:
        """Events by id. Raises ``InvalidArgument`` where they cannot be looked up."""
        ...


class FunctionSource:
    """A reader that asks a function of the user's."""

    def __init__(self, read: Keyset) -> None:
        self._read = cast("Callable[[Any, int], Awaitable[Found]]", read)

    async def start(self, store: Store, spec: RouterSpec) -> RouterSpec:  # noqa: ARG002 - a reader's
        """The declaration, unchanged."""
        return spec

    async def read(self, store: Store, cursor: Cursor, limit: int) -> Found:  # noqa: ARG002 - as above
        """The rows that the function returns."""
        after = cursor.position if cursor.mark is None else decode(cursor.mark)
        return await self._read(after, limit)

    async def find(self, store: Store, ids: Sequence[str]) -> Found:  # noqa: ARG002 - as above
        """A function that reads by position cannot look up an id."""
        raise InvalidArgument(
            "events of a router with read= cannot be looked up by id: declare it with table= and "
            "order=, or promote its table to the log"
        )


class EventSource:
    """A keyset query over somebody else's table, with a safety lag.

    The guarantee is weaker than the log's: an event whose transaction commits more than
    ``safety_lag`` seconds after its time ``at`` can be passed by, since nobody can tell here which
    transactions are still open.
    """

    def __init__(
        self, reader: Reader, domain: str, *, clock: Clock, safety_lag: float | timedelta = 5.0
    ) -> None:
        self._reader = reader
        self._domain = domain
        self._clock = clock
        self._lag = checks.seconds(safety_lag, "safety_lag")

    async def start(self, store: Store, spec: RouterSpec) -> RouterSpec:
        """The declaration of a router that is new, with the place at which it begins."""
        return await self._reader.start(store, spec)

    async def page(self, store: Store, cursor: Cursor, limit: int) -> LogPage:
        """Events that are old enough, up to the first that is not.

        One more than fits is read: who follows the last one shows whether their positions differ.
        """
        found = in_order(await self._reader.read(store, cursor, limit + 1), cursor)[:limit]
        now = self._clock.now()
        settled: list[LogEvent] = []
        for number, one in enumerate(found, start=cursor.position + 1):
            if (now - one.at).total_seconds() < self._lag:
                break
            settled.append(one if isinstance(one, LogEvent) else self._event(one, number))
        decided = await store.attempted(cursor.router, [one.id for one in settled])
        marked = tuple(structs.replace(one, decided=one.id in decided) for one in settled)
        return LogPage(events=marked, horizon=marked[-1].position if marked else cursor.position)

    async def find(self, store: Store, ids: Sequence[str]) -> dict[str, LogEvent]:
        """Events by id; those that are not there any more are left out."""
        found = await self._reader.find(store, ids)
        return {one.id: one if isinstance(one, LogEvent) else self._event(one, 0) for one in found}

    def _event(self, one: SourceEvent, number: int) -> LogEvent:
        """The event with a number in this router's order, for attempts to be listed by."""
        return LogEvent(
            position=number,
            mark=encode(one.position),
            id=one.id,
            domain=self._domain,
            type=one.type,
            stream=one.stream,
            payload=one.payload,
            at=one.at,
            key=one.key,
        )


def in_order(events: Found, cursor: Cursor) -> Found:
    """The events by position. Raises for positions by which a page edge would lose one.

    Integers are sorted. Tuples stay in the order of the database, whose collation only it knows.
    """
    if all(isinstance(one, LogEvent) for one in events):
        events = sorted(events, key=lambda one: int(one.position))
    after = cursor.position if cursor.mark is None else decode(cursor.mark)
    above = [one.position for one in events]
    if after in above or (above and follows(above[0], after) is False):
        raise PositionUnordered(
            f"the source of router {cursor.router!r} returned {_shown(above[0])}, which is not "
            f"above {_shown(after)}: read(after, limit) returns what is above `after`, in order"
        )
    for earlier, later in pairwise(above):
        if earlier == later:
            raise PositionTied(
                f"two events in the source of router {cursor.router!r} have the position "
                f"{_shown(later)}, so the end of a page could lose one: order by a unique "
                'position, such as ("created_at", "id")'
            )
        if follows(later, earlier) is False:
            raise PositionUnordered(
                f"the source of router {cursor.router!r} returned {_shown(later)} behind "
                f"{_shown(earlier)}: read(after, limit) returns events by position"
            )
    return events


def _shown(position: Position) -> str:
    return str(position)[:100]

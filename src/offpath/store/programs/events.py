"""Events of the log: looking at them, reading them for a router, and trimming them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from offpath.model.checks import MOST_LISTED
from offpath.model.headers import readable_headers
from offpath.model.route import LogEvent, LogPage
from offpath.store.programs.dialect import (
    Dialect,
    Queries,
    Send,
    Sight,
    Steps,
    ask,
    embed,
    one,
)
from offpath.store.programs.event_answers import EventRow
from offpath.store.programs.instants import instant
from offpath.store.refusals import no_cursor
from offpath.store.unreadable import Shape, mark


def page(limit: int) -> int:
    """A limit as a statement takes it."""
    return min(max(limit, 0), MOST_LISTED)


def found(d: Dialect, ids: Sequence[str]) -> Steps[list[LogEvent]]:
    """Events by id."""
    return EVENTS.all((yield from one(d.sql["find_events"](ids=d.batch(list(ids))))))


def read(
    d: Dialect, *, domain: str | None = None, after: int = 0, limit: int = 100
) -> Steps[list[LogEvent]]:
    """Committed events by position, of one domain or of all."""
    if domain is None:
        query = d.sql["read_events"](after=after, limit=page(limit))
    else:
        query = d.sql["read_domain_events"](domain=domain, after=after, limit=page(limit))
    return EVENTS.all((yield from one(query)))


def of_router(
    d: Dialect,
    router: str,
    partition: int,
    *,
    after: int,
    limit: int,
    sight: Sight | None = None,
) -> Steps[LogPage]:
    """Settled events of a router's partition above a position."""
    return (yield from embed(settled(d, router, partition, after, limit, sight)))


def settled(
    d: Dialect, router: str, partition: int, after: int, limit: int, sight: Sight | None
) -> Queries[LogPage]:
    """The same in anybody's transaction."""
    # Looked at before the events are read: what settles in between would be passed without being
    # read.
    if sight is None:
        sight = yield from d.settled()
    rows = yield d.sql["read_log"](
        router=router,
        partition=partition,
        after=after,
        horizon=sight.horizon,
        limit=max(limit, 0),
    )
    if not rows:
        raise no_cursor(router, partition)
    # Without events there is one row of nulls; an unknown cursor has no row at all.
    [[first, *_], *_] = rows
    there = [] if first is None else EVENTS.all(rows)
    return LogPage(events=tuple(there), horizon=sight.horizon, waiting_for=sight.waiting_for)


def trim(d: Dialect, *, before: datetime, limit: int) -> Steps[int]:
    """Remove old events that every router has passed, and the attempts at them."""
    rows = yield from ask(d.sql["trimmable"](before=d.at(before), limit=page(limit)))
    if not rows:
        return 0
    gone = d.sql["trim_log"](positions=d.batch([position for position, _ in rows]))
    attempts = d.sql["trim_attempts"](events=d.batch([id_ for _, id_ in rows]))
    # found before the first lock is taken: who has it counts as a writer of the log
    removed, _ = yield Send((gone, attempts), last=True)
    return len(removed)


def event(row: EventRow) -> LogEvent:
    """An event as every statement about the log answers it."""
    return LogEvent(
        position=row.position,
        id=row.id,
        domain=row.domain,
        type=row.type,
        stream=row.stream,
        payload=row.payload,
        at=instant(row.at),
        key=row.key,
        decided=bool(row.decided),
        headers=None if row.headers is None else readable_headers(row.headers),
    )


EVENTS: Final = Shape.of(
    EventRow(0, "", "", "", "", "null", 0, None, 0, None),
    event,
    lambda event, bad: replace(event, unreadable=mark(bad)),
)
"""The reading of events, one by one if need be."""

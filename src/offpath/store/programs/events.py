"""Events of the log, for looking at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from offpath.model.route import LogEvent
from offpath.store.programs.answers import EventRow
from offpath.store.programs.dialect import Dialect, Steps, one
from offpath.store.programs.instants import instant
from offpath.store.unreadable import Shape, mark

_MOST: Final = 10_000
"""Rows on a page: a larger one would be held in memory whole."""


def page(limit: int) -> int:
    """A limit as a statement takes it."""
    return min(max(limit, 0), _MOST)


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
    )


EVENTS: Final = Shape.of(
    EventRow(0, "", "", "", "", "null", 0, None, 0),
    event,
    lambda event, bad: replace(event, unreadable=mark(bad)),
)
"""The reading of events, one by one if need be."""

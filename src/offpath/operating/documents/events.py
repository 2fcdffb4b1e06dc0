"""Documents of events of the log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from offpath.model.route import LogEvent
from offpath.operating.documents.fields import filled
from offpath.operating.redaction import PLAIN, Redaction


class EventDocument(Struct, frozen=True, kw_only=True):
    """An event of the log: its payload decoded, secrets hidden."""

    id: str
    position: int
    domain: str
    type: str
    stream: str
    key: str | None
    at: datetime
    payload: Any
    unreadable: str | None


class EventPage(Struct, frozen=True, kw_only=True):
    """Events, newest first; ``next`` is given back as ``after``."""

    items: tuple[EventDocument, ...]
    next: str | None


def describe(one: LogEvent, seen: Redaction = PLAIN) -> EventDocument:
    """The document of an event."""
    return filled(EventDocument, one, payload=seen.payload(one.payload))


def describe_page(found: Sequence[LogEvent], limit: int, seen: Redaction = PLAIN) -> EventPage:
    """The document of a page."""
    last = found[-1] if found and len(found) >= limit else None
    return EventPage(
        items=tuple(describe(one, seen) for one in found),
        next=None if last is None else str(last.position),
    )

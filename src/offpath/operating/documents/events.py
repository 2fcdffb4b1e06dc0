"""Documents of events of the log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from offpath.model.route import LogEvent
from offpath.operating.documents.fields import filled
from offpath.operating.documents.pages import DocumentPage, after_full
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


class EventPage(DocumentPage[EventDocument], frozen=True, kw_only=True):
    """Events, newest first; ``next`` is given back as ``after``."""


def describe(one: LogEvent, seen: Redaction = PLAIN) -> EventDocument:
    """The document of an event."""
    return filled(EventDocument, one, payload=seen.payload(one.payload))


def describe_page(found: Sequence[LogEvent], limit: int, seen: Redaction = PLAIN) -> EventPage:
    """The document of a page."""
    following = after_full(found, limit, lambda one: str(one.position))
    return EventPage(items=tuple(describe(one, seen) for one in found), next=following)

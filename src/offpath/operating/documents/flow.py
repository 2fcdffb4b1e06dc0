"""Documents of queues and limits."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from offpath.model.limit import Algorithm, LimitRecord, QueueRecord
from offpath.operating.documents.fields import filled
from offpath.operating.times import when


class QueueDocument(Struct, frozen=True, kw_only=True):
    """A queue that has unended jobs or is paused. Counts may stop at 100,000."""

    name: str
    blocked: int
    scheduled: int
    ready: int
    running: int
    held: int
    paused: bool
    paused_until: datetime | None
    state: str


class RateDocument(Struct, frozen=True, kw_only=True):
    """A rate: so many starts in so many seconds."""

    count: int
    per: float
    algorithm: Algorithm


class LimitDocument(Struct, frozen=True, kw_only=True):
    """A key of a limit: how many may run, run, and are held."""

    key: str
    max_running: int | None
    rate: RateDocument | None
    admitted: int
    running: int
    held: int
    closed_until: datetime | None
    paused: bool
    state: str


def describe_queue(one: QueueRecord) -> QueueDocument:
    """The document of a queue."""
    return filled(QueueDocument, one, state=queue_state(one))


def describe_limit(one: LimitRecord) -> LimitDocument:
    """The document of a key."""
    rate = None if one.rate is None else filled(RateDocument, one.rate)
    return filled(LimitDocument, one, rate=rate, state=limit_state(one))


def queue_state(one: QueueRecord) -> str:
    """A queue's state in words."""
    if one.paused_until is not None:
        return f"paused until {when(one.paused_until)}"
    return "paused" if one.paused else "on"


def limit_state(one: LimitRecord) -> str:
    """A key's state in words."""
    if one.paused:
        return "paused"
    return "on" if one.closed_until is None else f"closed until {when(one.closed_until)}"

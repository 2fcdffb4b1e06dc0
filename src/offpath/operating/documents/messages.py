"""Documents of messages of outbox and inbox, and of what waits in their streams."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from msgspec import Struct

from offpath.model.message import Box, MessageBacklog, MessageLook, MessageRecord, MessageState
from offpath.model.post import PostRecord
from offpath.model.redact import redact_text
from offpath.operating.documents.fields import filled
from offpath.operating.documents.jobs import FailureDocument
from offpath.operating.documents.posts import PostDocument, describe_posts
from offpath.operating.panels import PanelledDocument
from offpath.operating.redaction import PLAIN, Redaction


class MessageDocument(Struct, frozen=True, kw_only=True):
    """A message, without what it carries."""

    id: str
    box: Box
    stream: str
    topic: str
    key: str | None
    state: MessageState
    reason: str | None
    attempt: int
    deliveries: int
    held: bool
    created_at: datetime
    due_at: datetime
    finished_at: datetime | None
    expires_at: datetime | None
    failure: FailureDocument | None
    unreadable: str | None


class MessageShown(MessageDocument, frozen=True, kw_only=True):
    """A message whole: payload and headers decoded, secrets hidden."""

    payload: Any
    headers: Any
    posts: tuple[PostDocument, ...]
    """Its posts among the last twenty to its endpoint, the newest first."""


class StreamStanding(Struct, frozen=True, kw_only=True):
    """A stream of a box: how much waits and is dead, counted up to 1,000."""

    box: Box
    stream: str
    due: int
    dead: int
    oldest_due_at: datetime | None
    oldest_dead_at: datetime | None


class StreamList(Struct, frozen=True, kw_only=True):
    """The streams of both boxes in which messages are due or dead."""

    items: tuple[StreamStanding, ...]


class MessageListing(PanelledDocument, frozen=True, kw_only=True):
    """A page of messages, newest first, and the streams in which some wait.

    It looks at a bounded number of rows: fewer items than were asked for are not the end.
    """

    items: tuple[MessageDocument, ...]
    next: str | None
    """Given back as ``after`` to look further; null when there is nothing behind."""
    looked_at_most: int
    """The number of rows that one page looks at."""
    reached_at: datetime | None
    """The time when the last row that was looked at was written."""
    exhausted: bool
    """True if every row was looked at that there is."""
    streams: tuple[StreamStanding, ...]


def describe(one: MessageRecord, seen: Redaction = PLAIN) -> MessageDocument:
    """The document of a message in a list."""
    return filled(MessageDocument, one, failure=_failure(one, seen))


def describe_whole(
    one: MessageRecord, seen: Redaction = PLAIN, posts: Iterable[PostRecord] = ()
) -> MessageShown:
    """The document of one message."""
    return filled(
        MessageShown,
        one,
        failure=_failure(one, seen),
        payload=seen.payload(one.payload),
        headers=seen.payload(one.headers),
        posts=describe_posts(posts),
    )


def describe_page(
    page: MessageLook,
    most: int,
    backlog: Iterable[MessageBacklog],
    seen: Redaction = PLAIN,
    cut: tuple[str, ...] = (),
) -> MessageListing:
    """The document of a page that looked at up to ``most`` rows."""
    return MessageListing(
        items=tuple(describe(one, seen) for one in page.items),
        next=page.next,
        looked_at_most=most,
        reached_at=page.reached_at,
        exhausted=page.exhausted,
        streams=tuple(filled(StreamStanding, one) for one in backlog),
        cut=cut,
    )


def _failure(one: MessageRecord, seen: Redaction) -> FailureDocument | None:
    if one.failure is None:
        return None
    message, traceback = redact_text(one.failure.message), seen.traceback(one.failure.traceback)
    return filled(FailureDocument, one.failure, message=message, traceback=traceback)

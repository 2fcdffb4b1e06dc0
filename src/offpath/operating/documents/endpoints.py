"""Documents of endpoints, to which webhooks are posted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Struct

from offpath.events.webhook.endpoints import Receiver
from offpath.model.endpoint import EndpointState, stream_of
from offpath.model.message import Box, MessageBacklog, MessageState
from offpath.model.post import PostOutcome, PostRecord
from offpath.model.redact import redact_text
from offpath.operating.documents.fields import filled
from offpath.operating.documents.messages import MessageDocument
from offpath.operating.documents.posts import PostDocument, describe_posts


class EndpointDocument(Struct, frozen=True, kw_only=True):
    """An endpoint: its state and what waits for it. Its secrets are counted, never shown."""

    name: str
    url: str
    state: EndpointState
    reason: str | None
    topics: tuple[str, ...]
    streams: tuple[str, ...]
    trace: bool
    """True if ``traceparent`` goes out with its posts."""
    failures: int
    failing_since: datetime | None
    blocked_until: datetime | None
    created_at: datetime | None
    secrets: int
    stream: str
    """The stream of the outbox that is posted to it."""
    due: int
    dead: int


class EndpointList(Struct, frozen=True, kw_only=True):
    """All endpoints."""

    items: tuple[EndpointDocument, ...]


class EndpointShown(EndpointDocument, frozen=True, kw_only=True):
    """An endpoint with its last posts, and the newest messages of its stream."""

    cut: tuple[str, ...] = ()
    """The fields that were not read, for that took too long: they are empty here."""
    posts: tuple[PostDocument, ...]
    """The last twenty, the newest first."""
    posts_delivered: int
    """The number of these posts that were taken."""
    messages: tuple[MessageDocument, ...]
    delivered: int
    """The number of these that were delivered."""
    failed: int
    """The number of these whose last attempt failed."""


def describe_all(found: Iterable[Receiver], backlog: Sequence[MessageBacklog]) -> EndpointList:
    """The documents of endpoints, with what waits for each."""
    waiting = {one.stream: one for one in backlog if one.box is Box.OUT}
    return EndpointList(items=tuple(_described(one, waiting) for one in found))


def _described(one: Receiver, waiting: dict[str, MessageBacklog]) -> EndpointDocument:
    stream = stream_of(one.name)
    known = waiting.get(stream)
    counts = {"due": known.due if known else 0, "dead": known.dead if known else 0}
    return filled(EndpointDocument, one, url=redact_text(one.url), stream=stream, **counts)


def describe_shown(
    one: EndpointDocument,
    newest: Sequence[MessageDocument],
    posts: Sequence[PostRecord],
    cut: tuple[str, ...] = (),
) -> EndpointShown:
    """The document of one endpoint."""
    return filled(
        EndpointShown,
        one,
        posts=describe_posts(posts),
        posts_delivered=sum(each.outcome is PostOutcome.DELIVERED for each in posts),
        messages=tuple(newest),
        delivered=sum(each.state is MessageState.DONE for each in newest),
        failed=sum(each.failure is not None for each in newest),
        cut=cut,
    )

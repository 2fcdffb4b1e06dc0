"""Webhook endpoints: where signed messages are posted, and how that goes."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

from msgspec import Struct

from offpath.model.quiet import Quiet

_STREAM: Final = "webhook:"


class EndpointState(StrEnum):
    """The state of an endpoint: messages are posted to it, or not."""

    ENABLED = "enabled"
    PAUSED = "paused"
    """By an operator. Its messages wait."""
    DISABLED = "disabled"
    """It said that it is gone, or failed for too long. Its messages wait for an operator."""


class Endpoint(Quiet, frozen=True, kw_only=True):
    """One endpoint. ``secret_texts`` and their like never leave the store in a repr."""

    name: str
    url: str
    secrets: tuple[str, ...]
    """Signing secrets, the newest first: each signs, so that a receiver can rotate."""
    topics: tuple[str, ...] = ("*",)
    """Patterns of the topics it wants: a name, ``prefix.*`` or ``*``."""
    streams: tuple[str, ...] = ("*",)
    """Patterns of the outbox streams that it wants messages of."""
    headers: str = "{}"
    """Headers added to each post, as a JSON object of texts."""
    trace: bool = True
    """True if ``traceparent`` goes out with its posts."""
    state: EndpointState = EndpointState.ENABLED
    reason: str | None = None
    """The reason why it is paused or disabled."""
    failures: int = 0
    """Posts that failed in a row."""
    failing_since: datetime | None = None
    blocked_until: datetime | None = None
    """No post before: it asked for that (``Retry-After``), or its circuit is open."""
    created_at: datetime | None = None
    """Set by the store."""


class EndpointNote(Struct, frozen=True, kw_only=True):
    """The result of one post, for the endpoint's own health."""

    name: str
    delivered: bool
    block: float | None = None
    """Seconds from the store's now before which nothing more is posted; a success lifts it."""
    disable: str | None = None
    """Disable it, for this reason."""


def stream_of(endpoint: str) -> str:
    """The outbox stream of what is to be posted to an endpoint."""
    return _STREAM + endpoint


def is_delivery(stream: str) -> bool:
    """True if an outbox stream holds what is to be posted to an endpoint."""
    return stream.startswith(_STREAM)


def endpoint_of(stream: str) -> str:
    """The endpoint of such a stream."""
    return stream.removeprefix(_STREAM)

"""The step from a webhook endpoint to its next state. Pure: the caller keeps what these make."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from offpath.model.endpoint import Endpoint, EndpointNote, EndpointState
from offpath.store.rows.instants import later

_ENABLED = EndpointState.ENABLED


def put_over(known: Endpoint | None, endpoint: Endpoint, now: datetime) -> Endpoint:
    """A new endpoint, or one that posts other things elsewhere: its state and health stay."""
    if known is None:
        return replace(endpoint, created_at=now)
    return replace(
        known,
        url=endpoint.url,
        secrets=endpoint.secrets,
        topics=endpoint.topics,
        streams=endpoint.streams,
        headers=endpoint.headers,
        trace=endpoint.trace,
    )


def switched(known: Endpoint, state: EndpointState, reason: str | None) -> Endpoint:
    """An endpoint that somebody has enabled, paused or disabled."""
    # Somebody has mended it: what failed before must not disable it again.
    before = _healthy(known) if state is _ENABLED else known
    return replace(before, state=state, reason=reason)


def noted(known: Endpoint, note: EndpointNote, now: datetime) -> Endpoint:
    """An endpoint after a post."""
    after = _healthy(known) if note.delivered else _failed(known, now)
    if note.block is not None:
        until = later(now, note.block)
        # Of two blocks the later end counts, whichever post is noted last.
        if after.blocked_until is None or after.blocked_until < until:
            after = replace(after, blocked_until=until)
    # A pause by an operator is kept, whatever its posts tell.
    if note.disable is not None and after.state is _ENABLED:
        after = replace(after, state=EndpointState.DISABLED, reason=note.disable)
    return after


def _healthy(endpoint: Endpoint) -> Endpoint:
    return replace(endpoint, failures=0, failing_since=None, blocked_until=None)


def _failed(endpoint: Endpoint, now: datetime) -> Endpoint:
    since = endpoint.failing_since or now
    return replace(endpoint, failures=endpoint.failures + 1, failing_since=since)

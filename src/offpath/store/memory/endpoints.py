"""Webhook endpoints."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from offpath.model.checks import MOST_LISTED
from offpath.model.endpoint import Endpoint, EndpointNote, EndpointState
from offpath.store.memory.instants import later
from offpath.store.memory.tables import Tables

_ENABLED = EndpointState.ENABLED


def put(tables: Tables, now: datetime, endpoint: Endpoint) -> bool:
    """Add one, or change where and what is posted; True when it is new."""
    known = tables.endpoints.get(endpoint.name)
    if known is None:
        tables.endpoints[endpoint.name] = replace(endpoint, created_at=now)
        return True
    tables.endpoints[endpoint.name] = replace(
        known,
        url=endpoint.url,
        secrets=endpoint.secrets,
        topics=endpoint.topics,
        streams=endpoint.streams,
        headers=endpoint.headers,
    )
    return False


def listed(tables: Tables) -> list[Endpoint]:
    """Every endpoint, by name."""
    return sorted(tables.endpoints.values(), key=lambda each: each.name)[:MOST_LISTED]


def switch(tables: Tables, name: str, state: EndpointState, reason: str | None) -> bool:
    """Enable, pause or disable one; False: unknown."""
    known = tables.endpoints.get(name)
    if known is None:
        return False
    if state is _ENABLED:
        known = _healthy(known)
        tables.mailbox.stirred = True  # what waited for it can be posted
    tables.endpoints[name] = replace(known, state=state, reason=reason)
    return True


def note(tables: Tables, now: datetime, told: EndpointNote) -> Endpoint | None:
    """Record how a post went."""
    known = tables.endpoints.get(told.name)
    if known is None:
        return None
    after = _healthy(known) if told.delivered else _failed(known, now)
    if told.block is not None:
        until = later(now, told.block)
        if after.blocked_until is None or after.blocked_until < until:
            after = replace(after, blocked_until=until)
    if told.disable is not None and after.state is _ENABLED:
        after = replace(after, state=EndpointState.DISABLED, reason=told.disable)
    tables.endpoints[told.name] = after
    return after


def delete(tables: Tables, name: str) -> bool:
    """Remove one; False: unknown."""
    return tables.endpoints.pop(name, None) is not None


def _healthy(endpoint: Endpoint) -> Endpoint:
    return replace(endpoint, failures=0, failing_since=None, blocked_until=None)


def _failed(endpoint: Endpoint, now: datetime) -> Endpoint:
    since = endpoint.failing_since or now
    return replace(endpoint, failures=endpoint.failures + 1, failing_since=since)

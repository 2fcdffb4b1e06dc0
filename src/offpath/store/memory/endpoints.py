"""Webhook endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from offpath.model.endpoint import Endpoint, EndpointNote, EndpointState
from offpath.model.post import PostRecord, newest_posts
from offpath.store.memory.tables import Tables
from offpath.store.rows.endpoints import noted, put_over, switched

_LISTED = 10_000


def put(tables: Tables, now: datetime, endpoint: Endpoint) -> bool:
    """Add one, or change where and what is posted; True when it is new."""
    known = tables.endpoints.get(endpoint.name)
    tables.endpoints[endpoint.name] = put_over(known, endpoint, now)
    return known is None


def listed(tables: Tables) -> list[Endpoint]:
    """Every endpoint, by name."""
    return sorted(tables.endpoints.values(), key=lambda each: each.name)[:_LISTED]


def switch(tables: Tables, name: str, state: EndpointState, reason: str | None) -> bool:
    """Enable, pause or disable one; False: unknown."""
    known = tables.endpoints.get(name)
    if known is None:
        return False
    tables.endpoints[name] = switched(known, state, reason)
    tables.mailbox.stirred |= state is EndpointState.ENABLED  # what waited for it can be posted
    return True


def note(tables: Tables, now: datetime, told: EndpointNote) -> Endpoint | None:
    """Record how a post went."""
    known = tables.endpoints.get(told.name)
    if known is None:
        return None
    after = tables.endpoints[told.name] = noted(known, told, now)
    return after


def delete(tables: Tables, name: str) -> bool:
    """Remove one; False: unknown."""
    tables.posts.pop(name, None)
    return tables.endpoints.pop(name, None) is not None


def put_posts(tables: Tables, posts: Sequence[PostRecord]) -> None:
    """Keep how posts went, the newest of each endpoint."""
    # Posts to a deleted endpoint are dropped, since nothing would ever remove them.
    for name in {one.endpoint for one in posts} & set(tables.endpoints):
        own = [one for one in posts if one.endpoint == name]
        tables.posts[name] = newest_posts(tables.posts.get(name, ()), own)


def posts_to(tables: Tables, name: str) -> list[PostRecord]:
    """The newest posts to an endpoint."""
    return list(tables.posts.get(name, ()))

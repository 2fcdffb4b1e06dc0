"""Webhook endpoints."""

from __future__ import annotations

from typing import Final

import msgspec

from offpath.model.endpoint import Endpoint, EndpointNote, EndpointState
from offpath.store.programs.instants import micros, readable
from offpath.store.sql import Row
from offpath.store.sqlite.instants import later
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.session import SQL, Session
from offpath.store.unreadable import Shape

LISTED: Final = 10_000
_texts: Final = msgspec.json.Decoder(tuple[str, ...]).decode


def put(session: Session, now: int, endpoint: Endpoint) -> bool:
    """Add one, or change where and what is posted; True when it is new."""
    known = session.run(SQL["endpoint_known"](name=endpoint.name))
    since, until = endpoint.failing_since, endpoint.blocked_until
    session.run(
        SQL["endpoint_put"](
            name=endpoint.name,
            url=endpoint.url,
            secrets=batch(endpoint.secrets),
            topics=batch(endpoint.topics),
            streams=batch(endpoint.streams),
            headers=endpoint.headers,
            state=endpoint.state.value,
            reason=endpoint.reason,
            failures=endpoint.failures,
            failing_since=None if since is None else micros(since),
            blocked_until=None if until is None else micros(until),
            now=now,
        )
    )
    return not known


def listed(session: Session) -> list[Endpoint]:
    """Every endpoint, by name."""
    return _SHAPE.all(session.run(SQL["endpoint_list"](limit=LISTED)))


def switch(session: Session, name: str, state: EndpointState, reason: str | None) -> bool:
    """Enable, pause or disable one; False: unknown."""
    query = SQL["endpoint_switch"](name=name, state=state.value, reason=reason)
    known = bool(session.run(query))
    if known and state is EndpointState.ENABLED:
        session.stirred = True  # what waited for it can be posted
    return known


def note(session: Session, now: int, told: EndpointNote) -> Endpoint | None:
    """Record how a post went."""
    query = SQL["endpoint_note"](
        name=told.name,
        delivered=told.delivered,
        blocked_until=None if told.block is None else later(now, told.block),
        disable=told.disable,
        now=now,
    )
    return next((_SHAPE.one(row) for row in session.run(query)), None)


def delete(session: Session, name: str) -> bool:
    """Remove one; False: unknown."""
    return bool(session.run(SQL["endpoint_delete"](name=name)))


def _endpoint(row: Row) -> Endpoint:
    return Endpoint(
        name=row[0],
        url=row[1],
        secrets=_texts(row[2]),
        topics=_texts(row[3]),
        streams=_texts(row[4]),
        headers=row[5],
        state=EndpointState(row[6]),
        reason=row[7],
        failures=row[8],
        failing_since=readable(row[9]),
        blocked_until=readable(row[10]),
        created_at=readable(row[11]),
    )


_SHAPE: Final = Shape(
    _endpoint,
    (
        "name",
        "url",
        "secrets",
        "topics",
        "streams",
        "headers",
        "state",
        "reason",
        "failures",
        "failing_since",
        "blocked_until",
        "created_at",
    ),
    ("", "", "[]", "[]", "[]", "{}", "disabled", None, 0, None, None, 0),
    lambda endpoint, _: endpoint,
)

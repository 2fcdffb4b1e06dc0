"""Webhook endpoints."""

from __future__ import annotations

from datetime import datetime

from offpath.model.endpoint import Endpoint, EndpointNote
from offpath.store.postgres.steps import moment, to_json
from offpath.store.programs.dialect import Steps, ask
from offpath.store.sql import Catalogue
from offpath.store.unreadable import Documents

_endpoint = Documents(Endpoint)


def put_steps(endpoint: Endpoint, now: datetime | None, *, sql: Catalogue) -> Steps[bool]:
    """Add or replace an endpoint; whether it is new."""
    query = sql["put_endpoint"](
        now=moment(now),
        name=endpoint.name,
        failing_since=moment(endpoint.failing_since),
        blocked_until=moment(endpoint.blocked_until),
        failures=endpoint.failures,
        state=endpoint.state,
        reason=endpoint.reason,
        url=endpoint.url,
        secrets=to_json(endpoint.secrets),
        topics=to_json(endpoint.topics),
        streams=to_json(endpoint.streams),
        headers=endpoint.headers,
    )
    return bool((yield from ask(query, last=True))[0][0])


def endpoints_steps(*, sql: Catalogue) -> Steps[list[Endpoint]]:
    """Every endpoint, by name."""
    rows = yield from ask(sql["endpoints"](), last=True)
    return _endpoint.all(rows)


def note_steps(
    note: EndpointNote, now: datetime | None, *, sql: Catalogue
) -> Steps[Endpoint | None]:
    """Record how a post went."""
    query = sql["note_endpoint"](
        now=moment(now),
        name=note.name,
        delivered=int(note.delivered),
        block=note.block,
        disable=note.disable,
    )
    rows = yield from ask(query, last=True)
    return _endpoint.one(rows[0][0]) if rows else None

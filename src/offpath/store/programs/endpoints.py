"""Webhook endpoints: where messages are posted, and how that goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from offpath.model.endpoint import Endpoint, EndpointNote, EndpointState
from offpath.model.post import PostRecord, newest_posts, read_posts, written_posts
from offpath.store.hints import Hint
from offpath.store.programs.dialect import Dialect, Steps, ask, one
from offpath.store.programs.event_answers import EndpointRow
from offpath.store.programs.instants import readable
from offpath.store.unreadable import Shape

_texts: Final = msgspec.json.Decoder(tuple[str, ...]).decode


def put(d: Dialect, endpoint: Endpoint) -> Steps[bool]:
    """Add one, or change where and what is posted; True when it is new."""
    where = {
        "name": endpoint.name,
        "url": endpoint.url,
        "secrets": d.json(endpoint.secrets),
        "topics": d.json(endpoint.topics),
        "streams": d.json(endpoint.streams),
        "headers": endpoint.headers,
        "trace": int(endpoint.trace),
    }
    add = d.sql["add_endpoint"](
        now=d.now,
        state=endpoint.state,
        reason=endpoint.reason,
        failures=endpoint.failures,
        failing_since=d.at(endpoint.failing_since),
        blocked_until=d.at(endpoint.blocked_until),
        **where,
    )
    # The insert comes first and passes over a name that is there. After a look, two callers would
    # both insert.
    if (yield from ask(add)):
        return True
    if (yield from ask(d.sql["change_endpoint"](**where))):
        return False
    yield from ask(add)  # it was deleted between the two
    return True


def listed(d: Dialect) -> Steps[list[Endpoint]]:
    """Every endpoint, by name."""
    return _ENDPOINTS.all((yield from one(d.sql["endpoints"]())))


def switch(d: Dialect, name: str, state: EndpointState, reason: str | None) -> Steps[bool]:
    """Enable, pause or disable one; False: unknown."""
    query = d.sql["set_endpoint"](name=name, state=state, reason=reason)
    known = bool((yield from one(query)))
    if known and state is EndpointState.ENABLED:
        d.announced.tell(Hint.MESSAGES)  # what waited for it can be posted
    return known


def note(d: Dialect, note: EndpointNote) -> Steps[Endpoint | None]:
    """Record how a post went."""
    query = d.sql["note_endpoint"](
        now=d.now,
        name=note.name,
        delivered=int(note.delivered),
        block=d.span(note.block),
        disable=note.disable,
    )
    return next(iter(_ENDPOINTS.all((yield from one(query)))), None)


def delete(d: Dialect, name: str) -> Steps[bool]:
    """Remove one; False: unknown."""
    return bool((yield from one(d.sql["delete_endpoint"](name=name))))


def put_posts(d: Dialect, posts: Sequence[PostRecord]) -> Steps[None]:
    """Keep how posts went, the newest of each endpoint.

    The rows are locked before they are read, by name, so that nobody's posts are written over.
    """
    names = sorted({one.endpoint for one in posts})
    if not names:
        return
    rows = yield from ask(d.sql["hold_posts"](names=d.batch(names)))
    batch = [
        {"name": name, "posts": written_posts(newest_posts(read_posts(text), _of(name, posts)))}
        # Only rows that are there: posts to a deleted endpoint go with it.
        for name, text in rows
    ]
    if batch:
        yield from ask(d.sql["set_posts"](batch=d.batch(batch)), last=True)


def _of(name: str, posts: Sequence[PostRecord]) -> Sequence[PostRecord]:
    return [one for one in posts if one.endpoint == name]


def posts_to(d: Dialect, endpoint: str) -> Steps[list[PostRecord]]:
    """The newest posts to an endpoint."""
    rows = yield from one(d.sql["posts"](name=endpoint))
    return [each for (text,) in rows for each in newest_posts(read_posts(text))]


def _endpoint(row: EndpointRow) -> Endpoint:
    return Endpoint(
        name=row.name,
        url=row.url,
        secrets=_texts(row.secrets),
        topics=_texts(row.topics),
        streams=_texts(row.streams),
        headers=row.headers,
        trace=bool(row.trace),
        state=EndpointState(row.state),
        reason=row.reason,
        failures=row.failures,
        failing_since=readable(row.failing_since),
        blocked_until=readable(row.blocked_until),
        created_at=readable(row.created_at),
    )


_ENDPOINTS: Final = Shape.of(
    # Where the state cannot be read it counts as disabled, so nothing is posted.
    EndpointRow("", "", "[]", "[]", "[]", "{}", 0, "disabled", None, 0, None, None, 0),
    _endpoint,
    lambda endpoint, _: endpoint,
)

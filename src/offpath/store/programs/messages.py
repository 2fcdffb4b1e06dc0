"""Messages as people see them: pages, what waits, and what operators put back or remove."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from offpath.model.checks import MOST_LISTED
from offpath.model.job import Failure
from offpath.model.message import (
    Box,
    MessageBacklog,
    MessageFilter,
    MessageLook,
    MessagePage,
    MessageRecord,
    MessageState,
)
from offpath.store.browse import MOST_LOOKED_AT
from offpath.store.hints import Hint
from offpath.store.programs.dialect import Dialect, Steps, ask, one
from offpath.store.programs.event_answers import MessageBacklogRow, MessageRow
from offpath.store.programs.instants import instant, readable
from offpath.store.protocol import MOST_ON_A_PAGE
from offpath.store.refusals import no_position
from offpath.store.sql import Query
from offpath.store.unreadable import Shape, mark

_failure: Final = msgspec.json.Decoder(Failure).decode
_BOXES: Final = frozenset(Box)


def find(
    d: Dialect,
    where: MessageFilter,
    *,
    limit: int = 100,
    after: str | None = None,
    newest: bool = True,
) -> Steps[MessagePage]:
    """One page, by position. One more row than asked for tells whether there is a next one."""
    position = _position(after)
    if limit <= 0:
        return MessagePage(items=())
    size = min(limit, MOST_LISTED)
    rows = yield from one(_find(d, where, size + 1, position, newest=newest))
    items = tuple(_RECORDS.all(rows[:size]))
    return MessagePage(items=items, next=str(items[-1].position) if len(rows) > size else None)


def _find(
    d: Dialect, where: MessageFilter, limit: int, after: int | None, *, newest: bool
) -> Query:
    values = {**_conditions(d, where), "now": d.now, "limit": limit, "after": after}
    only_dead = where.states == (MessageState.DEAD,)
    # SQLite plans a statement before it has the values: for few it has a statement of its own
    if (where.ids or only_dead) and "some_messages" in d.sql:
        return d.sql["some_messages"](**values, newest=newest, dead=only_dead and not where.ids)
    return d.sql["messages_newest" if newest else "messages_oldest"](**values)


def look(
    d: Dialect,
    where: MessageFilter,
    *,
    limit: int = 50,
    after: str | None = None,
    most: int = MOST_LOOKED_AT,
    newest: bool = True,
) -> Steps[MessageLook]:
    """One page of messages that match among the next rows, and how far it came."""
    position = _position(after)
    if limit <= 0 or most <= 0:
        return MessageLook(items=(), next=after)
    size = min(limit, MOST_ON_A_PAGE)
    tried = _conditions(d, where)
    only_dead = where.states == (MessageState.DEAD,)
    walk = {
        "ids": tried.pop("ids"),
        "source": d.any_of([MessageState.DEAD.value]) if only_dead else None,
        "after": position,
        "most": most,
    }
    look = d.sql["look_at_messages_newest" if newest else "look_at_messages_oldest"]
    rows = yield from ask(look(**tried, **walk, now=d.now, limit=size + 1))
    items = tuple(_RECORDS.all(rows[:size]))
    if len(rows) > size:
        return MessageLook(
            items=items, next=str(items[-1].position), reached_at=items[-1].created_at
        )
    reach = d.sql["reach_messages_newest" if newest else "reach_messages_oldest"]
    # The walk ended before the page was full. Its last row is where the next page goes on.
    reached = yield from ask(reach(**walk))
    for last, at in reached:
        return MessageLook(items=items, next=str(last), reached_at=readable(at))
    return MessageLook(items=items, next=None, exhausted=True)


def revive(d: Dialect, ids: Sequence[str]) -> Steps[list[str]]:
    """Put ended messages back as fresh."""
    rows = yield from one(d.sql["revive_messages"](now=d.now, ids=d.batch(list(ids))))
    if rows:
        d.announced.tell(Hint.MESSAGES)
    # An update answers in no order, and every store answers by id.
    return sorted(message for (message,) in rows)


def delete(d: Dialect, ids: Sequence[str]) -> Steps[list[str]]:
    """Remove ended messages."""
    rows = yield from one(d.sql["delete_messages"](ids=d.batch(list(ids))))
    return sorted(message for (message,) in rows)


def backlog(d: Dialect, *, limit: int = 1000) -> Steps[list[MessageBacklog]]:
    """Waiting messages of each stream, by box and stream."""
    rows = yield from one(d.sql["message_backlog"](now=d.now, limit=limit))
    return [
        MessageBacklog(
            box=Box(row.box),
            stream=row.stream,
            due=row.due,
            dead=row.dead,
            oldest_due_at=readable(row.oldest_due_at),
            oldest_dead_at=readable(row.oldest_dead_at),
        )
        for row in map(MessageBacklogRow._make, rows)
        if row.box in _BOXES  # what is in no box is nobody's to move
    ]


def _position(after: str | None) -> int | None:
    try:
        return None if after is None else int(after)
    except ValueError:
        raise no_position() from None


def _conditions(d: Dialect, where: MessageFilter) -> dict[str, Any]:
    """The filter as parameters; None stands for any."""
    lists = ("ids", "streams", "topics", "states", "keys", "reasons", "not_reasons")
    return {
        "box": where.box,
        "created_after": d.at(where.created_after),
        "created_before": d.at(where.created_before),
        **{name: d.batch(given) if (given := getattr(where, name)) else None for name in lists},
    }


def _record(row: MessageRow) -> MessageRecord:
    return MessageRecord(
        id=row.id,
        box=Box(row.box),
        stream=row.stream,
        topic=row.topic,
        payload=row.payload,
        state=MessageState(row.state),
        attempt=row.attempt,
        deliveries=row.deliveries,
        position=row.position,
        created_at=instant(row.created_at),
        due_at=instant(row.due_at),
        held=bool(row.held),
        key=row.key,
        headers=row.headers,
        finished_at=instant(row.finished_at),
        expires_at=instant(row.expires_at),
        reason=row.reason,
        failure=None if row.failure is None else _failure(row.failure),
    )


_PLAIN: Final = MessageRow(
    id="",
    box="out",
    stream="",
    topic="",
    payload="",
    state="dead",
    attempt=1,
    deliveries=0,
    position=0,
    created_at=0,
    due_at=0,
    held=0,
    key=None,
    headers="{}",
    finished_at=None,
    expires_at=None,
    reason=None,
    failure=None,
)

_RECORDS: Final = Shape.of(
    _PLAIN, _record, lambda message, bad: replace(message, unreadable=mark(bad))
)

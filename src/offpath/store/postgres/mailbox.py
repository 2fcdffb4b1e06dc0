"""Adding messages to the outbox and the inbox.

They are sent in an order that is the same for everybody who writes the same ids or keys, with their
places in the order of writing beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct

from offpath.model.job import Enqueued
from offpath.model.new import Box, NewMessage
from offpath.store.postgres.faults import CounterBehind
from offpath.store.postgres.steps import chunks, moment, to_json
from offpath.store.programs.dialect import Queries
from offpath.store.refusals import no_key
from offpath.store.sql import Catalogue, Query


class _Message(Struct, frozen=True, omit_defaults=True):
    n: int
    id: str
    box: Box
    stream: str
    payload: str
    topic: str = ""
    key: str | None = None
    headers: str = "{}"
    delay: float = 0.0


class _Place(NamedTuple):
    """The key that a row that was added shares with no other message, except for a plain repeat."""

    id: str
    box: str
    stream: str
    key: str | None


def require_keys(messages: Iterable[NewMessage]) -> None:
    """Raise ``StoreRejected`` for one in the inbox without the sender's key."""
    for one in messages:
        if one.box is Box.IN and one.key is None:
            raise no_key(one.id)


def add_messages(
    messages: Sequence[NewMessage], now: datetime | None, *, sql: Catalogue
) -> Queries[list[Enqueued]]:
    """Add messages; answers in their order. Positions grow in that order, too."""
    answers: list[Enqueued] = []
    queries = message_queries(messages, now, sql=sql)
    for piece, query in zip(chunks(messages), queries, strict=True):
        rows = yield query
        added = {_Place(*row) for row in rows}
        repeats = [one for one in piece if one.box is Box.IN and _written_as(one) not in added]
        accepted: dict[_Place, str] = {}
        if repeats:
            accepted = yield from _accepted(repeats, {each.id for each in added}, sql)
        # Fewer than were sent: mostly repeats. A position that was given twice looks the same, and
        # would lose a message in silence.
        if len(rows) < len(piece):
            yield from _require_there(piece, added, accepted, sql)
        answers += _answers(piece, added, accepted)
    return answers


def _require_there(
    messages: Iterable[NewMessage],
    added: set[_Place],
    accepted: Mapping[_Place, str],
    sql: Catalogue,
) -> Queries[None]:
    """Raise ``CounterBehind`` unless each that was not added is a repeat of one that is there."""
    given = {each.id for each in added}
    places = {one.id: _written_as(one) for one in messages}
    left = [each for each, place in places.items() if each not in given and place not in accepted]
    if left:
        rows = yield sql["known_messages"](ids=to_json(left))
        if len(rows) < len(left):
            raise CounterBehind("message_position")


def message_queries(
    messages: Sequence[NewMessage], now: datetime | None, *, sql: Catalogue
) -> list[Query]:
    """The statements that add messages; repeats of what is there are left out."""
    queries = []
    for piece in chunks(messages):
        batch = [_message(n, one) for n, one in enumerate(piece, 1)]
        if len({one.id for one in piece}) == len(piece):
            batch.sort(key=_rank)  # else they stay as given, so that the first of an id is kept
        queries.append(sql["add_messages"](now=moment(now), count=len(piece), batch=to_json(batch)))
    return queries


def _accepted(
    repeats: Sequence[NewMessage], added: set[str], sql: Catalogue
) -> Queries[dict[_Place, str]]:
    """The holders of the keys of these. A message whose own id was there before is its own
    holder.
    """
    keys = [{"id": one.id, "stream": one.stream, "key": one.key} for one in repeats]
    rows = yield sql["accepted_messages"](batch=to_json(keys))
    return {
        _Place(new, Box.IN, stream, key): accepted
        for new, stream, key, accepted, there in rows
        if not there or new in added
    }


def _answers(
    messages: Iterable[NewMessage], added: set[_Place], accepted: Mapping[_Place, str]
) -> Iterable[Enqueued]:
    """The first of equal ids was added; of a known key the id that was accepted before."""
    known: set[str] = set()
    for one in messages:
        place = _written_as(one)
        created = place in added and one.id not in known
        if created:
            known.add(one.id)
        there = one.id if one.id in known else accepted.get(place, one.id)
        yield Enqueued(id=one.id, job_id=there, created=created)


def _written_as(one: NewMessage) -> _Place:
    return _Place(one.id, one.box, one.stream, one.key)


def _message(n: int, one: NewMessage) -> _Message:
    return _Message(
        n,
        one.id,
        one.box,
        one.stream,
        one.payload,
        one.topic,
        one.key,
        one.headers,
        one.delay,
    )


def _rank(one: _Message) -> tuple[str, str, str, int]:
    """The rank by what tells a repeat: the id in the outbox, source and key in the inbox."""
    if one.box is Box.IN:
        return one.box, one.stream, one.key or "", one.n
    return one.box, one.id, "", one.n

"""Messages that are handed out: reading them, in the order in which they are to be delivered.

The statements that hand messages out and end their attempts are each database's own, for they are
the hot path of the relay: Postgres shares the room out in one statement for all streams and passes
over what others have locked, and SQLite goes from stream to stream with the write lock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from offpath.model.message import LeasedMessage, MessageRequest
from offpath.store.programs.event_answers import HandedRow
from offpath.store.programs.instants import instant
from offpath.store.sql import Row
from offpath.store.unreadable import Shape, mark

_PLAIN = HandedRow("", "", "", "", 1, 1, 0, 0, None, "{}", 0)


def handed(
    request: MessageRequest, rows: Iterable[Row], ordered: Collection[str]
) -> list[LeasedMessage]:
    """The messages of these rows, the longest due first; those of keys in ``ordered`` in turn."""
    return _shape(request).all(_in_turn(map(HandedRow._make, rows), ordered))


def _in_turn(rows: Iterable[HandedRow], ordered: Collection[str]) -> list[HandedRow]:
    """The rows by due time; in an ordered stream none is due before those of its key before it."""
    latest: dict[tuple[str, str], int] = {}
    turns: list[tuple[int, int, HandedRow]] = []
    # By position first: so each message of a key is met after those that go before it.
    for row in sorted(rows, key=lambda row: row.position):
        due = row.due_before
        if row.key is not None and row.stream in ordered:
            lane = row.stream, row.key
            due = latest[lane] = max(due, latest.get(lane, due))
        turns.append((due, row.position, row))
    turns.sort(key=lambda turn: turn[:2])
    return [row for _, _, row in turns]


def _shape(request: MessageRequest) -> Shape[LeasedMessage]:
    return Shape.of(
        _PLAIN,
        lambda row: LeasedMessage(
            id=row.id,
            box=request.box,
            stream=row.stream,
            topic=row.topic,
            payload=row.payload,
            holder=request.holder,
            attempt=row.attempt,
            deliveries=row.deliveries,
            position=row.position,
            created_at=instant(row.created_at),
            key=row.key,
            headers=row.headers,
        ),
        lambda message, bad: replace(message, unreadable=mark(bad)),
    )

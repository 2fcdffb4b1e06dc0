"""New messages and events of the log, without I/O: the same on every connection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from offpath.model.job import Enqueued
from offpath.model.new import SLOTS, Box, NewLogEvent, NewMessage
from offpath.store.programs.dialect import Queries
from offpath.store.refusals import no_key, no_slot
from offpath.store.sql import Query
from offpath.store.sqlite.parameters import batch, later
from offpath.store.sqlite.session import SQL


class Writing:
    """Messages and events of one transition. Making it raises ``StoreRejected``; nothing else does,
    so that what was written before it need not be taken back.
    """

    __slots__ = ("_events", "_insert", "_messages")

    def __init__(
        self, messages: Sequence[NewMessage], log: Sequence[NewLogEvent], now: int
    ) -> None:
        self._messages = messages
        self._insert: Query | None = None
        if messages:
            rows = [_message(new, now) for new in messages]
            self._insert = SQL["add_messages"](batch=batch(rows), now=now)
        self._events: Query | None = None
        if log:
            self._events = SQL["add_log"](batch=batch(map(_event, log)), now=now)

    def steps(self) -> Queries[list[Enqueued]]:
        """Write them; what became of the messages."""
        answers: list[Enqueued] = []
        if self._insert is not None:
            fresh = {message for (message,) in (yield self._insert)}
            known = () if len(fresh) == len(self._messages) else (yield self._known())
            answers = _answers(self._messages, fresh, known)
        if self._events is not None:
            yield self._events
        return answers

    def _known(self) -> Query:
        """The holders of these ids and inbox keys; their texts were found storable before."""
        accepted = batch([(new.stream, new.key) for new in self._messages if new.box is Box.IN])
        return SQL["known_messages"](
            ids=batch([new.id for new in self._messages]), accepted=accepted
        )


def _answers(
    messages: Iterable[NewMessage], fresh: set[str], known: Iterable[Sequence[Any]]
) -> list[Enqueued]:
    """The answers. Of a doubled id or key the first was written, the others are repeats of it."""
    left = set(fresh)
    ids = {message for message, _, _ in known}
    accepted = {(stream, key): message for message, stream, key in known}
    answers = []
    for new in messages:
        created = new.id in left
        left.discard(new.id)
        kept = new.id if created or new.id in ids else accepted[new.stream, new.key]
        answers.append(Enqueued(id=new.id, job_id=kept, created=created))
    return answers


def _message(new: NewMessage, now: int) -> tuple[Any, ...]:
    if new.box is Box.IN and new.key is None:
        raise no_key(new.id)
    due_at = later(now, new.delay)
    box = new.box.value
    return (new.id, box, new.stream, new.key, new.topic, due_at, new.headers, new.payload)


def _event(new: NewLogEvent) -> tuple[Any, ...]:
    if not 0 <= new.slot < SLOTS:
        raise no_slot(new.id)
    place = (new.id, new.domain, new.type, new.stream, new.key, new.slot)
    return (*place, new.payload, new.headers)

"""All messages, and indexes that are kept with them."""

from __future__ import annotations

from datetime import datetime

from offpath.model.job import Enqueued
from offpath.model.message import Box, MessageState, NewMessage
from offpath.store.memory.indexes import LazyHeap
from offpath.store.memory.message_lanes import MessageLanes
from offpath.store.rows.messages import MemoryMessage, check, written

_PENDING = MessageState.PENDING
_DEAD = MessageState.DEAD


class Mailbox:
    """The messages of one store. As with jobs, filing is the only write and cannot fail."""

    __slots__ = ("dead", "expiring", "keys", "lanes", "position", "rows", "stirred")

    def __init__(self) -> None:
        self.rows: dict[str, MemoryMessage] = {}
        """Messages by id, in the order of their positions: a row that changes keeps its place."""
        self.lanes = MessageLanes(self.rows)
        self.keys: dict[tuple[str, str], str] = {}  # inbox: source and key -> the message
        self.dead: dict[tuple[Box, str], dict[str, None]] = {}
        self.expiring: LazyHeap[datetime] = LazyHeap()
        self.position = 0
        """The last one given."""
        self.stirred = False
        """True if a message came to be that somebody may wait for, since that was last
        announced.
        """

    def write(self, new: NewMessage, now: datetime) -> None:
        """File a new message behind all others."""
        self.position += 1
        row = written(new, now, self.position)
        self.rows[row.id] = row
        if row.box is Box.IN and row.key is not None:
            self.keys[row.stream, row.key] = row.id
        self.lanes.add(row)
        self.stirred = True

    def file(self, row: MemoryMessage) -> None:
        """Put a row in the place of the one before."""
        before = self.rows[row.id]
        self.rows[row.id] = row
        if before.state is _PENDING:
            if row.state is _PENDING:
                self.lanes.move(row)
            else:
                self.lanes.remove(before)
                self._end(row)
        else:
            self._unend(before)
            self.lanes.add(row)
            self.stirred = True

    def drop(self, row: MemoryMessage) -> None:
        """Remove an ended message."""
        self._unend(row)
        del self.rows[row.id]
        if row.box is Box.IN and row.key is not None:
            del self.keys[row.stream, row.key]

    def _end(self, row: MemoryMessage) -> None:
        if row.expires_at is not None:
            self.expiring.push(row.id, row.expires_at)
        if row.state is _DEAD:
            self.dead.setdefault((row.box, row.stream), {})[row.id] = None

    def _unend(self, row: MemoryMessage) -> None:
        if row.expires_at is not None:
            self.expiring.remove(row.id)
        if row.state is _DEAD:
            place = row.box, row.stream
            ids = self.dead[place]
            del ids[row.id]
            if not ids:
                del self.dead[place]


class MailPlan:
    """New messages of one transition, decided before anything is filed."""

    __slots__ = ("_ids", "_keys", "_mailbox", "_new", "_now")

    def __init__(self, mailbox: Mailbox, now: datetime) -> None:
        self._mailbox = mailbox
        self._now = now
        self._new: list[NewMessage] = []
        self._ids: set[str] = set()
        self._keys: dict[tuple[str, str], str] = {}

    def add(self, new: NewMessage) -> Enqueued:
        """Decide about one. Raises StoreRejected."""
        check(new, self._now)
        known = self._known(new)
        if known is not None:
            return Enqueued(id=new.id, job_id=known, created=False)
        self._new.append(new)
        self._ids.add(new.id)
        if new.box is Box.IN and new.key is not None:
            self._keys[new.stream, new.key] = new.id
        return Enqueued(id=new.id, job_id=new.id, created=True)

    def apply(self) -> None:
        """File what is planned."""
        for new in self._new:
            self._mailbox.write(new, self._now)

    def _known(self, new: NewMessage) -> str | None:
        """The id of the message that stands for this one already."""
        if new.id in self._ids or new.id in self._mailbox.rows:
            return new.id
        # In the outbox the id alone tells a repeat. In the inbox the sender's key does, for each
        # delivery gets an id of ours.
        if new.box is Box.OUT or new.key is None:
            return None
        place = new.stream, new.key
        return self._keys.get(place) or self._mailbox.keys.get(place)

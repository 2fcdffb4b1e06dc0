"""The lanes in which messages wait: one of each box and stream, in the order in which they are
due.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from datetime import datetime

from offpath.model.message import Box
from offpath.store.memory.indexes import LazyHeap
from offpath.store.rows.messages import MemoryMessage

Due = tuple[datetime, int]
"""The time, then the position."""
_COMPACT_ABOVE = 64


class KeyLine:
    """The pending messages of one key, by position."""

    __slots__ = ("_entries", "_start")

    def __init__(self) -> None:
        self._entries: list[tuple[int, str]] = []
        self._start = 0  # what is before it has left: nothing is moved when the first one leaves

    def __len__(self) -> int:
        return len(self._entries) - self._start

    def __iter__(self) -> Iterator[str]:
        return (self._entries[at][1] for at in range(self._start, len(self._entries)))

    def at(self, index: int) -> str | None:
        """The id at this place, None beyond the end."""
        index += self._start
        return self._entries[index][1] if index < len(self._entries) else None

    def add(self, row: MemoryMessage) -> None:
        """Let a message wait; one that is revived comes in where it was."""
        entry = (row.position, row.id)
        # Nearly always, since new messages have the highest position: nothing is moved for them.
        if not self or self._entries[-1] < entry:
            self._entries.append(entry)
        else:
            insort(self._entries, entry, lo=self._start)

    def remove(self, row: MemoryMessage) -> None:
        """The message waits no more."""
        index = bisect_left(self._entries, (row.position, row.id), lo=self._start)
        if index != self._start:
            del self._entries[index]
            return
        self._start += 1
        # Cut off only when more has left than is here, so each removal pays for a constant part of
        # it.
        if self._start > _COMPACT_ABOVE + len(self):
            del self._entries[: self._start]
            self._start = 0


class MessageLane:
    """The pending messages of one stream, the held ones too: a lease only makes them due later.

    When it was last asked for in order, only the first message of each key stands in the heap, so
    that a key that is held up costs a lease nothing, however many wait behind its first.
    """

    __slots__ = ("_heap", "_lines", "_rows")

    def __init__(self, rows: Mapping[str, MemoryMessage]) -> None:
        self._rows = rows
        self._heap: LazyHeap[Due] = LazyHeap()
        self._lines: dict[str, KeyLine] | None = None  # None: not in order

    def __bool__(self) -> bool:
        return len(self._heap) > 0

    def __iter__(self) -> Iterator[str]:
        """Every pending message, in no particular order."""
        if self._lines is None:
            yield from self._heap
            return
        yield from (each for each in self._heap if self._rows[each].key is None)
        for line in self._lines.values():
            yield from line

    def add(self, row: MemoryMessage) -> None:
        """Let a message wait here."""
        line = self._line_of(row)
        if line is None:
            self._push(row)
            return
        first = line.at(0)
        line.add(row)
        if line.at(0) == row.id:
            if first is not None:
                self._heap.remove(first)
            self._push(row)

    def move(self, row: MemoryMessage) -> None:
        """A message that waits here is due at another time."""
        line = self._line_of(row)
        if line is None or line.at(0) == row.id:
            self._push(row)

    def remove(self, row: MemoryMessage) -> None:
        """The message waits here no more."""
        line = self._line_of(row)
        if line is None:
            self._heap.remove(row.id)
            return
        was_first = line.at(0) == row.id
        line.remove(row)
        if was_first:
            self._heap.remove(row.id)
            self._push_first(line)
        if not line and self._lines is not None and row.key is not None:
            del self._lines[row.key]

    def arrange(self, *, ordered: bool) -> None:
        """Be ready for leases of this kind: walks over all if the last one was of the other."""
        if ordered is (self._lines is not None):
            return
        # Dear, and rare: a stream is leased in one way, until its relay is set up in another one.
        waiting = sorted((self._rows[each] for each in self), key=lambda row: row.position)
        self._heap = LazyHeap()
        self._lines = {} if ordered else None
        for row in waiting:
            self.add(row)

    def due_at(self) -> datetime | None:
        """The time when the first is due, or its lease ends."""
        first = self._heap.first()
        return first[0][0] if first else None

    def take(self, now: datetime) -> str | None:
        """Take the first that is due out of the heap; it is put back by :meth:`restore`."""
        first = self._heap.first()
        if first is None or now < first[0][0]:
            return None
        self._heap.remove(first[1])
        return first[1]

    def follow(self, taken: str, steps: int, now: datetime) -> str | None:
        """Let who is ``steps`` behind the first of this one's key stand in for it, if due."""
        line = self._line_of(self._rows[taken])
        behind = None if line is None else line.at(steps)
        if behind is None or now < self._rows[behind].due_at:
            return None
        self._push(self._rows[behind])
        return behind

    def restore(self, key: str, stood_in: str | None) -> None:
        """Let the first of this key stand in the heap again, and nobody for it."""
        if self._lines is None:
            return
        if stood_in is not None:
            self._heap.remove(stood_in)
        self._push_first(self._lines[key])

    def _line_of(self, row: MemoryMessage) -> KeyLine | None:
        if self._lines is None or row.key is None:
            return None
        line = self._lines.get(row.key)
        if line is None:
            line = self._lines[row.key] = KeyLine()
        return line

    def _push_first(self, line: KeyLine) -> None:
        first = line.at(0)
        if first is not None:
            self._push(self._rows[first])

    def _push(self, row: MemoryMessage) -> None:
        self._heap.push(row.id, (row.due_at, row.position))


class MessageLanes:
    """All lanes that hold something."""

    __slots__ = ("_lanes", "_rows")

    def __init__(self, rows: Mapping[str, MemoryMessage]) -> None:
        self._rows = rows
        self._lanes: dict[tuple[Box, str], MessageLane] = {}

    def items(self) -> Iterator[tuple[tuple[Box, str], MessageLane]]:
        """Each lane with its box and stream."""
        return iter(self._lanes.items())

    def get(self, box: Box, stream: str) -> MessageLane | None:
        """The lane of a stream; None when nothing waits in it."""
        return self._lanes.get((box, stream))

    def add(self, row: MemoryMessage) -> None:
        """Let a message wait in its lane."""
        place = row.box, row.stream
        lane = self._lanes.get(place)
        if lane is None:
            lane = self._lanes[place] = MessageLane(self._rows)
        lane.add(row)

    def move(self, row: MemoryMessage) -> None:
        """A waiting message is due at another time."""
        self._lanes[row.box, row.stream].move(row)

    def remove(self, row: MemoryMessage) -> None:
        """Take a message out; a lane that is empty then goes too."""
        place = row.box, row.stream
        lane = self._lanes[place]
        lane.remove(row)
        if not lane:
            del self._lanes[place]

"""The event log: settled in the order of its commits, since each commit is one step."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from datetime import datetime
from operator import itemgetter

from msgspec import Struct

from offpath.model.new import SLOTS, NewLogEvent
from offpath.model.route import LogEvent
from offpath.store.refusals import no_slot


class LogRow(Struct, frozen=True, gc=False):
    """One event, and the slot that says whose partition it is."""

    event: LogEvent
    slot: int


class MemoryEventLog:
    """The events of one store."""

    __slots__ = ("_all", "_domains", "horizon", "rows", "stirred")

    def __init__(self) -> None:
        self.rows: dict[str, LogRow] = {}
        self._all: list[tuple[int, LogRow]] = []
        self._domains: dict[str, list[tuple[int, LogRow]]] = {}
        self.horizon = 0
        """The last position given: all up to it is settled."""
        self.stirred = False
        """True if something was appended since that was last announced."""

    def append(self, new: NewLogEvent, now: datetime) -> None:
        """Put a new event at the end."""
        self.horizon += 1
        event = LogEvent(
            position=self.horizon,
            id=new.id,
            domain=new.domain,
            type=new.type,
            stream=new.stream,
            payload=new.payload,
            at=now,
            key=new.key,
            headers=new.headers,
        )
        row = self.rows[new.id] = LogRow(event, new.slot)
        self._all.append((self.horizon, row))
        self._domains.setdefault(new.domain, []).append((self.horizon, row))
        self.stirred = True

    def above(self, position: int, domain: str | None = None) -> Iterator[LogRow]:
        """Events of higher positions, of one domain or of all, in their order."""
        rows = self._all if domain is None else self._domains.get(domain, [])
        for index in range(bisect_right(rows, position, key=itemgetter(0)), len(rows)):
            yield rows[index][1]

    def head(self, domain: str) -> int:
        """The highest position of a domain; 0 without events."""
        rows = self._domains.get(domain)
        return rows[-1][0] if rows else 0

    def remove(self, gone: list[LogRow]) -> None:
        """Forget these events."""
        positions = {row.event.position for row in gone}
        self._all = [each for each in self._all if each[0] not in positions]
        for domain in {row.event.domain for row in gone}:
            kept = [each for each in self._domains[domain] if each[0] not in positions]
            if kept:
                self._domains[domain] = kept
            else:
                del self._domains[domain]
        for row in gone:
            del self.rows[row.event.id]


class LogPlan:
    """New events of one transition, decided before anything is filed."""

    __slots__ = ("_log", "_new", "_now")

    def __init__(self, log: MemoryEventLog, now: datetime) -> None:
        self._log = log
        self._now = now
        self._new: dict[str, NewLogEvent] = {}

    def add(self, new: NewLogEvent) -> None:
        """Decide about one. Raises StoreRejected."""
        if not 0 <= new.slot < SLOTS:
            raise no_slot(new.id)
        # An event that is known is the same event: a repeat after a lost answer appends nothing.
        if new.id not in self._log.rows:
            self._new.setdefault(new.id, new)

    def apply(self) -> None:
        """File what is planned."""
        for new in self._new.values():
            self._log.append(new, self._now)


def read(log: MemoryEventLog, *, domain: str | None, after: int, limit: int) -> list[LogEvent]:
    """Events by position, for looking at."""
    found: list[LogEvent] = []
    for row in log.above(after, domain):
        if len(found) >= limit:
            break
        found.append(row.event)
    return found

"""Routers with their cursors, attempts and dead letters, as they are kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from offpath.model.route import Attempt, AttemptStatus, Cursor, Letter, RouterRecord, RouterSpec
from offpath.store.refusals import no_router


class MemoryCursor(Struct, frozen=True, kw_only=True):
    """A cursor, until when its holder has it, and above what the router is to read."""

    cursor: Cursor
    until: datetime
    start: int

    def seen(self, now: datetime) -> Cursor:
        """The cursor; without its holder once the lease has ended."""
        return self.cursor if now < self.until else replace(self.cursor, holder=None)


class MemoryRouter:
    """One router."""

    __slots__ = ("attempts", "cursors", "letters", "record")

    def __init__(self, spec: RouterSpec, start: int, now: datetime) -> None:
        self.record = RouterRecord(
            name=spec.name,
            domain=spec.domain,
            partitions=spec.partitions,
            open=False,
            master=False,
            routes=spec.routes,
            cursors=(),
            created_at=now,
        )
        self.cursors = [
            MemoryCursor(
                cursor=Cursor(
                    router=spec.name, partition=partition, position=start, mark=spec.mark
                ),
                until=now,
                start=start,
            )
            for partition in range(spec.partitions)
        ]
        self.attempts: dict[str, dict[int, Attempt]] = {}
        """Event's id -> number -> attempt."""
        self.letters: dict[str, set[str]] = {}
        """Event's id -> its letters."""

    def row_of(self, slot: int) -> MemoryCursor:
        """The cursor of a slot's partition."""
        return self.cursors[slot % self.record.partitions]

    def passed(self, slot: int) -> int:
        """The position that the partition of a slot has reached."""
        return self.row_of(slot).cursor.position

    def note(self, attempts: Iterable[Attempt], now: datetime) -> None:
        """Add the attempts that are not there."""
        for attempt in attempts:
            numbers = self.attempts.setdefault(attempt.event, {})
            # One that is there stays: a repeat after a lost answer must not change when it was
            # made.
            if attempt.number not in numbers:
                numbers[attempt.number] = replace(attempt, at=now)

    def failed(self, event: str) -> bool:
        """True if an attempt at this event has failed."""
        numbers = self.attempts.get(event, {})
        return any(each.status is AttemptStatus.FAILED for each in numbers.values())

    def all_attempts(self) -> Iterator[Attempt]:
        """Every attempt, in no particular order."""
        for numbers in self.attempts.values():
            yield from numbers.values()


class MemoryRouters:
    """The routers of one store, the gate of all of them, and their dead letters."""

    __slots__ = ("letters", "master", "rows")

    def __init__(self) -> None:
        self.rows: dict[str, MemoryRouter] = {}
        self.letters: dict[str, Letter] = {}
        self.master = False

    def get(self, name: str) -> MemoryRouter:
        """A router. Raises Conflict when there is none of that name."""
        router = self.rows.get(name)
        if router is None:
            raise no_router(name)
        return router

    def shown(self, router: MemoryRouter, now: datetime) -> RouterRecord:
        """The router as operators see it."""
        cursors = tuple(each.seen(now) for each in router.cursors)
        return replace(router.record, master=self.master, cursors=cursors)

    def keep(self, letter: Letter) -> None:
        """Put a dead letter where it belongs."""
        self.letters[letter.id] = letter
        router = self.rows.get(letter.router)
        if router is not None:
            router.letters.setdefault(letter.event.id, set()).add(letter.id)

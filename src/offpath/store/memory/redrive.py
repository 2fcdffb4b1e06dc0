"""Decisions of routers that are made again."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec.structs import replace

from offpath.model.effects import Effects
from offpath.model.route import Attempt, AttemptStatus, Letter, LogEvent
from offpath.store.memory.effects import PlannedEffects
from offpath.store.memory.log import MemoryEventLog
from offpath.store.memory.router_tables import MemoryRouter
from offpath.store.memory.tables import Tables


def redoable(
    tables: Tables,
    name: str,
    statuses: Sequence[AttemptStatus],
    *,
    since: datetime | None,
    after: tuple[int, str] | None,
    limit: int,
) -> list[Attempt]:
    """The last attempts at events that ended so, by position and event."""
    router = tables.routers.rows.get(name)
    if router is None:
        return []
    found = (
        each
        for each in _last(router)
        if each.status in statuses
        and (since is None or (each.at is not None and each.at >= since))
        and (after is None or (each.position, each.event) > after)
    )
    return heapq.nsmallest(limit, found, key=lambda each: (each.position, each.event))


def _last(router: MemoryRouter) -> Iterator[Attempt]:
    return (numbers[max(numbers)] for numbers in router.attempts.values())


def find(log: MemoryEventLog, ids: Sequence[str]) -> list[LogEvent]:
    """Events by id."""
    wanted = set(ids)
    return [row.event for row in log.above(0) if row.event.id in wanted]


def record(
    tables: Tables, now: datetime, attempt: Attempt, letter: Letter | None, effects: Effects
) -> bool:
    """Write one more attempt at an event, if it has none of that number."""
    router = tables.routers.get(attempt.router)
    if attempt.number in router.attempts.get(attempt.event, {}):
        return False
    writing = PlannedEffects(tables, now)
    writing.add(effects)
    router.note([attempt], now)
    if letter is not None and letter.id not in tables.routers.letters:
        tables.routers.keep(replace(letter, created_at=now))
    writing.carry_out()
    return True

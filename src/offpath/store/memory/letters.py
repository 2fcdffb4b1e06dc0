"""Decisions of routers: attempts at events, their dead letters, and those that are made again."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice

from msgspec.structs import replace

from offpath.model.effects import Effects
from offpath.model.route import (
    Attempt,
    AttemptStatus,
    Cursor,
    Letter,
    LogEvent,
    PartitionLag,
    RouteCount,
    RouterStanding,
)
from offpath.store.memory.effects import PlannedEffects
from offpath.store.memory.log import MemoryEventLog
from offpath.store.memory.router_tables import MemoryRouter
from offpath.store.memory.tables import Tables


def attempts(
    tables: Tables,
    name: str,
    *,
    event: str | None,
    status: AttemptStatus | None,
    limit: int,
    after: tuple[int, int] | None,
    newest: bool,
) -> list[Attempt]:
    """Attempts by position and number."""
    router = tables.routers.rows.get(name)
    if router is None:
        return []
    of = router.all_attempts() if event is None else router.attempts.get(event, {}).values()
    found = (
        each
        for each in of
        if (status is None or each.status is status)
        and (after is None or _behind(each, after, newest=newest))
    )
    chosen = heapq.nlargest if newest else heapq.nsmallest
    return chosen(limit, found, key=lambda each: (each.position, each.number))


def _behind(one: Attempt, after: tuple[int, int], *, newest: bool) -> bool:
    """True if an attempt comes after this place, in the order that is asked for."""
    place = (one.position, one.number)
    return place < after if newest else place > after


def attempted(tables: Tables, name: str, events: Sequence[str]) -> frozenset[str]:
    """The events among these that have an attempt."""
    router = tables.routers.rows.get(name)
    return frozenset(() if router is None else router.attempts.keys() & set(events))


def standing(tables: Tables, name: str, most: int, newest: int) -> RouterStanding:
    """The lag of each partition, and the newest decisions by route."""
    router = tables.routers.rows.get(name)
    if router is None:
        return RouterStanding(partitions=(), decisions=())
    decided = heapq.nlargest(
        newest, router.all_attempts(), key=lambda each: (each.position, each.number)
    )
    counts = Counter((each.route, each.status.value) for each in decided)
    return RouterStanding(
        partitions=tuple(
            _lag(tables, router, row.cursor, most)
            for row in router.cursors
            if row.cursor.mark is None
        ),
        decisions=tuple(
            RouteCount(route=route, status=status, count=count)
            for (route, status), count in sorted(counts.items())
        ),
    )


def _lag(tables: Tables, router: MemoryRouter, cursor: Cursor, most: int) -> PartitionLag:
    looked = list(islice(tables.log.above(cursor.position, router.record.domain), most))
    own = [row for row in looked if row.slot % router.record.partitions == cursor.partition]
    return PartitionLag(
        partition=cursor.partition,
        waiting=len(own),
        more=len(looked) >= most,
        oldest_at=min((row.event.at for row in own), default=None),
    )


def letters(
    tables: Tables,
    name: str,
    *,
    ids: Sequence[str],
    unresolved: bool,
    limit: int,
    after: int | None,
) -> list[Letter]:
    """Dead letters by the position of their event."""
    found = (
        each
        for each in tables.routers.letters.values()
        if each.router == name
        and (not ids or each.id in ids)
        and (not unresolved or each.resolved_at is None)
        and (after is None or each.event.position > after)
    )
    return heapq.nsmallest(limit, found, key=lambda each: (each.event.position, each.id))


def record_replay(
    tables: Tables,
    now: datetime,
    letter: Letter,
    attempt: Attempt,
    *,
    resolution: str | None,
    effects: Effects,
) -> bool:
    """Write how a replay went, if nobody else replayed or resolved the letter meanwhile."""
    known = tables.routers.letters.get(letter.id)
    if known is None or known.resolved_at is not None or known.number != letter.number:
        return False
    writing = PlannedEffects(tables, now)
    # Decided first: effects that are refused leave the letter as it was.
    writing.add(effects)
    router = tables.routers.rows.get(attempt.router)
    if router is not None:
        router.note([attempt], now)
    after = replace(known, number=attempt.number)
    tables.routers.keep(after if resolution is None else _resolved(after, resolution, now))
    writing.carry_out()
    return True


def resolve(tables: Tables, now: datetime, letter_id: str, resolution: str) -> bool:
    """End a dead letter."""
    known = tables.routers.letters.get(letter_id)
    if known is None or known.resolved_at is not None:
        return False
    tables.routers.keep(_resolved(known, resolution, now))
    return True


def _resolved(letter: Letter, resolution: str, now: datetime) -> Letter:
    return replace(letter, resolved_at=now, resolution=resolution)


# -- proof and upkeep ------------------------------------------------------------------------------


# -- made again ----


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
    # As above: effects that are refused leave no attempt.
    writing.add(effects)
    router.note([attempt], now)
    if letter is not None and letter.id not in tables.routers.letters:
        tables.routers.keep(replace(letter, created_at=now))
    writing.carry_out()
    return True

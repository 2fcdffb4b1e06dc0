"""Decisions of routers: attempts at events, and dead letters that are replayed or resolved."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from offpath.model.effects import Effects
from offpath.model.route import (
    Attempt,
    AttemptStatus,
    Letter,
    LogEvent,
    PartitionLag,
    RouteCount,
    RouterStanding,
)
from offpath.store.hints import hints_of
from offpath.store.programs.dialect import Dialect, Steps, ask, one
from offpath.store.programs.event_answers import AttemptRow, LetterRow
from offpath.store.programs.events import page
from offpath.store.programs.instants import readable
from offpath.store.sql import Query
from offpath.store.unreadable import UNREADABLE_EVENT, Documents, Shape, mark

_event: Final = Documents(LogEvent)
_LAST: Final = (1 << 63) - 1
"""A position that no event is behind."""


# -- attempts ----------------------------------------------------------------------------------


def attempts(
    d: Dialect,
    router: str,
    *,
    event: str | None = None,
    status: AttemptStatus | None = None,
    limit: int = 100,
    after: tuple[int, int] | None = None,
    newest: bool = False,
) -> Steps[list[Attempt]]:
    """Attempts by position and number."""
    # Before all of them, or behind: no position is negative.
    position, number = after or ((_LAST, 0) if newest else (-1, 0))
    query = d.sql["attempts_back" if newest else "attempts"](
        router=router,
        event=event,
        status=status,
        limit=page(limit),
        position=position,
        number=number,
    )
    return _attempts(router).all((yield from one(query)))


def attempted(d: Dialect, router: str, events: Sequence[str]) -> Steps[frozenset[str]]:
    """The ones of these events that have an attempt."""
    rows = yield from one(d.sql["attempted"](router=router, events=d.batch(list(events))))
    return frozenset(event for (event,) in rows)


def standing(
    d: Dialect, router: str, *, most: int = 1_000, newest: int = 5_000
) -> Steps[RouterStanding]:
    """The lag of each partition, and the newest decisions by route."""
    lags = yield from ask(d.sql["partition_lags"](router=router, most=max(most, 0)))
    counts = yield from ask(d.sql["route_counts"](router=router, most=max(newest, 0)), last=True)
    return RouterStanding(
        partitions=tuple(
            PartitionLag(
                partition=partition,
                waiting=waiting,
                more=looked >= most,
                oldest_at=readable(oldest),
            )
            for partition, waiting, looked, oldest in lags
        ),
        decisions=tuple(
            RouteCount(route=route, status=status, count=count) for route, status, count in counts
        ),
    )


def redoable(
    d: Dialect,
    router: str,
    statuses: Sequence[AttemptStatus],
    *,
    since: datetime | None = None,
    after: tuple[int, str] | None = None,
    limit: int = 100,
) -> Steps[list[Attempt]]:
    """The last attempts that ended so, by position and event."""
    position, event = after or (-1, "")
    query = d.sql["redoable"](
        router=router,
        statuses=d.batch([status.value for status in statuses]),
        since=d.at(since),
        position=position,
        event=event,
        limit=page(limit),
    )
    return _attempts(router).all((yield from one(query)))


def redo(d: Dialect, attempt: Attempt, letter: Letter | None, effects: Effects) -> Steps[bool]:
    """Write one more attempt at an event, unless there is one of that number."""
    # The attempt's number is the fence: of two that redo one event only the first adds a row.
    if not (yield from ask(_add_attempt(d, attempt))):
        return False
    if letter is not None:
        yield from ask(d.sql["add_letter"](now=d.now, **_fields(d, letter)))
    yield from _write(d, effects)
    return True


# -- dead letters ------------------------------------------------------------------------------


def listed(
    d: Dialect,
    router: str,
    *,
    ids: Sequence[str] = (),
    unresolved: bool = True,
    limit: int = 100,
    after: int | None = None,
) -> Steps[list[Letter]]:
    """Dead letters by the position of their event."""
    query = d.sql["letters"](
        router=router,
        ids=d.batch(list(ids)) if ids else None,
        unresolved=int(unresolved),
        limit=page(limit),
        after=after,
    )
    return _letters(router).all((yield from one(query)))


def replay(
    d: Dialect, letter: Letter, attempt: Attempt, *, resolution: str | None, effects: Effects
) -> Steps[bool]:
    """Write a replay, unless somebody else replayed or resolved the letter meanwhile."""
    query = d.sql["replay_letter"](
        now=d.now, id=letter.id, number=letter.number, resolution=resolution
    )
    # The letter's number is the fence: of two replays only the first finds it.
    if not (yield from ask(query)):
        return False
    yield from ask(_add_attempt(d, attempt), last=not effects)
    yield from _write(d, effects)
    return True


def resolve(d: Dialect, letter: str, resolution: str) -> Steps[bool]:
    """End a dead letter without a replay; False: unknown, or resolved before."""
    query = d.sql["resolve_letter"](now=d.now, id=letter, resolution=resolution)
    return bool((yield from one(query)))


# -- rows --------------------------------------------------------------------------------------


def _add_attempt(d: Dialect, attempt: Attempt) -> Query:
    return d.sql["add_attempt"](
        now=d.now,
        router=attempt.router,
        event=attempt.event,
        number=attempt.number,
        position=attempt.position,
        status=attempt.status,
        route=attempt.route,
        detail=attempt.detail,
    )


def _fields(d: Dialect, letter: Letter) -> dict[str, Any]:
    """A new dead letter as parameters. The event is kept as it was written."""
    event = letter.event
    return {
        "id": letter.id,
        "router": letter.router,
        "event_id": event.id,
        "position": event.position,
        "number": letter.number,
        "route": letter.route,
        "reason": letter.reason,
        "detail": letter.detail,
        # ``decided`` is about the router that has read it, and not a part of the event.
        "event": d.json(replace(event, decided=False)),
    }


def _write(d: Dialect, effects: Effects) -> Steps[None]:
    if effects:
        _, last_steps = yield from d.commit(effects)
        yield from last_steps
        d.announced.tell(*hints_of(effects))


def _attempts(router: str) -> Shape[Attempt]:
    return Shape.of(
        AttemptRow("", 0, "failed", "", 1, None, 0),
        lambda row: Attempt(
            router=router,
            event=row.event,
            position=row.position,
            status=AttemptStatus(row.status),
            route=row.route,
            number=row.number,
            detail=row.detail,
            at=readable(row.at),
        ),
        lambda attempt, _: attempt,
    )


def _letters(router: str) -> Shape[Letter]:
    return Shape.of(
        LetterRow("", "", UNREADABLE_EVENT, "", "", 1, 0, None, None),
        lambda row: Letter(
            id=row.id,
            router=router,
            route=row.route,
            event=_event.one(row.event),
            reason=row.reason,
            detail=row.detail,
            number=row.number,
            created_at=readable(row.created_at),
            resolved_at=readable(row.resolved_at),
            resolution=row.resolution,
        ),
        lambda letter, bad: replace(letter, event=replace(letter.event, unreadable=mark(bad))),
    )

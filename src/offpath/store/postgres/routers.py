"""Routers: their gates, routes and cursors, and what they decide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offpath.errors import Conflict, WrongConnection
from offpath.model.effects import Effects
from offpath.model.route import (
    Attempt,
    AttemptStatus,
    Cursor,
    Decisions,
    Letter,
    LogEvent,
    LogPage,
    RouterFacts,
    RouterRecord,
    RouterSpec,
)
from offpath.model.table import TablePage, quoted
from offpath.store.events import Decide
from offpath.store.postgres.effects import carry_out
from offpath.store.postgres.log import EVENTS, Horizon, Sight, look_steps
from offpath.store.postgres.steps import moment, readable_time, to_json
from offpath.store.programs.dialect import Queries, Steps, ask, embed
from offpath.store.sql import Catalogue, Query, Row, statement
from offpath.store.unreadable import UNREADABLE_EVENT, Documents, Shape, mark

MOST_ON_A_PAGE: Final = 10_000

_router = Documents(RouterRecord)
_facts = msgspec.json.Decoder(RouterFacts)
_event = Documents(LogEvent)


class _Letter(Struct, frozen=True):
    """A dead letter as it travels."""

    id: str
    router: str
    event_id: str
    position: int
    number: int
    route: str
    reason: str
    detail: str
    event: str


# -- declaring and switching -----------------------------------------------------------------


def declare_steps(
    spec: RouterSpec, start: int, now: datetime | None, *, sql: Catalogue
) -> Steps[RouterRecord]:
    """Add a router that begins at ``start``, or the routes that it lacks."""
    added = yield from ask(
        sql["add_router"](
            now=moment(now), name=spec.name, domain=spec.domain, partitions=spec.partitions
        )
    )
    if added:
        yield from ask(
            sql["add_cursors"](
                name=spec.name, partitions=spec.partitions, position=start, mark=spec.mark
            )
        )
    else:
        ((domain, partitions),) = yield from ask(sql["router_shape"](name=spec.name))
        if (domain, partitions) != (spec.domain, spec.partitions):
            message = (
                f"the router {spec.name!r} exists with domain {domain!r} and {partitions} "
                "partitions, which cannot change: give it another name"
            )
            raise Conflict(message)
    routes = [
        {"n": n, **msgspec.structs.asdict(route)}
        for n, route in sorted(enumerate(spec.routes), key=lambda pair: pair[1].name)
    ]
    if routes:
        yield from ask(sql["add_routes"](router=spec.name, routes=to_json(routes)))
    rows = yield from ask(sql["routers"](now=moment(now), name=spec.name), last=True)
    return _router.one(rows[0][0])


def routers_steps(now: datetime | None, *, sql: Catalogue) -> Steps[list[RouterRecord]]:
    """Every router."""
    rows = yield from ask(sql["routers"](now=moment(now), name=None), last=True)
    return _router.all(rows)


def found_steps(query: Query) -> Steps[bool]:
    """Whether a statement found what it was to change."""
    return bool((yield from ask(query, last=True)))


# -- the cursor ------------------------------------------------------------------------------


def lease_cursor_steps(
    router: str,
    partition: int,
    holder: str,
    lease_seconds: float,
    now: datetime | None,
    *,
    sql: Catalogue,
) -> Steps[Cursor | None]:
    """Take a cursor, if it is free."""
    rows = yield from ask(
        sql["lease_cursor"](
            now=moment(now),
            router=router,
            partition=partition,
            holder=holder,
            lease_seconds=lease_seconds,
        )
    )
    if rows:
        return _cursor(router, partition, rows[0])
    if not (yield from ask(sql["has_cursor"](router=router, partition=partition), last=True)):
        raise unknown_cursor(router, partition)
    return None


def read_steps(
    router: str, partition: int, after: int, limit: int, sight: Sight, *, sql: Catalogue
) -> Queries[LogPage]:
    """Settled events above ``after``."""
    rows = yield sql["read_log"](
        router=router,
        partition=partition,
        after=after,
        horizon=sight.horizon,
        limit=max(limit, 0),
    )
    if not rows:
        raise unknown_cursor(router, partition)
    events = tuple(EVENTS.all(row for row in rows if row[0] is not None))
    return LogPage(events=events, horizon=sight.horizon, waiting_for=sight.waiting_for)


def advance_steps(
    cursor: Cursor, decisions: Decisions, now: datetime | None, *, sql: Catalogue
) -> Steps[bool]:
    """Write what was decided, if the cursor is still held by the one who says so."""
    query = _advance(cursor, decisions, now, cursor.holder or "", sql)
    if not (yield from ask(query, last=not decisions.effects)):
        return False
    yield from embed(_write(decisions.effects, now, sql))
    return True


def _advance(
    cursor: Cursor, decisions: Decisions, now: datetime | None, holder: str | None, sql: Catalogue
) -> Query:
    return sql["advance"](
        now=moment(now),
        router=cursor.router,
        partition=cursor.partition,
        holder=holder,
        position=decisions.position,
        passed=decisions.passed,
        summary=decisions.summary,
        mark=decisions.mark,
        attempts=to_json(_sorted(decisions.attempts)),
        letters=to_json([_letter(one) for one in decisions.letters]),
    )


def route_steps(
    router: str,
    partition: int,
    limit: int,
    decide: Decide,
    horizon: Horizon,
    now: datetime | None,
    *,
    sql: Catalogue,
) -> Queries[Decisions | None]:
    """One step of a router in a caller's transaction."""
    ((isolation,),) = yield sql["isolation"]()
    if isolation != "read committed":
        message = (
            f"a router cannot run in a transaction that is {isolation}: it sees the log as it was "
            "when it began, and would pass events that it cannot see; use read committed"
        )
        raise WrongConnection(message)
    rows = yield sql["lock_cursor"](now=moment(now), router=router, partition=partition)
    if not rows:
        if not (yield sql["has_cursor"](router=router, partition=partition)):
            raise unknown_cursor(router, partition)
        return None
    cursor = _cursor(router, partition, rows[0])
    ((record,),) = yield sql["routers"](now=moment(now), name=router)
    sight = yield from look_steps(horizon, sql=sql)
    page = yield from read_steps(router, partition, cursor.position, limit, sight, sql=sql)
    decisions = decide(_router.one(record), page.events)
    yield _advance(cursor, decisions, now, None, sql)
    yield from _write(decisions.effects, now, sql)
    return decisions


def unknown_cursor(router: str, partition: int) -> Conflict:
    """There is no such router, or it has fewer partitions."""
    return Conflict(f"there is no router {router!r} with a partition {partition}: declare it first")


def _write(effects: Effects, now: datetime | None, sql: Catalogue) -> Queries[None]:
    if not effects:
        return
    _, work = yield from carry_out({0: effects}, now, sql=sql)
    yield from work.writing(now, sql=sql)


def _cursor(router: str, partition: int, row: Row) -> Cursor:
    position, holder, passed, ran_at, summary, place = row
    return Cursor(
        router=router,
        partition=partition,
        position=position,
        holder=holder,
        passed=passed,
        ran_at=None if ran_at is None else readable_time(ran_at),
        summary=summary,
        mark=place,
    )


def _sorted(attempts: Iterable[Attempt]) -> list[Attempt]:
    """In the order in which rows are locked."""
    return sorted(attempts, key=lambda one: (one.event, one.number))


def _letter(one: Letter) -> _Letter:
    event = one.event
    return _Letter(
        one.id,
        one.router,
        event.id,
        event.position,
        one.number,
        one.route,
        one.reason,
        one.detail,
        to_json(event),
    )


# -- looking, and dead letters ---------------------------------------------------------------


def attempts_steps(
    router: str,
    event: str | None,
    status: AttemptStatus | None,
    limit: int,
    after: tuple[int, int] | None,
    *,
    sql: Catalogue,
) -> Steps[list[Attempt]]:
    """Attempts by position and number."""
    position, number = after or (-1, 0)
    query = sql["attempts"](
        router=router,
        event=event,
        status=status,
        limit=_page(limit),
        position=position,
        number=number,
    )
    return _attempts(router).all((yield from ask(query, last=True)))


def _attempts(router: str) -> Shape[Attempt]:
    return Shape(
        lambda row: _attempt(router, row),
        ("event", "position", "status", "route", "number", "detail", "at"),
        ("", 0, "failed", "", 1, None, 0),
        lambda attempt, _: attempt,
    )


def attempted_steps(router: str, events: Sequence[str], *, sql: Catalogue) -> Steps[frozenset[str]]:
    """Those of some events that have an attempt."""
    query = sql["attempted"](router=router, events=to_json(events))
    return frozenset(row[0] for row in (yield from ask(query, last=True)))


def columns_steps(table: tuple[str, ...], *, sql: Catalogue) -> Steps[dict[str, bool]]:
    """The columns of a table, and whether each may be null."""
    rows = yield from ask(sql["table_columns"](table=placed(table)), last=True)
    return {column: bool(may) for column, may in rows}


def table_steps(page: TablePage) -> Steps[list[Row]]:
    """Rows of a table."""
    query = statement("table_page", page.text(placed(page.table)))(**page.values)
    return list((yield from ask(query, last=True)))


def placed(table: tuple[str, ...]) -> str:
    """A table as a query names it: nothing of the user's is looked up by our search path."""
    *schema, name = table
    return f"{quoted(schema[0] if schema else 'public')}.{quoted(name)}"


def letters_steps(
    router: str,
    ids: Sequence[str],
    limit: int,
    after: int | None,
    *,
    unresolved: bool,
    sql: Catalogue,
) -> Steps[list[Letter]]:
    """Dead letters by position."""
    query = sql["letters"](
        router=router,
        ids=to_json(ids) if ids else None,
        unresolved=int(unresolved),
        limit=_page(limit),
        after=after,
    )
    shape = Shape(
        lambda row: _read_letter(router, row),
        _LETTER_COLUMNS,
        ("", "", UNREADABLE_EVENT, "", "", 1, 0, None, None),
        lambda letter, bad: replace(letter, event=replace(letter.event, unreadable=mark(bad))),
    )
    return shape.all((yield from ask(query, last=True)))


def replay_steps(
    letter: Letter,
    attempt: Attempt,
    resolution: str | None,
    effects: Effects,
    now: datetime | None,
    *,
    sql: Catalogue,
) -> Steps[bool]:
    """Write a replay, unless somebody else replayed or resolved the letter meanwhile."""
    query = sql["replay_letter"](
        now=moment(now), id=letter.id, number=letter.number, resolution=resolution
    )
    if not (yield from ask(query)):
        return False
    yield from ask(sql["add_attempt"](now=moment(now), **_fields(attempt)), last=not effects)
    yield from embed(_write(effects, now, sql))
    return True


def redoable_steps(
    router: str,
    statuses: Sequence[AttemptStatus],
    since: datetime | None,
    after: tuple[int, str] | None,
    limit: int,
    *,
    sql: Catalogue,
) -> Steps[list[Attempt]]:
    """The last attempts that ended so, by position and event."""
    position, event = after or (-1, "")
    query = sql["redoable"](
        router=router,
        statuses=to_json([one.value for one in statuses]),
        since=moment(since),
        position=position,
        event=event,
        limit=_page(limit),
    )
    return _attempts(router).all((yield from ask(query, last=True)))


def find_steps(ids: Sequence[str], *, sql: Catalogue) -> Steps[list[LogEvent]]:
    """Events of the log by id."""
    return EVENTS.all((yield from ask(sql["find_events"](ids=to_json(ids)), last=True)))


def redo_steps(
    attempt: Attempt,
    letter: Letter | None,
    effects: Effects,
    now: datetime | None,
    *,
    sql: Catalogue,
) -> Steps[bool]:
    """Write one more attempt at an event, unless there is one of that number."""
    if not (yield from ask(sql["add_attempt"](now=moment(now), **_fields(attempt)))):
        return False
    if letter is not None:
        fields = msgspec.structs.asdict(_letter(letter))
        yield from ask(sql["add_letter"](now=moment(now), **fields))
    yield from embed(_write(effects, now, sql))
    return True


def facts_steps(
    router: str, horizon: int, now: datetime | None, *, sql: Catalogue
) -> Steps[RouterFacts]:
    """What ``verify`` compares."""
    query = sql["router_facts"](now=moment(now), router=router, horizon=horizon)
    rows = yield from ask(query, last=True)
    if not rows:
        raise unknown_cursor(router, 0)
    return _facts.decode(rows[0][0])


def events_steps(
    domain: str | None, after: int, limit: int, *, sql: Catalogue
) -> Steps[list[LogEvent]]:
    """Committed events by position."""
    query = sql["read_events"](domain=domain, after=after, limit=_page(limit))
    return EVENTS.all((yield from ask(query, last=True)))


def trimmable_steps(before: datetime, limit: int, *, sql: Catalogue) -> Steps[list[int]]:
    """Positions of events that may be removed."""
    query = sql["trimmable"](before=before.isoformat(), limit=_page(limit))
    return [row[0] for row in (yield from ask(query, last=True))]


def trim_steps(positions: Sequence[int], *, sql: Catalogue) -> Steps[int]:
    """Remove events; how many."""
    rows = yield from ask(sql["trim_log"](positions=to_json(positions)), last=True)
    removed: int = rows[0][0]
    return removed


def _page(limit: int) -> int:
    return min(max(limit, 0), MOST_ON_A_PAGE)


def _fields(attempt: Attempt) -> dict[str, Any]:
    fields = msgspec.structs.asdict(attempt)
    del fields["at"]
    return fields


def _attempt(router: str, row: Row) -> Attempt:
    event, position, status, route, number, detail, at = row
    return Attempt(
        router=router,
        event=event,
        position=position,
        status=AttemptStatus(status),
        route=route,
        number=number,
        detail=detail,
        at=readable_time(at),
    )


_LETTER_COLUMNS: Final = (
    "id",
    "route",
    "event",
    "reason",
    "detail",
    "number",
    "created_at",
    "resolved_at",
    "resolution",
)


def _read_letter(router: str, row: Row) -> Letter:
    letter, route, event, reason, detail, number, created, resolved, resolution = row
    return Letter(
        id=letter,
        router=router,
        route=route,
        event=_event.one(event),
        reason=reason,
        detail=detail,
        number=number,
        created_at=readable_time(created),
        resolved_at=None if resolved is None else readable_time(resolved),
        resolution=resolution,
    )

"""Routers: their gates, routes and cursors, and what they decide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from offpath.errors import WrongConnection
from offpath.model.effects import Effects
from offpath.model.route import (
    Attempt,
    Cursor,
    Decisions,
    Letter,
    LogPage,
    RouterFacts,
    RouterRecord,
    RouterSpec,
)
from offpath.model.table import TablePage, quoted
from offpath.store.events import Decide
from offpath.store.postgres.effects import carry_out
from offpath.store.postgres.log import Horizon, Sight, look_steps
from offpath.store.postgres.steps import moment, to_json
from offpath.store.programs.answers import CursorRow
from offpath.store.programs.dialect import Queries, Steps, ask, embed
from offpath.store.programs.events import EVENTS
from offpath.store.programs.events import page as _page
from offpath.store.programs.routers import ROUTERS
from offpath.store.programs.routers import cursor as taken
from offpath.store.refusals import no_cursor, no_router, other_router
from offpath.store.sql import Catalogue, Query, Row, statement

_facts = msgspec.json.Decoder(RouterFacts)


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
            raise other_router(spec.name, domain, partitions)
    routes = [
        {"n": n, **msgspec.structs.asdict(route)}
        for n, route in sorted(enumerate(spec.routes), key=lambda pair: pair[1].name)
    ]
    if routes:
        yield from ask(sql["add_routes"](router=spec.name, routes=to_json(routes)))
    rows = yield from ask(sql["routers"](now=moment(now), name=spec.name), last=True)
    return ROUTERS.one(rows[0])


# -- the cursor ------------------------------------------------------------------------------


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
        raise no_cursor(router, partition)
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
            raise no_cursor(router, partition)
        return None
    cursor = taken(router, partition, CursorRow._make(rows[0]))
    (record,) = yield sql["routers"](now=moment(now), name=router)
    sight = yield from look_steps(horizon, sql=sql)
    page = yield from read_steps(router, partition, cursor.position, limit, sight, sql=sql)
    decisions = decide(ROUTERS.one(record), page.events)
    yield _advance(cursor, decisions, now, None, sql)
    yield from _write(decisions.effects, now, sql)
    return decisions


def _write(effects: Effects, now: datetime | None, sql: Catalogue) -> Queries[None]:
    if not effects:
        return
    _, work = yield from carry_out({0: effects}, now, sql=sql)
    yield from work.writing(now, sql=sql)


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


# -- looking ---------------------------------------------------------------


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


def facts_steps(
    router: str, horizon: int, now: datetime | None, *, sql: Catalogue
) -> Steps[RouterFacts]:
    """The numbers that ``verify`` compares."""
    query = sql["router_facts"](now=moment(now), router=router, horizon=horizon)
    rows = yield from ask(query, last=True)
    if not rows:
        raise no_router(router)
    return _facts.decode(rows[0][0])


def trimmable_steps(before: datetime, limit: int, *, sql: Catalogue) -> Steps[list[int]]:
    """Positions of events that may be removed."""
    query = sql["trimmable"](before=before.isoformat(), limit=_page(limit))
    return [row[0] for row in (yield from ask(query, last=True))]


def trim_steps(positions: Sequence[int], *, sql: Catalogue) -> Steps[int]:
    """Remove events; how many."""
    rows = yield from ask(sql["trim_log"](positions=to_json(positions)), last=True)
    removed: int = rows[0][0]
    return removed

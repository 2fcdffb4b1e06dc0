"""Routers: declaring and switching them, who has their cursors, and what they decide."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from offpath.model.route import (
    Attempt,
    Cursor,
    Decisions,
    Letter,
    Route,
    RouterFacts,
    RouterRecord,
    RouterSpec,
)
from offpath.model.table import TablePage, quoted
from offpath.store.events import Decide
from offpath.store.hints import hints_of
from offpath.store.programs import events
from offpath.store.programs.dialect import Dialect, Queries, Send, Sight, Steps, ask, embed, one
from offpath.store.programs.event_answers import CursorRow, FactsRow, RouterRow
from offpath.store.programs.instants import readable
from offpath.store.refusals import no_cursor, no_router, no_start, other_router
from offpath.store.sql import Query, Row, statement
from offpath.store.unreadable import Shape


class _Route(msgspec.Struct):
    """A route as a row of ``routers`` lists it."""

    name: str
    type: str
    stream: str
    deliver: str
    enabled: int
    dry_run: int


class _Cursor(msgspec.Struct):
    """A cursor as a row of ``routers`` lists it."""

    partition: int
    position: int
    holder: str | None
    passed: int
    ran_at: int | None
    summary: str | None
    mark: str | None


_routes: Final = msgspec.json.Decoder(list[_Route]).decode
_cursors: Final = msgspec.json.Decoder(list[_Cursor]).decode


def declare(d: Dialect, spec: RouterSpec, start: int | None = None) -> Steps[RouterRecord]:
    """Add a router that begins at ``start``, or the routes that it lacks."""
    if start is None:
        start = yield from _start(d, spec)
    added = yield from ask(
        d.sql["add_router"](
            now=d.now, name=spec.name, domain=spec.domain, partitions=spec.partitions
        )
    )
    # A router that is there keeps its cursors: a process that starts must not move them.
    if added:
        yield from ask(
            d.sql["add_cursors"](
                router=spec.name, partitions=spec.partitions, position=start, mark=spec.mark
            )
        )
    else:
        ((domain, partitions),) = yield from ask(d.sql["router_shape"](name=spec.name))
        if (domain, partitions) != (spec.domain, spec.partitions):
            raise other_router(spec.name, domain, partitions)
    if spec.routes:
        # by name, as everybody who writes routes takes their rows
        routes = sorted(map(_declared, range(len(spec.routes)), spec.routes))
        yield from ask(d.sql["add_routes"](router=spec.name, routes=d.batch(routes)))
    (row,) = yield from ask(d.sql["routers"](now=d.now, name=spec.name), last=True)
    return ROUTERS.one(row)


def _start(d: Dialect, spec: RouterSpec) -> Steps[int]:
    if spec.start == "now":
        return (yield from embed(d.settled())).horizon
    return begun(spec.start)


def begun(start: str | int) -> int:
    """The position at which a router begins that does not begin at the present."""
    if isinstance(start, int):
        return start
    if start == "beginning":
        return 0
    raise no_start(start)


def _declared(place: int, route: Route) -> tuple[Any, ...]:
    switches = int(route.enabled), int(route.dry_run)
    return (route.name, place, route.type, route.stream, route.deliver, *switches)


def listed(d: Dialect) -> Steps[list[RouterRecord]]:
    """Every router, by name."""
    return ROUTERS.all((yield from one(d.sql["routers"](now=d.now, name=None))))


def set_gate(d: Dialect, router: str | None, *, opened: bool) -> Steps[bool]:
    """Open or close a router's gate, or that of all; False: unknown router."""
    return bool((yield from one(d.sql["set_gate"](router=router, opened=int(opened)))))


def set_route(
    d: Dialect,
    router: str,
    route: str,
    *,
    enabled: bool | None = None,
    dry_run: bool | None = None,
) -> Steps[bool]:
    """Turn a route's switches; False: unknown."""
    query = d.sql["set_route"](
        router=router,
        route=route,
        enabled=None if enabled is None else int(enabled),
        dry_run=None if dry_run is None else int(dry_run),
    )
    return bool((yield from one(query)))


def lease_cursor(
    d: Dialect, router: str, partition: int, holder: str, *, lease_seconds: float
) -> Steps[Cursor | None]:
    """Take a cursor for a time, if it is free; None while somebody else has it."""
    query = d.sql["lease_cursor"](
        now=d.now,
        router=router,
        partition=partition,
        holder=holder,
        lease=d.span(lease_seconds),
    )
    for row in (yield from ask(query)):
        return cursor(router, partition, CursorRow._make(row))
    # Asked only when there was no row: a held cursor and an unknown one give the same answer.
    known = d.sql["has_cursor"](router=router, partition=partition)
    if not (yield from ask(known, last=True)):
        raise no_cursor(router, partition)
    return None


def release_cursor(d: Dialect, cursor: Cursor) -> Steps[None]:
    """Give a cursor back before its lease ends."""
    yield from one(
        d.sql["release_cursor"](
            # No holder has an empty name, so a cursor that was never taken frees nobody's.
            router=cursor.router,
            partition=cursor.partition,
            holder=cursor.holder or "",
        )
    )


def move_cursor(d: Dialect, router: str, partition: int, position: int) -> Steps[bool]:
    """Put a cursor elsewhere; False: unknown."""
    query = d.sql["move_cursor"](router=router, partition=partition, position=position)
    return bool((yield from one(query)))


# -- deciding --------------------------------------------------------------------------------


def advance(d: Dialect, cursor: Cursor, decisions: Decisions) -> Steps[bool]:
    """Write what was decided and move the cursor; False: somebody else has it."""
    effects = decisions.effects
    queries = _decided(d, cursor, decisions, cursor.holder or "")
    moved, *_ = yield Send(queries, last=not effects)
    # The fence of the first statement held for all, so nothing of the others was written either.
    if not moved:
        return False
    yield from embed(d.add(effects))
    d.announced.tell(*hints_of(effects))
    return True


def route(
    d: Dialect, router: str, partition: int, limit: int, decide: Decide
) -> Queries[Decisions | None]:
    """One step of a router in a caller's transaction; None while somebody has its cursor."""
    # Before the cursor is locked: in a snapshot, events that others commit would be passed unseen.
    yield from d.require_present()
    locked = yield d.sql["lock_cursor"](now=d.now, router=router, partition=partition)
    if not locked:
        if not (yield d.sql["has_cursor"](router=router, partition=partition)):
            raise no_cursor(router, partition)
        return None
    free = cursor(router, partition, CursorRow._make(locked[0]))
    (row,) = yield d.sql["routers"](now=d.now, name=router)
    page = yield from events.settled(d, router, partition, free.position, limit, None)
    decisions = decide(ROUTERS.one(row), page.events)
    for query in _decided(d, free, decisions, None):  # noqa: UP028 - a tuple takes no answers
        yield query
    yield from d.add(decisions.effects)
    return decisions


def _decided(
    d: Dialect, cursor: Cursor, decisions: Decisions, holder: str | None
) -> tuple[Query, ...]:
    """Statements that go out together: the later ones look whether the first has moved."""
    fence = {
        "now": d.now,
        "router": cursor.router,
        "partition": cursor.partition,
        "holder": holder,
    }
    queries = [
        d.sql["advance"](
            position=decisions.position,
            passed=decisions.passed,
            summary=decisions.summary,
            mark=decisions.mark,
            **fence,
        )
    ]
    if decisions.attempts:
        # in the order in which rows are locked
        attempts = sorted(decisions.attempts, key=lambda one: (one.event, one.number))
        batch = d.batch([_attempt_row(one) for one in attempts])
        queries.append(d.sql["add_attempts"](batch=batch, **fence))
    if decisions.letters:
        batch = d.batch([_letter_row(d, one) for one in decisions.letters])
        queries.append(d.sql["add_letters"](batch=batch, **fence))
    return tuple(queries)


def _attempt_row(one: Attempt) -> tuple[Any, ...]:
    status = one.status.value
    return (one.router, one.event, one.number, one.position, status, one.route, one.detail)


def _letter_row(d: Dialect, one: Letter) -> tuple[Any, ...]:
    event = one.event
    # ``decided`` is about the router that has read it, and not a part of the event.
    document = d.json(replace(event, decided=False))
    head = (one.id, one.router, event.id, event.position, one.number)
    return (*head, one.route, one.reason, one.detail, document)


def facts(d: Dialect, router: str, *, sight: Sight | None = None) -> Steps[RouterFacts]:
    """The numbers that ``verify`` compares."""
    if sight is None:
        sight = yield from embed(d.settled())
    for row in (yield from ask(d.sql["router_facts"](now=d.now, router=router), last=True)):
        numbers = FactsRow._make(row)._asdict()
        lag = numbers.pop("oldest_lag") / 1_000_000
        return RouterFacts(horizon=sight.horizon, oldest_lag=lag, **numbers)
    raise no_router(router)


# -- a table of the user's own ---------------------------------------------------------------


def table_columns(d: Dialect, table: tuple[str, ...]) -> Steps[dict[str, bool]]:
    """The columns of a table, and whether each may be null."""
    schema, name = _placed(d, table)
    rows = yield from one(d.sql["table_columns"](schema=schema, name=name))
    return {column: bool(may) for column, may in rows}


def read_table(d: Dialect, page: TablePage) -> Steps[list[Row]]:
    """Rows of a table."""
    placed = ".".join(map(quoted, _placed(d, page.table)))
    return (yield from one(statement("table_page", page.text(placed))(**page.values)))


def _placed(d: Dialect, table: tuple[str, ...]) -> tuple[str, str]:
    """A table's schema and name: nothing of the user's is looked up by our search path."""
    *schema, name = table
    return (schema[0] if schema else d.home), name


# -- rows ------------------------------------------------------------------------------------


def cursor(router: str, partition: int, row: CursorRow) -> Cursor:
    """A cursor that was taken."""
    return Cursor(
        router=router,
        partition=partition,
        position=row.position,
        holder=row.holder,
        passed=row.passed,
        ran_at=readable(row.ran_at),
        summary=row.summary,
        mark=row.mark,
    )


def _record(row: RouterRow) -> RouterRecord:
    return RouterRecord(
        name=row.name,
        domain=row.domain,
        partitions=row.partitions,
        open=bool(row.open),
        master=bool(row.master),
        created_at=readable(row.created_at),
        routes=tuple(_route(each) for each in _routes(row.routes)),
        cursors=tuple(_listed(row.name, each) for each in _cursors(row.cursors)),
    )


def _route(row: _Route) -> Route:
    return Route(
        name=row.name,
        type=row.type,
        stream=row.stream,
        deliver=row.deliver,
        enabled=bool(row.enabled),
        dry_run=bool(row.dry_run),
    )


def _listed(router: str, row: _Cursor) -> Cursor:
    return Cursor(
        router=router,
        partition=row.partition,
        position=row.position,
        holder=row.holder,
        passed=row.passed,
        ran_at=readable(row.ran_at),
        summary=row.summary,
        mark=row.mark,
    )


ROUTERS: Final = Shape.of(
    RouterRow("", "", 1, 0, 0, 0, "[]", "[]"), _record, lambda record, _: record
)

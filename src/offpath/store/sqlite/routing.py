"""The log's readers: routers, their cursors and decisions.

What also runs on a connection of the caller is written as steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from offpath.errors import Conflict, StoreRejected
from offpath.model.route import (
    Cursor,
    Decisions,
    LogEvent,
    LogPage,
    Route,
    RouterFacts,
    RouterRecord,
    RouterSpec,
)
from offpath.model.table import TablePage, quoted
from offpath.store.events import Decide
from offpath.store.programs.dialect import Queries
from offpath.store.programs.instants import instant, readable
from offpath.store.sql import Row, statement
from offpath.store.sqlite.enqueue import effect_steps
from offpath.store.sqlite.instants import later
from offpath.store.sqlite.letters import attempt_row, letter_row
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.session import SQL, Session
from offpath.store.unreadable import Shape, mark

LISTED: Final = 1_000
MASTER: Final = ""
"""The gate of all routers."""


# -- declaring -------------------------------------------------------------------------------------


def declare(session: Session, now: int, spec: RouterSpec) -> RouterRecord:
    """Add a router, or the routes that it lacks."""
    query = SQL["router_add"](
        name=spec.name, domain=spec.domain, partitions=spec.partitions, now=now
    )
    if session.run(query):
        partitions = batch(range(spec.partitions))
        start = _start(spec, session.drive(_horizon()))
        session.run(
            SQL["cursor_add"](router=spec.name, partitions=partitions, start=start, mark=spec.mark)
        )
        session.run(SQL["gate_set"](router=spec.name, open=0))
    else:
        _require_same(session.run(SQL["router_get"](name=spec.name)), spec)
    if spec.routes:
        [[place]] = session.run(SQL["route_next"](router=spec.name))
        routes = batch(
            [
                (r.name, r.type, r.stream, r.deliver, int(r.enabled), int(r.dry_run))
                for r in spec.routes
            ]
        )
        session.run(SQL["route_put"](router=spec.name, place=place, routes=routes))
    return session.drive(_router(spec.name, now))


def _require_same(rows: Sequence[Row], spec: RouterSpec) -> None:
    for _, domain, partitions, _ in rows:
        if (domain, partitions) != (spec.domain, spec.partitions):
            message = (
                f"router {spec.name} exists with domain {domain} and {partitions} partitions: "
                "declare it so, or give the new one another name"
            )
            raise Conflict(message)


def _start(spec: RouterSpec, horizon: int) -> int:
    if spec.start == "beginning":
        return 0
    if spec.start == "now":
        return horizon
    try:
        return max(int(spec.start), 0)
    except ValueError:
        message = f"router {spec.name} cannot start at {spec.start!r}: beginning, now or a position"
        raise StoreRejected(message) from None


def _router(name: str, now: int) -> Queries[RouterRecord]:
    rows = yield SQL["router_get"](name=name)
    for record in (yield from _records(rows, now)):
        return record
    raise _unknown(name)


def _unknown(name: str) -> Conflict:
    return Conflict(f"there is no router {name}: declare it first")


def _records(rows: Sequence[Row], now: int) -> Queries[list[RouterRecord]]:
    """Routers with their gates, routes and cursors."""
    names = batch([row[0] for row in rows])
    opened = {row[0] for row in (yield SQL["gate_list"](routers=names))}
    routes = yield SQL["route_list"](routers=names)
    cursors = yield SQL["cursor_list"](routers=names, now=now)
    return [
        RouterRecord(
            name=name,
            domain=domain,
            partitions=partitions,
            open=name in opened,
            master=MASTER in opened,
            routes=tuple(_route(row) for row in routes if row[0] == name),
            cursors=tuple(_cursor(row) for row in cursors if row[0] == name),
            created_at=readable(created_at),
        )
        for name, domain, partitions, created_at in rows
    ]


def _route(row: Row) -> Route:
    return Route(
        name=row[1],
        type=row[2],
        stream=row[3],
        deliver=row[4],
        enabled=bool(row[5]),
        dry_run=bool(row[6]),
    )


def _cursor(row: Row) -> Cursor:
    return Cursor(
        router=row[0],
        partition=row[1],
        position=row[2],
        holder=row[3],
        passed=row[4],
        ran_at=readable(row[5]),
        summary=row[6],
        mark=row[7],
    )


def routers(session: Session, now: int) -> list[RouterRecord]:
    """Every router, by name."""
    rows = session.run(SQL["router_list"](limit=LISTED))
    return session.drive(_records(rows, now))


def set_gate(session: Session, router: str | None, opened: bool) -> bool:
    """Open or close a gate; False: unknown router."""
    if router is not None and not session.run(SQL["router_get"](name=router)):
        return False
    session.run(SQL["gate_set"](router=MASTER if router is None else router, open=int(opened)))
    return True


def set_route(
    session: Session, router: str, route: str, enabled: bool | None, dry_run: bool | None
) -> bool:
    """Switch a route; False: unknown."""
    query = SQL["route_switch"](router=router, name=route, enabled=enabled, dry_run=dry_run)
    return bool(session.run(query))


# -- cursors ---------------------------------------------------------------------------------------


def lease_cursor(
    session: Session, now: int, place: tuple[str, int], holder: str, lease_seconds: float
) -> Cursor | None:
    """Take a cursor for a time; None while somebody else has it."""
    router, partition = place
    until = later(now, lease_seconds)
    query = SQL["cursor_lease"](
        router=router, partition=partition, holder=holder, until=until, now=now
    )
    for row in session.run(query):
        return _cursor(row)
    record = session.drive(_router(router, now))
    _require_partition(record, partition)
    return None


def _require_partition(record: RouterRecord, partition: int) -> None:
    if not 0 <= partition < record.partitions:
        message = f"router {record.name} has {record.partitions} partitions: none is {partition}"
        raise Conflict(message)


def release_cursor(session: Session, cursor: Cursor) -> None:
    """Give a cursor back."""
    place = {"router": cursor.router, "partition": cursor.partition}
    session.run(SQL["cursor_release"](holder=cursor.holder, **place))


def move_cursor(session: Session, router: str, partition: int, position: int) -> bool:
    """Put a cursor elsewhere; False: unknown."""
    query = SQL["cursor_move"](router=router, partition=partition, position=position)
    return bool(session.run(query))


def _horizon() -> Queries[int]:
    rows = yield SQL["log_horizon"]()
    return rows[0][0] if rows else 0


def read_log(session: Session, now: int, place: tuple[str, int], after: int, limit: int) -> LogPage:
    """Settled events of a partition."""
    router, partition = place
    record = session.drive(_router(router, now))
    _require_partition(record, partition)
    return session.drive(_page(record, partition, after, limit))


def _page(record: RouterRecord, partition: int, after: int, limit: int) -> Queries[LogPage]:
    """The horizon is read first: what is committed between the two reads is above it."""
    horizon = yield from _horizon()
    rows = yield SQL["log_read"](
        router=record.name,
        domain=record.domain,
        partitions=record.partitions,
        partition=partition,
        after=after,
        horizon=horizon,
        limit=max(limit, 0),
    )
    return LogPage(events=tuple(EVENTS.all(rows)), horizon=horizon)


def _log_event(row: Row) -> LogEvent:
    return LogEvent(
        position=row[0],
        id=row[1],
        domain=row[2],
        type=row[3],
        stream=row[4],
        payload=row[5],
        at=instant(row[6]),
        key=row[7],
        decided=len(row) > _DECIDED and bool(row[_DECIDED]),
    )


_DECIDED: Final = 8
EVENTS: Final = Shape(
    _log_event,
    ("position", "id", "domain", "type", "stream", "payload", "at", "key"),
    (0, "", "", "", "", "null", 0, None),
    lambda event, bad: replace(event, unreadable=mark(bad)),
)


# -- deciding --------------------------------------------------------------------------------------


def advance(session: Session, now: int, cursor: Cursor, decisions: Decisions) -> bool:
    """Write decisions and move the cursor; False when it is not held any more."""
    if cursor.holder is None:
        return False
    session.stirred = session.stirred or decisions.effects.stirs_messages
    place = cursor.router, cursor.partition
    return session.drive(_advance_steps(place, cursor.holder, decisions, now))


def _advance_steps(
    place: tuple[str, int], holder: str | None, decisions: Decisions, now: int
) -> Queries[bool]:
    router, partition = place
    # Made before anything is written: they raise for what cannot be stored.
    attempts = batch([attempt_row(each) for each in decisions.attempts])
    letters = batch([letter_row(each) for each in decisions.letters])
    moved = yield SQL["cursor_advance"](
        router=router,
        partition=partition,
        holder=holder,
        position=decisions.position,
        passed=decisions.passed,
        summary=decisions.summary,
        mark=decisions.mark,
        now=now,
    )
    if not moved:
        return False
    yield from effect_steps(decisions.effects, now)
    if decisions.attempts:
        yield SQL["attempt_add"](batch=attempts, now=now)
    if decisions.letters:
        yield SQL["letter_add"](batch=letters, now=now)
    return True


def route_steps(
    place: tuple[str, int], limit: int, decide: Decide, now: int
) -> Queries[Decisions | None]:
    """One step of a router; None while somebody has its cursor."""
    router, partition = place
    locked = yield SQL["cursor_lock"](router=router, partition=partition, now=now)
    record = yield from _router(router, now)
    _require_partition(record, partition)
    [[position, holder]] = locked
    if holder is not None:
        return None
    page = yield from _page(record, partition, position, limit)
    decisions = decide(record, page.events)
    yield from _advance_steps(place, None, decisions, now)
    return decisions


# -- a table of the user's own ---------------------------------------------------------------------


def columns(session: Session, table: tuple[str, ...]) -> dict[str, bool]:
    """The columns of a table, and whether each may be null."""
    *schema, name = table
    query = SQL["table_columns"](name=name, schema=schema[0] if schema else "main")
    return {column: bool(may) for column, may in session.run(query)}


def read_table(session: Session, page: TablePage) -> list[Row]:
    """Rows of a table."""
    return session.run(statement("table_page", page.text(_placed(page)))(**page.values))


def _placed(page: TablePage) -> str:
    return ".".join(quoted(one) for one in page.table)


# -- looking at the log ----------------------------------------------------------------------------


def facts(session: Session, now: int, router: str) -> RouterFacts:
    """What ``verify`` compares."""
    record = session.drive(_router(router, now))
    horizon = session.drive(_horizon())
    query = SQL["router_facts"](router=router, domain=record.domain, partitions=record.partitions)
    [[*counts, oldest]] = session.run(query)
    head, passed, decided, eventless, ahead, unlettered, unfailed, unresolved = counts
    return RouterFacts(
        head=head,
        horizon=horizon,
        events_passed=passed,
        events_with_attempt=decided,
        attempts_without_event=eventless,
        attempts_ahead=ahead,
        failed_without_letter=unlettered,
        letters_without_failure=unfailed,
        open_letters=unresolved,
        oldest_lag=0.0 if oldest is None else max(now - oldest, 0) / 1_000_000,
    )


def read_events(session: Session, domain: str | None, after: int, limit: int) -> list[LogEvent]:
    """Events by position."""
    limit = max(limit, 0)
    if domain is None:
        query = SQL["log_show"](after=after, limit=limit)
    else:
        query = SQL["log_show_domain"](domain=domain, after=after, limit=limit)
    return EVENTS.all(session.run(query))


def find_events(session: Session, ids: Sequence[str]) -> list[LogEvent]:
    """Events by id."""
    return EVENTS.all(session.run(SQL["log_find"](ids=batch(list(ids)))))


def trim(session: Session, before: int, limit: int) -> int:
    """Remove old events that everybody has passed, and the attempts at them."""
    rows = session.run(SQL["log_passed"](before=before, limit=max(limit, 0)))
    if rows:
        events = batch([row[0] for row in rows])
        session.run(SQL["attempt_trim"](events=events))
        session.run(SQL["log_trim"](events=events))
    return len(rows)

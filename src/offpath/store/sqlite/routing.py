"""The log's readers: routers, their cursors and decisions.

What also runs on a connection of the caller is written as steps.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from offpath.errors import StoreRejected
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
from offpath.store.programs.dialect import Queries
from offpath.store.programs.events import EVENTS
from offpath.store.programs.routers import ROUTERS
from offpath.store.refusals import no_cursor, no_router, other_router
from offpath.store.sql import Row, statement
from offpath.store.sqlite.enqueue import effect_steps
from offpath.store.sqlite.parameters import batch, document
from offpath.store.sqlite.session import SQL, Session

# -- declaring -------------------------------------------------------------------------------------


def declare(session: Session, now: int, spec: RouterSpec) -> RouterRecord:
    """Add a router, or the routes that it lacks."""
    query = SQL["add_router"](
        name=spec.name, domain=spec.domain, partitions=spec.partitions, now=now
    )
    if session.run(query):
        partitions = batch(range(spec.partitions))
        start = _start(spec, session.drive(_horizon()))
        session.run(
            SQL["add_cursors"](router=spec.name, partitions=partitions, start=start, mark=spec.mark)
        )
        session.run(SQL["set_gate"](router=spec.name, opened=0))
    else:
        [[domain, partitions]] = session.run(SQL["router_shape"](name=spec.name))
        if (domain, partitions) != (spec.domain, spec.partitions):
            raise other_router(spec.name, domain, partitions)
    if spec.routes:
        [[place]] = session.run(SQL["next_route"](router=spec.name))
        routes = batch(
            [
                (r.name, r.type, r.stream, r.deliver, int(r.enabled), int(r.dry_run))
                for r in spec.routes
            ]
        )
        session.run(SQL["add_routes"](router=spec.name, place=place, routes=routes))
    return session.drive(_router(spec.name, now))


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
    rows = yield SQL["routers"](name=name, now=now)
    if not rows:
        raise no_router(name)
    return ROUTERS.one(rows[0])


def _with_partition(name: str, partition: int, now: int) -> Queries[RouterRecord]:
    rows = yield SQL["routers"](name=name, now=now)
    record = ROUTERS.one(rows[0]) if rows else None
    if record is None or not 0 <= partition < record.partitions:
        raise no_cursor(name, partition)
    return record


# -- cursors ---------------------------------------------------------------------------------------


def _horizon() -> Queries[int]:
    rows = yield SQL["log_horizon"]()
    return rows[0][0] if rows else 0


def read_log(session: Session, now: int, place: tuple[str, int], after: int, limit: int) -> LogPage:
    """Settled events of a partition."""
    router, partition = place
    record = session.drive(_with_partition(router, partition, now))
    return session.drive(_page(record, partition, after, limit))


def _page(record: RouterRecord, partition: int, after: int, limit: int) -> Queries[LogPage]:
    """The horizon is read first: what is committed between the two reads is above it."""
    horizon = yield from _horizon()
    rows = yield SQL["read_log"](
        router=record.name,
        domain=record.domain,
        partitions=record.partitions,
        partition=partition,
        after=after,
        horizon=horizon,
        limit=max(limit, 0),
    )
    return LogPage(events=tuple(EVENTS.all(rows)), horizon=horizon)


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
    attempts = batch([_attempt_row(each) for each in decisions.attempts])
    letters = batch([_letter_row(each) for each in decisions.letters])
    moved = yield SQL["advance"](
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
        yield SQL["add_attempts"](batch=attempts, now=now)
    if decisions.letters:
        yield SQL["add_letters"](batch=letters, now=now)
    return True


def route_steps(
    place: tuple[str, int], limit: int, decide: Decide, now: int
) -> Queries[Decisions | None]:
    """One step of a router; None while somebody has its cursor."""
    router, partition = place
    locked = yield SQL["lock_cursor"](router=router, partition=partition, now=now)
    record = yield from _with_partition(router, partition, now)
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
    """The numbers that ``verify`` compares."""
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


def trim(session: Session, before: int, limit: int) -> int:
    """Remove old events that everybody has passed, and the attempts at them."""
    rows = session.run(SQL["trimmable"](before=before, limit=max(limit, 0)))
    if rows:
        events = batch([row[0] for row in rows])
        session.run(SQL["trim_attempts"](events=events))
        session.run(SQL["trim_log"](events=events))
    return len(rows)


# -- rows ------------------------------------------------------------------------------------------


def _attempt_row(one: Attempt) -> tuple[Any, ...]:
    """An attempt as it is written."""
    status = one.status.value
    return (one.router, one.event, one.number, one.position, status, one.route, one.detail)


def _letter_row(one: Letter) -> tuple[Any, ...]:
    """A dead letter as it is written. Raises ``StoreRejected`` for an event that is not Unicode."""
    event = one.event
    head = (one.id, one.router, one.route, event.id, event.position)
    return (*head, document(replace(event, decided=False)), one.reason, one.detail, one.number)

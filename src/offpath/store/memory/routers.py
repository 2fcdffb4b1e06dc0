"""Transitions of routers: what they read, decide and leave behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec.structs import replace

from offpath.errors import InvalidArgument
from offpath.model.route import (
    Attempt,
    AttemptStatus,
    Cursor,
    Decisions,
    LogEvent,
    LogPage,
    Route,
    RouterFacts,
    RouterRecord,
    RouterSpec,
)
from offpath.store.memory.effects import PlannedEffects
from offpath.store.memory.log import LogRow, MemoryEventLog
from offpath.store.memory.router_tables import MemoryCursor, MemoryRouter
from offpath.store.memory.tables import Tables
from offpath.store.refusals import no_cursor, no_start, other_router
from offpath.store.rows.instants import later

_LISTED = 1_000
_FAILED = AttemptStatus.FAILED


# -- declaring and switching ---------------------------------------------------------------------


def declare(tables: Tables, now: datetime, spec: RouterSpec) -> RouterRecord:
    """Add a router, or the routes that one lacks."""
    known = tables.routers.rows.get(spec.name)
    if known is None:
        _check(spec)
        known = MemoryRouter(spec, _start(tables.log, spec.start), now)
        tables.routers.rows[spec.name] = known
    elif (known.record.domain, known.record.partitions) != (spec.domain, spec.partitions):
        raise other_router(spec.name, known.record.domain, known.record.partitions)
    else:
        known.record = replace(known.record, routes=_merged(known.record.routes, spec.routes))
    return tables.routers.shown(known, now)


def _check(spec: RouterSpec) -> None:
    if spec.partitions < 1:
        raise InvalidArgument(f"router {spec.name!r} needs one partition or more")


def _start(log: MemoryEventLog, start: str | int) -> int:
    match start:
        case int():
            return start
        case "beginning":
            return 0
        case "now":
            return log.horizon
        case _:
            raise no_start(start)


def _merged(known: Sequence[Route], declared: Sequence[Route]) -> tuple[Route, ...]:
    routes = {route.name: route for route in known}
    for route in declared:
        # Only what a route delivers is the code's. Whether it is on is the operator's, and a
        # release must not undo that.
        before = routes.get(route.name)
        routes[route.name] = route if before is None else replace(before, deliver=route.deliver)
    return tuple(routes.values())


def listed(tables: Tables, now: datetime) -> list[RouterRecord]:
    """Every router, by name."""
    names = sorted(tables.routers.rows)[:_LISTED]
    return [tables.routers.shown(tables.routers.rows[name], now) for name in names]


def set_gate(tables: Tables, name: str | None, *, opened: bool) -> bool:
    """Open or close a gate."""
    if name is None:
        tables.routers.master = opened
        return True
    router = tables.routers.rows.get(name)
    if router is None:
        return False
    router.record = replace(router.record, open=opened)
    return True


def set_route(
    tables: Tables, name: str, route: str, *, enabled: bool | None, dry_run: bool | None
) -> bool:
    """Switch a route."""
    router = tables.routers.rows.get(name)
    if router is None or route not in {each.name for each in router.record.routes}:
        return False
    routes = tuple(
        _switched(each, enabled, dry_run) if each.name == route else each
        for each in router.record.routes
    )
    router.record = replace(router.record, routes=routes)
    return True


def _switched(route: Route, enabled: bool | None, dry_run: bool | None) -> Route:
    return replace(
        route,
        enabled=route.enabled if enabled is None else enabled,
        dry_run=route.dry_run if dry_run is None else dry_run,
    )


# -- running -------------------------------------------------------------------------------------


def lease_cursor(
    tables: Tables, now: datetime, name: str, partition: int, holder: str, lease_seconds: float
) -> Cursor | None:
    """Take a cursor for a time."""
    router = tables.routers.get(name)
    if not 0 <= partition < router.record.partitions:
        raise no_cursor(name, partition)
    row = router.cursors[partition]
    if row.seen(now).holder not in {None, holder}:
        return None
    cursor = replace(row.cursor, holder=holder)
    router.cursors[partition] = replace(row, cursor=cursor, until=later(now, lease_seconds))
    return cursor


def release_cursor(tables: Tables, cursor: Cursor) -> None:
    """Give a cursor back, if it is held by this one."""
    row = _row_of(tables, cursor.router, cursor.partition)
    if row is not None and cursor.holder is not None and row.cursor.holder == cursor.holder:
        free = replace(row.cursor, holder=None)
        _keep(tables, replace(row, cursor=free))


def move_cursor(tables: Tables, name: str, partition: int, position: int) -> bool:
    """Put a cursor elsewhere, and take it from whoever holds it."""
    row = _row_of(tables, name, partition)
    if row is None:
        return False
    # Moved ahead, it has not passed what it skipped. Moved back, it will pass that once more. What
    # is verified is what lies above `start`.
    start = position if position > row.cursor.position else min(row.start, position)
    moved = replace(row.cursor, position=position, mark=None, holder=None)
    _keep(tables, replace(row, cursor=moved, start=start))
    return True


def _row_of(tables: Tables, name: str, partition: int) -> MemoryCursor | None:
    router = tables.routers.rows.get(name)
    if router is None or not 0 <= partition < router.record.partitions:
        return None
    return router.cursors[partition]


def _keep(tables: Tables, row: MemoryCursor) -> None:
    router = tables.routers.rows[row.cursor.router]
    router.cursors[row.cursor.partition] = row


def read(tables: Tables, name: str, partition: int, *, after: int, limit: int) -> LogPage:
    """Events of one partition above a position."""
    router = tables.routers.get(name)
    found: list[LogEvent] = []
    for row in _of_partition(tables.log, router, partition, after):
        if len(found) >= limit:
            break
        decided = row.event.id in router.attempts
        found.append(replace(row.event, decided=True) if decided else row.event)
    return LogPage(events=tuple(found), horizon=tables.log.horizon)


def _of_partition(
    log: MemoryEventLog, router: MemoryRouter, partition: int, after: int
) -> Iterator[LogRow]:
    partitions = router.record.partitions
    return (
        row for row in log.above(after, router.record.domain) if row.slot % partitions == partition
    )


def advance(tables: Tables, now: datetime, cursor: Cursor, decisions: Decisions) -> bool:
    """Write what was decided and move the cursor, if it is still held."""
    row = _row_of(tables, cursor.router, cursor.partition)
    # A cursor without a holder would match one that nobody has.
    if row is None or cursor.holder is None or row.seen(now).holder != cursor.holder:
        return False
    # Decided first: effects that are refused leave the cursor where it was.
    writing = PlannedEffects(tables, now)
    writing.add(decisions.effects)
    router = tables.routers.rows[cursor.router]
    router.note(decisions.attempts, now)
    for letter in decisions.letters:
        if letter.id not in tables.routers.letters:
            tables.routers.keep(replace(letter, created_at=now))
    _keep(tables, replace(row, cursor=_advanced(row.cursor, decisions, now)))
    writing.carry_out()
    return True


def _advanced(cursor: Cursor, decisions: Decisions, now: datetime) -> Cursor:
    """A repeat of a step that was written passes nothing again."""
    fresh = decisions.position > cursor.position
    return replace(
        cursor,
        position=max(cursor.position, decisions.position),
        mark=decisions.mark if fresh else cursor.mark,
        passed=cursor.passed + (decisions.passed if fresh else 0),
        ran_at=now,
        summary=decisions.summary,
    )


# -- how far they are ------------------------------------------------------------------------------


def facts(tables: Tables, now: datetime, name: str) -> RouterFacts:
    """Count what ``verify`` compares."""
    router, log = tables.routers.get(name), tables.log
    domain = router.record.domain
    passed = [
        row
        for row in log.above(min(each.start for each in router.cursors), domain)
        if router.row_of(row.slot).start < row.event.position <= router.passed(row.slot)
    ]
    letters_of = [each for each in tables.routers.letters.values() if each.router == name]
    oldest = oldest_unpassed(log, router)
    return RouterFacts(
        head=log.head(domain),
        horizon=log.horizon,
        events_passed=len(passed),
        events_with_attempt=sum(1 in router.attempts.get(row.event.id, ()) for row in passed),
        attempts_without_event=sum(
            each.event not in log.rows and each.event not in router.letters
            for each in router.all_attempts()
        ),
        attempts_ahead=sum(_is_ahead(log, router, each) for each in router.all_attempts()),
        failed_without_letter=sum(
            each.status is _FAILED and each.event not in router.letters
            for each in router.all_attempts()
        ),
        letters_without_failure=sum(not router.failed(each.event.id) for each in letters_of),
        open_letters=sum(each.resolved_at is None for each in letters_of),
        oldest_lag=0.0 if oldest is None else max((now - oldest).total_seconds(), 0.0),
    )


def _is_ahead(log: MemoryEventLog, router: MemoryRouter, attempt: Attempt) -> bool:
    row = log.rows.get(attempt.event)
    return row is not None and attempt.position > router.passed(row.slot)


def oldest_unpassed(log: MemoryEventLog, router: MemoryRouter) -> datetime | None:
    """The time when the oldest event was written that a router has not passed; None without one."""
    least = min(each.cursor.position for each in router.cursors)
    for row in log.above(least, router.record.domain):
        if row.event.position > router.passed(row.slot):
            return row.event.at
    return None


def trim(tables: Tables, before: datetime, limit: int) -> int:
    """Remove old events that every router of their domain has passed."""
    log = tables.log
    by_domain: dict[str, list[MemoryRouter]] = {}
    for router in tables.routers.rows.values():
        by_domain.setdefault(router.record.domain, []).append(router)
    gone: list[LogRow] = []
    for row in log.above(0):
        # The log is in the order of time, so behind the first young event all are young.
        if len(gone) >= limit or row.event.at >= before:
            break
        readers = by_domain.get(row.event.domain, ())
        if all(row.event.position <= router.passed(row.slot) for router in readers):
            gone.append(row)
    if gone:
        log.remove(gone)
        _forget_attempts(tables, gone)
    return len(gone)


def _forget_attempts(tables: Tables, gone: Sequence[LogRow]) -> None:
    for router in tables.routers.rows.values():
        for row in gone:
            # The attempts explain a dead letter, so they stay as long as it does.
            if row.event.id not in router.letters:
                router.attempts.pop(row.event.id, None)

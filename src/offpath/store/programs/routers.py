"""Routers as operators see them, their switches, and who has their cursors."""

from __future__ import annotations

from typing import Final

import msgspec

from offpath.model.route import Cursor, Route, RouterRecord
from offpath.store.programs.answers import CursorRow, RouterRow
from offpath.store.programs.dialect import Dialect, Steps, ask, one
from offpath.store.programs.instants import readable
from offpath.store.refusals import no_cursor
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
    known = d.sql["has_cursor"](router=router, partition=partition)
    if not (yield from ask(known, last=True)):
        raise no_cursor(router, partition)
    return None


def release_cursor(d: Dialect, cursor: Cursor) -> Steps[None]:
    """Give a cursor back before its lease ends."""
    yield from one(
        d.sql["release_cursor"](
            router=cursor.router, partition=cursor.partition, holder=cursor.holder or ""
        )
    )


def move_cursor(d: Dialect, router: str, partition: int, position: int) -> Steps[bool]:
    """Put a cursor elsewhere; False: unknown."""
    query = d.sql["move_cursor"](router=router, partition=partition, position=position)
    return bool((yield from one(query)))


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

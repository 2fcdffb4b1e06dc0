"""A ready reader of an event table that lies in the database of the store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from offpath.errors import InvalidArgument
from offpath.events.position import Position, decode, encode
from offpath.events.source import SourceEvent
from offpath.model import checks
from offpath.model.route import Cursor
from offpath.model.table import TablePage

if TYPE_CHECKING:
    from offpath.model.route import RouterSpec
    from offpath.store.protocol import Store
    from offpath.store.sql import Row

_FIELDS: Final = ("id", "type", "payload", "at", "stream", "key")
_NAMED: Final = (*_FIELDS, "domain")
_COLUMNS: Final = {"id": "id", "type": "type", "payload": "payload", "at": "created_at"}


class TableReader:
    """Reads a table by keyset: the rows above the last values of its order's columns."""

    def __init__(
        self,
        table: str,
        order: Sequence[str],
        columns: Mapping[str, str] | None = None,
        *,
        domain: str,
    ) -> None:
        parts = tuple(checks.name(table, "table").split("."))
        if not 1 <= len(parts) <= 2 or not all(parts):  # noqa: PLR2004 - schema and name
            raise InvalidArgument(f"table is a name, or a schema and a name, not {table!r}")
        if isinstance(order, str) or not order:
            raise InvalidArgument(
                'order names the columns that events are ordered by, such as ("created_at", "id")'
            )
        if unknown := sorted(set(columns or {}) - set(_NAMED)):
            raise InvalidArgument(
                f"columns maps {', '.join(_NAMED)} to columns of the table, not {unknown[0]!r}"
            )
        named = {**_COLUMNS, **(columns or {})}
        self._fields = tuple(field for field in _FIELDS if field in named)
        self._page = TablePage(
            table=parts,
            columns=tuple(checks.name(named[field], "column") for field in self._fields),
            order=tuple(checks.name(one, "order") for one in order),
            only=(checks.name(named["domain"], "column"), domain) if "domain" in named else None,
        )
        self._checked_in: Store | None = None

    async def start(self, store: Store, spec: RouterSpec) -> RouterSpec:
        """The declaration, beginning behind the newest row where it begins now."""
        await self._check(store)
        if isinstance(spec.start, int) and spec.mark is None:
            spec = replace(spec, start=0, mark=encode((spec.start,)))
        if spec.mark is not None:
            self._after(Cursor(router=spec.name, partition=0, position=0, mark=spec.mark))
            return spec
        if spec.start == "beginning":
            return spec
        rows = await store.read_table(replace(self._page, newest=True, limit=1))
        mark = encode(self._position(rows[0])) if rows else None
        return replace(spec, start="beginning", mark=mark)

    async def read(self, store: Store, cursor: Cursor, limit: int) -> list[SourceEvent]:
        """Rows above the cursor, as events."""
        await self._check(store)
        after = self._after(cursor)
        rows = await store.read_table(replace(self._page, after=after, limit=limit))
        return [self._event(row) for row in rows]

    async def find(self, store: Store, ids: Sequence[str]) -> list[SourceEvent]:
        """Rows by their ids, as events."""
        await self._check(store)
        page = replace(self._page, ids=tuple(ids), limit=len(ids))
        return [self._event(row) for row in await store.read_table(page)] if ids else []

    def _after(self, cursor: Cursor) -> tuple[Any, ...] | None:
        if cursor.mark is not None:
            after = decode(cursor.mark)
            if isinstance(after, tuple) and len(after) == len(self._page.order):
                return after
        elif cursor.position == 0:
            return None
        elif len(self._page.order) == 1:  # the cursor of a read= that counted in integers
            return (cursor.position,)
        raise InvalidArgument(
            f"the cursor of router {cursor.router!r} is at a position of another order than "
            f"{self._page.order}: give the router another name, with a start of its own"
        )

    async def _check(self, store: Store) -> None:
        """Refuse what is not there, and rows that no page would ever hold."""
        if self._checked_in is store:
            return
        shown, known = ".".join(self._page.table), await store.table_columns(self._page.table)
        if not known:
            raise InvalidArgument(
                f"there is no table {shown!r} in this database that its role can see: create it, "
                "or name its schema"
            )
        only = () if self._page.only is None else self._page.only[:1]
        for column in (*self._page.columns, *self._page.order, *only):
            if column not in known:
                raise InvalidArgument(
                    f"the table {shown!r} has no column {column!r}; it has "
                    f"{', '.join(sorted(known))}: say which is meant with columns="
                )
        for column in self._page.order:
            if known[column]:
                raise InvalidArgument(
                    f"the column {column!r} of {shown!r} may be null, and such a row would never "
                    "be read: declare it not null"
                )
        self._checked_in = store

    def _position(self, row: Row) -> Position:
        return tuple(row[len(self._page.columns) :])

    def _event(self, row: Row) -> SourceEvent:
        values = dict(zip(self._fields, row, strict=False))
        key = values.get("key")
        return SourceEvent(
            position=self._position(row),
            id=str(values["id"]),
            type=str(values["type"]),
            stream=str(values.get("stream", self._page.table[-1])),
            payload=_payload(values["payload"]),
            at=_time(values["at"]),
            key=None if key is None else str(key),
        )


def _payload(value: object) -> str:
    """JSON text as it is; what a driver has read from JSON is written again."""
    return value if isinstance(value, str) else json.dumps(value)


def _time(value: object) -> datetime:
    """A time of a column: a time, ISO text, or seconds since 1970. Without a zone it is UTC."""
    try:
        match value:
            case datetime():
                at = value
            case str():
                at = datetime.fromisoformat(value)
            case int() | float():
                at = datetime.fromtimestamp(value, UTC)
            case _:
                raise ValueError
    except (ValueError, OverflowError, OSError):
        raise InvalidArgument(
            f"the column of `at` holds {str(value)[:60]!r}, which is not a time: map `at` to one "
            "that holds times, ISO texts or seconds since 1970"
        ) from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at

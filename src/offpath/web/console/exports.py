"""Exports: a list as CSV or as JSON lines, streamed page by page and bounded.

A spreadsheet takes a cell that begins with ``=``, ``+``, ``-`` or ``@`` for a formula, and cells
are anybody's texts: such a cell gets a quote in front.
"""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, get_args
from urllib.parse import parse_qsl, urlencode

import msgspec
from msgspec.structs import fields

from offpath.web.console.document_row import DocumentReading
from offpath.web.console.stops import Stop

if TYPE_CHECKING:
    from starlette.requests import Request

MOST_ROWS: Final = 100_000
MOST_PAGES: Final = 2_000
"""Pages that one export reads: of a list that looks at many rows, some pages are empty."""
PAGE: Final = 200
FORMAT: Final = "format"
"""The field of a query that asks for an export, for links: a browser chooses no Accept."""
KINDS: Final = {"csv": "text/csv; charset=utf-8", "ndjson": "application/x-ndjson"}
_ACCEPTED: Final = {"text/csv": "csv", "application/x-ndjson": "ndjson"}
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
ReadPage = Callable[[str], Awaitable[Mapping[str, Any]]]
"""The page of a list for a query."""


def exported(one: DocumentReading) -> bool:
    """True if a reading is a list that goes on."""
    return "after" in one.names


def wanted(request: Request, one: DocumentReading) -> tuple[str | None, str]:
    """The form of an export that is asked for, and the query without that. Raises ``Stop``."""
    pairs = parse_qsl(request.url.query, keep_blank_values=True)
    named = next((value for name, value in reversed(pairs) if name == FORMAT), None)
    if named is None or not exported(one):
        accepted = request.headers.get("accept", "").split(",")[0].partition(";")[0].strip()
        return (_ACCEPTED.get(accepted) if exported(one) else None), request.url.query
    if named not in KINDS:
        known = ", ".join(KINDS)
        raise Stop(400, "INVALID_ARGUMENT", f"format is one of {known}, not {named[:20]!r}.")
    return named, urlencode([pair for pair in pairs if pair[0] != FORMAT])


async def rows(read: ReadPage, query: str) -> AsyncIterator[Sequence[Mapping[str, Any]]]:
    """The rows of a list from where the query begins, by pages."""
    rest = [pair for pair in parse_qsl(query) if pair[0] not in {"after", "limit"}]
    after = next((value for name, value in parse_qsl(query) if name == "after"), None)
    left = MOST_ROWS
    for _ in range(MOST_PAGES):
        place = [] if after is None else [("after", after)]
        page = await read(urlencode([*rest, *place, ("limit", str(min(PAGE, left)))]))
        yield page["items"]
        left, after = left - len(page["items"]), page["next"]
        if after is None or left <= 0:
            return


async def written(
    kind: str, one: DocumentReading, pages: AsyncIterator[Sequence[Mapping[str, Any]]]
) -> AsyncIterator[bytes]:
    """The text of an export, a piece for each page."""
    names = columns(one)
    if kind == "csv":
        yield _lines([names])
    async for page in pages:
        if kind == "csv":
            yield _lines([[cell(row.get(name)) for name in names] for row in page])
        else:
            yield b"".join(msgspec.json.encode(row) + b"\n" for row in page)


def columns(one: DocumentReading) -> list[str]:
    """The fields of a list's rows."""
    (items,) = (each for each in fields(one.document) if each.name == "items")
    row, *_ = get_args(items.type)
    return list(row.__struct_fields__)


def _lines(table: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(table)
    return text.getvalue().encode()


def cell(value: object) -> object:
    """A value as a cell: texts defused, what has parts as JSON."""
    if value is None or isinstance(value, bool | int | float):
        return value
    plain = isinstance(value, str) or hasattr(value, "isoformat")
    text = msgspec.to_builtins(value) if plain else msgspec.json.encode(value).decode()
    return f"'{text}" if text.startswith(_FORMULA) else text

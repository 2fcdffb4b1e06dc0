"""Downloads: one field of a document as a file, for what is longer than a page shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode

import msgspec
from starlette.responses import Response

from offpath.web.console.document_row import DocumentReading
from offpath.web.console.stops import Stop

if TYPE_CHECKING:
    from starlette.requests import Request

FIELD: Final = "download"
"""The field of a query that names the part of the document."""


def wanted(request: Request, one: DocumentReading) -> tuple[str | None, str]:
    """The part that is asked for, and the query without that. Raises ``Stop``."""
    pairs = parse_qsl(request.url.query, keep_blank_values=True)
    named = next((value for name, value in reversed(pairs) if name == FIELD), None)
    if named is None or not one.parts:
        return None, request.url.query
    if named not in one.parts:
        known = ", ".join(one.parts)
        raise Stop(400, "INVALID_ARGUMENT", f"{FIELD} is one of {known}, not {named[:20]!r}.")
    return named, urlencode([pair for pair in pairs if pair[0] != FIELD])


def answer(document: Mapping[str, Any], one: DocumentReading, part: str) -> Response:
    """A part of a plain document, secrets hidden, as a file of JSON. Raises ``Stop``."""
    value = document[part]
    if value is None:
        raise Stop(404, "NOT_FOUND", f"There is no {part}.")
    # an id of ours: letters, digits and dashes
    name = f"{one.name}-{document['id']}-{part}.json"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    text = msgspec.json.format(msgspec.json.encode(value), indent=2)
    return Response(text, headers=headers, media_type="application/json")

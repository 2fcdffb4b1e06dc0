"""Bodies of requests: forms and JSON, bounded in size and in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec

from offpath.web.body import CutBody, SlowBody, TooLargeBody, read_body
from offpath.web.console.stops import Stop

if TYPE_CHECKING:
    from starlette.requests import Request

T = TypeVar("T")
MOST_BYTES: Final = 65_536
_TIMEOUT: Final = 10.0
_MOST_FIELDS: Final = 1_100


async def read_form(request: Request) -> list[tuple[str, str]]:
    """The fields of a form, as browsers send one. Raises ``Stop``."""
    body = (await _read(request)).decode("latin-1")
    try:
        return parse_qsl(body, max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        raise Stop(400, "BODY_NOT_UNDERSTOOD", "The form has too many fields.") from error


async def read_json(request: Request, kind: type[T]) -> T:
    """The JSON of a program. Raises ``Stop``: 415 for what a form of any page could send."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise Stop(415, "NOT_JSON", "The body must be JSON: Content-Type: application/json.")
    try:
        return msgspec.json.decode(await _read(request), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Stop(400, "BODY_NOT_UNDERSTOOD", f"The body does not fit: {error}.") from error


async def _read(request: Request) -> bytes:
    try:
        return await read_body(request, most=MOST_BYTES, timeout=_TIMEOUT)
    except TooLargeBody:
        raise Stop(413, "BODY_TOO_LARGE", f"More than {MOST_BYTES} bytes.") from None
    except SlowBody:
        raise Stop(408, "BODY_TOO_SLOW", "The body did not come.", retryable=True) from None
    except CutBody:
        raise Stop(400, "BODY_CUT", "The body was cut off.") from None

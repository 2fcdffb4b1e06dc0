"""Bodies of requests: forms and JSON, bounded in size and in time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec

from offpath.web.body import CutBody, SlowBody, TooLargeBody, read_body
from offpath.web.console.stops import Stop

if TYPE_CHECKING:
    from starlette.requests import Request

T = TypeVar("T")
Larger = Callable[[T], bool]
"""True for what was read if it may have a large body, as a new job may."""
MOST_BYTES: Final = 65_536
MOST_OF_A_JOB: Final = 2**20 + MOST_BYTES
"""Bytes of a body that makes a job: its arguments may be a mebibyte."""
_ESCAPED: Final = 3
"""Bytes that a form may have for one."""
TIMEOUT: Final = 5.0
"""Seconds in which a body must be there: it holds one of few seats."""
TIMEOUT_OF_A_JOB: Final = 20.0
"""The same for whoever may send a large one."""
_MOST_FIELDS: Final = 1_100


async def read_form(
    request: Request, larger: Larger[list[tuple[str, str]]] | None = None
) -> list[tuple[str, str]]:
    """The fields of a form, as browsers send one. Raises ``Stop``."""
    body = await _read(request, None if larger is None else _ESCAPED * MOST_OF_A_JOB)
    try:
        found = parse_qsl(body.decode("latin-1"), max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        raise Stop(400, "BODY_NOT_UNDERSTOOD", "The form has too many fields.") from error
    return _bounded(body, found, larger)


async def read_json(request: Request, kind: type[T], larger: Larger[T] | None = None) -> T:
    """The JSON of a program. Raises ``Stop``: 415 for what a form of any page could send."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise Stop(415, "NOT_JSON", "The body must be JSON: Content-Type: application/json.")
    body = await _read(request, None if larger is None else MOST_OF_A_JOB)
    try:
        found = msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Stop(400, "BODY_NOT_UNDERSTOOD", f"The body does not fit: {error}.") from error
    return _bounded(body, found, larger)


def _bounded(body: bytes, found: T, larger: Larger[T] | None) -> T:
    """The value that was read. Raises ``Stop`` where its body is too large for its kind."""
    if len(body) > MOST_BYTES and not (larger is not None and larger(found)):
        raise _too_large(MOST_BYTES)
    return found


def _too_large(most: int) -> Stop:
    return Stop(413, "BODY_TOO_LARGE", f"More than {most:,} bytes.")


async def _read(request: Request, large: int | None) -> bytes:
    """The body, of as many bytes as a ``large`` one may have, or as any other."""
    most = MOST_BYTES if large is None else large
    timeout = TIMEOUT if large is None else TIMEOUT_OF_A_JOB
    try:
        return await read_body(request, most=most, timeout=timeout)
    except TooLargeBody:
        raise _too_large(most) from None
    except SlowBody:
        raise Stop(408, "BODY_TOO_SLOW", "The body did not come.", retryable=True) from None
    except CutBody:
        raise Stop(400, "BODY_CUT", "The body was cut off.") from None

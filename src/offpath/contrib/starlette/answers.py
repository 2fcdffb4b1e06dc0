"""Faults of offpath as answers of a web service."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from offpath.errors import (
    AppClosed,
    Conflict,
    InvalidInput,
    StoreBusy,
    StoreUnavailable,
    TooLarge,
)
from offpath.model.redact import redact_text
from offpath.web.problem import MEDIA_TYPE, problem

if TYPE_CHECKING:
    from starlette.requests import Request

    from offpath.errors import OffpathError

_STATUS: Final[tuple[tuple[type[OffpathError], int], ...]] = (
    (Conflict, 409),
    (InvalidInput, 422),
    (TooLarge, 422),
    (StoreUnavailable, 503),
    (StoreBusy, 503),
    (AppClosed, 503),
)
_UNFIT: Final = 422
_AWAY: Final = 503
_AGAIN: Final = "1"
"""Seconds after which a client may ask again: a worker too is back within some."""
_log = logging.getLogger("offpath.contrib.starlette")


def errors(service: Any) -> None:  # noqa: ANN401 - Starlette or FastAPI
    """Answer faults of offpath as ``application/problem+json``, with a code and no text.

    409: an id or a unique key is taken. 422: arguments do not fit the task, which the log says,
    since the program may be at fault. 503 with ``Retry-After``: the store is away. All others are
    faults of the program and stay 500.
    """
    for kind, _ in _STATUS:
        service.add_exception_handler(kind, _answer)


async def _answer(request: Request, error: Exception) -> Response:
    status = next(status for kind, status in _STATUS if isinstance(error, kind))
    if status == _UNFIT:
        where = f"{request.method} {request.url.path}"
        _log.warning("%s is answered with %d: %s", where, status, redact_text(str(error)))
    away = status == _AWAY
    code: str = error.code  # type: ignore[attr-defined] # all kinds above are ours
    return Response(
        problem(status, code, retryable=away).body(),
        status,
        {"retry-after": _AGAIN} if away else None,
        MEDIA_TYPE,
    )

"""Faults as ``application/problem+json`` (RFC 9457): a code, and nothing of the error's text."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import msgspec
from msgspec import Struct

from offpath.errors import (
    AppClosed,
    InvalidArgument,
    OffpathError,
    StoreBusy,
    StoreUnavailable,
)
from offpath.model.ledger import faults

MEDIA_TYPE: Final = "application/problem+json"

_CLIENT: Final = (
    faults.MalformedOperation,
    faults.InvalidAmount,
    faults.MoneyOverflow,
    faults.CurrencyMismatch,
    faults.UnknownAccount,
)
_AWAY: Final = (StoreUnavailable, StoreBusy, AppClosed)


class Problem(Struct, frozen=True, kw_only=True):
    """The answer to a caller about a fault."""

    type: str
    title: str
    status: int
    code: str
    retryable: bool

    def body(self) -> bytes:
        """The JSON that is sent."""
        return msgspec.json.encode(self)


def problem(status: int, code: str, *, retryable: bool = False) -> Problem:
    """A problem; the title is HTTP's own phrase, never the error's text."""
    return Problem(
        type=f"urn:offpath:problem:{code.lower()}",
        title=HTTPStatus(status).phrase,
        status=status,
        code=code,
        retryable=retryable,
    )


def problem_of(error: BaseException) -> Problem:
    """The problem of an exception.

    401: not authorised, a bad signature. 400: what the caller sent. 422: a key that belongs to
    another operation. 503: worth another try. 500: everything else.
    """
    code = error.code if isinstance(error, OffpathError) else "INTERNAL"
    match error:
        case faults.Unauthorized() | faults.InvalidSignature():
            return problem(401, code)
        case faults.KeyReused():
            return problem(422, code)
        case faults.LedgerError() if isinstance(error, _CLIENT):
            return problem(400, code)
        case InvalidArgument():
            return problem(400, "OP.MALFORMED")
        case OffpathError() if isinstance(error, _AWAY) or error.retryable:
            return problem(503, code, retryable=True)
    return problem(500, code)

"""Reading a request's body: bounded in size and in time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.requests import Request

MOST_BYTES: Final = 65_536
TIMEOUT: Final = 10.0
"""Seconds that a caller has for its body."""


class TooLargeBody(Exception):
    """The body is over the limit: 413."""


class SlowBody(Exception):
    """The body did not come in time: 408."""


class CutBody(Exception):
    """The caller closed the connection before the body was whole: there is nobody to answer."""


async def read_body(request: Request, *, most: int, timeout: float) -> bytes:  # noqa: ASYNC109 - a limit of the service
    """The whole body. Raises ``TooLargeBody`` as soon as it is known, ``SlowBody``, ``CutBody``."""
    from starlette.requests import ClientDisconnect

    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told[:20]) > most:
        raise TooLargeBody
    try:
        async with asyncio.timeout(timeout):
            return await _read(request, most)
    except TimeoutError:
        raise SlowBody from None
    except ClientDisconnect:
        raise CutBody from None


async def _read(request: Request, most: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise TooLargeBody
    return bytes(body)

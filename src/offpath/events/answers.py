"""Answers that must not get lost: what they hand out would lie idle until its lease ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def answered(
    call: Coroutine[Any, Any, T], last_wait: float, *, unwanted: Callable[[T], None]
) -> T:
    """Await ``call``, and do not leave its answer behind when cancelled meanwhile.

    Then the answer is waited for, ``last_wait`` real seconds at the most, and given to
    ``unwanted`` before the cancellation goes on: nobody else gets what was handed out in it.
    """
    asking = asyncio.ensure_future(call)
    try:
        return await asyncio.shield(asking)
    except asyncio.CancelledError:
        await asyncio.wait((asking,), timeout=last_wait)
        if not asking.done():
            asking.cancel()
        elif not asking.cancelled() and asking.exception() is None:
            unwanted(asking.result())
        raise

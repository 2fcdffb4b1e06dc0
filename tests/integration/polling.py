"""Waiting for what another process does: the one place where tests look again and again."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

LOOK_EVERY = 0.02


async def eventually(condition: Callable[[], Any], *, within: float, what: str = "") -> Any:
    """The value of ``condition`` once it is true; fails after ``within`` seconds."""
    end = time.monotonic() + within
    while True:
        given = condition()
        found = await given if inspect.isawaitable(given) else given
        if found:
            return found
        if time.monotonic() > end:
            awaited = what or inspect.getsource(condition)
            raise AssertionError(f"not within {within:g} s: {awaited}")
        await asyncio.sleep(LOOK_EVERY)


async def window(seconds: float) -> float:
    """Let a measurement go on for so long; returns how long it was."""
    began = time.monotonic()
    await eventually(lambda: time.monotonic() - began >= seconds, within=seconds + 60)
    return time.monotonic() - began

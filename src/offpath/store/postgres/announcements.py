"""Telling other processes to look, at most once in a while."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from offpath.errors import OffpathError
from offpath.store.hints import Hint

_log = logging.getLogger("offpath.store.postgres")

PAUSE: Final = 0.02
"""Seconds between two notices of one kind. A notice takes a lock on the whole database."""


class Announcer:
    """Sends hints, after what they tell of was committed, and joins those that come thick."""

    def __init__(self, send: Callable[[Hint], Awaitable[None]]) -> None:
        self._send = send
        self._pending: set[Hint] = set()
        self._task: asyncio.Task[None] | None = None

    def announce(self, hint: Hint) -> None:
        """Tell the others soon. Never raises: polling suffices."""
        self._pending.add(hint)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="offpath-announce")

    async def close(self) -> None:
        """Say what is left to be said, then end."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while self._pending:
                hints, self._pending = self._pending, set()
                for hint in sorted(hints):
                    await self._send(hint)
                await asyncio.sleep(PAUSE)
        except OffpathError as error:
            _log.debug("a wake-up was not sent (%s): others find it by polling", error.code)
        finally:
            self._task = None

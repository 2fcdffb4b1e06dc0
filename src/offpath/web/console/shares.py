"""Answers that are given again for a second, and made once for all who wait for them.

Fifty viewers cost one: who asks while an answer is being made waits for that one. An answer that
cost much is given again for longer, so that who looks takes a small part of a busy database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
FOR: Final = 1.0
"""Seconds in which an answer is given again."""
_TIMES: Final = 20.0
"""The same in times of what it took to make it, where that is more."""
_LONGEST: Final = 5.0
"""The bound of that, in times of the usual time."""
_MOST: Final = 100
"""Answers that are kept: a crawler of filters must not fill the memory."""


class SharedAnswers:
    """Answers by key."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, float, Any]] = {}
        """By key when an answer was begun, the seconds that it took, and the answer."""
        self._slow: dict[str, tuple[float, Any]] = {}
        self._changes = 0
        # by loop: a server of threads may have several, and a task belongs to one
        self._coming: WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[str, asyncio.Future[Any]]
        ] = WeakKeyDictionary()

    async def get(self, key: str, make: Callable[[], Awaitable[T]]) -> T:
        """The answer of ``make``, or the one that was made for another within the last second.

        Nobody waits while an answer that cost much is made anew. Requests of that time are
        given the last one, up to twice its time.
        """
        kept = self._kept.get(key)
        if kept is not None and monotonic() < kept[0] + _kept_for(kept[1]):
            found: T = kept[2]
            return found
        making = self._begin(key, make)
        if kept is not None and FOR < _kept_for(kept[1]) > (monotonic() - kept[0]) / 2:
            last: T = kept[2]
            return last
        # who leaves takes it away from nobody else
        answer: T = await asyncio.shield(making)
        return answer

    def _begin(self, key: str, make: Callable[[], Awaitable[T]]) -> asyncio.Future[T]:
        coming = self._coming.setdefault(asyncio.get_running_loop(), {})
        making = coming.get(key)
        if making is None:
            making = coming[key] = asyncio.ensure_future(self._made(key, make, self._changes))
            making.add_done_callback(lambda done: self._over(coming, key, done))
        return making

    async def behind(
        self, key: str, make: Callable[[], Awaitable[T]], *, keep: float, wait: float
    ) -> T | None:
        """The last answer of what takes long: it is made anew behind the requests, when somebody
        asks and the last one is older than ``keep`` seconds. None while the first is not there.
        """
        kept = self._slow.get(key)
        if kept is None or monotonic() - kept[0] >= keep:
            making = self._begun(key, make)
            if kept is None:
                await asyncio.wait({making}, timeout=wait)
        kept = self._slow.get(key)
        found: T | None = None if kept is None else kept[1]
        return found

    def _begun(self, key: str, make: Callable[[], Awaitable[T]]) -> asyncio.Future[None]:
        coming = self._coming.setdefault(asyncio.get_running_loop(), {})
        making = coming.get(key)
        if making is None:
            making = coming[key] = asyncio.ensure_future(self._kept_long(key, make))
            making.add_done_callback(lambda done: self._over(coming, key, done))
        return making

    async def _kept_long(self, key: str, make: Callable[[], Awaitable[T]]) -> None:
        answer = await make()
        self._slow[key] = (monotonic(), answer)

    def forget(self) -> None:
        """Give nothing again: something was changed."""
        self._kept.clear()
        for coming in self._coming.values():
            coming.clear()
        self._changes += 1

    async def _made(self, key: str, make: Callable[[], Awaitable[T]], changes: int) -> T:
        began = monotonic()
        answer = await make()
        if len(self._kept) >= _MOST:
            self._kept.clear()
        if changes == self._changes:  # else it may tell what was before the change
            self._kept[key] = (began, monotonic() - began, answer)
        return answer

    @staticmethod
    def _over(coming: dict[str, asyncio.Future[Any]], key: str, done: asyncio.Future[Any]) -> None:
        if coming.get(key) is done:
            del coming[key]
        if not done.cancelled():
            done.exception()  # it was told to whoever waited, if anybody still did


def _kept_for(took: float) -> float:
    """The seconds in which an answer is given again that took so long."""
    return min(max(FOR, _TIMES * took), _LONGEST * FOR)

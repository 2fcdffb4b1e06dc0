"""The part of every bus: one notice under way at a time, and a subscription that is made again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Final

from offpath.model.redact import redact_url
from offpath.runtime.ids import new_id
from offpath.store.hints import Hint
from offpath.store.wakes.port import NotSent

ANSWERS_IN: Final = 5
"""Seconds in which a server has to take a notice, or answer a greeting."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
"""Seconds between two tries to subscribe, the first and the longest."""
_log = logging.getLogger("offpath.store.wakes")

Heard = AbstractAsyncContextManager[AsyncIterator[bytes]]
"""A subscription, open while it is entered, and what it hears."""


class TaskBus(ABC):
    """A bus whose driver is async. Belongs to one event loop."""

    errors: tuple[type[Exception], ...] = ()
    """The errors of the driver that mean that the server is away."""

    def __init__(self, url: str, channel: str) -> None:
        self.shown = redact_url(url)
        self.hears = False
        self.ready = False
        self._url, self._channel = url, channel
        self._me = new_id()
        self._sending: asyncio.Task[None] | None = None
        self._hearing: asyncio.Task[None] | None = None

    @property
    def _away(self) -> tuple[type[Exception], ...]:
        return (*self.errors, TimeoutError)

    @abstractmethod
    async def _open(self) -> None:
        """Connect to send."""

    @abstractmethod
    async def _publish(self, payload: bytes) -> None:
        """Send one notice."""

    @abstractmethod
    async def _shut(self) -> None:
        """Close what was opened to send."""

    @abstractmethod
    def _subscribed(self) -> Heard:
        """A subscription of its own."""

    # -- telling ---------------------------------------------------------------------------

    async def connect(self) -> None:
        """Connect, if need be. Raises ``NotSent``."""
        if self.ready:
            return
        try:
            async with asyncio.timeout(ANSWERS_IN):
                await self._open()
        except self._away as error:
            raise NotSent(type(error).__name__) from error
        self.ready = True

    def send(self, hints: Collection[Hint]) -> bool:
        """Send a notice of each; False while the one before is under way. Raises ``NotSent``."""
        if not self.ready:
            raise NotSent("not connected")
        # Behind a slow server no tasks gather; others find the work by polling.
        if self._sending is not None and not self._sending.done():
            return False
        payload = " ".join((self._me, *(hint.value for hint in hints))).encode()
        self._sending = asyncio.create_task(self._sent(payload), name="offpath-wake")
        return True

    async def _sent(self, payload: bytes) -> None:
        try:
            async with asyncio.timeout(ANSWERS_IN):
                await self._publish(payload)
        except self._away as error:
            self.ready = False  # the next notice connects anew
            _log.debug("a wake-up was not sent (%s): others find it by polling", error)

    # -- hearing ---------------------------------------------------------------------------

    def hear(self, emit: Callable[[Hint], None]) -> None:
        """Call ``emit`` for each notice of another process, from now until it is closed."""
        if self._hearing is None:
            self._hearing = asyncio.create_task(self._hear(emit), name="offpath-hear")

    async def _hear(self, emit: Callable[[Hint], None]) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                async with self._subscribed() as heard:
                    self.hears, pause = True, _FIRST_PAUSE
                    for hint in Hint:  # what was told before this subscription, nobody repeats
                        emit(hint)
                    async for payload in heard:
                        self._tell(payload, emit)
            except self._away as error:
                _log.debug("wake-ups are not heard (%s): work is found by polling", error)
            finally:
                self.hears = False
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _tell(self, payload: bytes, emit: Callable[[Hint], None]) -> None:
        """Tell what another process has said; anything else on the channel is passed over."""
        # Anybody may write to the channel: no more words are read than there are hints, and an
        # empty text passes for our own.
        sender, *words = payload.decode(errors="replace").split()[: len(Hint) + 1] or [self._me]
        if sender == self._me:
            return
        for word in words:
            with contextlib.suppress(ValueError):
                emit(Hint(word))

    async def close(self) -> None:
        """End it, when what was sent has arrived."""
        hearing, self._hearing = self._hearing, None
        if hearing is not None:
            hearing.cancel()
            # Not awaited by itself, which would raise its cancellation here.
            await asyncio.wait([hearing])
        if self._sending is not None:
            # A notice that is under way arrives before its connection is closed.
            await asyncio.wait([self._sending])
        self.ready = False
        with contextlib.suppress(*self.errors):
            await self._shut()

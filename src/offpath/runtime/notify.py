"""The notify protocol of systemd: ready, still making progress, stopping.

A service manager that wants to be told sets ``NOTIFY_SOCKET``; messages are datagrams of
``NAME=value`` lines. Nothing here raises: a worker does not end because nobody listens.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Self

from msgspec import Struct

from offpath.runtime.clock import Clock
from offpath.runtime.log import logger

VARIABLE = "NOTIFY_SOCKET"
LOOK_EVERY = 1.0
"""Seconds between two looks; a watchdog that wants more gets it at a third of its time."""
LONGEST_STATUS = 200
"""Characters of a status line."""

_log = logger("notify")


class Signs(Struct, frozen=True, kw_only=True):
    """The state of a service at one moment."""

    ready: bool
    """It does what it is for."""
    progressing: bool
    """Nothing that matters is stuck: the watchdog may be fed."""
    stopping: bool = False
    status: str = ""
    """One line for people."""


class Notifier:
    """Sends messages to the socket that the service manager named."""

    def __init__(self, address: str, watchdog: float | None = None) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self.watchdog = watchdog
        """Seconds in which the watchdog wants to be fed; None when there is none."""
        self._failed = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self | None:
        """The notifier that the environment asks for; None when it names no address.

        A watchdog that is meant for another process (``WATCHDOG_PID``) is left alone.
        """
        given = os.environ if environment is None else environment
        address = given.get(VARIABLE, "")
        if not address.startswith(("/", "@")) or not address[1:]:
            return None
        return cls(address, _watchdog(given))

    def send(self, **fields: str | int) -> bool:
        """Send one message of these fields; says whether it went out. Never blocks or raises."""
        lines = "\n".join(f"{name}={_one_line(str(value))}" for name, value in fields.items())
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
                sending.setblocking(False)
                sending.sendto(lines.encode(), self._address)
        except OSError as error:
            if not self._failed:
                _log.warning("the service manager cannot be told: %s", type(error).__name__)
            self._failed = True
            return False
        self._failed = False
        return True


def _watchdog(given: Mapping[str, str]) -> float | None:
    try:
        micros = int(given.get("WATCHDOG_USEC", "0"))
        pid = int(given.get("WATCHDOG_PID") or os.getpid())
    except ValueError:
        return None
    return micros / 1_000_000 if micros > 0 and pid == os.getpid() else None


def _one_line(text: str) -> str:
    return " ".join(text.split())[:LONGEST_STATUS]


class Telling:
    """Looks at a service again and again and tells what has changed; feeds while there is progress.

    The look is taken in the service's own event loop: one that is blocked feeds no watchdog.
    """

    def __init__(self, notifier: Notifier, look: Callable[[], Signs], clock: Clock) -> None:
        self._notifier = notifier
        self._look = look
        self._clock = clock
        self._ready = False
        self._stopping = False
        self._status = ""

    @property
    def interval(self) -> float:
        """Seconds between two looks."""
        watchdog = self._notifier.watchdog
        return LOOK_EVERY if watchdog is None else min(LOOK_EVERY, watchdog / 3)

    async def forever(self) -> None:
        """Look until it is cancelled."""
        while True:
            try:
                self.once()
            except Exception as error:  # noqa: BLE001 - told, and the watchdog is not fed
                _log.error("looking failed: %s", type(error).__name__, exc_info=error)
            await self._clock.sleep(self.interval)

    def once(self) -> None:
        """Look, and tell."""
        signs = self._look()
        if signs.stopping:
            self.stopping()
            return
        told: dict[str, str | int] = {}
        if signs.ready and not self._ready:
            self._ready = True
            told["READY"] = 1
        if signs.status != self._status:
            self._status = signs.status
            told["STATUS"] = signs.status
        if signs.progressing and self._notifier.watchdog is not None:
            told["WATCHDOG"] = 1
        if told:
            self._notifier.send(**told)

    def stopping(self) -> None:
        """Say that the service ends; once."""
        if not self._stopping:
            self._stopping = True
            self._notifier.send(STOPPING=1)


@asynccontextmanager
async def telling(
    notifier: Notifier | None, look: Callable[[], Signs], clock: Clock
) -> AsyncIterator[None]:
    """Keep the service manager told for as long as the block runs; does nothing without one."""
    if notifier is None:
        yield
        return
    telling = Telling(notifier, look, clock)
    task = asyncio.get_running_loop().create_task(telling.forever(), name="offpath notify")
    try:
        yield
    finally:
        task.cancel()
        telling.stopping()
        await asyncio.wait({task})

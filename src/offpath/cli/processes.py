"""Several worker processes under one parent: started, restarted, told to stop."""

from __future__ import annotations

import logging
import signal
import subprocess
import time
from collections.abc import Sequence
from types import FrameType

_log = logging.getLogger("offpath.cli")

FIRST_WAIT = 0.5
LONGEST_WAIT = 30.0
"""Seconds before a child that ended by itself is started again: doubled each time."""
STEADY = 60.0
"""A child that lived for so many seconds is started again without delay."""
LOOK_EVERY = 0.1


class Parent:
    """Keeps ``count`` processes of one command alive until it is told to stop.

    SIGTERM and SIGINT are handed on: the first drains the children, the second aborts them. A
    child that ends unasked is started again, with a growing wait while it ends at once.
    """

    def __init__(self, command: Sequence[str], count: int) -> None:
        self._command = list(command)
        self._children = [_Child(self._command) for _ in range(count)]
        self._signals = 0

    def run(self) -> int:
        """Run until every child has ended after a signal; 0 when all of them ended well."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._signalled)
        for child in self._children:
            child.start()
        while self._signals == 0 or any(child.alive for child in self._children):
            if self._signals == 0:
                for child in self._children:
                    child.look(time.monotonic())
            time.sleep(LOOK_EVERY)
        return 1 if any(child.code for child in self._children) else 0

    def _signalled(self, _number: int, _frame: FrameType | None) -> None:
        self._signals += 1
        for child in self._children:
            child.stop()


class _Child:
    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._wait = FIRST_WAIT
        self._again_at: float | None = None

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def code(self) -> int:
        """How it ended; 0 while it runs."""
        return (self._process and self._process.poll()) or 0

    def start(self) -> None:
        """Start it, in a session of its own: a terminal's Ctrl-C must not reach it twice."""
        self._process = subprocess.Popen(self._command, start_new_session=True)  # noqa: S603 - ours
        self._started_at = time.monotonic()
        self._again_at = None

    def look(self, now: float) -> None:
        """Start it again if it has ended, when the time has come."""
        if self.alive:
            return
        if self._again_at is None:
            lived = now - self._started_at
            self._wait = FIRST_WAIT if lived > STEADY else min(self._wait * 2, LONGEST_WAIT)
            self._again_at = now + self._wait
            _log.error(
                "a worker process ended with code %s; it is started again in %.0f s",
                self.code,
                self._wait,
            )
        elif now >= self._again_at:
            self.start()

    def stop(self) -> None:
        """Hand a signal on."""
        if self._process is not None and self.alive:
            self._process.send_signal(signal.SIGTERM)

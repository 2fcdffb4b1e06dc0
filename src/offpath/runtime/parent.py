"""Several worker processes under one parent: started, restarted, told to stop."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from types import FrameType

from offpath.runtime.process import stopped

_log = logging.getLogger("offpath.cli")  # the program's: it alone has several processes

FIRST_WAIT = 0.5
LONGEST_WAIT = 30.0
"""Seconds before a child that ended by itself is started again: doubled each time."""
STEADY = 60.0
"""A child that lived for so many seconds is started again after the first wait."""
MOST_CRASHES = 10
"""Times in a row that a child may end at once; then all stop, and who started this sees it."""
STOP_GRACE = 1.9
"""Seconds beyond the drain's limit that a child may take to leave: a worker's graces are less."""
STOPPED_GRACE = 0.5
"""The same for a child whose process is stopped: it hears no signal, and will not leave."""
LOOK_EVERY = 0.1
_WELL = (0, -signal.SIGTERM, -signal.SIGINT, 130)
"""A running worker handles these signals: one that ends by them held nothing, not yet or no more.
130 is what the command makes of an interrupt."""


class Parent:
    """Keeps one process of each command alive until it is told to stop.

    SIGTERM and SIGINT are handed on: the first drains the children, the second aborts them. So is
    SIGQUIT, which makes them tell what they do. A child that ends unasked is started again, with
    a growing wait while it ends at once. Children hold the reading end of a pipe: when this
    process dies without a word, it ends, and they drain.

    Children that have not left some time after ``drain_timeout`` (or after the second signal) are
    killed: a process that is stopped, or hangs, must not keep this one.
    """

    def __init__(self, commands: Sequence[Sequence[str]], *, drain_timeout: float) -> None:
        reading, self._writing = os.pipe()
        self._children = [Child(command, reading) for command in commands]
        self._drain_timeout = drain_timeout
        self._signals = 0
        self._leave_by = float("inf")
        self._failed = False

    def run(self) -> int:
        """Run until every child has ended after a signal; 0 when all of them ended well."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._signalled)
        signal.signal(signal.SIGQUIT, self._asked)
        for child in self._children:
            child.start()
        while self._signals == 0 or any(child.alive for child in self._children):
            self._look(time.monotonic())
            time.sleep(LOOK_EVERY)
        ill = [child.code for child in self._children if child.code not in _WELL]
        for code in ill:
            _log.error("a worker process ended with code %s", code)
        return 1 if ill or self._failed else 0

    def _look(self, now: float) -> None:
        if self._signals:
            for child in self._children:
                child.end_by(self._leave_by, now)
            return
        for child in self._children:
            child.look(now)
        if any(child.crashes >= MOST_CRASHES for child in self._children):
            _log.error("a worker process has ended %d times at once: giving up", MOST_CRASHES)
            self._failed = True
            self._signalled(signal.SIGTERM, None)

    def _signalled(self, _number: int, _frame: FrameType | None) -> None:
        self._signals += 1
        # Another number the second time: two pending signals of one number are one. Chosen at
        # once, for the second may interrupt what follows.
        number = signal.SIGTERM if self._signals == 1 else signal.SIGINT
        patience = self._drain_timeout if self._signals == 1 else 0.0
        self._leave_by = min(self._leave_by, time.monotonic() + patience)
        if number is signal.SIGTERM:
            _log.info("stopping: running jobs may end; a second signal aborts them")
        for child in self._children:
            child.send(number)

    def _asked(self, _number: int, _frame: FrameType | None) -> None:
        for child in self._children:
            child.send(signal.SIGQUIT)


class Child:
    """One process of a command, which is told to stop when this one is gone."""

    def __init__(self, command: Sequence[str], pipe: int) -> None:
        self._command = [*command, "--parent-pipe", str(pipe)]
        self._pipe = pipe
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._wait = FIRST_WAIT
        self._again_at: float | None = None
        self.crashes = 0
        """The number of times in a row that it ended at once."""

    @property
    def alive(self) -> bool:
        """True while the process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def code(self) -> int:
        """The exit code; 0 while the process runs."""
        return (self._process and self._process.poll()) or 0

    def start(self) -> None:
        """Start it, in a session of its own: a terminal's Ctrl-C must not reach it twice."""
        # Ignored until the child listens for it: by default SIGQUIT would end it as it starts.
        handler = signal.signal(signal.SIGQUIT, signal.SIG_IGN)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this program again
                self._command, start_new_session=True, pass_fds=(self._pipe,)
            )
        finally:
            signal.signal(signal.SIGQUIT, handler)
        self._started_at = time.monotonic()
        self._again_at = None

    def look(self, now: float) -> None:
        """Start it again if it has ended, when the time has come."""
        if self.alive:
            return
        if self._again_at is None:
            lived = now - self._started_at
            self._wait = FIRST_WAIT if lived > STEADY else self._wait
            self.crashes = 1 if lived > STEADY else self.crashes + 1
            self._again_at = now + self._wait
            _log.error(
                "a worker process ended with code %s; it is started again in %.1f s",
                self.code,
                self._wait,
            )
            self._wait = min(self._wait * 2, LONGEST_WAIT)
        elif now >= self._again_at:
            self.start()

    def end_by(self, moment: float, now: float) -> None:
        """Kill it if it should have left by then."""
        process = self._process
        if process is None or not self.alive or now < moment + STOPPED_GRACE:
            return
        still = stopped(process.pid)
        if still or now >= moment + STOP_GRACE:
            how = "is stopped" if still else "does not leave"
            _log.error("worker process %s %s: it is killed", process.pid, how)
            process.kill()

    def send(self, number: signal.Signals) -> None:
        """Hand a signal on."""
        if self._process is not None and self.alive:
            self._process.send_signal(number)

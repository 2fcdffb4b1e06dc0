"""A thread that sees whether the event loop turns, and keeps the lease while it does not.

The heartbeat runs in the event loop, which a handler can block. This thread asks the loop for a
sign of life, and renews the lease by a way of its own for as long as none comes: the process
lives, so nobody else may run its jobs. While the loop turns, only the heartbeat renews: one that
does not reach the store must lose its lease, and a thread must not hide that.

Nothing can run while a call in C holds the interpreter's lock. Then others leave the jobs alone by
the worker's presence, and the first thing after it is a renewal.
"""

from __future__ import annotations

import asyncio
import sys
import sysconfig
import threading
from typing import TYPE_CHECKING

from msgspec import Struct

from offpath.jobs.worker.descriptors import Descriptors
from offpath.model.health import ProcessLoad
from offpath.runtime.load import ProcessMeter
from offpath.runtime.log import logger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from offpath.jobs.values.run import Run

_log = logger("worker")

BLOCKED = 1.0
"""Seconds without a sign of life after which the loop is said to be blocked."""
EVERY = 0.25
"""Seconds between two looks."""
RENEW_EVERY = 0.5
"""Seconds between two renewals meanwhile. Where a store judges a worker by its connection, as Redis
does, one that is cut off while its loop is blocked has no other way to say that it lives: it would
be missed within two seconds, and renewals that are as rare as heartbeats come too late."""
FROZEN = 2.0
"""Seconds between two looks after which this thread, and so the whole process, stood still."""
_LATER = 10.0
"""The factor by which a block must have grown before it is reported again."""

_FOREIGN = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})


class Blocked(Struct, frozen=True, kw_only=True):
    """The code that holds up the event loop."""

    seconds: float
    job: str | None
    """None: it is not a handler's task that runs."""
    task: str | None
    where: str
    """The line of code: file, line, function."""

    @property
    def text(self) -> str:
        """One line for people."""
        by = "" if self.job is None else f" by job {self.job} of task {self.task}"
        return f"its event loop has been blocked for {self.seconds:.0f} s{by}, at {self.where}"


class LoopGuard:
    """Watches one worker's event loop. :meth:`step` is one look; the thread makes them."""

    def __init__(
        self,
        monotonic: Callable[[], float],
        runs: Callable[[], Sequence[Run]],
        *,
        renewed_at: Callable[[], float],
        renew: Callable[[], None],
        lease_seconds: float,
        cut_off: Callable[[], bool] = lambda: False,
    ) -> None:
        self._monotonic = monotonic
        self._runs = runs
        self._renewed_at = renewed_at
        self._renew = renew
        self._cut_off = cut_off
        # As the heartbeat's: a blocked loop must not shorten the lease that others see.
        self._renew_after = lease_seconds / 3
        # A short lease has aged by all of it before that.
        self._frozen_after = min(FROZEN, lease_seconds)
        self._blocked_after = min(BLOCKED, self._renew_after)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_id = 0
        self._ended = threading.Event()
        self._asked_at = self._looked_at = 0.0
        self._answered = True
        self._tell_at = BLOCKED
        self._renewing = self._thawing = self._failed = False
        self._spoke_for_it = False
        self.descriptors = Descriptors(runs)
        """The supply of file descriptors, watched by the same thread."""
        self._meter = ProcessMeter(monotonic)
        self._lag: float | None = None
        self.blocked: Blocked | None = None
        """The block that holds up the loop now; None while it turns."""

    def watch(self) -> None:
        """Begin to watch the loop that calls this, from a thread."""
        self.attach(asyncio.get_running_loop())
        thread = threading.Thread(target=self._run, name="offpath-guard", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no thread is to be had: the heartbeat alone keeps the lease
            _log.warning("the event loop is not watched: %s", error)

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch this loop, whose thread calls this."""
        self._loop, self._thread_id = loop, threading.get_ident()
        self._looked_at = self._monotonic()

    def end(self) -> None:
        """Watch no longer."""
        self._ended.set()

    @property
    def frozen(self) -> bool:
        """True if the whole process stood still until just now, and the lease is not renewed yet.

        The leases of other workers in this process are as old, so an expired one proves nothing.
        """
        if self._loop is None or self._ended.is_set():
            return False
        stood_still = self._monotonic() - self._looked_at > self._frozen_after
        return self._thawing or (stood_still and not self._renewing)

    def load(self) -> ProcessLoad:
        """The load of the process. May be called from any thread."""
        return ProcessLoad(cpu=self._meter.share(), memory=self._meter.memory(), loop_lag=self._lag)

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ended.wait(min(EVERY, self._blocked_after / 4)):
            try:
                self.descriptors.look()
                self.step()
            except Exception as error:  # noqa: BLE001 - whoever watches must not die of it
                _log.error("watching the event loop failed: %s", type(error).__name__)

    def step(self) -> None:
        """Look once. Renewing may take as long as the store takes."""
        loop = self._loop
        if loop is None or loop.is_closed() or not loop.is_running():
            return  # nobody lives there whose lease could be kept
        now = self._monotonic()
        if now - self._looked_at > self._frozen_after:
            # Leases have aged while nobody here could renew them. Until ours is renewed, those of
            # neighbours in this process prove nothing either.
            self._thawing = True
            self._keep_lease(now)
            self._thawing = False
        self._looked_at = self._monotonic()
        if self._answered:
            self._spoke_for_it = False
            self._turns_again()
            self._ask(loop, now)
            return
        if not self._spoke_for_it and self._cut_off():
            self._speak_for_it(now)
        if (age := now - self._asked_at) >= self._blocked_after:
            self._is_blocked(loop, age, now)

    def _speak_for_it(self, now: float) -> None:
        """The connection that shows that this process lives was cut, and the loop cannot make it
        anew: others look twice within half a second, and then have its jobs.
        """
        self._keep_lease(now)
        self._spoke_for_it = not self._failed

    def _ask(self, loop: asyncio.AbstractEventLoop, now: float) -> None:
        self._answered, self._asked_at = False, now
        try:
            loop.call_soon_threadsafe(self._answer)
        except RuntimeError:
            self._answered = True  # it was closed between two lines

    def _answer(self) -> None:
        self._answered = True
        self._lag = self._monotonic() - self._asked_at

    def _turns_again(self) -> None:
        self._tell_at = BLOCKED
        if (blocked := self.blocked) is not None:
            self.blocked = None
            if blocked.seconds >= BLOCKED:
                _log.warning("the event loop turns again after %.1f s", blocked.seconds)

    def _is_blocked(self, loop: asyncio.AbstractEventLoop, age: float, now: float) -> None:
        self.blocked = self._culprit(loop, age)
        # Each report waits ten times longer: a block of an hour is a few lines, not thousands.
        if age >= self._tell_at:
            self._tell_at = age * _LATER
            _log.warning("%s", self.blocked.text.replace("its", "the", 1))
        # Only while the loop is blocked: otherwise a beat that hangs would never lose its lease.
        if now - self._renewed_at() >= min(RENEW_EVERY, self._renew_after):
            self._keep_lease(now)

    def _keep_lease(self, now: float) -> None:
        self._renewing = True
        try:
            self._renew()
        except Exception as error:  # noqa: BLE001 - tried again at the next look
            if not self._failed:
                age = now - self._renewed_at()
                text = "the lease of a blocked worker could not be renewed for %.1f s: %s"
                _log.warning(text, age, type(error).__name__)
            self._failed = True
        else:
            self._failed = False
        finally:
            self._renewing = False
            self._looked_at = self._monotonic()

    # -- who it is -------------------------------------------------------------------------------

    def _culprit(self, loop: asyncio.AbstractEventLoop, age: float) -> Blocked:
        task = asyncio.current_task(loop)
        run = None if task is None else next((r for r in self._runs() if r.runner is task), None)
        return Blocked(
            seconds=age,
            job=None if run is None else run.job.id,
            task=None if run is None else run.job.task,
            where=_line_of(sys._current_frames().get(self._thread_id)),  # noqa: SLF001 - the only way to see another thread's line
        )


def _line_of(innermost: FrameType | None) -> str:
    """The line that people know: of code that is neither Python's own nor an installed package's.

    It is the innermost one there is, where all are foreign.
    """
    if innermost is None:
        return "an unknown line"
    frame: FrameType | None = innermost
    while frame is not None and frame.f_code.co_filename.startswith(_FOREIGN):
        frame = frame.f_back
    shown = frame or innermost
    if shown.f_globals.get("__name__", "").partition(".")[0] == __name__.partition(".")[0]:
        shown = innermost  # no handler's: what is inside of us is the better hint
    return f"{shown.f_code.co_filename}:{shown.f_lineno} in {shown.f_code.co_qualname}"

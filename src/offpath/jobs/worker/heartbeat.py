"""Keeping the lease: one beat for all held jobs, and what the store tells in return.

The beat runs in the event loop, with what a worker must know of its jobs. While a handler blocks
the loop, the guard's thread renews the lease instead (``guard.py``). Whether the lease still holds
is asked of the clock, by somebody who waits for no store: a call that hangs must not hide that it
is over. What protects the jobs in any case is the store's fence, at every write.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from offpath.errors import LeaseLost
from offpath.jobs.values.run import Interruption
from offpath.model.health import WorkerReport
from offpath.model.lease import SILENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from offpath.jobs.values.run import Run
    from offpath.jobs.worker.claimer import Claimer
    from offpath.jobs.worker.hand import Hand
    from offpath.jobs.worker.watch import Watch
    from offpath.model.job import NewJob
    from offpath.model.lease import Renewed, WorkerAsk, WorkerInfo
    from offpath.runtime.clock import Clock
    from offpath.store.protocol import Store


class Heartbeat:
    """Registers the worker, renews its lease, and passes on what the store tells of its jobs."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        hand: Hand,
        *,
        info: WorkerInfo,
        templates: Sequence[NewJob],
        lease_seconds: float,
        watch: Watch,
        claimer: Claimer,
        report: Callable[[BaseException, str], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._hand = hand
        self._info = info
        self._templates = templates
        self._lease_seconds = lease_seconds
        self._watch = watch
        self._claimer = claimer
        self._report = report
        self.renewed_at = -math.inf
        """The time of the last renewal of the lease, by the monotonic clock. Set in any thread."""
        self._holds = self._doubted = self._present = False
        self.frozen: Callable[[], bool] = _turning
        """True if the process stood still until now, and its first renewal is on the way."""
        self.tell: Callable[[], WorkerReport] = WorkerReport
        """The worker's report on itself, for the fleet's health."""
        self.stopping = False
        """True if no more jobs are to be taken, though the lease is kept."""
        self.quiet = False
        """The same, for as long as an operator wants it."""
        self.asked: Callable[[Sequence[WorkerAsk]], None] = _unheard
        """Told what operators ask of the worker."""
        self.hinted = False
        """True if the store said that something may be asked for: the next look looks."""

    @property
    def alive(self) -> bool:
        """True if the lease is known to hold. May be asked in any thread."""
        return self._holds and self._clock.monotonic() - self.renewed_at < self._lease_seconds

    @property
    def unsure(self) -> bool:
        """True if the expired leases of others prove nothing: this worker's own may have, too.

        The whole process stood still, or nobody reached the store: others may renew a moment later.
        """
        return self.frozen() or not self.alive

    @property
    def left(self) -> float:
        """Seconds until the lease is over, if nobody renews it."""
        return self.renewed_at + self._lease_seconds - self._clock.monotonic()

    async def register(self) -> None:
        """Make this worker known; its lease runs from before the call."""
        at = self._clock.monotonic()
        await self._store.keep_templates(self._templates)
        there = await self._store.register(self._info, lease_seconds=self._lease_seconds)
        self._present = there and self._store.capabilities.lasting_presence
        self._renewed(at)

    async def beat(self) -> None:
        """Renew the lease."""
        if self.renewed_at == -math.inf:
            await self.register()
        at = self._clock.monotonic()
        # The time was read before the call: the store's lease begins later, so ours never outlasts
        # it.
        answer = await self._store.extend(
            self._info,
            lease_seconds=self._lease_seconds,
            held=self._hand.jobs(),
            report=self._told(),
        )
        self._renewed(at)
        self._heed(answer)

    def renew(self) -> None:
        """Renew the lease from another thread, while the loop is blocked. Blocks."""
        at = self._clock.monotonic()
        # The lease begins at the store after this look at the clock, so ours ends first.
        if self._store.vouch(self._info.id, lease_seconds=self._lease_seconds, report=self._told()):
            self.renewed_at = max(self.renewed_at, at)

    def _told(self) -> str:
        return msgspec.json.encode(self.tell()).decode()

    async def look(self) -> None:
        """Look for cancellations and lost jobs."""
        held, hinted = self._hand.jobs(), self.hinted
        if not held and not hinted:
            return
        # Before the question: a hint that comes while it is on its way asks for another look.
        self.hinted = False
        answer = await self._store.signals(self._info.id, held)
        self._heed(answer)
        if not answer.alive:
            await self.beat()  # registers anew: until then there is no work for this worker

    def lose(self, runs: Iterable[Run]) -> None:
        """Somebody else may run these jobs now: tell their handlers, and say so once."""
        lost = [run for run in runs if self._watch.interrupt(run, Interruption.LOST)]
        if lost:
            # A few are enough to find them by, and a worker may lose hundreds at once.
            ids = ", ".join(run.job.id for run in lost[:5])
            msg = f"{len(lost)} running jobs are no longer this worker's: {ids}"
            self._report(LeaseLost(msg), "lease")

    def _renewed(self, at: float) -> None:
        # The guard's thread renews as well, and may have been answered for a later time.
        self.renewed_at = max(self.renewed_at, at)
        self._holds, self._doubted = True, False
        self.open_door()

    def open_door(self) -> None:
        """Take jobs from now on, unless the worker stops or is to be quiet."""
        if not self._claimer.open and not self.stopping and not self.quiet:
            self._claimer.open = True
            self._claimer.announce()

    def hush(self) -> None:
        """Take no more jobs until somebody asks for it; the lease is kept."""
        self.quiet = True
        self._claimer.open, self._claimer.told = False, True

    def unhush(self) -> None:
        """Take jobs again, if the lease is held."""
        self.quiet = False
        self._claimer.told = self.stopping
        if self.alive:
            self.open_door()

    def doubt(self) -> None:
        """After a whole lease without a renewal no job is taken, and those that run may be others'.

        Waits for nothing, so that no call to the store can hold it up. A process that stood still
        asks first: the renewal that is on the way says which jobs are still its own. That
        call is bounded: 5 s on Postgres, the file's patience on SQLite.
        """
        if self.renewed_at == -math.inf or self.alive or self.frozen():
            return
        age = self._clock.monotonic() - self.renewed_at
        if self._holds:
            # No new jobs before a renewal: others may have ended the lease that they would be
            # under.
            self._holds = self._claimer.open = False
            msg = f"the lease could not be renewed for {age:.1f} s: no jobs are taken until it is"
            self._report(LeaseLost(msg), "lease")
        # A worker whose presence lasts keeps its jobs for so long: nobody takes them earlier.
        if not self._doubted and age >= self._lease_seconds * (SILENCE if self._present else 1):
            self._doubted = True
            for run in self._hand.runs():
                self._watch.interrupt(run, Interruption.EXPIRED)

    def _heed(self, answer: Renewed) -> None:
        for run in self._hand.find(answer.cancelled):
            self._watch.interrupt(run, Interruption.CANCEL)
        if answer.lost:
            self.lose(self._hand.find(answer.lost))
        if answer.asked:
            self.asked(answer.asked)


def _turning() -> bool:
    """False: nobody watches whether the process stood still."""
    return False


def _unheard(_asked: Sequence[WorkerAsk]) -> None:
    """Nobody carries requests out."""

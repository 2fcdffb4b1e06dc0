"""Keeping the lease: one beat for all held jobs, and what the store tells in return.

The beat runs in the event loop. A handler that blocks the loop for longer than the lease stops it,
and another worker may then take the jobs; a beat from a thread would hide such a worker's illness,
and could not vouch for it anyway. What protects the jobs is the store's fence, at every write.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from offpath.errors import LeaseLost
from offpath.jobs.worker.running import Interruption
from offpath.model.health import WorkerReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from offpath.jobs.worker.claiming import Claimer
    from offpath.jobs.worker.hand import Hand
    from offpath.jobs.worker.running import Run
    from offpath.jobs.worker.watch import Watch
    from offpath.model.lease import Extension, WorkerInfo
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
        lease_seconds: float,
        watch: Watch,
        claimer: Claimer,
        report: Callable[[BaseException, str], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._hand = hand
        self._info = info
        self._lease_seconds = lease_seconds
        self._watch = watch
        self._claimer = claimer
        self._report = report
        self._renewed_at = -math.inf
        self.alive = False
        """Whether the lease is known to hold."""
        self.tell: Callable[[], WorkerReport] = WorkerReport
        """What the worker says of itself to who looks at the fleet."""
        self.stopping = False
        """Whether no more jobs are to be taken, though the lease is kept."""

    async def register(self) -> None:
        """Make this worker known; its lease runs from before the call."""
        at = self._clock.monotonic()
        await self._store.register(self._info, lease_seconds=self._lease_seconds)
        self._renewed(at)

    async def beat(self) -> None:
        """Renew the lease."""
        if self._renewed_at == -math.inf:
            await self.register()
        at = self._clock.monotonic()
        report = msgspec.json.encode(self.tell()).decode()
        answer = await self._store.extend(
            self._info, lease_seconds=self._lease_seconds, held=self._hand.jobs(), report=report
        )
        self._renewed(at)
        self._heed(answer)

    async def look(self) -> None:
        """Look for cancellations and lost jobs."""
        self._doubt()
        held = self._hand.jobs()
        if not held:
            return
        answer = await self._store.signals(self._info.id, held)
        self._heed(answer)
        if not answer.alive:
            await self.beat()  # registers anew: until then there is no work for this worker

    def lose(self, runs: Iterable[Run]) -> None:
        """Somebody else may run these jobs now: tell their handlers, and say so once."""
        lost = [run for run in runs if self._watch.interrupt(run, Interruption.LOST)]
        if lost:
            ids = ", ".join(run.job.id for run in lost[:5])
            msg = f"{len(lost)} running jobs are no longer this worker's: {ids}"
            self._report(LeaseLost(msg), "lease")

    def _renewed(self, at: float) -> None:
        self._renewed_at = at
        self.alive = True
        if not self._claimer.open and not self.stopping:
            self._claimer.open = True
            self._claimer.announce()

    def _doubt(self) -> None:
        """After a whole lease without a renewal the jobs may be somebody else's."""
        age = self._clock.monotonic() - self._renewed_at
        if not self.alive or age < self._lease_seconds:
            return
        self.alive = self._claimer.open = False
        for run in self._hand.runs():
            self._watch.interrupt(run, Interruption.EXPIRED)
        msg = f"the lease could not be renewed for {age:.1f} s: no jobs are taken until it is"
        self._report(LeaseLost(msg), "lease")

    def _heed(self, answer: Extension) -> None:
        for run in self._hand.find(answer.cancelled):
            self._watch.interrupt(run, Interruption.CANCEL)
        if answer.lost:
            self.lose(self._hand.find(answer.lost))

"""Workers that run beside the rest of a service, in its event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol, Self

from offpath.errors import PassFailed
from offpath.jobs.worker.passes import NoPasses, Timed, clock_scheduler
from offpath.jobs.worker.worker import Worker
from offpath.model import checks

if TYPE_CHECKING:
    from offpath.jobs.values.runnable import Runnable
    from offpath.jobs.worker.passes import Passes, Scheduler, Stop
    from offpath.jobs.worker.terms import AttemptCounts, Parts, WorkerSettings
    from offpath.model.tally import SweepRun, Tally
    from offpath.runtime.loop import LoopSpec


BATCH = 1_000
"""Messages that one pass takes."""


class MessageMover(Protocol):
    """The movers of messages: a relay of the outbox, a drain of the inbox."""

    async def run_once(self, *, limit: int) -> Tally:
        """Move up to ``limit`` due messages."""
        ...

    async def stop(self, seconds: float) -> None:
        """End it."""
        ...


class AppWorker(Worker):
    """A worker of an app: opens the app when it starts. ``async with app.worker():`` runs it."""

    def __init__(
        self,
        opened: Callable[[], Awaitable[object]],
        parts: Parts,
        tasks: Mapping[str, Runnable],
        settings: WorkerSettings,
        movers: Callable[[], Sequence[MessageMover]] | None = None,
        sweeps: Passes | None = None,
    ) -> None:
        super().__init__(parts, tasks, settings)
        self._movers = movers
        self._begins = parts.begins
        self._stays = False
        self._late: list[LoopSpec] = []
        self._opened = opened
        self._sweeps: Passes = sweeps or NoPasses()

    async def __aenter__(self) -> Self:
        """Start it."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop it: running jobs may end within ``drain_timeout``."""
        await self.stop()

    async def start(self) -> None:
        """Open the app, register and begin to take jobs; see :meth:`Worker.start`."""
        await self._opened()
        self._begins(self.id)
        await super().start()
        self._stays = True
        late, self._late = self._late, []
        for spec in late:
            self._also(spec)

    async def run_until_idle(self, *, limit: int | None = None) -> AttemptCounts:
        """Open the app and run everything that is due; see :meth:`Worker.run_until_idle`."""
        await self._opened()
        return await super().run_until_idle(limit=limit)

    def take_at_most(self, jobs: int) -> None:
        """Take no more than so many jobs from now on; those that it has taken go on."""
        self._engine.claimer.left = checks.integer(jobs, "jobs", least=0, most=10**9)

    async def run_once(
        self,
        now: datetime | None = None,
        only: str | Iterable[str] | None = None,
        limit: int | None = None,
        *,
        force: bool = False,
    ) -> SweepRun:
        """Make one pass of each sweep, in their order; returns every result.

        For hosts with a scheduler of their own, and for tests. The worker need not be started. All
        time decisions of a sweep use ``now`` (the clock's by default); ``only`` names the sweeps
        to run; ``limit`` is the most rows of each, instead of its own limit; ``force`` runs also
        what another worker leads. Calls at the same time run one after the other, and no sweep's
        pass overlaps one of this worker's loops.

        A sweep that fails is told in its result and stops none of the others. Raises
        ``InvalidArgument`` for an unknown name, before anything is run.
        """
        await self._opened()
        return await self._sweeps.run(now, only=only, limit=limit, force=force)

    async def start_sweeps(
        self,
        every: float | timedelta = 60.0,
        *,
        scheduler: Scheduler | None = None,
        only: str | Iterable[str] | None = None,
        limit: int | None = None,
    ) -> Stop:
        """Make a run of the sweeps at once and then every so many seconds, without the worker.

        Returns ``stop``: ``await stop()`` calls no more and waits for the run under way. A started
        worker drives each sweep by itself, at the sweep's own pace, and needs no such call.
        ``scheduler(tick, every)`` is what calls, and returns what ends it; the clock by default.

        Raises ``InvalidArgument`` for an unknown name.
        """
        rest = checks.seconds(every, "every")
        await self._opened()
        self._sweeps.check(only=only, limit=limit)

        async def tick() -> None:
            await self._sweeps.run(only=only, limit=limit)

        timed = Timed(tick, self._parts.report)
        return timed.begin(scheduler or clock_scheduler(self._parts.clock), rest)

    def add_loop(self, spec: LoopSpec) -> None:
        """Drive one more relay, if it drives any: for what is registered when it is there already.

        Before it starts it notes it for then; once it is stopping it does nothing.
        """
        if self._movers is not None:
            self._also(spec)

    def add_sweep(self, name: str) -> None:
        """Drive one more sweep, in the same way."""
        for spec in self._sweeps.loops(only=name):
            self._also(spec)

    def _also(self, spec: LoopSpec) -> None:
        # Loops are kept by name: a second one would replace the first, which would go on unseen.
        if self.stopping or any(loop.name == spec.name for loop in self.loops()):
            return
        if self._stays:
            self._loops.add((spec,))
            self._loops.start()
        else:
            self._late.append(spec)

    async def _run_all(self, left: float) -> None:
        """Run jobs and move messages until neither leads to more of the other."""
        movers = [] if self._movers is None else self._movers()
        try:
            while True:
                before = self.counts.total
                await super()._run_all(left)
                left -= self.counts.total - before
                moved = await self._move(movers, left)
                left -= moved
                if not moved:
                    return
        finally:
            for mover in movers:
                await mover.stop(0.0)

    async def _move(self, movers: Sequence[MessageMover], left: float) -> int:
        """Move what is due; how many messages were taken up."""
        moved = 0
        for mover in movers:
            if left - moved <= 0:
                break
            try:
                tally = await mover.run_once(limit=int(min(left - moved, BATCH)))
            except PassFailed as failed:
                tally = failed.tally
            moved += tally.total
        return moved

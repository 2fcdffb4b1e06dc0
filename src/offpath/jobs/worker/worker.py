"""The worker: leases jobs, runs them, settles them, and keeps what it holds alive.

Lease, run and settle overlap: while a batch of ends is being written, handlers run and the next
jobs are fetched. Each of its loops is isolated from the others' errors.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from offpath.errors import AppClosed, StoreError
from offpath.jobs.worker import settler
from offpath.jobs.worker.admission import EVERY as ADMIT_EVERY
from offpath.jobs.worker.claimer import BATCH
from offpath.jobs.worker.clock_jumps import Jumps
from offpath.jobs.worker.engine import Engine
from offpath.jobs.worker.fullness import FallingBehind
from offpath.jobs.worker.glances import FRESH, TICKS, Glances, sparing
from offpath.jobs.worker.guard import LoopGuard
from offpath.jobs.worker.inline_start import Beginning
from offpath.jobs.worker.loops import KEEPER, Loops
from offpath.jobs.worker.os_signals import StopSignals
from offpath.jobs.worker.requests import Requests
from offpath.jobs.worker.stopper import Stopper
from offpath.jobs.worker.terms import Active, AttemptCounts, Stopped, active_of
from offpath.jobs.worker.unclaimed import Unclaimed
from offpath.jobs.worker.upkeep import (
    CHECK_BATCH,
    CHECK_EVERY,
    NOTHING,
    PRUNE_BATCH,
    rescue_of,
    step_of,
    turn_of,
)
from offpath.jobs.worker.waiting_work import WaitingCounts
from offpath.model import checks
from offpath.model.glance import Concern
from offpath.model.health import WorkerReport
from offpath.runtime.recent_ends import RecentEnds
from offpath.runtime.tasks import Tasks
from offpath.store.capabilities import Profile
from offpath.store.hints import Hint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from offpath.jobs.values.offers import OnBacklog
    from offpath.jobs.values.runnable import Runnable
    from offpath.jobs.worker.terms import Parts, WorkerSettings
    from offpath.model.health import LoopReport
    from offpath.model.job import NewJob
    from offpath.model.tally import Turn
    from offpath.runtime.loop_status import LoopStatus

GROUP_CHECK = "group_check"
"""The loop that ends what must end."""
LOOK_EVERY = 1.0
"""Seconds between two looks for cancellations, while jobs are held."""
KEEP_EVERY = 1.0
"""Seconds between two looks at the loops, and their metrics."""
IDLE_LOOK = 5.0
"""Seconds between two tries of what is done while there is room and nothing else is due."""
COUNT_EVERY = 15.0
"""Seconds between two counts of what is due, for the metrics."""
BACKLOG_EVERY = 1.0
"""Seconds between two looks whether the worker is full, where somebody wants to know."""
RESCUE_EVERY = 0.5
"""Seconds between two looks for workers that are gone: with the second look, all that one held is
in another's hands within a second."""


class State(Enum):
    """The life of a worker."""

    NEW = auto()
    RUNNING = auto()
    STOPPING = auto()
    STOPPED = auto()


class Worker:
    """Runs the jobs of ``tasks`` from one store, in this process and event loop.

    ``start`` and ``stop`` it, or ``run`` it until it is stopped. A stopped worker stays stopped:
    make another.
    """

    def __init__(
        self, parts: Parts, tasks: Mapping[str, Runnable], settings: WorkerSettings
    ) -> None:
        self._parts = parts
        self._settings = settings
        self._engine = Engine(parts, tasks, settings)
        self._stopper = Stopper(self._engine)
        self._state = State.NEW
        self._loops = Loops(self._engine, parts, died=self._loop_died)
        ends = RecentEnds(parts.metrics, parts.clock)
        self._jumps = Jumps(parts.clock, grace=settings.lease_seconds)
        tasks, queues = self._engine.hand.tasks, settings.queues
        unclaimed = Unclaimed(parts.store, parts.clock, tasks=tasks, queues=queues)
        self._waiting = WaitingCounts(parts.store, parts.measure, ends, parts.found, unclaimed)
        heartbeat = self._engine.heartbeat
        heartbeat.tell = self.report
        self._guard = LoopGuard(
            parts.clock.monotonic,
            self._engine.hand.runs,
            renewed_at=lambda: heartbeat.renewed_at,
            renew=heartbeat.renew,
            cut_off=parts.store.cut_off,
            lease_seconds=settings.lease_seconds,
        )
        heartbeat.frozen = lambda: self._guard.frozen
        self._stop_listening: Callable[[], None] = lambda: None
        self._closing: asyncio.Task[Stopped] | None = None
        self._begun = False
        self._closed = asyncio.Event()
        self._result = Stopped()
        self._dead_loops: tuple[str, ...] = ()
        self._tasks = Tasks(parts.report)
        self._requests = Requests(self._engine, self._tasks, active=self.active, stop=self.stop)
        heartbeat.asked = self._requests.heard

    def __repr__(self) -> str:
        """Show id and state."""
        return f"<Worker {self.id} {self._state.name.lower()}>"

    @property
    def id(self) -> str:
        """Its id: new for each worker."""
        return self._engine.info.id

    @property
    def counts(self) -> AttemptCounts:
        """The number of attempts so far, by how they ended."""
        return self._engine.counts.copy()

    @property
    def alive(self) -> bool:
        """True if its lease is known to hold."""
        return self._engine.heartbeat.alive

    @property
    def stopping(self) -> bool:
        """True if it was asked to stop; true as well when it has."""
        return self._state in {State.STOPPING, State.STOPPED}

    def active(self) -> list[Active]:
        """Return the jobs it holds, longest held first."""
        runs = sorted(self._engine.hand.runs(), key=lambda run: run.leased_at)
        return [active_of(run) for run in runs]

    def loops(self) -> list[LoopStatus]:
        """The facts of each of its loops. May be called from any thread."""
        return self._loops.statuses()

    def health(self) -> list[LoopReport]:
        """The state of each of its loops, judged now. May be called from any thread."""
        return [status.judged() for status in self.loops()]

    def report(self) -> WorkerReport:
        """All that tells whether its work moves, judged now. May be called from any thread."""
        return WorkerReport(
            loops=tuple(self.health()),
            gauges=self._waiting.gauges,
            problems=self._problems(),
            running=self._engine.hand.by_task(),
            settlements=self._parts.settled(),
            ends=self._waiting.ends.ends,
            findings=self._waiting.findings,
            crowded=self._parts.metrics.crowded,
            quiet=self._engine.heartbeat.quiet,
            load=self._guard.load(),
        )

    def _problems(self) -> tuple[str, ...]:
        if self._state is not State.RUNNING:
            return (_NOT_RUNNING[self._state],)
        lost = () if self.alive else ("its lease is not held: no jobs are taken until it is",)
        blocked = self._guard.blocked
        held_up = () if blocked is None else (blocked.text,)
        exhausted = self._guard.descriptors.exhausted
        full = () if exhausted is None else (exhausted,)
        return (*lost, *held_up, *full, *self._unrecorded())

    def _unrecorded(self) -> tuple[str, ...]:
        oldest = self._engine.settler.oldest()
        if oldest is None or oldest[1] <= settler.TOLD:
            return ()
        return (f"the end of job {oldest[0].job.id} has not been recorded for {oldest[1]:.0f} s",)

    # -- life ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Register and begin to take jobs. Idempotent.

        An unreachable store is waited for in the background; another error (a missing schema)
        is raised. Raises AppClosed when the worker was stopped.
        """
        if await self._begin():
            self._engine.claimer.announce()
            self._run_loops(working=True)

    async def attend(self) -> None:
        """Register and keep the lease, but take no jobs: for those that begin here. Idempotent."""
        if await self._begin():
            self._run_loops(working=False)

    @property
    def may_begin(self) -> bool:
        """True if a job can begin here now: the worker runs, and in the caller's event loop."""
        running = self._state is State.RUNNING and self._engine.loop.is_running()
        return running and self._engine.loop is asyncio.get_running_loop()

    async def begin(self, job: NewJob) -> bool:
        """Store a job and begin it here, beside what runs already; False: it was not created.

        Raises as ``Store.start`` does. When it is unknown whether it was stored, and it was, it
        begins as soon as the store says so.
        """
        return await Beginning(self._engine, self._tasks).begin(job)

    async def run(self, *, signals: bool = False) -> Stopped:
        """Start, and return when it was stopped.

        With ``signals``, SIGTERM and SIGINT drain it, and a second one aborts it. Only in the main
        thread. When this call is cancelled, the worker aborts what it runs.
        """
        told = StopSignals(self)
        with told.caught() if signals else nullcontext():
            try:
                if not self._begun:  # else it may even have been stopped since
                    await told.start()
                await self._closed.wait()
            except asyncio.CancelledError:
                await self.stop(drain=False)
                raise
        return self._result

    async def stop(self, *, drain: bool = True, timeout: float | None = None) -> Stopped:  # noqa: ASYNC109 - the drain's limit, not this call's
        """Take no more jobs, let those that run end, and leave; within ``timeout`` + 2 seconds.

        ``timeout`` is ``drain_timeout`` by default. What still runs then (or at once, without
        ``drain``) is aborted: async handlers are cancelled, sync ones told through their context,
        and their jobs are given back without losing an attempt (or fail, as the settings say).
        May be called any number of times, also at once: the shortest limit counts. A handler that
        calls it does not wait for the end.
        """
        if self._state is State.NEW:
            self._state = State.STOPPED
            self._closed.set()
        if self._state is State.STOPPED:
            return self._result
        self._state = State.STOPPING
        self._engine.close_door()
        limit = self._settings.drain_timeout if timeout is None else timeout
        self._stopper.within(limit if drain else 0.0)
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="offpath worker stop")
        if self.called_by_handler():
            return self._result
        return await asyncio.shield(self._closing)

    async def run_until_idle(self, *, limit: int | None = None) -> AttemptCounts:
        """Run everything that is due now and what it leads to; returns what ended, and how.

        At most ``limit`` attempts. For tests and one-off runs. A worker that was not started is
        stopped afterwards. Raises ``InvalidArgument`` for a limit that is not a number.
        """
        if limit is not None:
            checks.integer(limit, "limit", least=1, most=10**9)
        before = self.counts
        own = await self._begin()
        if own:
            self._run_loops(working=False)
        try:
            await self._run_all(float("inf") if limit is None else limit)
        finally:
            if own:
                await self.stop()
        return self.counts - before

    # -- beginning -------------------------------------------------------------------------------

    async def _begin(self) -> bool:
        """Register; returns False when it had begun before."""
        self._refuse_stopped()
        if self._state is State.RUNNING:
            return False
        self._state = State.RUNNING
        self._begun = True
        self._engine.loop = asyncio.get_running_loop()
        self._stop_listening = self._engine.store.listen(self._hinted)
        try:
            await self._register()
        except BaseException:
            self._stop_listening()
            if self._state is State.RUNNING:
                self._state = State.NEW
            raise
        if self._state is not State.RUNNING:
            # Stopped while the store was asked: the stop found no loop to end, and came before us.
            await self._stopper.leave(())
            self._refuse_stopped()
        self._engine.resources.hold(self.id)
        if self._parts.real_time:
            self._guard.watch()
        return True

    def _refuse_stopped(self) -> None:
        if self._state in {State.STOPPING, State.STOPPED}:
            msg = "this worker was stopped: make another one"
            raise AppClosed(msg)

    async def _register(self) -> None:
        try:
            await self._engine.heartbeat.register()
        except StoreError as error:
            if not error.retryable:
                raise
            self._engine.report(error, "heartbeat")

    def _run_loops(self, working: bool) -> None:
        engine, loops = self._engine, self._loops
        engine.watch.wake = loops.own("limits", engine.watch.step).wake
        engine.settler.wake = loops.own("settle", engine.settler.flush).wake
        engine.progress.wake = loops.own("progress", engine.progress.step).wake
        # A third of the lease: two beats may fail before it is over.
        loops.own("heartbeat", self._beat, self._settings.lease_seconds / 3)
        loops.own("signals", self._look, LOOK_EVERY)
        loops.own(KEEPER, self._keep, KEEP_EVERY)
        if working:
            self._have_working_loops()
        if self._settings.takes:
            engine.telemetry.tasks(engine.info.tasks, engine.info.queues)
            engine.telemetry.up(self._settings.concurrency)
        loops.start()

    def _have_working_loops(self) -> None:
        """The loops of a worker that stays; the others are what running jobs need."""
        settings, engine, loops = self._settings, self._engine, self._loops
        upkeep = self._parts.upkeep
        glances = Glances(engine.store, engine.clock, lambda: engine.claimer.rests)
        check = glances.spared(Concern.WAITS, step_of(upkeep.group_check, CHECK_BATCH))
        heartbeat, jumps = engine.heartbeat, self._jumps
        # The living could not renew their leases either, or not yet: nobody may be rescued.
        rescue = rescue_of(
            upkeep.rescue, lambda: heartbeat.unsure or jumps.recent(), freed=loops.freed
        )
        claim = loops.own("claim", engine.claimer.step, settings.poll_interval)
        engine.claimer.wake = glances.waking(Concern.WORK, claim.wake)
        if settings.poll_interval >= FRESH:  # else who polls more often would find work later
            engine.claimer.spared = partial(glances.spares, Concern.WORK)
        offers = engine.store.capabilities.offers
        if offers(Profile.LIMITS):
            admit = glances.spared(Concern.LIMITS, engine.admission.step)
            admission = loops.own("admission", admit, ADMIT_EVERY)
            engine.admission.wake = glances.waking(Concern.LIMITS, admission.wake)
        group_check = loops.own(GROUP_CHECK, check, CHECK_EVERY)
        engine.failed = glances.waking(Concern.WAITS, group_check.wake)
        # Jobs of a dead worker wait little longer than its lease, even where that is short.
        rescue_every = min(RESCUE_EVERY, settings.lease_seconds / 10)
        loops.own("rescue", glances.before(rescue), rescue_every)
        loops.own("prune", step_of(upkeep.prune, PRUNE_BATCH), settings.prune_every)
        loops.own("count", partial(self._waiting.count, engine.telemetry), COUNT_EVERY)
        if settings.on_backlog is not None:
            behind = self._falling_behind(settings.on_backlog)
            loops.own("backlog", behind.step, min(BACKLOG_EVERY, settings.backlog_after / 4))
        if upkeep.redrive is not None:
            loops.own("idle", self._when_idle, IDLE_LOOK)
        ticks = offers(Profile.SCHEDULES)
        added = (spec for spec in self._parts.loops if ticks or spec.name != TICKS)
        loops.add(sparing(glances, spec) for spec in added)
        if TICKS in loops:
            glances.waking(Concern.SCHEDULES, partial(loops.wake, TICKS))

    def _falling_behind(self, hook: OnBacklog) -> FallingBehind:
        settings, engine = self._settings, self._engine
        return FallingBehind(
            hook,
            engine.store,
            engine.clock,
            after=settings.backlog_after,
            every=settings.backlog_every,
            tasks=engine.hand.tasks,
            queues=settings.queues,
            full=engine.full,
            active=lambda: engine.hand.busy,
            report=engine.report,
        )

    async def _keep(self) -> float | None:
        heartbeat = self._engine.heartbeat
        heartbeat.doubt()
        self._engine.telemetry.loops(self.loops())
        waits = [wait for wait in (self._loops.keep(), heartbeat.left) if wait is not None]
        return min((wait for wait in waits if wait > 0), default=None)

    async def _look(self) -> None:
        self._loops.keep(only=(KEEPER,))
        await self._engine.heartbeat.look()

    async def _beat(self) -> None:
        self._loops.keep(only=(KEEPER,))
        await self._engine.heartbeat.beat()

    def _loop_died(self, name: str) -> None:
        if self._settings.on_dead_loop == "exit" and self._state is State.RUNNING:
            self._dead_loops = (*self._dead_loops, name)
            _ = self._tasks.spawn(self.stop(), "stop")

    async def _when_idle(self) -> Turn:
        redrive, room = self._parts.upkeep.redrive, self._engine.hand.free
        if redrive is None or room <= 0 or self._engine.claimer.more:
            return NOTHING
        # No more than have a slot: what is put back is to show that it succeeds before others are.
        tally = await redrive.move(room)
        # More may be due as soon as something was: the policy's batch is the bound of a step.
        return turn_of(replace(tally, more=tally.total > 0))

    async def _run_all(self, left: float) -> None:
        """Take what is due, or wait for what may bring more, until there is nothing left."""
        engine = self._engine
        while True:
            engine.hand.changed.clear()
            taken = 0
            if left > 0:
                await engine.admission.all()
                _, taken = await engine.claimer.claim(int(min(left, BATCH)))
                left -= taken
            if taken == 0:
                engine.batches.flush()
                # What ended while the store was being asked may have left work that it did not see.
                if not engine.hand and (left <= 0 or not engine.hand.changed.is_set()):
                    if left > 0 and (await self._parts.upkeep.group_check.move(BATCH)).moved:
                        continue
                    return
                await engine.hand.changed.wait()

    # -- hints and signals -----------------------------------------------------------------------

    def _hinted(self, hint: Hint) -> None:
        match hint:
            case Hint.WORK:
                self._engine.claimer.announce()
                self._engine.admission.announce()
                self._engine.hand.changed.set()
            case Hint.CANCEL:
                self._engine.heartbeat.hinted = True
                self._loops.wake("signals")
                self._engine.failed()
            case _:
                pass
        self._loops.hinted(hint)

    # -- ending ----------------------------------------------------------------------------------

    async def _close(self) -> Stopped:
        stopper, loops = self._stopper, self._loops
        added = self._tasks.spawn(loops.end_added(stopper.left), "stop")
        added.add_done_callback(lambda _: self._engine.hand.changed.set())
        drained = await stopper.drain(added.done)
        given_up = 0
        if not (drained and added.done()):
            loops.abort_added()
            given_up = await stopper.abort(added.done)
            added.cancel()
        unrecorded = await stopper.record()
        await stopper.close_shared(self._engine.resources)
        await stopper.leave(loops.values())
        self._guard.end()
        self._stop_listening()
        self._engine.telemetry.gone()
        self._result = Stopped(
            drained=drained,
            given_up=given_up,
            unrecorded=unrecorded,
            dead_loops=self._dead_loops,
        )
        self._state = State.STOPPED
        self._closed.set()
        return self._result

    def called_by_handler(self) -> bool:
        """True if the caller is a handler that runs here: it must not wait for its own end."""
        task = asyncio.current_task()
        return any(run.runner is task for run in self._engine.hand.runs())


_NOT_RUNNING = {
    State.NEW: "the worker has not started",
    State.STOPPING: "the worker is stopping",
    State.STOPPED: "the worker has stopped",
}

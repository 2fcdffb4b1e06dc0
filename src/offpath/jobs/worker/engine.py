"""The way of one job through a worker: leased, run, settled. Joins the parts that do each."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING

from offpath.errors import LeaseLost, OffpathError
from offpath.jobs.values.offers import WorkerLoad
from offpath.jobs.values.run import silent
from offpath.jobs.worker.acceptance import JobSelection, declined
from offpath.jobs.worker.admission import Admission
from offpath.jobs.worker.backpressure import Brake
from offpath.jobs.worker.batches import Batches
from offpath.jobs.worker.claimer import Claimer
from offpath.jobs.worker.contexts import Contexts
from offpath.jobs.worker.executor import Executor
from offpath.jobs.worker.fan_out import ours, with_fan_out
from offpath.jobs.worker.hand import Hand
from offpath.jobs.worker.heartbeat import Heartbeat
from offpath.jobs.worker.judge import Judge
from offpath.jobs.worker.lines import OrderLines
from offpath.jobs.worker.lookahead import Lookahead
from offpath.jobs.worker.progress import ProgressWriter
from offpath.jobs.worker.quarantine import Quarantine
from offpath.jobs.worker.settler import Settler
from offpath.jobs.worker.standby import HandlerStandby
from offpath.jobs.worker.starter import Starter
from offpath.jobs.worker.telemetry import WorkerTelemetry
from offpath.jobs.worker.terms import AttemptCounts
from offpath.jobs.worker.watch import Watch
from offpath.model.job import JobState
from offpath.model.redact import SECRET_NAMES
from offpath.model.settlement import (
    Cancelled,
    Dead,
    Released,
    Retry,
    SettleStatus,
    Snoozed,
    Succeeded,
    Waiting,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from offpath.jobs.values.run import Run
    from offpath.jobs.values.runnable import Runnable
    from offpath.jobs.worker.terms import Parts, WorkerSettings
    from offpath.model.settlement import Outcome, Settled, Settlement
    from offpath.runtime.extensions import Extensions

_COUNT_OF: dict[type, str] = {
    Succeeded: "succeeded",
    Retry: "retried",
    Snoozed: "snoozed",
    Waiting: "waiting",
    Dead: "dead",
    Cancelled: "cancelled",
    Released: "released",
}


_FAILED = frozenset({JobState.DEAD, JobState.CANCELLED})


class Ignoring(OffpathError):
    """A handler goes on although it was cancelled several times; its slot stays taken."""

    code = "ignoring"


class Engine:
    """The parts of one worker, and what happens between them. Belongs to one event loop."""

    loop: asyncio.AbstractEventLoop
    """The loop it was started in; not set before."""

    def __init__(
        self, parts: Parts, tasks: Mapping[str, Runnable], settings: WorkerSettings
    ) -> None:
        self.store, self.clock = parts.store, parts.clock
        if not parts.store.capabilities.whole:
            from offpath.store.partial import refuse_orders

            refuse_orders(parts.store.capabilities, (settings.order, *settings.orders.values()))
        self.report = parts.report
        self.secrets = SECRET_NAMES.union(settings.redact)
        self.writer = parts.writer
        self.codec, self.threads = parts.codec, parts.threads
        self.max_result_bytes = settings.max_result_bytes
        self.max_children = settings.max_children
        self.resources, self.extensions = parts.resources, parts.extensions
        self.info = settings.info(parts.worker_id or parts.new_id(), tasks)
        self._templates = [task.template for task in tasks.values()]
        self.counts = AttemptCounts()
        self.failed: Callable[[], None] = silent
        """Told that a job ended without success; set by whoever sees to what follows from that."""
        self._starter = Starter()
        self._beginning = False
        """True while those that wait for a slot are begun."""
        self.stopping = False
        """True if jobs that still come in are given back."""
        self.telemetry = WorkerTelemetry(parts.metrics)
        self.hand = Hand(settings.concurrency, with_fan_out(tasks), settings.queue_limits)
        self.selection = JobSelection(settings.accept, parts.clock, parts.report)
        self.succeeded: Counter[str] = Counter()
        """Task → how many attempts succeeded."""
        self.failures: Counter[str] = Counter()
        """Task → how many attempts failed, whatever came of it."""
        self.admission = Admission(parts.store, parts.clock)
        self.lookahead = Lookahead(self.hand)
        self.quarantine = Quarantine(parts.store, parts.clock, self.hand, settings.max_deliveries)
        self.judge = Judge(
            parts.clock,
            settings.rules,
            report=parts.report,
            random=parts.random,
            extensions=parts.extensions,
        )
        self.watch = Watch(parts.clock, self._ignoring)
        self.settler = Settler(
            parts.store, self.judge, parts.clock, done=self._settled, report=parts.report
        )
        self.hand.unrecorded_for = self.settler.unrecorded_for
        self.progress = ProgressWriter(
            parts.store, parts.clock, lost=self._lost, report=parts.report
        )
        contexts = Contexts(self, report=parts.report, log_context=parts.log_context)
        self.executor = self._executor(contexts, settings)
        self.batches = self._batches(contexts, settings)
        self.claimer = self._claimer(parts, settings)
        self.heartbeat = self._heartbeat(settings)

    @property
    def tasks(self) -> Mapping[str, Runnable]:
        """The tasks of this worker, by name."""
        return self.hand.tasks

    def progressed(self, run: Run) -> None:
        """A context has progress to write."""
        self.progress.note(run)

    def close_door(self) -> None:
        """Take no more jobs; those that an answer on its way still brings are given back."""
        # The heartbeat as well: its next renewal would open the claimer again.
        self.stopping = self.heartbeat.stopping = True
        self.claimer.open, self.claimer.told = False, True
        self._put_back()
        # They wait in tasks of their own, which by the mark do not settle them a second time.
        for run in self.quarantine.waiting():
            run.given_up = True
            self._put_off(run, Released())
        self.batches.flush()

    def give_up(self, run: Run) -> None:
        """Settle a run without waiting for its handler any longer: a stopping worker's last means.

        Whatever the handler still does is without effect.
        """
        # The handler may still return. By this mark its attempt then writes no second end.
        run.given_up = run.over = True
        self._ended(run, self.judge.settlement(run, self.judge.stopped(run)))

    # -- the way of a job ------------------------------------------------------------------------

    def start(self, run: Run, *, inline: bool = False, alone: bool = False) -> None:
        """Begin a leased job. ``inline``: it was enqueued to begin here, whatever runs already;
        ``alone``: it begins when nothing else runs.
        """
        # The store hands out a job again only when the lease was lost: an older run of it here is
        # interrupted below.
        older = self.hand.take(run)
        if run.job.limit_key is not None:
            self.admission.saw()
        run.lane = self.telemetry.lane(run.job.task, run.job.queue)
        run.lane.took()
        if older is not None:
            self._lost(older)
        if self.stopping:
            run.over = True
            self._ended(run, self.judge.settlement(run, Released()))
        elif inline:
            run.single = True
            # not at once: jobs that each begin the next one would be calls within calls
            run.runner = self._starter.schedule(self.loop, self._attempt(run))
        elif not ours(run) and (delay := self.selection.put_off(run)) is not None:
            self._put_off(run, declined(delay))
        elif alone:
            run.single = True
            self.quarantine.enter(run)
            self._begin(run)
        else:
            run.single = run.task.batch is None
            self._admit(run)

    def _put_off(self, run: Run, outcome: Snoozed | Released) -> None:
        run.over = True
        self._ended(run, self.judge.settlement(run, outcome))

    def _admit(self, run: Run) -> None:
        """Begin a job, or have it wait for a slot."""
        if not run.single and self.batches.join(run):
            return
        if not run.single and self.hand.overdrawn(run):
            # The call that it was fetched for has begun without it.
            run.over = True
            self._ended(run, self.judge.settlement(run, Released()))
        elif self.hand.wait(run):
            self.lookahead.waits(self.loop, self._put_back)
        else:
            self._begin(run)

    def _begin(self, run: Run) -> None:
        if run.task.batch is not None and not run.single:
            self.batches.begin(run, run.task.batch)
        else:
            run.runner = self._starter.begin(self.loop, self._attempt(run))

    def _put_back(self) -> None:
        """Give back what was taken ahead of the slots."""
        for run in self.hand.give_back():
            run.over = True
            self._ended(run, self.judge.settlement(run, Released()))

    async def _attempt(self, run: Run) -> None:
        run.runner = asyncio.current_task()  # it may have begun before whoever began it knows it
        cleared = await self.quarantine.cleared(run)
        # Whoever gave it up has settled it.
        if run.given_up:
            return
        if not cleared:
            run.over = True
            self._ended(run, None)
            return
        try:
            settlement = await self.executor.attempt(run)
        except BaseException as error:  # noqa: BLE001 - our own fault: the job must still end
            self.report(error, "execute")
            settlement = self.executor.broken(run, error)
        # Before the end: once the end is written, the fence refuses the last progress.
        if run.context is not None and run.context.unwritten and settlement is not None:
            await self.progress.write(run)
        if not run.given_up:
            self._ended(run, settlement)

    def _ended(self, run: Run, settlement: Settlement | None) -> None:
        if run.running is not None:
            self._tell_end(run, None if settlement is None else settlement.outcome)
        # The slot is free before the end is recorded: the next job runs while the commit is on its
        # way.
        self.hand.free_slot(run)
        if run.batch is None:  # of a batch, the time of one job is not known
            self.lookahead.ended(run)
        if run.lane is not None:
            run.lane.ran(run, None if settlement is None else settlement.outcome)
        if settlement is None:
            self._let_go_lost(run)
        else:
            self.settler.put(run, settlement)
        self.claimer.slot_freed()
        self._begin_waiting()

    def _tell_end(self, run: Run, outcome: Outcome | None) -> None:
        from offpath.jobs.worker.surround import tell_end  # most workers have no extension

        if self.extensions is not None:
            tell_end(self.extensions, run, outcome, self.clock.monotonic())

    def _begin_waiting(self) -> None:
        if self._beginning:
            return  # one that ended at once: whoever began it goes on, in place of calls in calls
        self._beginning = True
        try:
            while (waiting := self.hand.next_waiting()) is not None:
                self._begin(waiting)
        finally:
            self._beginning = False

    def standby(self, run: Run) -> HandlerStandby:
        """Let the waits of a handler give back its slot."""
        return HandlerStandby(run, self.hand, self.threads, self.loop, changed=self._slot_lent)

    def _slot_lent(self) -> None:
        """A handler waits for a job that this worker may have to take."""
        self._begin_waiting()
        self.claimer.announce()

    def _settled(self, run: Run, settlement: Settlement, answer: Settled) -> None:
        if answer.status is SettleStatus.LEASE_LOST:
            self._let_go_lost(run)
            return
        self._let_go(run)
        if answer.status is SettleStatus.APPLIED:
            # A cancel may have reached the store first; then that is how the job ended, whatever we
            # sent.
            cancelled = answer.state is JobState.CANCELLED
            name = "cancelled" if cancelled else _COUNT_OF[type(settlement.outcome)]
            setattr(self.counts, name, getattr(self.counts, name) + 1)
            if not cancelled:
                self._tally(run.job.task, settlement.outcome)
            if answer.closing or answer.state in _FAILED:
                # Members to cancel and steps to undo may follow; they need not wait for the next
                # second.
                self.failed()
            if run.lane is not None:
                run.lane.judged(settlement.outcome)

    def _tally(self, task: str, outcome: Outcome) -> None:
        """Count how an attempt ended, for whoever holds the worker back by it."""
        match outcome:
            case Succeeded():
                self.succeeded[task] += 1
            case Retry() | Dead():
                self.failures[task] += 1
            case Snoozed(cool_down=float()):
                self.failures[task] += 1
            case _:
                pass

    def load(self) -> WorkerLoad:
        """The load that a ``backpressure`` gets."""
        return WorkerLoad(
            worker=self.info.id,
            at=self.clock.monotonic(),
            active=self.hand.busy,
            slots=self.hand.capacity,
            succeeded=MappingProxyType(self.succeeded),
            failed=MappingProxyType(self.failures),
        )

    def full(self) -> bool:
        """True if every slot is in use, or there is more work than there was room for."""
        return self.hand.busy >= self.hand.capacity or self.claimer.more

    def _let_go(self, run: Run) -> None:
        self.hand.let_go(run)
        self.quarantine.let_go(run)
        if run.lane is not None:
            run.lane.let_go()
        self.claimer.slot_freed()

    def _let_go_lost(self, run: Run) -> None:
        """Nothing was written: the job is somebody else's, or an answer we missed settled it."""
        self._let_go(run)
        self.counts.lease_lost += 1
        if run.lane is not None:
            run.lane.lease_lost.add()
        msg = f"job {run.job.id} was no longer this worker's when its attempt ended"
        self.report(LeaseLost(msg), "settle")

    def _lost(self, run: Run) -> None:
        self.heartbeat.lose((run,))

    def _ignoring(self, run: Run) -> None:
        msg = f"job {run.job.id} of task {run.job.task} ignores that it was cancelled"
        self.report(Ignoring(msg), "cancel")

    @property
    def _surrounding(self) -> Extensions | None:
        """The extensions, if one of them is there for handlers."""
        return self.extensions if self.extensions is not None and self.extensions.runs else None

    # -- assembly --------------------------------------------------------------------------------

    def _executor(self, contexts: Contexts, settings: WorkerSettings) -> Executor:
        return Executor(
            contexts,
            self.judge,
            self.clock,
            threads=self.threads,
            watch=self.watch,
            standby=self.standby,
            max_result_bytes=settings.max_result_bytes,
            extensions=self._surrounding,
        )

    def _batches(self, contexts: Contexts, settings: WorkerSettings) -> Batches:
        return Batches(
            self.hand,
            contexts,
            self.judge,
            self.clock,
            threads=self.threads,
            watch=self.watch,
            standby=self.standby,
            ended=self._ended,
            progressed=self.progress.write,
            report=self.report,
            max_result_bytes=settings.max_result_bytes,
            extensions=self._surrounding,
        )

    def _claimer(self, parts: Parts, settings: WorkerSettings) -> Claimer:
        return Claimer(
            parts.store,
            parts.clock,
            self.hand,
            worker=self.info.id,
            lines=OrderLines(settings.queues, settings.order, settings.orders),
            start=self.start,
            resting=self.selection.resting,
            declined=self.selection.passed_over,
            quarantine=self.quarantine,
            brake=Brake(settings.backpressure, self.load, parts.clock, parts.report),
        )

    def _heartbeat(self, settings: WorkerSettings) -> Heartbeat:
        return Heartbeat(
            self.store,
            self.clock,
            self.hand,
            info=self.info,
            templates=self._templates,
            lease_seconds=settings.lease_seconds,
            watch=self.watch,
            claimer=self.claimer,
            report=self.report,
        )

"""The metrics of the store seam, and its observers: what moved, how long it had waited, how the
store answers.

For each state, what entered it less what left it (``offpath_job_moves_total``) is the number of
jobs in it, as far as this process moved them. Pruning only tells how many it removed, so those are
counted as leaving ``ended``. A blocked job counts as queued: a gate or a signal lets it go in a
call about other jobs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from offpath.model.event import EventKind
from offpath.model.job import JobState, LeasedJob
from offpath.model.settlement import Snoozed, Waiting
from offpath.runtime.clock import Clock
from offpath.runtime.log import logger
from offpath.store.telemetry import message_moves, moves
from offpath.store.telemetry.message_moves import MessageMeter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offpath.model.effects import Effects
    from offpath.model.job import Enqueued
    from offpath.model.ledger.decision import Decided
    from offpath.runtime import metrics
    from offpath.runtime.metrics import Metrics
    from offpath.store.telemetry.moves import Move, MoveStep

NOWHERE = "none"
"""The state of a job before it is enqueued and after it is deleted, as a label."""
PRUNED = "ended"
# A queue for each customer makes ever new kinds, which must not fill the memory.
MOST_KEPT = 10_000
"""Kinds of moves whose series are kept at hand."""
COMMITTED = "committed"
"""An operation of the ledger that did something; as an effect, also one that was done before."""

_K = EventKind
_COUNTED = {
    _K.QUEUED: "queued",
    _K.STARTED: "started",
    _K.SUCCEEDED: "succeeded",
    _K.FAILED: "failed",
    _K.SNOOZED: "snoozed",
    _K.RELEASED: "released",
    _K.RESCUED: "rescued",
    _K.EXPIRED: "expired",
    _K.CANCELLED: "cancelled",
    _K.DEAD: "dead",
}
_LAST = {
    _K.QUEUED: "queued",
    _K.STARTED: "started",
    _K.SUCCEEDED: "succeeded",
    _K.FAILED: "failed",
}


class _Way:
    """The series of one kind of move of one task and queue, looked up once."""

    __slots__ = ("counters", "last", "wait")

    def __init__(self, registry: Metrics, move: Move) -> None:
        self.counters = [
            registry.counter(name, task=move.task, queue=move.queue) for name in _names(move)
        ]
        if move.left is not move.entered:
            self.counters.append(
                registry.counter(
                    "offpath_job_moves_total",
                    task=move.task,
                    queue=move.queue,
                    left=move.left or NOWHERE,
                    entered=move.entered or NOWHERE,
                )
            )
        self.last = [
            registry.gauge(
                f"offpath_jobs_last_{_LAST[kind]}_timestamp_seconds",
                task=move.task,
                queue=move.queue,
            )
            for kind in move.kinds
            if kind in _LAST
        ]
        self.wait = (
            registry.summary("offpath_queue_wait_seconds", queue=move.queue)
            if move.entered is JobState.RUNNING
            else None
        )


class _Times:
    """The summaries of one task, looked up once."""

    __slots__ = ("attempts", "snooze", "total", "wait")

    def __init__(self, registry: Metrics, task: str) -> None:
        def summary(name: str) -> metrics.Summary:
            return registry.summary(name, task=task)

        self.wait = summary("offpath_job_wait_seconds")
        self.total = summary("offpath_job_total_seconds")
        self.attempts = summary("offpath_job_attempts")
        self.snooze = summary("offpath_job_snooze_seconds")


class _OperationTimes(dict[str, "metrics.Summary"]):
    """The summary of each operation, made when it is first looked up."""

    def __init__(self, registry: Metrics, backend: str) -> None:
        super().__init__()
        self._registry = registry
        self._backend = backend

    def __missing__(self, operation: str) -> metrics.Summary:
        made = self[operation] = self._registry.summary(
            "offpath_store_operation_seconds", backend=self._backend, operation=operation
        )
        return made


class StoreMeter:
    """An observer of the instrumented store that keeps the engine's metrics."""

    ends_only = False
    tasks = None

    def __init__(self, registry: Metrics, backend: str) -> None:
        self._registry = registry
        self._backend = backend
        self._ways: dict[Move, _Way] = {}
        self._times: dict[str, _Times] = {}
        self._generation = registry.generation
        self.times: Mapping[str, metrics.Summary] = _OperationTimes(registry, backend)
        """The durations of each operation of the store, by its name."""
        self.messages = MessageMeter(registry)
        """The metrics of messages, the log and its routers."""
        self._groups = registry.counter("offpath_groups_done_total")
        self._admitted = registry.counter("offpath_jobs_admitted_total")

    def moved(self, steps: Sequence[MoveStep], at: datetime) -> None:
        """Count these transitions."""
        now = at.timestamp()
        self._forget()
        for move, same in _by_move(steps):
            way = self._way(move)
            for counter in way.counters:
                counter.add(len(same))
            for gauge in way.last:
                gauge.set(now)
            self._timed(move, same, at, way.wait)
        if done := sum([step.group_done for step in steps]):
            self._groups.add(done)

    def unreadable(self, table: str, count: int) -> None:
        """So many rows of a table could not be read."""
        self._registry.counter("offpath_unreadable_rows_total", table=table).add(count)

    def failed(self, operation: str, error: BaseException) -> None:
        """Count the error of one call; a call that was cancelled has none."""
        if isinstance(error, Exception):
            self._registry.counter(
                "offpath_store_errors_total",
                backend=self._backend,
                operation=operation,
                error=type(error).__name__,
            ).add()

    def pruned(self, count: int) -> None:
        """Count jobs whose retention has passed; which ones is not known."""
        labels = {"task": "", "queue": ""}
        self._registry.counter("offpath_jobs_deleted_total", **labels).add(count)
        self._registry.counter(
            "offpath_job_moves_total", **labels, left=PRUNED, entered=NOWHERE
        ).add(count)

    def decided(self, decided: Sequence[Decided]) -> None:
        """Count operations of the ledger by what became of them."""
        for outcome, count in Counter(map(_outcome, decided)).items():
            self.operated(outcome, count)

    def operated(self, outcome: str, count: int) -> None:
        """So many operations of the ledger had this outcome."""
        self._registry.counter("offpath_ledger_operations_total", outcome=outcome).add(count)

    def admitted(self, count: int) -> None:
        """So many jobs were let in by their limits."""
        self._admitted.add(count)

    def _forget(self) -> None:
        """Keep no series that were dropped, nor one for each name that somebody thinks of.

        Here idle names are looked for: while a step is counted, its series must stay.
        """
        self._registry.drop_idle()
        if self._generation != self._registry.generation or len(self._ways) > MOST_KEPT:
            self._generation = self._registry.generation
            self._ways.clear()
            self._times.clear()

    def _way(self, move: Move) -> _Way:
        way = self._ways.get(move)
        if way is None:
            way = self._ways[move] = _Way(self._registry, move)
        return way

    def _timed(
        self, move: Move, steps: Sequence[MoveStep], at: datetime, queue: metrics.Summary | None
    ) -> None:
        """Observe the times of steps that went the same way."""
        if move.left is None:  # a new job: none of it has taken time yet
            return
        jobs = [step.job for step in steps if isinstance(step.job, LeasedJob)]
        if not jobs:
            return
        times = self._times_of(move.task)
        if move.entered is JobState.RUNNING:
            waits = [(at - job.run_at).total_seconds() for job in jobs]
            times.wait.observe_all(waits)
            if queue is not None:
                queue.observe_all(waits)
        elif move.entered is not None and move.entered.terminal:
            times.total.observe_all([(at - job.enqueued_at).total_seconds() for job in jobs])
            times.attempts.observe_all([job.attempt for job in jobs])
        elif EventKind.SNOOZED in move.kinds:
            times.snooze.observe_all([_asked(step, at) for step in steps if not _waits(step)])

    def _times_of(self, task: str) -> _Times:
        times = self._times.get(task)
        if times is None:
            times = self._times[task] = _Times(self._registry, task)
        return times


def _by_move(steps: Sequence[MoveStep]) -> Iterable[tuple[Move, Sequence[MoveStep]]]:
    """The steps that went the same way together. Those of a lone call need no sorting."""
    if len(steps) == 1:
        return ((steps[0].move, steps),)
    ways: defaultdict[Move, list[MoveStep]] = defaultdict(list)
    for step in steps:
        ways[step.move].append(step)
    return ways.items()


def _outcome(decided: Decided) -> str:
    if decided.error is not None:
        return "failed"
    if decided.refusal is not None:
        return "declined"
    return "duplicate" if decided.duplicate else COMMITTED


def _waits(step: MoveStep) -> bool:
    """True when this attempt asked for a signal: nobody knows for how long."""
    return step.settlement is not None and isinstance(step.settlement.outcome, Waiting)


def _asked(step: MoveStep, at: datetime) -> float:
    """The seconds that a snoozed attempt asked to wait."""
    if step.run_at is not None:
        return (step.run_at - at).total_seconds()
    outcome = None if step.settlement is None else step.settlement.outcome
    return outcome.delay if isinstance(outcome, Snoozed) else 0.0


def _names(move: Move) -> list[str]:
    names = [_COUNTED[kind] for kind in move.kinds if kind in _COUNTED]
    if EventKind.FAILED in move.kinds and move.entered is JobState.QUEUED:
        names.append("retried")
    if move.left is not None and move.left.terminal:
        # Put back or removed: neither is a new job.
        names = ["redriven" if move.entered is JobState.QUEUED else "deleted"]
    return [f"offpath_jobs_{name}_total" for name in names]


_log = logger("store")

SAID_EVERY = 60.0
"""Seconds for which rows that cannot be read are counted without another line in the log."""


class Observer(Protocol):
    """Sees what moves. Called after the commit; must not raise."""

    ends_only: bool
    """True if it has nothing to say of jobs that came from nowhere, as those of an enqueue."""

    @property
    def tasks(self) -> Collection[str] | None:
        """The tasks whose jobs it wants to hear of, as of now; None: all."""
        ...

    def moved(self, steps: Sequence[MoveStep], at: datetime) -> None:
        """Report the commit of these transitions, in this order."""
        ...


class Telemetry:
    """The metrics and all observers of one store."""

    def __init__(self, clock: Clock, meter: StoreMeter, observers: Sequence[Observer] = ()) -> None:
        self.meter = meter
        self.observers: tuple[Observer, ...] = (meter, *observers)
        self._of_arrivals = tuple(one for one in self.observers if not one.ends_only)
        self._clock = clock
        self._said: dict[str, float] = {}

    def moved(self, steps: Iterable[MoveStep]) -> None:
        """Tell every observer of these transitions of jobs."""
        if several := list(steps):
            at = self._clock.now()
            arrived = all(step.move.left is None for step in several)
            # An enqueue is the most frequent call, so those that want ends alone are not asked.
            for observer in self._of_arrivals if arrived else self.observers:
                if observer.tasks is None or observer.tasks:
                    observer.moved(several, at)

    def wrote(self, answers: Sequence[Enqueued], effects: Effects) -> None:
        """Tell of the commit of these effects. ``answers`` are about their jobs, then their
        messages.
        """
        jobs = effects.jobs
        self.moved(moves.enqueued(jobs, answers[: len(jobs)]))
        if effects.messages:
            self.meter.messages.moved(message_moves.written(effects.messages, answers))
        if effects.log:
            self.meter.messages.appended(effects.log)
        if effects.operations:
            self.meter.operated(COMMITTED, len(effects.operations))

    def sighted(self, table: str, columns: Iterable[str | None]) -> None:
        """Count rows that cannot be read, and say so in the log once in a while."""
        bad = [one for one in columns if one is not None]
        if not bad:
            return
        self.meter.unreadable(table, len(bad))
        # A clock that is put back must not keep the log silent.
        now = self._clock.monotonic()
        if now - self._said.get(table, -SAID_EVERY) >= SAID_EVERY:
            self._said[table] = now
            _log.error(
                "%d rows of the table %s cannot be read and become dead letters (unreadable); "
                "`offpath doctor` tells more",
                len(bad),
                table,
            )

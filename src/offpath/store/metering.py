"""The metrics of the store seam: what moved, how long it had waited, and how the store answers.

For each state, what entered it less what left it (``offpath_job_moves_total``) is the number of
jobs in it, as far as this process moved them. Pruning only tells how many it removed, so those are
counted as leaving ``ended``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from offpath.model.event import EventKind
from offpath.model.job import JobState, LeasedJob
from offpath.model.settlement import Snoozed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from offpath.runtime import metrics
    from offpath.runtime.metrics import Metrics
    from offpath.store.observed import Move, Step

NOWHERE = "none"
"""The state of a job before it is enqueued and after it is deleted, as a label."""
PRUNED = "ended"

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

    __slots__ = ("counters", "last")

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


class _Times:
    """The summaries of one task and queue, looked up once."""

    __slots__ = ("attempts", "snooze", "total", "wait")

    def __init__(self, registry: Metrics, task: str, queue: str) -> None:
        def summary(name: str) -> metrics.Summary:
            return registry.summary(name, task=task, queue=queue)

        self.wait = summary("offpath_job_wait_seconds")
        self.total = summary("offpath_job_total_seconds")
        self.attempts = summary("offpath_job_attempts")
        self.snooze = summary("offpath_job_snooze_seconds")


class Metering:
    """An observer of the instrumented store that keeps the engine's metrics."""

    def __init__(self, registry: Metrics, backend: str) -> None:
        self._registry = registry
        self._backend = backend
        self._ways: dict[Move, _Way] = {}
        self._times: dict[tuple[str, str], _Times] = {}
        self._operations: dict[str, metrics.Summary] = {}
        self._groups = registry.counter("offpath_groups_done_total")

    def moved(self, steps: Sequence[Step], at: datetime) -> None:
        """Count these transitions."""
        now = at.timestamp()
        for move, count in Counter([step.move for step in steps]).items():
            way = self._way(move)
            for counter in way.counters:
                counter.add(count)
            for gauge in way.last:
                gauge.set(now)
        for step in steps:
            if step.group_done:
                self._groups.add()
            if isinstance(step.job, LeasedJob):
                self._timed(step, step.job, at)

    def called(self, operation: str, seconds: float, error: BaseException | None) -> None:
        """Time one call; count its error."""
        summary = self._operations.get(operation)
        if summary is None:
            summary = self._operations[operation] = self._registry.summary(
                "offpath_store_operation_seconds", backend=self._backend, operation=operation
            )
        summary.observe(seconds)
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

    def _way(self, move: Move) -> _Way:
        way = self._ways.get(move)
        if way is None:
            way = self._ways[move] = _Way(self._registry, move)
        return way

    def _timed(self, step: Step, job: LeasedJob, at: datetime) -> None:
        key = (job.task, job.queue)
        times = self._times.get(key)
        if times is None:
            times = self._times[key] = _Times(self._registry, *key)
        entered = step.move.entered
        if entered is JobState.RUNNING:
            times.wait.observe((at - job.run_at).total_seconds())
        elif entered is not None and entered.terminal:
            times.total.observe((at - job.enqueued_at).total_seconds())
            times.attempts.observe(job.attempt)
        elif step.settlement is not None and isinstance(step.settlement.outcome, Snoozed):
            due = step.run_at
            delay = step.settlement.outcome.delay if due is None else (due - at).total_seconds()
            times.snooze.observe(delay)


def _names(move: Move) -> list[str]:
    names = [_COUNTED[kind] for kind in move.kinds if kind in _COUNTED]
    if EventKind.FAILED in move.kinds and move.entered is JobState.QUEUED:
        names.append("retried")
    if move.left is not None and move.left.terminal:
        # Put back or removed: neither is a new job.
        names = ["redriven" if move.entered is JobState.QUEUED else "deleted"]
    return [f"offpath_jobs_{name}_total" for name in names]

"""A worker's own metrics: what it holds, how long handlers take, how its loops go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpath.model.job import DeadReason
from offpath.model.settlement import Dead, Retry, Succeeded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from offpath.jobs.worker.running import Run
    from offpath.model.settlement import Outcome
    from offpath.runtime.loop_status import LoopStatus
    from offpath.runtime.metrics import Metrics
    from offpath.store.protocol import Backlog


class Lane:
    """The series of one task and queue in one worker."""

    __slots__ = (
        "_active",
        "_error",
        "_peak",
        "_pending",
        "_running",
        "_success",
        "_timed_out",
        "lease_lost",
        "unsettleable",
    )

    def __init__(self, registry: Metrics, task: str, queue: str) -> None:
        labels = {"task": task, "queue": queue}
        self._active = registry.gauge("offpath_jobs_active", **labels)
        self._pending = registry.gauge("offpath_jobs_pending", **labels)
        self._running = registry.gauge("offpath_jobs_running", **labels)
        self._peak = registry.gauge("offpath_jobs_peak_active", **labels)
        self._success = registry.summary("offpath_job_success_seconds", **labels)
        self._error = registry.summary("offpath_job_error_seconds", **labels)
        self._timed_out = registry.counter("offpath_jobs_timed_out_total", **labels)
        self.lease_lost = registry.counter("offpath_jobs_lease_lost_total", **labels)
        self.unsettleable = registry.counter("offpath_jobs_unsettleable_total", **labels)

    def took(self) -> None:
        """A job was leased."""
        self._active.add(1)
        self._pending.add(1)
        self._peak.peak(self._active.value)

    def began(self) -> None:
        """Its handler runs."""
        self._pending.add(-1)
        self._running.add(1)

    def ran(self, run: Run, outcome: Outcome | None) -> None:
        """Its handler has ended, or will never begin."""
        (self._running if run.begun else self._pending).add(-1)
        if run.entered_at is None or run.ended_at is None:
            return
        seconds = run.ended_at - run.entered_at
        if isinstance(outcome, Succeeded):
            self._success.observe(seconds)
        elif isinstance(outcome, (Retry, Dead)):
            self._error.observe(seconds)
            if outcome.failure.kind == "timeout":
                self._timed_out.add()

    def let_go(self) -> None:
        """It is held no longer."""
        self._active.add(-1)

    def judged(self, outcome: Outcome) -> None:
        """An end was recorded: count what should never happen."""
        if isinstance(outcome, Dead) and outcome.reason is DeadReason.UNSETTLEABLE:
            self.unsettleable.add()


class Telemetry:
    """The lanes of one worker, and the series that are the worker's own."""

    def __init__(self, registry: Metrics) -> None:
        self._registry = registry
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._seen: dict[str, int] = {}
        self._due: set[tuple[str, str]] = set()

    def lane(self, task: str, queue: str) -> Lane:
        """Return the series of a task and queue."""
        key = (task, queue)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(self._registry, task, queue)
        return lane

    def up(self, slots: int) -> None:
        """Say that this process runs a worker with so many slots; 0 when it has stopped."""
        self._registry.gauge("offpath_worker_slots").set(slots)
        self._registry.gauge("offpath_worker_up").set(1 if slots else 0)

    def loop_failed(self, loop: str) -> None:
        """Count a turn of a loop that failed."""
        self._registry.counter("offpath_loop_errors_total", loop=loop).add()

    def due(self, backlog: Sequence[Backlog], now: datetime) -> None:
        """Tell how much is due; a lane that is no longer in the backlog has nothing due."""
        for task, queue in self._due.difference((one.task, one.queue) for one in backlog):
            self._set_due(task, queue, 0, 0.0)
        self._due = {(one.task, one.queue) for one in backlog}
        for one in backlog:
            waited = max((now - one.oldest_run_at).total_seconds(), 0.0)
            self._set_due(one.task, one.queue, one.ready, waited)

    def _set_due(self, task: str, queue: str, ready: int, oldest: float) -> None:
        gauge, labels = self._registry.gauge, {"task": task, "queue": queue}
        gauge("offpath_jobs_ready", **labels).set(ready)
        gauge("offpath_jobs_ready_oldest_seconds", **labels).set(oldest)

    def loops(self, statuses: Iterable[LoopStatus]) -> None:
        """Bring the loops' series up to date."""
        for status in statuses:
            registry, loop = self._registry, status.name
            turns = status.iterations - self._seen.get(loop, 0)
            self._seen[loop] = status.iterations
            registry.counter("offpath_loop_iterations_total", loop=loop).add(turns)
            if status.last_success is not None:
                registry.gauge("offpath_loop_last_success_timestamp_seconds", loop=loop).set(
                    status.last_success.timestamp()
                )

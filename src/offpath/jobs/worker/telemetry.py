"""A worker's own metrics: what it holds, how long handlers take, how its loops go."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from offpath.jobs.worker import known_series
from offpath.model.job import DeadReason
from offpath.model.settlement import Dead, Retry, Succeeded
from offpath.model.tally import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from offpath.jobs.values.run import Run
    from offpath.model.health import AgeGauge
    from offpath.model.settlement import Outcome
    from offpath.runtime.loop_status import LoopStatus
    from offpath.runtime.metrics import Metrics
    from offpath.store.protocol import Backlog


MOST_KEPT = 10_000
"""Lanes whose series are kept at hand."""


class LaneSeries:
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
        self._success = registry.summary("offpath_job_success_seconds", task=task)
        self._error = registry.summary("offpath_job_error_seconds", task=task)
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


class LoopSeries:
    """The series of one loop."""

    __slots__ = (
        "_age",
        "_failures",
        "_healthy",
        "_restarts",
        "_success",
        "_took",
        "_turns",
        "_window",
    )

    def __init__(self, registry: Metrics, loop: str) -> None:
        self._turns = {
            verdict: registry.counter("offpath_loop_iterations_total", loop=loop, outcome=verdict)
            for verdict in Verdict
        }
        self._took = registry.summary("offpath_loop_iteration_seconds", loop=loop)
        self._restarts = registry.counter("offpath_loop_restarts_total", loop=loop)
        self._healthy = registry.gauge("offpath_loop_healthy", loop=loop)
        self._failures = registry.gauge("offpath_loop_consecutive_failures", loop=loop)
        self._age = registry.gauge("offpath_loop_last_success_age_seconds", loop=loop)
        self._success = registry.gauge("offpath_loop_last_success_timestamp_seconds", loop=loop)
        self._window = registry.gauge("offpath_loop_window_seconds", loop=loop)

    def seen(self, verdict: Verdict, seconds: float) -> None:
        """Count a turn."""
        self._turns[verdict].add()
        self._took.observe(seconds)

    def restarted(self) -> None:
        """Count that it died and was started again."""
        self._restarts.add()

    def tell(self, status: LoopStatus) -> None:
        """Bring its gauges up to date."""
        self._healthy.set(1 if status.judged().healthy else 0)
        self._failures.set(status.consecutive_failures)
        self._age.set(status.waited)
        self._window.set(status.window)
        if status.last_success is not None:
            self._success.set(status.last_success.timestamp())

    def gone(self) -> None:
        """The loop has ended: its gauges tell nothing any more."""
        for gauge in (self._healthy, self._failures, self._age, self._success, self._window):
            gauge.set(0)


class WorkerTelemetry:
    """The lanes of one worker, and the series that are the worker's own."""

    def __init__(self, registry: Metrics) -> None:
        self._registry = registry
        self._lanes: dict[tuple[str, str], LaneSeries] = {}
        self._generation = registry.generation
        self._loops: dict[str, LoopSeries] = {}
        self._waiting: set[str] = set()
        self._routers: set[str] = set()
        self._found: set[str] = set()
        self._due: set[tuple[str, str]] = set()

    def lane(self, task: str, queue: str) -> LaneSeries:
        """Return the series of a task and queue."""
        if self._generation != self._registry.generation or len(self._lanes) > MOST_KEPT:
            self._generation = self._registry.generation
            self._lanes.clear()
        key = (task, queue)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = LaneSeries(self._registry, task, queue)
        return lane

    def tasks(self, tasks: Iterable[str], queues: Iterable[str]) -> None:
        """Make the counters of these tasks, before anything has become of their jobs."""
        known_series.of_tasks(self._registry, tasks, queues)

    def up(self, slots: int) -> None:
        """Say that this process runs a worker with so many slots; 0 when it has stopped."""
        self._registry.gauge("offpath_worker_slots").set(slots)
        self._registry.gauge("offpath_worker_up").set(1 if slots else 0)

    def loop(self, name: str) -> LoopSeries:
        """Return the series of a loop."""
        series = self._loops.get(name)
        if series is None:
            series = self._loops[name] = LoopSeries(self._registry, name)
            known_series.of_loop(self._registry, name)
        return series

    def loop_failed(self, loop: str) -> None:
        """Count a turn of a loop that failed."""
        self._registry.counter("offpath_loop_errors_total", loop=loop).add()

    def due(self, backlog: Sequence[Backlog], now: datetime) -> None:
        """Tell how much is due; a lane that is no longer in the backlog has nothing due."""
        ready: Counter[tuple[str, str]] = Counter()
        oldest: dict[tuple[str, str], float] = {}
        for one in backlog:
            # several lanes past the cap of names are one
            labels = self._registry.labelled(task=one.task, queue=one.queue)
            lane = (labels["task"], labels["queue"])
            ready[lane] += one.ready
            waited = (now - one.oldest_run_at).total_seconds()
            oldest[lane] = max(oldest.get(lane, 0.0), waited)
        for lane in self._due.union(ready):
            self._set_due(lane, ready[lane], oldest.get(lane, 0.0))
        self._due = set(ready)

    def _set_due(self, lane: tuple[str, str], ready: int, oldest: float) -> None:
        gauge, labels = self._registry.gauge, {"task": lane[0], "queue": lane[1]}
        gauge("offpath_jobs_ready", **labels).set(ready)
        gauge("offpath_jobs_ready_oldest_seconds", **labels).set(oldest)

    def held(self, jobs: int) -> None:
        """Tell how many jobs wait for room under a limit."""
        self._registry.gauge("offpath_jobs_held").set(jobs)

    def waiting(self, gauges: Sequence[AgeGauge]) -> None:
        """Tell how long the oldest of each kind of work has waited; what is gone waits no more."""
        told: dict[str, float] = {}
        for gauge in gauges:
            name = self._what(gauge.name)
            told[name] = max(told.get(name, 0.0), gauge.age or 0.0)
        self._lags({gauge.router: gauge for gauge in gauges if gauge.router is not None})
        for name in self._waiting.difference(told):
            self._registry.gauge("offpath_waiting_oldest_seconds", what=name).set(0)
        self._waiting = set(told)
        for name, age in told.items():
            self._registry.gauge("offpath_waiting_oldest_seconds", what=name).set(age)

    def _what(self, name: str) -> str:
        """The name under which it is told; those past the cap are told by their kind of work."""
        if self._registry.labelled(what=name)["what"] == name:
            return name
        together = f"{name.partition(' of ')[0]} of others"
        self._registry.keep(what=together)
        return together

    def found(self, kinds: Iterable[str]) -> None:
        """Tell how many findings of each kind stand."""
        told = Counter(kinds)
        for kind in self._found.union(told):
            self._registry.gauge("offpath_findings", kind=kind).set(told[kind])
        self._found = set(told)

    def _lags(self, lags: Mapping[str, AgeGauge]) -> None:
        """Tell how far behind each router is; one that is gone is not behind."""
        for router in self._routers.union(lags):
            told = lags.get(router)
            lag = 0.0 if told is None or told.age is None else told.age
            self._registry.gauge("offpath_router_lag_seconds", router=router).set(lag)
            is_open = told is not None and not told.closed
            self._registry.gauge("offpath_router_open", router=router).set(int(is_open))
        self._routers = set(lags)

    def loops(self, statuses: Iterable[LoopStatus]) -> None:
        """Bring the loops' gauges up to date."""
        for status in statuses:
            self.loop(status.name).tell(status)

    def gone(self) -> None:
        """The worker has stopped: its present values go to zero."""
        self.up(0)
        self.due((), _NEVER)
        self.held(0)
        self.waiting(())
        self.found(())
        for series in self._loops.values():
            series.gone()


_NEVER = datetime.max.replace(tzinfo=UTC)

"""Names that others make cost a bounded number of series, and no row is left out of a sum."""

from __future__ import annotations

import logging
from collections import Counter
from datetime import timedelta

import pytest

from offpath import App
from offpath.config import Settings
from offpath.health.fleet import examine
from offpath.health.thresholds import Thresholds
from offpath.jobs.worker.telemetry import WorkerTelemetry
from offpath.model.health import AgeGauge
from offpath.operating.checkup import look
from offpath.runtime.clock import ManualClock
from offpath.runtime.metrics import LOOK_EVERY, Metrics
from offpath.runtime.recent_ends import RecentEnds
from offpath.runtime.series_names import IDLE_AFTER
from offpath.store.protocol import Backlog
from tests.unit.jobs.worker.rig import breathe

HOUR = IDLE_AFTER + 1


def rows(metrics: Metrics) -> dict[str, float]:
    """For each state of jobs, what entered it less what left it, over all series."""
    found: Counter[str] = Counter()
    for reading in metrics.list("offpath_job_moves_total"):
        found[reading.labels["entered"]] += int(reading.value)
        found[reading.labels["left"]] -= int(reading.value)
    return {state: count for state, count in found.items() if count and state != "none"}


def queues(metrics: Metrics, name: str = "offpath_jobs_queued_total") -> set[str]:
    """The queues that have a series of this metric."""
    return {reading.labels["queue"] for reading in metrics.list(name)}


async def test_three_hundred_queues_cost_a_bounded_number_of_series_and_sums_stay_right() -> None:
    clock = ManualClock()
    app = App(clock=clock, auto_start=False)

    @app.task
    async def work(fail: bool = False) -> None: ...

    async with app:
        for number in range(300):
            await work.options(queue=f"q{number}").enqueue()
        waiting = len(app.metrics.list())
        assert rows(app.metrics) == {"queued": 300}
        assert len(queues(app.metrics)) == 101
        worker = app.worker()
        await worker.run_until_idle()
        assert rows(app.metrics) == {"succeeded": 300}
        series = len(app.metrics.list())
        for number in range(300, 600):
            await work.options(queue=f"q{number}").enqueue()
        await app.worker().run_until_idle()
        assert rows(app.metrics) == {"succeeded": 600}
        # 600 queues as 300; the second worker's loops are those of the first
        assert len(app.metrics.list()) - series < 20
    assert waiting < 101 * 5
    assert series < 101 * 25
    waited = [one.labels for one in app.metrics.list("offpath_job_wait_seconds")]
    assert waited == [{"task": "work"}]


def test_a_queue_past_the_cap_is_counted_by_its_task_while_the_task_is_within_it() -> None:
    metrics = Metrics(most_names=2)
    told = [
        metrics.labelled(task=task, queue=queue)
        for task, queue in [("a", "x"), ("a", "y"), ("a", "z"), ("b", "x"), ("c", "x"), ("a", "x")]
    ]
    assert [(one["task"], one["queue"]) for one in told] == [
        *(("a", "x"), ("a", "y"), ("a", "other")),
        *(("b", "other"), ("other", "other"), ("a", "x")),
    ]


def test_labels_that_the_code_chooses_and_metrics_of_the_user_have_no_cap_of_names() -> None:
    metrics = Metrics(most_names=1)
    for number in range(3):
        metrics.counter("offpath_loop_errors_total", loop=f"l{number}").add()
        metrics.counter("mine", queue=f"q{number}").add()
    assert len(metrics.list("offpath_loop_errors_total")) == 3
    assert len(metrics.list("mine")) == 3


def test_a_name_that_a_worker_serves_has_its_series_past_the_cap() -> None:
    metrics = Metrics(most_names=1)
    metrics.counter("offpath_log_appended_total", domain="first")
    WorkerTelemetry(metrics).tasks(["a", "b", "c"], ["x", "y"])
    WorkerTelemetry(metrics).loop("relay:one")
    WorkerTelemetry(metrics).loop("relay:two")
    made = metrics.list("offpath_jobs_dead_total")
    assert len(made) == 6
    assert "other" not in {value for one in made for value in one.labels.values()}
    streams = {one.labels["stream"] for one in metrics.list("offpath_messages_total")}
    assert streams == {"one", "two"}


def test_the_gauges_of_what_falls_together_are_added_up() -> None:
    metrics, clock = Metrics(most_names=1), ManualClock()
    telemetry = WorkerTelemetry(metrics)
    since = clock.now() - timedelta(seconds=40)
    backlog = [
        Backlog(queue=f"q{number}", task="work", ready=number, oldest_run_at=since)
        for number in range(4)
    ]
    telemetry.due(backlog, clock.now())
    together = metrics.get("offpath_jobs_ready", task="work", queue="other")
    assert together is not None
    assert together.value == 1 + 2 + 3
    telemetry.due([], clock.now())
    assert {one.value for one in metrics.list("offpath_jobs_ready")} == {0}
    gauges = [
        AgeGauge(name=f"the oldest due job of queue q{number}", age=float(number), limit=None)
        for number in range(4)
    ]
    telemetry.waiting(gauges)
    told = {one.labels["what"]: one.value for one in metrics.list("offpath_waiting_oldest_seconds")}
    assert told == {"the oldest due job of queue q0": 0, "the oldest due job of others": 3}


def test_the_cap_is_told_once_for_a_kind(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics(most_names=1)
    with caplog.at_level(logging.WARNING, "offpath.metrics"):
        for number in range(5):
            metrics.counter("offpath_log_appended_total", domain=f"d{number}").add()
    line = "metrics: more than 1 names of domain are in use; further ones are counted together"
    assert [one.getMessage().startswith(line) for one in caplog.records] == [True]
    assert metrics.crowded == (caplog.records[0].getMessage(),)


async def test_health_and_doctor_tell_that_the_cap_is_reached() -> None:
    clock = ManualClock()
    app = App(clock=clock, auto_start=False, settings=Settings(metric_names=2))

    @app.task
    async def work() -> None: ...

    async with app, app.worker() as worker:
        for number in range(5):
            await work.options(queue=f"q{number}").enqueue()
        for _ in range(16):
            clock.advance(1.0)
            await breathe()
        told = [line for line in worker.report().warnings if line.startswith("metrics: ")]
        fleet = await examine(app.store(), Thresholds(app.store(), app.settings))
        (found,) = [one for one in await look(app) if one.name == "metrics"]
    assert worker.report().ready or worker.stopping
    assert [line.partition(" are in use")[0] for line in told] == [
        "metrics: more than 2 names of queue and task",
        "metrics: more than 2 names of queue",
    ]
    assert all("metric_names" in line for line in told)
    assert [line for line in fleet.warnings if line.startswith("metrics: ")] == told
    assert found.message == "; ".join(told)
    assert found.level == "warning"


# -- idle names ------------------------------------------------------------------------------------


def test_an_idle_name_goes_and_its_moves_stay_in_the_sum() -> None:
    clock = ManualClock()
    metrics = Metrics(clock.monotonic, most_names=1)

    def moved(queue: str) -> None:
        labels = {"task": "work", "queue": queue}
        metrics.counter("offpath_job_moves_total", **labels, left="none", entered="queued").add(3)
        metrics.counter("offpath_jobs_dead_total", **labels).add()

    moved("old")
    metrics.drop_idle()
    clock.advance(HOUR)
    metrics.drop_idle()
    assert queues(metrics, "offpath_job_moves_total") == {"other"}
    assert rows(metrics) == {"queued": 3}
    # a death that was counted long ago is not one of now
    assert metrics.list("offpath_jobs_dead_total") == []
    assert metrics.generation == 1
    moved("new")
    assert queues(metrics, "offpath_jobs_dead_total") == {"new"}
    assert rows(metrics) == {"queued": 6}


def test_what_changes_or_holds_something_is_not_idle() -> None:
    clock = ManualClock()
    metrics = Metrics(clock.monotonic)
    metrics.gauge("offpath_jobs_active", task="long", queue="q").add()
    busy = metrics.counter("offpath_jobs_queued_total", task="busy", queue="q")
    metrics.keep(task="known", queue="q")
    metrics.counter("offpath_jobs_queued_total", task="known", queue="q")
    metrics.counter("mine", queue="q")
    for _ in range(3):
        busy.add()
        metrics.drop_idle()
        clock.advance(HOUR)
    left = {one.labels["task"] for one in metrics.list() if "task" in one.labels}
    assert left == {"long", "busy", "known"}
    assert metrics.list("mine") != []
    assert metrics.generation == 0


def test_idle_names_are_looked_for_once_a_minute() -> None:
    clock = ManualClock()
    metrics = Metrics(clock.monotonic)
    metrics.counter("offpath_log_appended_total", domain="d")
    metrics.drop_idle()
    clock.advance(HOUR)
    metrics.drop_idle()
    metrics.counter("offpath_log_appended_total", domain="e")
    clock.advance(LOOK_EVERY - 1)
    metrics.drop_idle()
    assert metrics.generation == 1


async def test_a_store_counts_on_after_its_names_were_dropped() -> None:
    clock = ManualClock()
    app = App(clock=clock, auto_start=False)

    @app.task
    async def work() -> None: ...

    async with app:
        await work.options(queue="rare").enqueue()
        await work.options(queue="other one").enqueue()
        for _ in range(2):
            clock.advance(HOUR)
            await work.options(queue="often").enqueue()
        assert queues(app.metrics) == {"often"}
        await work.options(queue="rare").enqueue()
        assert queues(app.metrics) == {"often", "rare"}
        assert rows(app.metrics) == {"queued": 5}
        await app.worker().run_until_idle()
        assert rows(app.metrics) == {"succeeded": 5}


def test_a_death_under_a_name_that_came_back_is_a_recent_one() -> None:
    clock = ManualClock()
    metrics = Metrics(clock.monotonic)
    ends = RecentEnds(metrics, clock)
    labels = {"task": "work", "queue": "q"}
    metrics.counter("offpath_jobs_dead_total", **labels).add(5)
    metrics.drop_idle()
    clock.advance(HOUR)
    ends.look()
    metrics.drop_idle()
    metrics.counter("offpath_jobs_dead_total", **labels).add()
    ends.look()
    assert {name: one.dead for name, one in ends.ends.items()} == {"task work": 1}

"""Every row of the catalogue is produced by the engine somewhere; due work is told as it is."""

from __future__ import annotations

from datetime import timedelta

import pytest

from offpath import App, Limit
from offpath.jobs.worker.telemetry import WorkerTelemetry
from offpath.jobs.worker.waiting_work import WaitingCounts
from offpath.runtime.catalogue import CATALOGUE
from offpath.runtime.clock import ManualClock
from offpath.runtime.metrics import Metrics
from offpath.runtime.recent_ends import RecentEnds
from offpath.store.protocol import Backlog
from offpath.store.telemetry import meter
from tests.architecture import sources

_DERIVED = {
    *(f"offpath_jobs_{name}_total" for name in meter._COUNTED.values()),
    *(f"offpath_jobs_{name}_total" for name in ("retried", "redriven", "deleted")),
    *(f"offpath_jobs_last_{name}_timestamp_seconds" for name in meter._LAST.values()),
}
"""Names that metering puts together from what moved."""


@pytest.mark.parametrize("name", CATALOGUE)
def test_each_row_is_produced_somewhere(name: str) -> None:
    makers = [one for one in sources.package() if one.path.name != "catalogue.py"]
    written = any(f'"{name}"' in one.text for one in makers)
    assert written or name in _DERIVED


def test_due_work_is_told_by_lane_and_a_lane_that_is_gone_tells_zero() -> None:
    metrics, clock = Metrics(), ManualClock()
    telemetry = WorkerTelemetry(metrics)
    labels = {"task": "work", "queue": "default"}

    def told() -> tuple[float, float]:
        ready = metrics.get("offpath_jobs_ready", **labels)
        oldest = metrics.get("offpath_jobs_ready_oldest_seconds", **labels)
        assert ready is not None
        assert oldest is not None
        return ready.value, oldest.value

    since = clock.now() - timedelta(seconds=40)
    row = Backlog(queue="default", task="work", ready=7, oldest_run_at=since)
    telemetry.due([row], clock.now())
    assert told() == (7, 40)
    telemetry.due([], clock.now())
    assert told() == (0, 0)
    skewed = Backlog(
        queue="default", task="work", ready=1, oldest_run_at=clock.now() + timedelta(seconds=5)
    )
    telemetry.due([skewed], clock.now())
    assert told() == (1, 0)


async def test_a_worker_tells_how_many_jobs_wait_for_their_limits() -> None:
    app = App(auto_start=False)

    @app.task(limit=Limit(key="api", max_running=1))
    async def call() -> None: ...

    async with app:
        await app.enqueue([call.job() for _ in range(3)])
        await WaitingCounts(app.store(), None, RecentEnds(app.metrics, app.clock)).count(
            WorkerTelemetry(app.metrics)
        )
        assert held_in(app.metrics) == 3
        WorkerTelemetry(app.metrics).gone()
        assert held_in(app.metrics) == 0


def held_in(metrics: Metrics) -> float:
    told = metrics.get("offpath_jobs_held")
    assert told is not None
    return told.value

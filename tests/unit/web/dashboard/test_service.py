"""Pages of what serves: the gauges of a worker, and who leads a sweep and when it comes next."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

import offpath
from offpath.model.health import AgeGauge, Condition, LoopReport, ProcessLoad, WorkerReport
from offpath.model.lease import WorkerInfo
from tests.unit.web.dashboard.rig import Site, site_of

LEADER = "0198c0de-0000-7000-8000-000000000001"
OTHER = "0198c0de-0000-7000-8000-000000000002"


def report(**fields: Any) -> WorkerReport:
    """A worker's report with one loop that drives a sweep."""
    loop = LoopReport(
        name="sweep:carts",
        condition=Condition.HEALTHY,
        state="resting",
        iterations=7,
        last_success_age=4.0,
        next_in=30.0,
    )
    return WorkerReport(loops=(msgspec.structs.replace(loop, **fields),))


async def join(app: offpath.App, worker: str, said: WorkerReport) -> None:
    """Have a worker say so."""
    info = WorkerInfo(
        id=worker, host="web-1", pid=42, version="1", concurrency=20, tasks=(), queues=()
    )
    store = app.store()
    await store.register(info, lease_seconds=600)
    text = msgspec.json.encode(said).decode()
    await store.extend(info, lease_seconds=600, held=[], report=text)


@pytest.fixture
async def app() -> AsyncIterator[offpath.App]:
    """An app in memory."""
    async with offpath.App("memory://", auto_start=False) as made:
        yield made


@pytest.fixture
def site(app: offpath.App) -> Site:
    """Its dashboard."""
    return site_of(app)


def words(text: str) -> str:
    """A page without its tags."""
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


async def test_a_worker_shows_its_gauges(app: offpath.App, site: Site) -> None:
    said = msgspec.structs.replace(
        report(),
        load=ProcessLoad(cpu=0.35, memory=84 << 20, loop_lag=0.0012),
        gauges=(AgeGauge(name="the oldest due job of queue mail", age=90.0, limit=60.0),),
    )
    await join(app, LEADER, said)
    told = (await site.get(f"/api/v1/workers/{LEADER}")).document
    assert told["report"]["load"] == {"cpu": 0.35, "memory": 84 << 20, "loop_lag": 0.0012}
    page = words((await site.get(f"/workers/{LEADER}")).text)
    assert "Slots 0 of 20" in page
    assert "Processor 35 %" in page
    assert "Memory 84 MiB" in page
    assert "Event loop 1.2 ms" in page
    assert "the oldest due job of queue mail ✖ 2m 1m" in page
    assert "sweep:carts ✔ healthy resting 4s 7 0 0" in page


async def test_a_worker_that_tells_no_load_has_none(app: offpath.App, site: Site) -> None:
    """One of a version before, and one of a system that does not tell."""
    await join(app, LEADER, report())
    await join(app, OTHER, msgspec.structs.replace(report(), load=ProcessLoad()))
    for worker in (LEADER, OTHER):
        page = words((await site.get(f"/workers/{worker}")).text)
        assert "Processor – of one core Memory – of its process Event loop –" in page


async def test_a_sweep_says_who_leads_it_and_when_it_comes_next(
    app: offpath.App, site: Site
) -> None:
    await join(app, LEADER, report())
    await join(app, OTHER, report(skipped="another worker leads it", next_in=5.0))
    (told,) = [
        one
        for one in (await site.get("/api/v1/sweeps")).document["items"]
        if one["name"] == "carts"
    ]
    assert told["leader"] == LEADER
    next_at = datetime.fromisoformat(told["next_at"])
    assert timedelta(0) < next_at - datetime.now(UTC) <= timedelta(seconds=30)
    assert {one["worker"]: one["skipped"] for one in told["loops"]} == {
        LEADER: None,
        OTHER: "another worker leads it",
    }
    page = words((await site.get("/sweeps")).text)
    assert "carts ✔ healthy – – 4s ago in 30s – 0198c0de…0001 of 2 workers" in page

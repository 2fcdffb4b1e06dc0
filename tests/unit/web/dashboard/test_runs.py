"""The page of runs: what sweeps found, how settlement runs went."""

from __future__ import annotations

from datetime import UTC, datetime

import offpath
from offpath.model.run import RunKind, RunRecord, RunReport
from offpath.model.tally import Verdict
from offpath.sweeps import SweepContext
from tests.unit.web.dashboard.rig import Site, site_of


async def test_runs_are_shown_and_filtered(app: offpath.App, site: Site) -> None:
    for number, (kind, name) in enumerate((("sweep", "carts"), ("settlement", "bonus"))):
        report = RunReport(
            verdict=Verdict.DEGRADED,
            counts={"moved": 7},
            passes=3,
            period="2026-11@UTC",
            cause="1 of 8 went wrong, password=hunter2",
        )
        run = RunRecord(
            id=f"0198c0de-0000-7000-8000-00000000000{number}",
            kind=RunKind(kind),
            name=name,
            at=datetime(2026, 11, 30, tzinfo=UTC),
            report=report,
        )
        await app.store().put_run(run)
    told = (await site.get("/api/v1/runs")).document
    assert [(one["kind"], one["name"]) for one in told["items"]] == [
        ("settlement", "bonus"),
        ("sweep", "carts"),
    ]
    first = (await site.get("/api/v1/runs?limit=1")).document
    rest = (await site.get(f"/api/v1/runs?after={first['next']}")).document
    assert [*first["items"], *rest["items"]] == told["items"]
    only = (await site.get("/api/v1/runs?kind=sweep&name=carts")).document["items"]
    assert [one["name"] for one in only] == ["carts"]
    page = (await site.get("/runs?kind=sweep")).text
    assert "7 moved" in page
    assert "in 3 passes" in page
    assert "bonus" not in page
    assert "hunter2" not in page
    assert (await site.get("/api/v1/runs?kind=walk")).code == 400
    assert (await site.get("/api/v1/runs?after=x")).code == 400


async def test_a_sweep_tells_what_it_found_last(app: offpath.App) -> None:
    @app.sweep("carts", every=3_600)
    class Carts:
        async def claim(self, ctx: SweepContext, now: datetime, limit: int) -> list[str]:
            return []

        async def advance(self, ctx: SweepContext, row: str) -> None:
            """Never called."""

    for number, moved in enumerate((3, 5)):
        run = RunRecord(
            id=f"0198c0de-0000-7000-8000-00000000000{number}",
            kind=RunKind.SWEEP,
            name="carts",
            at=datetime(2026, 11, 30, tzinfo=UTC),
            report=RunReport(verdict=Verdict.CLEAN, counts={"moved": moved}),
        )
        await app.store().put_run(run)
    site = site_of(app)
    told = {
        one["name"]: one["found"] for one in (await site.get("/api/v1/sweeps")).document["items"]
    }
    assert told.pop("carts")["counts"] == {"moved": 5}
    assert set(told.values()) == {None}
    page = (await site.get("/sweeps")).text
    assert 'href="/runs?kind=sweep&amp;name=carts">5 moved</a>' in page


async def test_none_is_said(site: Site) -> None:
    page = (await site.get("/runs")).text
    assert "No sweep of this app has found anything yet" in page

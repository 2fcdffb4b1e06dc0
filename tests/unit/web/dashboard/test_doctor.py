"""The checkup on the page of health: made behind the requests, and told with what to do."""

from __future__ import annotations

import asyncio

import pytest

import offpath
from offpath.operating import checkup
from offpath.store.protocol import Finding, Level
from offpath.web.console import places
from offpath.web.console.runbooks import runbook, runbook_of_check
from tests.unit.web.dashboard.rig import Site


async def test_the_page_of_health_says_what_doctor_finds(app: offpath.App, site: Site) -> None:
    told = (await site.get("/api/v1/doctor")).document
    found = {one.name: one for one in await checkup.look(app)}
    assert {one["name"] for one in told["items"]} == set(found)
    levels = [one["level"] for one in told["items"]]
    assert levels == sorted(levels, key=("problem", "warning", "fine").index)
    page = (await site.get("/health")).text
    assert "due work that no worker takes: " in page
    assert 'href="/runbooks/waiting">Runbook<span class="sr"> for takers' in page


async def test_a_page_does_not_wait_for_what_takes_long(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, asked = asyncio.Event(), []

    async def look(_: offpath.App) -> list[Finding]:
        asked.append(1)
        await go.wait()
        return [Finding(name="vacuum", level=Level.WARNING, message="run vacuum, token=hunter2")]

    monkeypatch.setattr(checkup, "look", look)
    monkeypatch.setattr(places, "SOON", 0.0)
    assert (await site.get("/api/v1/doctor")).document == {"items": [], "checked_at": None}
    assert "it goes on; this page will have it" in (await site.get("/health")).text
    go.set()
    monkeypatch.setattr(places, "SOON", 30.0)
    (one,) = (await site.get("/api/v1/doctor")).document["items"]
    assert one == {"name": "vacuum", "level": "warning", "message": "run vacuum, token=***"}
    assert asked == [1]  # and it is kept


@pytest.mark.parametrize("name", ["workers", "takers", "vacuum", "ledger", "webhook secrets"])
def test_each_check_has_a_runbook_that_is_there(name: str) -> None:
    assert runbook(runbook_of_check(name)) is not None

"""Jobs that died behind failed ones: what is offered for them, and what a redrive says before."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import datetime
from urllib.parse import urlencode

import msgspec
import pytest
from msgspec.structs import replace

import offpath
from offpath.model.job import Failure
from tests.unit.web.dashboard.rig import BEARER, Site, site_of

JSON = {**BEARER, "content-type": "application/json"}


@pytest.fixture
async def broken() -> AsyncIterator[offpath.App]:
    """An app in memory whose one group failed: a ``part``, and the ``join`` that waited for it."""
    app = offpath.App("memory://", auto_start=False)

    @app.task
    async def part() -> None:
        raise offpath.Abort("no such order")

    @app.task
    async def join() -> None:
        raise AssertionError("it ran without what it was to wait for")

    @app.task
    async def whole(ctx: offpath.Context) -> offpath.Plan[None, None]:
        return ctx.queue(part.job()).next(join.job())

    async with app:
        await whole.enqueue()
        await app.worker().run_until_idle()
        yield app


async def one(app: offpath.App, task: str) -> offpath.JobRecord:
    """The dead job of a task."""
    (found,) = (await app.dead.list(task=task)).items
    return found


async def test_a_fault_behind_failed_jobs_offers_no_redrive(broken: offpath.App) -> None:
    page = (await site_of(broken).get("/dead")).text
    assert 'Redrive 1…<span class="sr"> of part' in page
    assert 'Redrive 1…<span class="sr"> of join' not in page
    held = await one(broken, "join")
    assert f'waits again when <a href="/jobs/{held.id}">what failed<' in page
    assert "Redrive what failed" in (await site_of(broken).get(f"/jobs/{held.id}")).text


@pytest.mark.parametrize(
    ("where", "behind"),
    [
        ({"state": "dead"}, 1),
        ({"state": "dead", "task": "join"}, 1),
        ({"state": "dead", "reason": "aborted"}, 0),
        ({"state": "cancelled"}, 0),
    ],
)
async def test_a_redrive_says_before_how_many_it_leaves_alone(
    broken: offpath.App, where: dict[str, str], behind: int
) -> None:
    site = site_of(broken)
    body = msgspec.json.encode(
        {"verb": "job.redrive", "target": {"where": {k: [v] for k, v in where.items()}}}
    )
    told = await site.ask("POST", "/api/v1/actions/preview", headers=JSON, body=body)
    assert told.document["behind"] == behind
    asked = urlencode({"verb": "job.redrive", "match": urlencode(where), "back": "/dead"})
    page = (await site.get(f"/act?{asked}")).text
    assert ("1 of them died at a gate behind failed jobs" in page) is bool(behind)


async def test_a_redrive_of_marked_jobs_warns_too_and_a_removal_does_not(
    broken: offpath.App,
) -> None:
    site = site_of(broken)
    held = await one(broken, "join")
    for verb, warned in (("job.redrive", True), ("job.delete", False)):
        page = (await site.get(f"/act?{urlencode({'verb': verb, 'id': held.id})}")).text
        assert ("behind failed jobs" in page) is warned


async def test_a_failed_group_offers_a_redrive_and_tells_causes_first(
    broken: offpath.App,
) -> None:
    cause, held = await one(broken, "part"), await one(broken, "join")
    site = site_of(broken)
    told = (await site.get(f"/api/v1/groups/{cause.group_id}")).document
    assert [each["id"] for each in told["failed_members"]["items"]] == [cause.id, held.id]
    first = (await site.get(f"/api/v1/groups/{cause.group_id}?limit=1")).document
    assert [each["id"] for each in first["failed_members"]["items"]] == [cause.id]
    page = (await site.get(f"/groups/{cause.group_id}")).text
    match = urlencode({"match": urlencode({"group": cause.group_id, "state": "dead"})})
    assert f'{match}">Redrive what failed…</a>' in page
    asked = urlencode({"verb": "job.redrive", "back": "/groups"})
    assert "<h1>Redrive 2?</h1>" in (await site.get(f"/act?{asked}&{match}")).text


async def test_what_never_ran_died_at_its_gate_and_names_what_failed_as_a_link(
    broken: offpath.App,
) -> None:
    cause, held = await one(broken, "part"), await one(broken, "join")
    site = site_of(broken)
    page = (await site.get(f"/jobs/{held.id}")).text
    assert "<strong>died at its gate</strong>" in page
    assert "attempt 1 failed" not in page
    why = page.partition('aria-label="Why"')[2].partition("</section>")[0]
    assert f'<a href="/jobs/{cause.id}"><code>' in why
    told = (await site.get(f"/jobs/{cause.id}")).text
    assert "<strong>attempt 1 failed</strong>" in told
    # the failure tells how long the attempt took: no second number beside it
    assert re.search(r"aborted, after [\d.]+ (µs|ms|s)", told)
    assert "the last attempt took" not in told


def test_a_job_whose_deadline_passed_as_it_waited_gave_up() -> None:
    waited = Failure(kind="deadline", type="DeadlineExceeded", message="")
    ran = replace(waited, worker="w1")
    assert (waited.headline, ran.headline) == ("gave up waiting", "attempt 1 failed")


async def test_one_act_has_one_word(broken: offpath.App) -> None:
    page = (await site_of(broken).get("/dead")).text
    assert all(f"Discard {what}…" in page for what in ("1", "marked", "all"))
    assert "Delete" not in page


async def test_a_queue_that_nobody_serves_names_the_command_for_it(broken: offpath.App) -> None:
    page = (await site_of(broken).get("/queues/default")).text
    assert "offpath worker myservice.jobs:app --queues default</pre>" in page


async def test_a_bundle_leads_to_its_members_and_a_group_says_how_many_it_has(site: Site) -> None:
    groups = (await site.get("/api/v1/groups")).document["items"]
    album = next(one["id"] for one in groups if one["task"] == "album")
    graph = (await site.get(f"/api/v1/groups/{album}/graph")).document
    assert {one["task"] for one in graph["nodes"] if one["kind"] == "bundle"} == {"resize"}
    page = (await site.get(f"/groups/{album}")).text
    assert f'href="/jobs?group={album}&amp;task=resize&amp;parent={album}"' in page
    assert "open 2 of " in page
    for one in next(each["sample"] for each in graph["nodes"] if each["kind"] == "bundle"):
        assert f'<li><a href="/jobs/{one}">' in page
    legend = page.partition('class="legend">')[2].partition("</p>")[0]
    assert re.findall(r"</span> (\w+)</span>", legend) == ["blocked", "queued", "succeeded"]


async def test_the_gate_of_a_group_says_until_when_it_waits(site: Site) -> None:
    """In its drawing, and in the table beside it."""
    groups = (await site.get("/api/v1/groups")).document["items"]
    album = next(one["id"] for one in groups if one["task"] == "album")
    graph = (await site.get(f"/api/v1/groups/{album}/graph")).document
    (gate,) = (one for one in graph["nodes"] if one["kind"] == "gate")
    until = datetime.fromisoformat(gate["deadline"])
    page = (await site.get(f"/groups/{album}")).text
    assert f"● open until {until:%d %b %H:%M}</text>" in page
    assert f"until {until.isoformat(timespec='milliseconds')}</title>" in page
    table = page.partition('id="graph-table"')[2]
    assert f'until <time datetime="{until.isoformat(timespec="milliseconds")}"' in table

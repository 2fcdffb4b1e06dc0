"""The page of a router: how far each partition is, what it decided, who leads it, its letters."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

import offpath
from offpath.model.route import Route
from tests.conformance.log_builders import append_many, declare, run_router, seize
from tests.unit.web.dashboard.rig import BEARER, Site, site_of

JSON = {**BEARER, "content-type": "application/json"}
SAME_SITE = {**BEARER, "sec-fetch-site": "same-origin"}
LEADER = "0198c0de-0000-7000-8000-00000000beef"


@pytest.fixture
async def app() -> AsyncIterator[offpath.App]:
    """An app in memory whose router failed at two of five events, and has three to go."""
    made = offpath.App("memory://", auto_start=False)
    async with made:
        store = made.store()
        await declare(store, "iu", routes=(Route(name="one", deliver="task:call", enabled=True),))
        ids = await append_many(store, 5)
        await run_router(store, "iu", failed=ids[:2])
        await append_many(store, 3)
        yield made


@pytest.fixture
def site(app: offpath.App) -> Site:
    """Its dashboard."""
    return site_of(app)


async def told(site: Site) -> dict[str, Any]:
    found: dict[str, Any] = (await site.get("/api/v1/routers/iu")).document
    return found


def text(page: str, title: str) -> str:
    """The words of a part of a page, by the id of its heading."""
    part = page.partition(f'id="{title}"')[2].partition("</section>")[0]
    return " ".join(re.sub(r"<[^>]+>", " ", part).split())


async def test_a_router_tells_its_lag_and_its_decisions_by_route(site: Site) -> None:
    found = await told(site)
    (cursor,) = found["cursors"]
    assert (cursor["waiting"], cursor["more"]) == (3, False)
    assert cursor["oldest_at"] == found["oldest_at"]
    assert found["decisions"] == [
        {"route": "one", "status": "failed", "count": 2},
        {"route": "one", "status": "sent", "count": 3},
    ]
    assert found["counted"] == 5
    assert len(found["attempts"]) == 5
    page = (await site.get("/routers/iu")).text
    assert "✖ failed · 2 ✔ sent · 3" in text(page, "routes-title")
    assert re.search(r"Lag</span><div class=\"value\">3</div>", page)
    assert "All attempts" in text(page, "attempts-title")


async def test_who_has_a_cursor_leads_it(app: offpath.App, site: Site) -> None:
    await seize(app.store(), holder=f"{LEADER}/a-token", router="iu")
    (cursor,) = (await told(site))["cursors"]
    assert (cursor["held"], cursor["worker"]) == (True, LEADER)
    page = (await site.get("/routers/iu")).text
    assert f'<a href="/workers/{LEADER}">' in page
    assert "a-token" not in page


@pytest.mark.parametrize(
    ("holder", "said"),
    [(None, "nobody has a cursor now"), ("a-token", "a process without a worker")],
)
async def test_a_cursor_that_no_worker_has_leads_nowhere(
    app: offpath.App, site: Site, holder: str | None, said: str
) -> None:
    if holder is not None:
        await seize(app.store(), holder=holder, router="iu")
    page = (await site.get("/routers/iu")).text
    assert said in page
    assert 'href="/workers/' not in page


async def test_several_letters_are_resolved_together(app: offpath.App, site: Site) -> None:
    ids = [one.id for one in await app.store().letters("iu")]
    page = (await site.get("/routers/iu")).text
    assert [f'name="id" value="{one}"' in page for one in ids] == [True, True]
    marked = [("verb", "letter.resolve"), ("back", "/routers/iu"), ("router", "iu")]
    marked += [("id", one) for one in ids]
    asked = (await site.get(f"/act?{urlencode(marked)}")).text
    assert "2 dead letters of iu" in asked
    body = urlencode([*marked, ("o.resolution", "told the customer")]).encode()
    done = await site.ask("POST", "/act", headers=SAME_SITE, body=body)
    assert done.code == 303
    assert await app.store().letters("iu") == []
    assert {one.resolution for one in await app.store().letters("iu", unresolved=False)} == {
        "told the customer"
    }


async def test_nothing_is_done_to_letters_that_nobody_marked(site: Site) -> None:
    marked = {"verb": "letter.resolve", "back": "/routers/iu", "router": "iu"}
    answer = await site.get(f"/act?{urlencode(marked)}")
    assert answer.code == 400
    assert "mark one or more" in answer.text


async def test_the_last_checks_that_somebody_asked_for_stand_on_the_page(
    app: offpath.App, site: Site
) -> None:
    assert (await told(site))["verified"] is None
    for name in ("iu", "other"):
        await declare(app.store(), name)
        body = msgspec.json.encode({"verb": "router.verify", "target": {"name": name}})
        await site.ask("POST", "/api/v1/actions", headers=JSON, body=body)
    found = (await told(site))["verified"]
    assert isinstance(found, dict)
    checks = (await site.get("/api/v1/routers/iu/checks")).document
    assert (found["state"], found["holds"], found["fails"]) == (
        "done",
        checks["holds"],
        checks["fails"],
    )
    page = (await site.get("/routers/iu")).text
    assert f"{found['holds']} of {found['holds'] + found['fails']}</div>" in page
    assert f'<a href="/actions/{found["action"]}">verified</a>' in page


async def test_attempts_are_listed_from_either_end(site: Site) -> None:
    async def places(query: str) -> list[int]:
        found = (await site.get(f"/api/v1/routers/iu/attempts?{query}")).document
        return [one["position"] for one in found["items"]]

    first = await places("")
    assert first == sorted(first)
    assert await places("sort=oldest") == first
    assert await places("sort=newest") == first[::-1]
    newest = (await site.get("/api/v1/routers/iu/attempts?sort=newest&limit=2")).document
    assert await places(f"sort=newest&after={newest['next']}") == first[-3::-1]
    page = (await site.get("/routers/iu/attempts?sort=newest")).text
    assert '<a href="?sort=newest" aria-current="true">' in page

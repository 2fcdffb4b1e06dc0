"""The API against its table: every path, its right, its mark, and a field that it does not know."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

import offpath
from offpath.economy import Actor, TopUp, credits
from offpath.runtime.clock import SystemClock
from offpath.web import auth, dashboard
from offpath.web.console.application import API
from offpath.web.console.methods import PathAnswers
from offpath.web.viewers import ADMIN, VIEWER, Can
from tests.browser.scene import fill, make_app
from tests.unit.web.dashboard.api_table import BESIDE, ELSEWHERE, PAYLOAD, TABLE
from tests.unit.web.dashboard.rig import BEARER, TOKEN, Site, add_economy
from tests.unit.web.dashboard.test_acting import post

READS = [path for method, path, _ in TABLE if method == "GET" and (method, path) not in ELSEWHERE]
ALL_READS = sorted({*READS, *(path for method, path in BESIDE if method == "GET")})
WITH_PAYLOAD = {
    "/jobs/{id}",
    "/jobs/{id}/steps",
    "/messages/{id}",
    "/events",
    "/events/{id}",
    "/ledger/postings/{id}",
}
"""Paths of the table's rows "(+payload)" that hold what jobs and messages were given. The other
ones have briefs alone, which tell nothing of it.
"""


class HaltingClock(SystemClock):
    """The machine's clock, until it is halted: then no age changes between two answers."""

    halted: datetime | None = None

    def now(self) -> datetime:
        """The time of the machine, or that at which it was halted."""
        return self.halted or super().now()


@pytest.fixture
async def shop() -> AsyncIterator[offpath.App]:
    """A store with one of everything and an economy, at a time that stands still."""
    clock = HaltingClock()
    app = make_app("memory://", clock=clock)
    economy = add_economy(app)

    @app.task
    async def stepping(ctx: offpath.Context) -> None:
        await ctx.step("paid", lambda: "step-marker")

    await fill(app, dead=1, close=False)
    await economy.submit(
        TopUp(key="t-1", actor=Actor.operator("ops"), user="ann", amount=credits(20), source="card")
    )
    job = await app.enqueue(stepping.job())
    async with app.worker(queues=("default",)):
        await job.result(timeout=50)
    clock.halted = datetime.now(UTC)
    yield app
    await app.close()


def site_for(app: offpath.App, can: frozenset[Can] = ADMIN) -> Site:
    return Site(dashboard(app, auth=auth.token({"ann": TOKEN}, can=can)))


async def _filled(app: offpath.App) -> dict[str, str]:
    """Each path, with something that there is."""
    site = site_for(app)

    async def first(path: str) -> dict[str, str]:
        found: dict[str, str] = (await site.get(API + path)).document["items"][0]
        return found

    stepped = (await first("/jobs?task=stepping"))["id"]
    job, worker = await first("/dead"), await first("/workers")
    action = await post(site, {"verb": "queue.resume", "target": {"name": "images"}})
    statement = await first("/ledger/accounts/ann:spendable")
    ids = {
        "/jobs": stepped, "/groups": job["group_id"], "/workers": worker["info"]["id"],  # type: ignore[index]
        "/messages": (await first("/messages"))["id"], "/events": (await first("/events"))["id"],
        "/ledger/accounts": "ann:spendable", "/ledger/postings": statement["posting"],
        "/actions": action.document["id"], "/queues": "exports", "/tasks": "add",
        "/schedules": "nightly", "/endpoints": "shop", "/routers": "iu",
    }  # fmt: skip
    return {
        path: re.sub(r"^(.+)/{\w+}", lambda found: f"{found[1]}/{ids[found[1]]}", path)
        for path in ALL_READS
    }


def _plain(path: str) -> str:
    """A path without the names of its parts."""
    return re.sub(r"{[^}]*}", "{}", path)


def _registered(app: offpath.App) -> set[tuple[str, str]]:
    """The routes of the API. One of a page and its JSON tells its methods by its answers."""
    found = set()
    for one in site_for(app).app._inner.routes:
        if one.path.startswith(API):
            assert isinstance(one.endpoint, PathAnswers)
            methods = set(one.endpoint._answers) - {"HEAD"}
            found |= {(method, _plain(one.path.removeprefix(API))) for method in methods}
    return found


async def test_the_api_has_each_path_of_its_table_and_no_other() -> None:
    app = offpath.App("memory://", auto_start=False)
    add_economy(app)
    registered = _registered(app)
    wanted = {ELSEWHERE.get((method, path), (method, path)) for method, path, _ in TABLE}
    wanted |= set(BESIDE)
    assert {(method, _plain(path)) for method, path in wanted} == registered
    kept = {(method, _plain(path)) for method, path in ELSEWHERE}
    assert not kept & registered, "it has the table's place by now"


async def test_a_read_needs_the_right_of_the_table_and_no_more(shop: offpath.App) -> None:
    paths = await _filled(shop)
    looker, blind = site_for(shop, VIEWER), site_for(shop, ADMIN - {Can.READ})
    for path, place in paths.items():
        assert (path, (await looker.get(API + place)).code) == (path, 200)
        refused = await blind.get(API + place)
        assert (path, refused.code, refused.document["code"]) == (path, 403, "RIGHT.MISSING")


async def test_what_was_given_is_hidden_where_the_table_says_so(shop: offpath.App) -> None:
    paths = await _filled(shop)
    looker, admin = site_for(shop, VIEWER), site_for(shop)
    for path in READS:
        if ("GET", path, PAYLOAD) not in TABLE:
            continue
        less, more = [(await site.get(API + paths[path])).text for site in (looker, admin)]
        assert (path, less != more) == (path, path in WITH_PAYLOAD)
        assert (path, '"hidden"' in less) == (path, path in WITH_PAYLOAD)
        assert '"hidden"' not in more


async def test_an_unchanged_answer_of_any_path_is_not_sent_again(shop: offpath.App) -> None:
    site = site_for(shop)
    for path, place in (await _filled(shop)).items():
        first = await site.get(API + place)
        assert (path, first.code) == (path, 200)
        again = await site.get(
            API + place, headers={**BEARER, "if-none-match": first.headers["etag"]}
        )
        assert (path, again.code, again.body) == (path, 304, b"")
        other = await site.get(API + place, headers={**BEARER, "if-none-match": '"another"'})
        assert (path, other.code, other.headers["etag"]) == (path, 200, first.headers["etag"])


async def test_any_path_refuses_a_field_that_it_does_not_know(shop: offpath.App) -> None:
    site = site_for(shop)
    for path, place in (await _filled(shop)).items():
        answer = await site.get(f"{API}{place}?colour=red")
        assert (path, answer.code) == (path, 400)
        assert answer.headers["content-type"] == "application/problem+json"
        told = answer.document
        assert (told["code"], told["retryable"]) == ("INVALID_ARGUMENT", False)
        assert "colour" in told["detail"]

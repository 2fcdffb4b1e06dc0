"""Pages of money on their edges: nothing is there yet, one row, the database away, read-only."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

import offpath
from offpath.economy.ledger.audit import NewRecord, Phase, record
from offpath.economy.operating.verbs import MONEY_VERBS
from offpath.economy.testing import MemoryAnchor, TestSigner
from offpath.errors import StoreUnavailable
from offpath.model.action import ActionFilter
from offpath.web import auth, dashboard
from offpath.web.console import places, shares
from offpath.web.viewers import ADMIN
from tests.unit.economy.marketplace import Marketplace
from tests.unit.web.dashboard.rig import BEARER, TOKEN, Site
from tests.unit.web.dashboard.test_acting import post, submit
from tests.unit.web.dashboard.test_money import listed, of_verb

HTML: Final = {**BEARER, "accept": "text/html"}
EMPTY: Final = {
    "/ledger": "nothing was sealed yet",
    "/ledger/backing": "USD:0.00",
    "/ledger/accounts": "There are no accounts",
    "/ledger/checkpoints": "Nothing was sealed yet",
    "/ledger/audit": "Nothing was found about the books so far.",
    "/payouts": "Nobody has asked for a payout yet.",
    "/subscriptions": "Nobody has subscribed to anything yet.",
    "/settlements": "No run was made yet.",
}
"""The words of each page where nothing has happened."""
LISTS: Final = (
    "/ledger/accounts?q=ann:spendable", "/ledger/checkpoints", "/ledger/audit", "/payouts",
    "/subscriptions",
)  # fmt: skip


def site_for(app: offpath.App, **terms: Any) -> Site:
    return Site(dashboard(app, auth=auth.token({"ann": TOKEN}, can=ADMIN), **terms))


@pytest.mark.parametrize("path", EMPTY)
async def test_where_nothing_has_happened_a_page_says_so(house: offpath.App, path: str) -> None:
    page = await site_for(house).get(path, headers=HTML)
    assert (page.code, EMPTY[path] in page.text) == (200, True), page.text


async def test_books_that_nobody_has_looked_at_are_not_green(house: offpath.App) -> None:
    site = site_for(house)
    page = (await site.get("/ledger", headers=HTML)).text
    assert page.count("nobody asked for one yet") == 2
    assert "no run that sealed is kept" in page
    assert "no live worker drives the economy's sweeps" in page.replace("&#39;", "'")
    told = await listed(site, "/ledger")
    fields = ("proof", "verification", "checkpoint", "anchor")
    assert [told[name] for name in fields] == [None] * 4
    assert [one["count"] for one in told["payouts"]] == [0, 0]


@pytest.fixture
async def market() -> AsyncIterator[Marketplace]:
    """A marketplace with one row of everything."""
    made = Marketplace(signer=TestSigner(), anchor=MemoryAnchor())
    async with made.app as app:
        await made.top_up("ann", "500.00")
        await made.spend("ann", "100.00")
        await made.request_payout("sel", "20.00")
        await made.subscribe("ann", "5.00")
        found = NewRecord(
            phase=Phase.RELEASED, subject="fees", detail="paid in", episode="e-1", by="ann"
        )
        await record(app.store(), found, app.new_id())
        await post(site_for(app), of_verb("ledger.checkpoint"))
        yield made


async def test_one_row_is_one_line_and_the_last_page(market: Marketplace) -> None:
    site = site_for(market.app)
    for path in LISTS:
        told = await listed(site, path)
        assert (path, len(told["items"]), told["next"]) == (path, 1, None)
        page = (await site.get(path, headers=HTML)).text
        lists = re.findall(r"<tbody>(.*?)</tbody>", page, re.DOTALL)
        assert (path, lists[-1].count("<tr")) == (path, 1)
        assert 'class="empty"' not in page
    page = (await site.get("/ledger", headers=HTML)).text
    assert "published <time" in page
    assert "nothing was sealed yet" not in page


async def test_while_the_database_is_away_no_page_of_money_shows_old_books(
    market: Marketplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = site_for(market.app)
    assert (await site.get("/ledger", headers=HTML)).code == 200

    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("cannot reach postgresql://ann:hunter2@db/x")

    monkeypatch.setattr(shares, "FOR", 0.0)
    monkeypatch.setattr(places, "_timed", away)
    for path in EMPTY:
        page = await site.get(path, headers=HTML)
        assert (path, page.code) == (path, 503)
        assert "The database is away" in page.text
        assert "hunter2" not in page.text
        assert "<table" not in page.text
        told = await site.get(f"/api/v1{path}")
        assert (path, told.code, told.document["retryable"]) == (path, 503, True)


async def test_a_read_only_dashboard_shows_money_and_moves_none(market: Marketplace) -> None:
    before = await market.app.store().actions(ActionFilter())
    site = site_for(market.app, read_only=True)
    for path in (*EMPTY, *LISTS):
        page = await site.get(path, headers=HTML)
        assert (path, page.code) == (path, 200)
        assert "/act" not in re.findall(r'(?:action|href)="([^"?]*)', page.text), path
    for verb in MONEY_VERBS:
        answer = await post(site, of_verb(verb.name))
        assert (verb.name, answer.code, answer.document["code"]) == (verb.name, 403, "READ_ONLY")
        assert (await submit(site, verb=verb.name, confirm=verb.name.partition(".")[0])).code == 403
    assert await market.app.store().actions(ActionFilter()) == before

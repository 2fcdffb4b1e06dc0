"""Pages of money belong to an economy: without one none is there, with one they agree and act."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import offpath
from offpath.economy import (
    Actor,
    Economy,
    TopUp,
    archive_postings,
    credits,
    seal_checkpoint,
    trim_postings,
)
from offpath.economy.console.readings import READINGS
from offpath.economy.operating.verbs import MONEY_VERBS
from offpath.economy.testing import MemoryAnchor, TestSigner
from offpath.model.action import ActionFilter, ActionState
from offpath.model.ledger.records import Checkpoint
from offpath.model.run import RunKind, RunRecord, RunReport
from offpath.model.tally import Verdict
from offpath.operating import actions
from offpath.operating.actions import Asker
from offpath.operating.orders import ActionAsked
from offpath.operating.verbs import VERBS
from offpath.web import auth, dashboard
from offpath.web.viewers import ADMIN, OPERATOR, VIEWER
from tests.unit.economy.marketplace import Marketplace
from tests.unit.web.dashboard.rig import BEARER, TOKEN, Site, add_economy
from tests.unit.web.dashboard.test_acting import post, submit

OPS = Actor.operator("ops")


class _Away(MemoryAnchor):
    """An anchor that cannot be reached."""

    async def publish(self, checkpoint: Checkpoint) -> None:
        raise ConnectionError(checkpoint.id)


@pytest.fixture
async def shop() -> AsyncIterator[offpath.App]:
    """An app with an economy in which something has happened, and a kind of settlement runs."""
    app = offpath.App("memory://")
    economy = add_economy(app)
    async with app:
        for key, user in (("t-1", "ann"), ("t-2", "bob")):
            await economy.submit(
                TopUp(key=key, actor=OPS, user=user, amount=credits(20), source="card")
            )
        yield app


def site_for(app: offpath.App, can: Any = ADMIN) -> Site:
    return Site(dashboard(app, auth=auth.token({"ann": TOKEN}, can=can)))


async def listed(site: Site, path: str) -> Any:
    answer = await site.get(f"/api/v1{path}")
    assert (path, answer.code) == (path, 200), answer.text
    return answer.document


async def test_without_an_economy_no_page_of_money_is_there(site: Site) -> None:
    menu = (await site.get("/")).text
    assert "/ledger" not in menu
    assert "/settlements" not in menu
    described = (await site.get("/api/v1/openapi.json")).document
    for one in READINGS:
        path = re.sub(r"{\w+}", "x", one.path)
        assert (await site.get(path)).code == 404
        assert (await site.get(f"/api/v1{path}")).code == 404
        assert one.path not in described["paths"]


async def test_each_page_of_an_economy_is_in_the_menu_and_answers(shop: offpath.App) -> None:
    site = site_for(shop)
    posting = (await listed(site, "/ledger/accounts/ann:spendable"))["items"][0]["posting"]
    for one in READINGS:
        path = one.path.format(account="ann:spendable", posting=posting)
        page = await site.get(path, headers={**BEARER, "accept": "text/html"})
        assert (path, page.code) == (path, 200), page.text
        for entry in ("/ledger", "/payouts", "/subscriptions", "/settlements"):
            assert f'href="{entry}"' in page.text
        assert page.text.count('aria-current="page"') >= 1
    described = (await site.get("/api/v1/openapi.json")).document
    assert {one.path for one in READINGS} <= set(described["paths"])


async def test_nothing_answers_without_credentials(shop: offpath.App) -> None:
    site = site_for(shop)
    for one in READINGS:
        for path in (one.path, f"/api/v1{one.path}"):
            answer = await site.get(
                re.sub(r"{\w+}", "x", path), headers={"accept": "application/json"}
            )
            assert (path, answer.code) == (path, 401)


async def test_accounts_are_found_by_their_beginning_and_paged(shop: offpath.App) -> None:
    site = site_for(shop)
    found = await listed(site, "/ledger/accounts?q=ann")
    assert [(one["id"], one["balance"]) for one in found["items"]] == [
        ("ann:spendable", "CREDIT:20.00")
    ]
    statement = await listed(site, "/ledger/accounts/ann:spendable")
    (line,) = statement["items"]
    assert found["items"][0]["last_at"] == statement["last_at"] == line["at"]
    first = await listed(site, "/ledger/accounts?limit=1")
    second = await listed(site, f"/ledger/accounts?limit=1&after={first['next']}")
    assert first["items"][0]["id"] < second["items"][0]["id"]


async def test_a_statement_goes_back_to_its_first_line(shop: offpath.App) -> None:
    for number in range(3):
        await shop.economy.submit(
            TopUp(key=f"n-{number}", actor=OPS, user="ann", amount=credits(1), source="card")
        )
    site, seen, after = site_for(shop), [], ""
    while True:
        page = await listed(site, f"/ledger/accounts/ann:spendable?limit=2{after}")
        seen += [one["number"] for one in page["items"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert seen == [4, 3, 2, 1]
    assert page["balance"] == "CREDIT:23.00"


async def test_a_statement_names_the_archive_that_has_its_older_lines(
    shop: offpath.App, tmp_path: Path
) -> None:
    site, path = site_for(shop), "/ledger/accounts/ann:spendable"
    assert (await seal_checkpoint(shop.economy)).sealed
    await archive_postings(shop.economy, tmp_path / "2025 & before.gz")
    await shop.economy.submit(
        TopUp(key="t-3", actor=OPS, user="ann", amount=credits(1), source="card")
    )
    await trim_postings(shop.economy, tmp_path / "2025 & before.gz", keep=0)
    assert (await listed(site, path))["archived"] == "2025 & before.gz"
    told = "they are in <code>2025 &amp; before.gz</code>"
    assert told in (await site.get(path)).text
    assert "archived" not in (await site.get(f"{path}?limit=1")).text
    assert told in (await site.get(f"{path}?limit=1&after=2")).text


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/ledger/accounts/nobody:spendable", 404),
        ("/ledger/accounts/what", 400),
        ("/ledger/accounts/ann:spendable?after=x", 400),
        ("/ledger/accounts/ann:spendable?after=0", 400),
        ("/ledger/postings/none", 404),
        ("/payouts?state=lost", 400),
        ("/subscriptions?state=lost", 400),
    ],
)
async def test_what_is_not_there_or_makes_no_sense_is_told(
    shop: offpath.App, path: str, code: int
) -> None:
    site = site_for(shop)
    assert (await site.get(f"/api/v1{path}")).code == code


async def test_facts_of_a_posting_are_a_payload(shop: offpath.App) -> None:
    posting = (await listed(site_for(shop), "/ledger/accounts/ann:spendable"))["items"][0][
        "posting"
    ]
    shown = await listed(site_for(shop), f"/ledger/postings/{posting}")
    assert shown["facts"]["kind"] == "topUp"
    assert sum(one["account"] == "ann:spendable" for one in shown["entries"]) == 1
    hidden = await listed(site_for(shop, VIEWER), f"/ledger/postings/{posting}")
    assert hidden["facts"] == "hidden"


async def test_payouts_and_subscriptions_are_listed_by_state_and_user() -> None:
    market = Marketplace()
    async with market.app:
        await market.top_up("ann", "500.00")
        await market.spend("ann", "100.00")
        await market.request_payout("sel", "20.00")
        await market.subscribe("ann", "5.00")
        site = site_for(market.app)
        (payout,) = (await listed(site, "/payouts?state=reserved&user=sel"))["items"]
        assert (payout["state"], payout["amount"], payout["quote"]) == (
            "RESERVED",
            "CREDIT:20.00",
            "USD:0.10",
        )
        told = await listed(site, "/payouts?state=settled")
        assert told["items"] == []
        assert [(one["state"], one["count"]) for one in told["counts"]] == [
            ("RESERVED", 1),
            ("SUBMITTED", 0),
            ("FAILED", 0),
        ]
        assert told["counts"][0]["oldest_at"] == payout["requested_at"]
        assert told["findings"] == []
        assert (await listed(site, "/payouts?user=ann"))["items"] == []
        books = (await listed(site, "/ledger"))["payouts"]
        assert [(one["state"], one["count"], one["more"]) for one in books] == [
            ("RESERVED", 1, False),
            ("SUBMITTED", 0, False),
        ]
        (one,) = (await listed(site, "/subscriptions?state=active"))["items"]
        assert (one["user"], one["seller"], one["price"]) == ("ann", "sel", "CREDIT:5.00")
        for path in ("/payouts", "/subscriptions", "/ledger"):
            assert (await site.get(path, headers={**BEARER, "accept": "text/html"})).code == 200


async def test_cash_is_counted_by_the_rates_of_the_economy(shop: offpath.App) -> None:
    shown, stand = (
        await listed(site_for(shop), "/ledger/backing"),
        await shop.economy.read.position(),
    )
    assert shown["backed"] is (stand.shortfall == 0)
    assert shown["users"] == "CREDIT:40.00"


# -- verbs -----------------------------------------------------------------------------------------


def of_verb(name: str, **fields: Any) -> dict[str, Any]:
    return {"verb": name, "target": {}, "confirm": name.partition(".")[0], **fields}


async def test_a_proof_is_asked_for_kept_and_shown(shop: offpath.App) -> None:
    site = site_for(shop)
    assert (await listed(site, "/ledger"))["proof"] is None
    told = (await post(site, of_verb("ledger.prove"))).document
    assert (told["state"], told["changed"] > 1, told["reasons"]) == ("done", True, {})
    shown = await listed(site, "/ledger")
    assert shown["proof"]["id"] == told["id"]
    page = (await site.get("/ledger", headers={**BEARER, "accept": "text/html"})).text
    assert "accounts looked at" in page


async def test_a_seal_is_signed_then_verified_and_not_made_twice(shop: offpath.App) -> None:
    site = site_for(shop)
    early = (await post(site, of_verb("ledger.verify"))).document
    assert early["reasons"] == {"nothing_sealed_yet": 1}
    sealed = (await post(site, of_verb("ledger.checkpoint"))).document
    assert (sealed["state"], sealed["text"]) == ("done", "1 sealed")
    (kept,) = (await listed(site, "/ledger/checkpoints"))["items"]
    assert (await listed(site, "/ledger"))["checkpoint"] == kept
    assert (await post(site, of_verb("ledger.verify"))).document["text"] == "1 verified"
    again = (await post(site, of_verb("ledger.checkpoint"))).document
    assert again["reasons"] == {"nothing_was_posted_since": 1}


@pytest.mark.parametrize(
    ("anchor", "outcome", "reasons", "words"),
    [
        (MemoryAnchor(), "published", {}, "published <time"),
        (_Away(), "failed", {"not_published_at_the_anchor": 1}, "a checkpoint was not published"),
        (None, "absent", {}, "the economy has none"),
    ],
)
async def test_the_books_tell_what_the_anchor_did(
    anchor: MemoryAnchor | None, outcome: str, reasons: dict[str, int], words: str
) -> None:
    app = offpath.App("memory://", auto_start=False)  # else a worker seals too
    economy = Economy(app, signer=TestSigner(), anchor=anchor)
    async with app:
        site = site_for(app)
        assert (await listed(site, "/ledger"))["anchor"] is None
        assert "no run that sealed is kept" in (await site.get("/ledger")).text
        await economy.submit(
            TopUp(key="t-1", actor=OPS, user="ann", amount=credits(20), source="card")
        )
        told = (await post(site, of_verb("ledger.checkpoint"))).document
        assert (told["changed"], told["reasons"]) == (1, reasons)
        (run,) = (await listed(site, "/runs?name=economy.checkpoint"))["items"]
        books = await listed(site, "/ledger")
        assert books["anchor"] == {"at": run["at"], "outcome": outcome}
        assert words in (await site.get("/ledger")).text
        await post(site, of_verb("ledger.checkpoint"))  # nothing was posted since: no run is kept
        assert (await listed(site, "/ledger"))["anchor"] == books["anchor"]


async def test_a_seal_that_fails_leaves_what_the_anchor_did_before(shop: offpath.App) -> None:
    site = site_for(shop)
    await post(site, of_verb("ledger.checkpoint"))
    before = (await listed(site, "/ledger"))["anchor"]
    await shop.store().put_run(
        RunRecord(
            id=shop.new_id(),
            kind=RunKind.SWEEP,
            name="economy.checkpoint",
            at=shop.clock.now(),
            report=RunReport(verdict=Verdict.FAILED, counts={"dead_lettered": 1}),
        )
    )
    assert before["outcome"] == "absent"
    assert (await listed(site, "/ledger"))["anchor"] == before


async def test_sweeps_of_the_economy_rest_and_go_on(shop: offpath.App) -> None:
    site = site_for(shop)
    assert (await post(site, of_verb("economy.pause", options={"seconds": 60}))).code == 200
    assert await shop.economy.paused()
    assert (await listed(site, "/ledger"))["paused"] is True
    assert (await post(site, of_verb("economy.resume"))).document["changed"] == 1
    assert not await shop.economy.paused()
    assert (await post(site, of_verb("economy.resume"))).document["reasons"] == {"not_paused": 1}


async def test_a_release_says_why(shop: offpath.App) -> None:
    site = site_for(shop)
    told = (await post(site, of_verb("economy.release"))).document
    assert (told["state"], "say why" in told["error"]) == ("failed", True)
    told = (await post(site, of_verb("economy.release", note="paid in"))).document
    assert told["reasons"] == {"nothing_rested": 1}


@pytest.mark.parametrize("verb", [*(one.name for one in MONEY_VERBS), "settlement.run"])
async def test_money_wants_its_right_and_its_name(shop: offpath.App, verb: str) -> None:
    target = {"kind": "bonus", "period": "2026-11"} if verb == "settlement.run" else {}
    asked = {"verb": verb, "target": target}
    answer = await post(site_for(shop, OPERATOR), asked)
    assert (answer.code, answer.document["code"]) == (403, "RIGHT.MISSING")
    site = site_for(shop)
    for confirm in (None, "yes"):
        answer = await post(site, {**asked, "confirm": confirm})
        assert (answer.code, answer.document["code"]) == (409, "UNCONFIRMED")
    assert await shop.store().actions(ActionFilter()) == []
    wanted = (await post(site, asked, "/api/v1/actions/preview")).document["confirm"]
    assert wanted == VERBS[verb].typed(_target(verb, target))  # type: ignore[misc]
    page = await site.get(f"/act?verb={verb}&kind=bonus&period=2026-11&back=/ledger")
    assert page.code == 200
    assert wanted in page.text


def _target(verb: str, given: dict[str, str]) -> Any:
    return VERBS[verb].target(**given)


async def test_a_person_confirms_by_a_form(shop: offpath.App) -> None:
    site = site_for(shop)
    asked = {"verb": "ledger.prove", "o_dot_full": "false", "back": "/ledger"}
    assert (await submit(site, **asked)).code == 409
    answer = await submit(site, **asked, confirm="ledger")
    assert answer.code == 303
    assert answer.headers["location"].startswith("/ledger?done=")
    (kept,) = await shop.store().actions(ActionFilter())
    assert (kept.actor, kept.via, kept.options) == ("ann", "dashboard", '{"full":false}')


async def test_what_needs_the_code_waits_for_who_has_it() -> None:
    async with offpath.App("memory://") as bare:
        for verb, target in (
            ("ledger.prove", {}),
            ("ledger.verify", {}),
            ("ledger.checkpoint", {}),
            ("economy.release", {}),
            ("settlement.run", {"kind": "bonus", "period": "2026-11"}),
        ):
            confirm = VERBS[verb].typed(_target(verb, target))  # type: ignore[misc]
            asked = ActionAsked(verb=verb, target=target, confirm=confirm)
            record = await actions.ask(bare, asked, Asker(name="ann", via="api"))
            done = await actions.advance(bare, record)
            assert (done.elsewhere, done.record.state) == (True, ActionState.RUNNING)


async def test_a_period_is_credited_and_told(shop: offpath.App) -> None:
    site = site_for(shop)
    target = {"kind": "bonus", "period": "2026-11"}
    asked = {"verb": "settlement.run", "target": target, "confirm": "bonus 2026-11"}
    told = (await post(site, asked)).document
    assert (told["state"], told["text"]) == ("done", "2 credited")
    shown = await listed(site, "/settlements")
    assert [(one["kind"], one["last"]) for one in shown["kinds"]] == [("bonus", None)]
    (run,) = shown["runs"]
    assert (run["kind"], run["period"], run["credited"], run["failed"]) == (
        "bonus",
        "2026-11",
        2,
        0,
    )
    (kept,) = shown["periods"]
    assert (kept["kind"], kept["verdict"], kept["warning"]) == ("bonus", "clean", None)
    assert kept["period"].startswith("2026-11")
    assert [kept[name] for name in ("attempted", "credited", "skipped", "failed")] == [2, 2, 0, 0]
    page = await site.get("/settlements", headers={**BEARER, "accept": "text/html"})
    assert "Runs by period" in page.text


async def test_a_long_step_keeps_its_action(shop: offpath.App) -> None:
    """A proof may take longer than the lease: it is renewed until the proof has ended."""
    asked = ActionAsked(verb="ledger.prove", target={}, confirm="ledger")
    record = await actions.ask(shop, asked, Asker(name="ann", via="api"))
    renewed = []
    step_action, prove = shop.store().step_action, shop.economy.prove

    async def noted(progress: Any) -> Any:
        renewed.append(progress.state)
        return await step_action(progress)

    async def slow(*, full: bool = True) -> Any:
        while len(renewed) < 2:
            await shop.clock.sleep(0)
        return await prove(full=full)

    shop.store().step_action = noted  # type: ignore[method-assign]
    shop.economy.prove = slow
    lease, actions.LEASE = actions.LEASE, 0.03  # type: ignore[misc]
    try:
        done = await actions.advance(shop, record)
    finally:
        actions.LEASE = lease  # type: ignore[misc]
    assert done.record.state is ActionState.DONE
    assert renewed[:2] == [ActionState.RUNNING] * 2

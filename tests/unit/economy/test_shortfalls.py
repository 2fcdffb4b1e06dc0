"""Cash that falls short: what it comes from is told, and the house can put it in."""

from __future__ import annotations

from typing import Any

import pytest

from offpath import App
from offpath.economy import (
    Actor,
    Clawback,
    Committed,
    Economy,
    Entry,
    Fund,
    GrantPromo,
    InvalidAmount,
    MalformedOperation,
    NewPosting,
    Share,
    Spend,
    TopUp,
    Unauthorized,
    check_treasury,
    credits,
    usd,
)
from offpath.economy.sweeps.summaries import Breach
from offpath.jobs.client.core import core_of
from offpath.runtime.clock import ManualClock
from tests.unit.economy.marketplace import OPS, START, Marketplace, committed


async def breach(economy: Economy) -> Breach:
    (found,) = (await check_treasury(economy)).breaches
    return found


async def fund(economy: Economy, amount: Any, **given: Any) -> Any:
    request = {"key": f"fund-{amount}", "actor": OPS, "reason": "for promos", **given}
    return await economy.submit(Fund(amount=amount, **request))


async def refunded(market: Marketplace) -> None:
    """Undo the only order that there is."""
    (sale,) = await (await core_of(market.app).opened()).ledger_sides("sale")
    committed(await market.refund(sale.id))


async def test_a_promo_sale_at_default_settings_is_a_breach_that_fund_ends() -> None:
    """Sellers earn for promo credits what nobody paid in: the house does."""
    clock = ManualClock(START)
    async with App(clock=clock, auto_start=False) as app:
        economy = Economy(app)
        ends = clock.now().replace(year=2027)
        grant: dict[str, Any] = {"key": "g", "actor": OPS, "user": "ann", "expires_at": ends}
        committed(await economy.submit(GrantPromo(amount=credits(40), **grant)))
        assert (await check_treasury(economy)).breaches == ()
        order: dict[str, Any] = {"order_id": "A", "sku": "song", "buyer": "ann", "key": "s"}
        order |= {"actor": Actor.user("ann"), "recipients": (Share("sue", 10_000),)}
        committed(await economy.submit(Spend(price=credits(40), **order)))
        found = await breach(economy)
        assert (found.explained.given_away, found.explained.unexplained) == (4_000, 0)
        assert isinstance(await fund(economy, found.shortfall), Committed)
        assert (await check_treasury(economy)).breaches == ()
        proof = await economy.prove()
        assert proof.holds, proof


async def test_a_refund_after_the_payout_is_explained_by_the_sellers_debt(
    market: Marketplace,
) -> None:
    payout = await market.payout("sue", 70, submitted=True)
    committed(await market.settle(payout))
    await refunded(market)
    found = await breach(market.economy)
    assert (found.explained.debts, found.explained.unexplained) == (7_000, 0)
    committed(await fund(market.economy, found.shortfall))
    assert (await check_treasury(market.economy)).breaches == ()


async def test_a_debt_that_is_paid_ends_its_breach(market: Marketplace) -> None:
    payout = await market.payout("sue", 70, submitted=True)
    committed(await market.settle(payout))
    await refunded(market)
    await market.earns("sue", 70)
    assert await market.balance("sue:owed") == 0
    assert (await check_treasury(market.economy)).breaches == ()


async def test_a_clawback_with_its_dollars_is_explained_by_the_debt(market: Marketplace) -> None:
    committed(await market.top_up("ann", "100.00"))
    committed(await market.spend("ann", "100.00", "sue"))
    taken = Clawback(key="c", actor=OPS, user="ann", amount=credits(100), dollars=usd("1.00"))
    committed(await market.economy.submit(taken))
    found = await breach(market.economy)
    assert (found.explained.debts, found.explained.unexplained) == (10_000, 0)


async def test_what_nothing_explains_is_told_as_such(market: Marketplace) -> None:
    """Dollars that left by a posting of somebody's own."""
    committed(await market.top_up("ann", "100.00"))
    away = (Entry("platform:usd_clearing", 20), Entry("platform:trust_cash", -20))
    await market.app.post(NewPosting(id="away", entries=away, meta={"kind": "mine"}))
    found = await breach(market.economy)
    assert (found.shortfall, found.explained.unexplained) == (usd("0.20"), 20)


async def test_funds_move_dollars_of_the_house_into_trust_and_nothing_else(
    market: Marketplace,
) -> None:
    done = committed(await fund(market.economy, usd("12.34"), ref="wire-7"))
    assert await market.house("trust_cash") == 1_234
    assert await market.house("usd_clearing") == -1_234
    posting = await market.economy.read.posting(str(done.id))
    assert posting is not None
    assert (posting.facts["kind"], posting.facts["ref"]) == ("fund", "wire-7")
    await market.sound()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"amount": credits(5)}, InvalidAmount),
        ({"amount": usd(0)}, InvalidAmount),
        ({"amount": usd(-1)}, InvalidAmount),
        ({"amount": 5}, InvalidAmount),
        ({"reason": ""}, MalformedOperation),
        ({"ref": "a\u200b"}, MalformedOperation),
        ({"actor": Actor.user("ann")}, Unauthorized),
    ],
)
async def test_funds_that_cannot_be_meant_are_refused(
    market: Marketplace, given: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await fund(market.economy, **{"amount": usd(5), **given})
    assert await market.house("trust_cash") == 0


async def test_a_top_up_of_default_settings_is_no_breach() -> None:
    async with App(clock=ManualClock(START), auto_start=False) as app:
        economy = Economy(app)
        paid = TopUp(key="t", actor=OPS, user="ann", amount=credits(100), source="card")
        committed(await economy.submit(paid))
        assert (await check_treasury(economy)).breaches == ()

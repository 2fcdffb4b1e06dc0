"""The platform's take of its revenue: never more than is its own."""

from __future__ import annotations

import pytest

from offpath.economy import Commingling, InvalidAmount, Rates, credits, rate
from offpath.economy.ledger.operations.steps_fees import NOTHING
from tests.unit.economy.conftest import Opens
from tests.unit.economy.marketplace import (
    Marketplace,
    committed,
    duplicate,
    rejected,
)

CENT = Rates(buy=rate("buy", 1, 2), par=rate("par", 1, 2), payout=rate("payout", 5, 3))


@pytest.fixture
async def market(open_market: Opens) -> Marketplace:
    """Credits at a cent each; revenue of 30.00, a seller with 70.00, a user with 100.00."""
    market = await open_market(rates=CENT)
    committed(await market.top_up("ann", "100.00"))
    await market.earns("sel", 70)
    return market


async def test_matured_revenue_that_cash_covers_is_taken(market: Marketplace) -> None:
    """§16.54"""
    assert await market.house("trust_cash") == 200
    committed(await market.economy.sweep_fees("june", credits(30)))
    assert await market.house("revenue") == 0
    assert await market.house("trust_cash") == 170
    assert await market.balance("ann:spendable") == 10_000
    assert await market.house("stored_value") == 17_000
    assert (await market.economy.read.position()).shortfall == 0
    await market.sound()


async def test_a_key_sweeps_once(market: Marketplace) -> None:
    """§16.57"""
    first = committed(await market.economy.sweep_fees("2026-06", credits(10)))
    again = duplicate(await market.economy.sweep_fees("2026-06", credits(10)))
    assert again == first
    assert await market.house("revenue") == 2_000
    assert (await market.topics()).count("economy.fees.swept") == 1


async def test_more_than_there_is_is_commingling(market: Marketplace) -> None:
    """§16.55"""
    before = await market.postings()
    with pytest.raises(Commingling):
        await market.economy.sweep_fees("k", credits(31))
    assert await market.postings() == before
    committed(await market.economy.sweep_fees("k", credits(30)))


async def test_revenue_that_may_still_be_refunded_is_not_taken(open_market: Opens) -> None:
    """§16.56"""
    market = await open_market(rates=CENT, maturity_default=1.0)
    await market.earns("sel", 70)
    with pytest.raises(Commingling):
        await market.economy.sweep_fees("k", credits("1.00"))
    assert rejected(await market.economy.sweep_fees("all"))[0] == NOTHING
    market.at(1_000)
    committed(await market.economy.sweep_fees("all"))
    assert await market.house("revenue") == 0


@pytest.mark.parametrize("amount", [credits(0), credits(-1)])
async def test_an_amount_that_is_not_above_zero_is_none(
    market: Marketplace, amount: object
) -> None:
    """§16.58"""
    with pytest.raises(InvalidAmount):
        await market.economy.sweep_fees("k", amount)  # type: ignore[arg-type]


async def test_all_that_may_be_taken_is_taken_once(market: Marketplace) -> None:
    """§16.59"""
    receipt = committed(await market.economy.sweep_fees("fees:1"))
    assert receipt.facts == {"amount": "CREDIT:30.00", "usd": "USD:0.30"}
    duplicate(await market.economy.sweep_fees("fees:1"))
    assert rejected(await market.economy.sweep_fees("fees:2")) == (NOTHING, {})
    assert (await market.topics()).count("economy.fees.swept") == 1


async def test_what_sellers_earned_is_never_swept(open_market: Opens) -> None:
    """§17.1"""
    market = await open_market(velocity_limit_minor=10**12)
    for seller in ("a", "b"):
        committed(await market.top_up(f"{seller}-fan", credits(10_000)))
        committed(await market.spend(f"{seller}-fan", credits(10_000), seller))
    requested = committed(await market.request_payout("b", credits(7_000)))
    payout_id = str(requested.facts["payout_id"])
    await market.submitted(payout_id)
    committed(await market.settle(payout_id))
    assert await market.house("trust_cash") == 6_500
    committed(await market.economy.sweep_fees("all"))
    assert await market.house("trust_cash") == 3_500
    position = await market.economy.read.position()
    assert (position.shortfall, position.held, position.obligations) == (0, 3_500, 3_500)
    requested = committed(await market.request_payout("a", credits(7_000)))
    payout_id = str(requested.facts["payout_id"])
    assert rejected(await market.economy.sweep_fees("more"))[0] == NOTHING
    await market.submitted(payout_id)
    committed(await market.settle(payout_id))
    assert await market.house("trust_cash") == 0
    await market.sound()

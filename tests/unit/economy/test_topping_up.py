"""Topping up."""

from __future__ import annotations

import pytest

from offpath.economy import (
    Actor,
    CurrencyMismatch,
    InvalidAmount,
    MalformedOperation,
    Unauthorized,
    credits,
    usd,
)
from tests.unit.economy.conftest import Opens
from tests.unit.economy.marketplace import Marketplace, committed


async def test_what_backs_a_top_up_is_rounded_up(market: Marketplace) -> None:
    """§16.100"""
    committed(await market.top_up("ann", "0.50"))
    assert await market.house("trust_cash") == 1
    committed(await market.top_up("ben", "2.00"))
    assert await market.house("trust_cash") == 2
    assert await market.balance("ann:spendable") == 50
    await market.sound()


async def test_the_margin_between_buy_and_par_is_revenue_in_dollars(market: Marketplace) -> None:
    committed(await market.top_up("ann", "200.00"))
    assert await market.house("trust_cash") == 100
    assert await market.house("revenue_usd") == 100
    assert await market.house("usd_clearing") == -200
    assert await market.house("stored_value") == 20_000


async def test_a_top_up_gives_its_credit_posting_and_names_the_other(market: Marketplace) -> None:
    receipt = committed(await market.top_up("ann", "2.00"))
    first, second = [await market.economy.read.posting(one) for one in receipt.postings]
    assert first is not None
    assert second is not None
    assert receipt.id == first.id
    assert first.facts["pair"] == second.id
    assert first.facts["rateId"] == second.facts["rateId"]
    assert first.facts["source"] == "card"


async def test_an_amount_off_the_catalogue_is_malformed(open_market: Opens) -> None:
    """§16.100"""
    market = await open_market(top_up_bundles_minor=(50_000, 100_000))
    committed(await market.top_up("ann", "500.00"))
    with pytest.raises(MalformedOperation):
        await market.top_up("ann", "1199.00")


async def test_users_cannot_top_up(market: Marketplace) -> None:
    with pytest.raises(Unauthorized):
        await market.top_up("ann", "1.00", actor=Actor.user("ann"))


@pytest.mark.parametrize("amount", [credits("0.00"), credits("-1.00"), usd(1)])
async def test_what_is_no_amount_to_move_is_refused(market: Marketplace, amount: object) -> None:
    with pytest.raises((InvalidAmount, CurrencyMismatch)):
        await market.top_up("ann", amount)  # type: ignore[arg-type]
    assert await market.postings() == 0


async def test_more_than_an_operation_may_move_is_refused(market: Marketplace) -> None:
    with pytest.raises(InvalidAmount):
        await market.top_up("ann", credits(10**13 + 1))


@pytest.mark.parametrize(
    "given",
    [
        {"source": " "},
        {"source": "payout_return"},
        {"source": "payout_return;1@1"},
        {"key": ""},
        {"key": "reversed:order"},
        {"user": " "},
        {"user": "platform"},
        {"user": "a:b"},
        {"user": "a b"},
        {"actor": "bank"},
    ],
)
async def test_a_top_up_that_cannot_be_meant_is_malformed(
    market: Marketplace, given: dict[str, str]
) -> None:
    user = given.pop("user", "ann")
    with pytest.raises(MalformedOperation):
        await market.top_up(user, "1.00", **given)

"""Refunds, clawbacks and reversals."""

from __future__ import annotations

from typing import Any

import pytest

from offpath.economy import (
    Actor,
    Adjust,
    ChainBroken,
    Clawback,
    CurrencyMismatch,
    InvalidAmount,
    MalformedOperation,
    Outcome,
    Overdraft,
    Refund,
    Reverse,
    Share,
    Unauthorized,
    UnknownAccount,
    credits,
    usd,
)
from offpath.economy.ledger.rows import SaleBody, body, moved
from offpath.model.ledger.records import Receipt
from tests.unit.economy.marketplace import OPS, Marketplace, committed, duplicate, rejected


async def clawback(market: Marketplace, user: str, amount: str, **given: Any) -> Outcome:
    request = {"key": market.key(), "actor": OPS, **given}
    return await market.economy.submit(Clawback(user=user, amount=credits(amount), **request))


async def reverse(market: Marketplace, receipt: Receipt | str, **given: Any) -> Outcome:
    posting = receipt if isinstance(receipt, str) else str(receipt.id)
    request = {"key": market.key(), "actor": OPS, "reason": "a mistake", **given}
    return await market.economy.submit(Reverse(posting_id=posting, **request))


async def adjust(market: Marketplace, account: str, amount: Any, **given: Any) -> Outcome:
    request = {"key": market.key(), "actor": OPS, "reason": "by hand", **given}
    return await market.economy.submit(Adjust(account=account, amount=amount, **request))


# -- refunds -----------------------------------------------------------------------------------


async def test_a_refund_takes_from_everybody_what_the_sale_gave(market: Marketplace) -> None:
    await market.promo("ann", "1.00")
    await market.top_up("ann", "10.00")
    committed(await market.spend("ann", "4.00", order_id="o1"))
    committed(await market.refund("o1"))
    assert await market.balance("ann:spendable") == 1000
    assert await market.balance("ann:promo") == 100
    assert await market.balance("sel:earned") == 0
    assert await market.house("revenue") == 0
    assert await market.house("receivable") == 0
    assert not await market.economy.read.owns("ann", "hat")
    await market.sound()


async def test_the_buyer_is_whole_although_the_seller_cashed_out(market: Marketplace) -> None:
    """§16.106"""
    await market.top_up("ann", "10.00")
    committed(await market.spend("ann", "10.00", order_id="o1"))
    committed(await market.request_payout("sel", "7.00"))
    committed(await market.refund("o1"))
    assert await market.balance("ann:spendable") == 1000
    assert await market.balance("sel:owed") == 700
    assert await market.house("receivable") == await market.house("revenue") == 0
    await market.sound()


async def test_a_second_refund_gives_the_first_one(market: Marketplace) -> None:
    """§16.106"""
    await market.top_up("ann", "10.00")
    committed(await market.spend("ann", "10.00", order_id="o1"))
    first = committed(await market.refund("o1"))
    assert duplicate(await market.refund("o1")).id == first.id
    assert await market.balance("ann:spendable") == 1000


async def test_a_refund_of_a_gift_revokes_it_from_who_got_it(market: Marketplace) -> None:
    """§16.106"""
    await market.top_up("ann", "10.00")
    committed(await market.spend("ann", "10.00", order_id="o1", gift_to="ben"))
    committed(await market.refund("o1"))
    assert not await market.economy.read.owns("ben", "hat")


async def test_a_refund_leaves_what_another_order_gave(market: Marketplace) -> None:
    await market.top_up("ann", "10.00")
    committed(await market.spend("ann", "1.00", order_id="o1"))
    committed(await market.spend("ann", "1.00", order_id="o2"))
    committed(await market.refund("o1"))
    assert await market.economy.read.owns("ann", "hat")
    committed(await market.refund("o2"))
    assert not await market.economy.read.owns("ann", "hat")


async def test_an_order_that_nobody_knows_is_declined(market: Marketplace) -> None:
    assert rejected(await market.refund("nope")) == ("UNKNOWN_ORDER", {"orderId": "nope"})


async def test_a_refund_of_an_order_in_the_same_batch_is_planned_anew(market: Marketplace) -> None:
    await market.top_up("ann", "10.00")
    spend = market.order("ann", "4.00", order_id="o1")
    refund = Refund(key="r1", actor=OPS, order_id="o1")
    outcomes = await market.economy.submit_many([spend, refund])
    assert isinstance(outcomes[1], type(outcomes[0])), outcomes
    assert await market.balance("ann:spendable") == 1000


@pytest.mark.parametrize("change", ["recipient", "entries", "anchor", "sku"])
async def test_a_sale_that_was_altered_refunds_nothing(market: Marketplace, change: str) -> None:
    await market.top_up("ann", "10.00")
    committed(await market.spend("ann", "10.00", Share("sel", 10_000), order_id="o1"))
    row = await market.row("sale", "o1")
    sale = body(row, SaleBody)
    forgeries: dict[str, dict[str, Any]] = {
        "recipient": {"recipient": "eve"},
        "entries": {"entries": (("eve:spendable", -1000), ("ann:spendable", 1000))},
        "sku": {"sku": "house"},
        "anchor": {},
    }
    values = {name: getattr(sale, name) for name in SaleBody.__struct_fields__}
    other = committed(await market.top_up("eve", "10.00"))
    anchor = other.id if change == "anchor" else row.anchor
    market.forge(moved(row, 1, content=SaleBody(**{**values, **forgeries[change]}), anchor=anchor))
    with pytest.raises(ChainBroken):
        await market.refund("o1")
    assert await market.balance("ann:spendable") == 0
    assert await market.balance("eve:spendable") == 1000


async def test_users_do_not_refund(market: Marketplace) -> None:
    with pytest.raises(Unauthorized):
        await market.economy.submit(Refund(key="k", actor=Actor.user("ann"), order_id="o"))


# -- clawbacks ---------------------------------------------------------------------------------


async def test_a_clawback_takes_what_is_there_and_the_rest_is_owed(market: Marketplace) -> None:
    """§16.107"""
    await market.top_up("ann", "3.00")
    committed(await clawback(market, "ann", "5.00"))
    assert await market.balance("ann:spendable") == 0
    assert await market.balance("ann:owed") == 200
    assert await market.house("stored_value") == -200
    await market.sound()


async def test_a_clawback_of_what_was_refunded_takes_nothing(market: Marketplace) -> None:
    """§16.107"""
    await market.top_up("ann", "3.00")
    committed(await market.spend("ann", "3.00", order_id="o1"))
    refunded = committed(await market.refund("o1"))
    again = duplicate(await clawback(market, "ann", "3.00", order_id="o1"))
    assert again.id == refunded.id
    assert again.facts["undone_by"] == "refund"
    assert await market.balance("ann:spendable") == 300


async def test_an_order_whose_payment_was_clawed_back_can_be_refunded(market: Marketplace) -> None:
    """The bank's loss says nothing of who is to give back what the sale gave: the buyer has their
    dollars, so what he is refunded pays what he owes.
    """
    await market.top_up("ann", "3.00")
    committed(await market.spend("ann", "2.00", order_id="o1"))
    committed(await clawback(market, "ann", "2.00", order_id="o1"))
    assert await market.balance("ann:owed") == 100
    assert await market.economy.read.owns("ann", "hat")
    committed(await market.refund("o1"))
    assert await market.balance("ann:owed") == 0
    assert await market.balance("ann:spendable") == 100
    assert not await market.economy.read.owns("ann", "hat")
    await market.sound()


# -- reversals and adjustments -----------------------------------------------------------------


async def test_a_posting_is_reversed_once(market: Marketplace) -> None:
    """§16.114"""
    receipt = committed(await market.top_up("ann", "3.00"))
    undone = committed(await reverse(market, receipt))
    assert await market.balance("ann:spendable") == 0
    assert duplicate(await reverse(market, receipt)).id == undone.id
    await market.sound()


async def test_a_reversal_is_not_reversed(market: Marketplace) -> None:
    """§16.114"""
    receipt = committed(await market.top_up("ann", "3.00"))
    undone = committed(await reverse(market, receipt))
    with pytest.raises(MalformedOperation, match="reversal itself"):
        await reverse(market, undone)


async def test_a_sale_that_was_refunded_is_not_reversed_too(market: Marketplace) -> None:
    await market.top_up("ann", "3.00")
    sale = committed(await market.spend("ann", "3.00", order_id="o1"))
    refunded = committed(await market.refund("o1"))
    assert duplicate(await reverse(market, sale)).id == refunded.id
    assert await market.balance("ann:spendable") == 300


async def test_a_sale_that_was_reversed_is_not_refunded_too(market: Marketplace) -> None:
    await market.top_up("ann", "3.00")
    sale = committed(await market.spend("ann", "3.00", order_id="o1"))
    committed(await reverse(market, sale))
    duplicate(await market.refund("o1"))
    assert await market.balance("ann:spendable") == 300


async def test_what_is_not_there_cannot_be_reversed(market: Marketplace) -> None:
    with pytest.raises(MalformedOperation, match="no posting"):
        await reverse(market, "nothing")


async def test_a_reversal_that_overdraws_a_wallet_is_refused(market: Marketplace) -> None:
    receipt = committed(await market.top_up("ann", "3.00"))
    committed(await market.spend("ann", "1.00"))
    with pytest.raises(Overdraft):
        await reverse(market, receipt)
    assert await market.balance("ann:spendable") == 200


async def test_an_adjustment_moves_a_balance_against_opening_equity(market: Marketplace) -> None:
    committed(await adjust(market, "ann:spendable", credits("5.00")))
    committed(await adjust(market, "platform:receivable", credits("2.00")))
    committed(await adjust(market, "ann:spendable", credits("-1.00")))
    assert await market.balance("ann:spendable") == 400
    assert await market.house("receivable") == 200
    assert await market.house("opening_equity") == 500 - 200 - 100
    await market.sound()


async def test_an_adjustment_below_zero_is_refused(market: Marketplace) -> None:
    with pytest.raises(Overdraft):
        await adjust(market, "ann:spendable", credits("-0.01"))


@pytest.mark.parametrize(
    ("account", "amount", "error"),
    [
        ("ann:spendable", credits(0), InvalidAmount),
        ("ann:spendable", usd(1), CurrencyMismatch),
        ("platform:trust_cash", credits(1), CurrencyMismatch),
        ("platform:opening_equity", credits(1), MalformedOperation),
        ("platform:petty", credits(1), UnknownAccount),
        ("ann:pocket", credits(1), UnknownAccount),
    ],
)
async def test_an_adjustment_that_cannot_be_meant_is_refused(
    market: Marketplace, account: str, amount: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await adjust(market, account, amount)

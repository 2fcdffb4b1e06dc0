"""An undone operation is never undone again: whatever is pruned, and however things are named."""

from __future__ import annotations

from datetime import timedelta

import pytest

from offpath.economy import (
    Adjust,
    Clawback,
    MalformedOperation,
    Outcome,
    Receipt,
    Refund,
    Reverse,
    ReversePayout,
    credits,
)
from offpath.economy.ledger.operations.steps_promos import promo_expired
from offpath.economy.sweeps.prune import PruneLedger
from offpath.jobs.client.core import core_of
from offpath.model.ledger.decision import Decided, LedgerOp
from tests.unit.economy.conftest import Opens
from tests.unit.economy.marketplace import OPS, START, Marketplace, committed, duplicate


async def reverse(market: Marketplace, posting: str | None) -> Outcome:
    request = Reverse(key=market.key(), actor=OPS, posting_id=str(posting), reason="a mistake")
    return await market.economy.submit(request)


async def sold(market: Marketplace, order: str = "o1") -> Receipt:
    committed(await market.top_up("ann", "5.00"))
    return committed(await market.spend("ann", "5.00", order_id=order))


async def forgotten(market: Marketplace) -> None:
    """A day later, with every key pruned that may be."""
    market.clock.advance(86_400)
    target = PruneLedger(market.economy)
    await target.run(None, market.clock.now(), 1_000)  # type: ignore[arg-type]


# -- keys that are pruned ----------------------------------------------------------------------


async def test_an_order_is_refunded_once_also_when_its_keys_are_long_gone(
    open_market: Opens,
) -> None:
    market = await open_market(keep_keys=3_600.0)
    await sold(market)
    first = Refund(key="first", actor=OPS, order_id="o1")
    refunded = committed(await market.economy.submit(first))
    await forgotten(market)
    assert await market.economy.read.receipt("first") is None
    assert duplicate(await market.refund("o1")).id == refunded.id
    assert await market.balance("ann:spendable") == 500


async def test_a_posting_is_reversed_once_also_when_its_keys_are_long_gone(
    open_market: Opens,
) -> None:
    market = await open_market(keep_keys=3_600.0)
    made = committed(await market.top_up("ann", "5.00"))
    committed(await market.top_up("ann", "5.00"))
    undone = committed(await reverse(market, made.id))
    await forgotten(market)
    assert duplicate(await reverse(market, made.id)).id == undone.id
    assert await market.balance("ann:spendable") == 500


async def test_what_lasts_does_not_keep_what_does_not(open_market: Opens) -> None:
    market = await open_market(keep_keys=3_600.0)
    await sold(market)
    committed(await market.refund("o1"))
    committed(await market.top_up("ann", "1.00", key="after"))
    await forgotten(market)
    assert await market.economy.read.receipt("after") is None


# -- names -------------------------------------------------------------------------------------


async def test_an_order_named_like_a_posting_does_not_stand_for_it(market: Marketplace) -> None:
    sale = await sold(market)
    committed(await market.top_up("ben", "1.00"))
    committed(await market.spend("ben", "1.00", order_id=str(sale.id)))
    committed(await market.refund(str(sale.id)))  # of ben's
    committed(await reverse(market, sale.id))
    assert await market.balance("ann:spendable") == 500


@pytest.mark.parametrize("name", ["posting:{}", "order:{}", "{}:x", "reversed:order:{}"])
async def test_no_name_of_an_order_makes_it_another(market: Marketplace, name: str) -> None:
    sale = await sold(market)
    order = name.format(sale.id)
    committed(await market.top_up("ben", "1.00"))
    committed(await market.spend("ben", "1.00", order_id=order))
    committed(await reverse(market, sale.id))
    committed(await market.refund(order))
    assert await market.balance("ben:spendable") == 100


async def test_a_clawback_shares_only_its_orders_key(market: Marketplace) -> None:
    sale = await sold(market)
    committed(await market.top_up("eve", "5.00"))
    order = f"posting:{sale.id}"
    committed(await market.spend("eve", "5.00", order_id=order))
    request = Clawback(key="c", actor=OPS, user="eve", amount=credits(5), order_id=order)
    committed(await market.economy.submit(request))
    committed(await reverse(market, sale.id))


# -- postings that belong to rows --------------------------------------------------------------


@pytest.mark.parametrize("state", ["RESERVED", "SUBMITTED", "SETTLED", "FAILED"])
async def test_the_reserve_of_a_payout_is_not_reversed_behind_its_back(
    market: Marketplace, state: str
) -> None:
    """The reserve of all payouts is one account: else this one is paid from another's."""
    await market.payout("other", 7)
    payout = await market.payout("sel", 7, submitted=state in {"SUBMITTED", "SETTLED"})
    row = await market.row("payout", payout)
    if state == "SETTLED":
        committed(await market.settle(payout))
    if state == "FAILED":
        request = ReversePayout(key="f", actor=OPS, user="sel", payout_id=payout, reason="x")
        committed(await market.economy.submit(request))
    earned, reserve = await market.balance("sel:earned"), await market.house("payout_reserve")
    with pytest.raises(MalformedOperation, match="ReversePayout"):
        await reverse(market, row.anchor)
    assert await market.balance("sel:earned") == earned
    assert await market.house("payout_reserve") == reserve


@pytest.mark.parametrize("state", ["SETTLED", "FAILED"])
async def test_the_end_of_a_payout_is_not_reversed(market: Marketplace, state: str) -> None:
    """Its credits would be in the reserve for good: no open payout takes them."""
    payout = await market.payout("sel", 7, submitted=state == "SETTLED")
    if state == "SETTLED":
        end = committed(await market.settle(payout))
    else:
        request = ReversePayout(key="f", actor=OPS, user="sel", payout_id=payout, reason="x")
        end = committed(await market.economy.submit(request))
    with pytest.raises(MalformedOperation, match="Adjust"):
        await reverse(market, end.postings[0])
    assert await market.house("payout_reserve") == 0


async def test_a_promo_that_was_reversed_takes_nothing_of_another_when_it_expires(
    market: Marketplace,
) -> None:
    first = committed(await market.promo("ann", "5.00", ms=1_000))
    committed(await market.promo("ann", "5.00", ms=900_000))
    committed(await reverse(market, first.id))
    assert await market.balance("ann:promo") == 500
    market.clock.set(START + timedelta(seconds=2))
    row = await market.row("promo", str(first.id))
    assert (row.state, row.due_at) == ("REVERSED", None)
    assert (await market.decided(promo_expired(row, market.economy.new_id))).receipt is None
    assert await market.balance("ann:promo") == 500


async def test_a_promo_that_expired_is_not_reversed_too(market: Marketplace) -> None:
    first = committed(await market.promo("ann", "5.00", ms=1_000))
    committed(await market.promo("ann", "5.00", ms=900_000))
    market.clock.set(START + timedelta(seconds=2))
    row = await market.row("promo", str(first.id))
    await market.step(promo_expired(row, market.economy.new_id))
    with pytest.raises(MalformedOperation, match="expired"):
        await reverse(market, first.id)
    assert await market.balance("ann:promo") == 500


async def test_a_sale_reversed_in_its_own_batch_is_not_refunded_too(market: Marketplace) -> None:
    """Planned before the sale was there: the accounts are the batch's, the order's key is not."""
    committed(await market.top_up("ann", "5.00"))
    sale = await market.economy.prepare(market.order("ann", "5.00", order_id="o1"))
    posting = str(sale.decide.__self__._posting)  # type: ignore[attr-defined]
    undone = await market.economy.prepare(
        Reverse(key="r", actor=OPS, posting_id=posting, reason="x")
    )
    answers = await _together(market, sale, undone)
    assert answers[1].error is not None
    assert answers[1].error.code == "LEDGER.UNPLANNED"  # type: ignore[attr-defined]
    committed(await reverse(market, posting))
    duplicate(await market.refund("o1"))
    assert await market.balance("ann:spendable") == 500


async def _together(market: Marketplace, *ops: LedgerOp) -> list[Decided]:
    return await (await core_of(market.app).opened()).post(ops)


async def test_every_wallet_can_be_adjusted(market: Marketplace) -> None:
    user = "u" * 200
    request = Adjust(key="a", actor=OPS, account=f"{user}:spendable", amount=credits(1), reason="x")
    committed(await market.economy.submit(request))

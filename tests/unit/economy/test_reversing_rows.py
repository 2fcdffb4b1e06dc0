"""A reversal, and the rows beside its posting: subscriptions, orders, promo credits."""

from __future__ import annotations

import pytest

from offpath.economy import (
    Actor,
    CancelSubscription,
    ChainBroken,
    Clawback,
    MalformedOperation,
    Outcome,
    Receipt,
    Refund,
    Reverse,
    credits,
)
from offpath.economy.ledger.anchors import proved_promo
from offpath.economy.ledger.operations.steps_promos import promo_expired
from offpath.economy.ledger.operations.steps_subscriptions import subscription_renewed
from offpath.economy.ledger.rows import PromoBody, body, moved
from offpath.economy.sweeps.prune import PruneLedger
from offpath.jobs.client.core import core_of
from offpath.model.ledger.records import SideRow
from tests.unit.economy.conftest import Opens
from tests.unit.economy.marketplace import OPS, START, Marketplace, committed, duplicate

DAY = 86_400_000
GRACE = 30 * DAY
START_MS = round(START.timestamp() * 1_000)


async def reverse(market: Marketplace, receipt: Receipt) -> Outcome:
    request = Reverse(key=market.key(), actor=OPS, posting_id=str(receipt.id), reason="a mistake")
    return await market.economy.submit(request)


async def clawback(market: Marketplace, amount: str = "2.00", order: str = "o1") -> Outcome:
    request = Clawback(
        key=market.key(), actor=OPS, user="ann", amount=credits(amount), order_id=order
    )
    return await market.economy.submit(request)


# -- the first payment of a subscription -------------------------------------------------------


async def subscribed(market: Marketplace) -> tuple[Receipt, str]:
    committed(await market.top_up("ann", "30.00"))
    receipt = committed(await market.subscribe("ann", "10.00"))
    return receipt, str(receipt.facts["subscription_id"])


async def renewed(market: Marketplace, subscription: str, ms: int = 5_000) -> None:
    market.at(ms)
    row = await market.row("subscription", subscription)
    await market.step(subscription_renewed(row, market.economy.rules, market.economy.new_id))


async def test_a_subscription_whose_first_payment_is_undone_ends(market: Marketplace) -> None:
    receipt, subscription = await subscribed(market)
    committed(await reverse(market, receipt))
    row = await market.row("subscription", subscription)
    assert (row.state, row.due_at, row.unique_key) == ("CANCELED", None, None)
    assert not await market.economy.read.owns("ann", "perk")
    assert await market.balance("ann:spendable") == 3000
    assert (await market.topics()).count("economy.subscription.canceled") == 1
    market.at(5_000)
    store = await core_of(market.app).opened()
    assert await store.lease_sides("subscription", limit=10, hold=1.0) == []
    committed(await market.subscribe("ann", "10.00"))
    assert await market.economy.read.owns("ann", "perk")
    await market.sound()


async def test_what_another_title_gives_stays(market: Marketplace) -> None:
    receipt, _ = await subscribed(market)
    committed(await market.spend("ann", "5.00", sku="perk"))
    committed(await reverse(market, receipt))
    assert await market.economy.read.owns("ann", "perk")


async def test_a_later_period_that_was_paid_is_had_to_its_end(market: Marketplace) -> None:
    receipt, subscription = await subscribed(market)
    await renewed(market, subscription)
    committed(await reverse(market, receipt))
    assert (await market.row("subscription", subscription)).state == "CANCELED"
    market.at(10_000)
    assert await market.economy.read.owns("ann", "perk")
    market.at(10_001)
    assert not await market.economy.read.owns("ann", "perk")
    assert await market.balance("ann:spendable") == 2000


async def test_one_that_was_canceled_before_is_taken_back_too(market: Marketplace) -> None:
    receipt, subscription = await subscribed(market)
    request = CancelSubscription(key="c", actor=Actor.user("ann"), subscription_id=subscription)
    committed(await market.economy.submit(request))
    assert await market.economy.read.owns("ann", "perk")
    committed(await reverse(market, receipt))
    assert not await market.economy.read.owns("ann", "perk")
    assert (await market.topics()).count("economy.subscription.canceled") == 1


async def test_a_subscription_that_was_altered_is_not_undone(market: Marketplace) -> None:
    receipt, subscription = await subscribed(market)
    row = await market.row("subscription", subscription)
    market.forge(moved(row, 1, content=None, body=row.body.replace("perk", "moon")))
    with pytest.raises(ChainBroken):
        await reverse(market, receipt)
    assert await market.balance("ann:spendable") == 2000


async def test_a_renewal_that_is_undone_ends_nothing(market: Marketplace) -> None:
    _, subscription = await subscribed(market)
    await renewed(market, subscription)
    store = await core_of(market.app).opened()
    last = (await store.ledger_postings(limit=100))[-1]
    assert last.facts["kind"] == "subscriptions.renew"
    committed(await reverse(market, Receipt(id=last.id)))
    assert (await market.row("subscription", subscription)).state == "ACTIVE"
    assert await market.economy.read.owns("ann", "perk")
    assert await market.balance("ann:spendable") == 2000


# -- an order whose clawback is undone ---------------------------------------------------------


async def sold(market: Marketplace) -> Receipt:
    committed(await market.top_up("ann", "5.00"))
    return committed(await market.spend("ann", "2.00", order_id="o1"))


async def test_an_order_whose_clawback_was_undone_is_refunded_once(market: Marketplace) -> None:
    await sold(market)
    taken = committed(await clawback(market))
    committed(await reverse(market, taken))
    refunded = committed(await market.refund("o1"))
    assert duplicate(await market.refund("o1")).id == refunded.id
    assert duplicate(await clawback(market)).id == refunded.id
    duplicate(await reverse(market, taken))
    assert await market.balance("ann:spendable") == 500
    assert not await market.economy.read.owns("ann", "hat")
    await market.sound()


async def test_it_can_be_clawed_back_anew_and_undone_again(market: Marketplace) -> None:
    await sold(market)
    for _ in range(3):
        taken = committed(await clawback(market))
        assert await market.balance("ann:spendable") == 100
        duplicate(await clawback(market))
        committed(await reverse(market, taken))
        assert await market.balance("ann:spendable") == 300
    committed(await market.refund("o1"))
    duplicate(await clawback(market))
    assert await market.balance("ann:spendable") == 500


async def test_its_sale_can_be_reversed_and_then_not_be_refunded(market: Marketplace) -> None:
    sale = await sold(market)
    taken = committed(await clawback(market))
    committed(await reverse(market, taken))
    undone = committed(await reverse(market, sale))
    again = duplicate(await market.refund("o1"))
    assert (again.id, again.facts["undone_by"]) == (undone.id, "reverse")
    assert await market.balance("ann:spendable") == 500


async def test_a_refund_that_was_undone_can_be_made_again(market: Marketplace) -> None:
    await sold(market)
    committed(await reverse(market, committed(await market.refund("o1"))))
    assert await market.balance("ann:spendable") == 300
    committed(await market.refund("o1"))
    duplicate(await market.refund("o1"))
    assert await market.balance("ann:spendable") == 500
    assert await market.balance("sel:earned") == 0


async def test_that_it_was_refunded_then_is_known_for_ever(open_market: Opens) -> None:
    market = await open_market(keep_keys=3_600.0)
    await sold(market)
    committed(await reverse(market, committed(await clawback(market))))
    refunded = committed(await market.refund("o1"))
    market.clock.advance(86_400)
    await PruneLedger(market.economy).run(None, market.clock.now(), 1_000)  # type: ignore[arg-type]
    assert duplicate(await market.refund("o1")).id == refunded.id


async def test_no_order_is_named_like_what_undid_another(market: Marketplace) -> None:
    await sold(market)
    taken = committed(await clawback(market))
    committed(await reverse(market, taken))
    for name in (f"again:{taken.id}", str(taken.id), "dispute:o1"):
        committed(await market.spend("ann", "0.01", order_id=name))
        committed(await clawback(market, "0.01", order=name))
    committed(await market.refund("o1"))


async def test_a_refund_planned_before_another_was_undone_pays_once(
    market: Marketplace,
) -> None:
    await sold(market)
    early = await market.economy.prepare(Refund(key="early", actor=OPS, order_id="o1"))
    undone = committed(await market.refund("o1"))
    committed(await reverse(market, undone))
    assert getattr((await market.decided(early)).error, "code", None) == "LEDGER.UNPLANNED"
    committed(await market.refund("o1"))
    assert await market.balance("ann:spendable") == 500


# -- promo credits that come back --------------------------------------------------------------


async def expired(market: Marketplace, grant: str) -> str:
    row = await market.row("promo", grant)
    receipt = await market.step(promo_expired(row, market.economy.new_id))
    return str(receipt.facts["amount"])


async def promos(market: Marketplace) -> list[SideRow]:
    store = await core_of(market.app).opened()
    return await store.ledger_sides("promo", states=("OPEN",))


async def paid_with_promo(market: Marketplace) -> str:
    """Three of five credits of a grant are spent, then it expires."""
    grant = str(committed(await market.promo("ann", "5.00", ms=1_000)).id)
    committed(await market.spend("ann", "3.00", order_id="o1"))
    market.at(1_000)
    assert await expired(market, grant) == "CREDIT:2.00"
    return grant


async def test_what_outlived_its_grant_comes_back_with_a_new_end(market: Marketplace) -> None:
    await paid_with_promo(market)
    refunded = committed(await market.refund("o1"))
    assert await market.balance("ann:promo") == 300
    (row,) = await promos(market)
    assert (row.id, row.amount, row.due_at) == (refunded.id, 300, START_MS + 1_000 + GRACE)
    market.at(1_000 + GRACE - 1)
    assert (await market.decided(promo_expired(row, market.economy.new_id))).refusal is not None
    market.at(1_000 + GRACE)
    assert await expired(market, row.id) == "CREDIT:3.00"
    assert await market.balance("ann:promo") == 0
    assert await market.house("promo_float") == 0
    await market.sound()


async def test_the_grace_is_a_setting(open_market: Opens) -> None:
    market = await open_market(promo_grace=60.0)
    await paid_with_promo(market)
    committed(await market.refund("o1"))
    (row,) = await promos(market)
    assert row.due_at == START_MS + 61_000


async def test_what_a_grant_that_is_open_covers_keeps_its_end(market: Marketplace) -> None:
    grant = str(committed(await market.promo("ann", "5.00", ms=1_000)).id)
    committed(await market.spend("ann", "3.00", order_id="o1"))
    committed(await market.refund("o1"))
    assert [row.id for row in await promos(market)] == [grant]
    market.at(1_000)
    assert await expired(market, grant) == "CREDIT:5.00"


async def test_only_what_is_not_covered_is_granted_anew(market: Marketplace) -> None:
    await paid_with_promo(market)
    other = str(committed(await market.promo("ann", "4.00", ms=DAY)).id)
    committed(await market.spend("ann", "1.00", order_id="o2"))  # of the other: it has room
    committed(await market.refund("o1"))
    (row,) = [row for row in await promos(market) if row.id != other]
    assert row.amount == 200
    market.at(DAY)
    assert await expired(market, other) == "CREDIT:4.00"
    assert await market.balance("ann:promo") == 200


async def test_a_grant_given_while_it_was_planned_is_counted(market: Marketplace) -> None:
    await paid_with_promo(market)
    early = await market.economy.prepare(Refund(key="early", actor=OPS, order_id="o1"))
    committed(await market.promo("ann", "4.00", ms=DAY))
    assert getattr((await market.decided(early)).error, "code", None) == "LEDGER.UNPLANNED"
    await market.economy.submit(Refund(key="early", actor=OPS, order_id="o1"))
    assert sorted(row.amount or 0 for row in await promos(market)) == [300, 400]


async def test_so_is_one_that_another_hides_which_ended_meanwhile(market: Marketplace) -> None:
    await paid_with_promo(market)
    brief = str(committed(await market.promo("ann", "1.00", ms=2_000)).id)
    early = await market.economy.prepare(Refund(key="early", actor=OPS, order_id="o1"))
    committed(await market.promo("ann", "4.00", ms=DAY))
    market.at(2_000)
    assert await expired(market, brief) == "CREDIT:1.00"
    committed(await market.spend("ann", "1.00", order_id="o2"))
    assert getattr((await market.decided(early)).error, "code", None) == "LEDGER.UNPLANNED"
    await market.economy.submit(Refund(key="early", actor=OPS, order_id="o1"))
    assert sorted(row.amount or 0 for row in await promos(market)) == [200, 400]


async def test_a_sale_or_a_subscription_that_is_reversed_gives_an_end_too(
    market: Marketplace,
) -> None:
    grant = str(committed(await market.promo("ann", "7.00", ms=1_000)).id)
    sale = committed(await market.spend("ann", "3.00"))
    charge = committed(await market.subscribe("ann", "4.00"))
    market.at(1_000)
    await expired(market, grant)
    for receipt, amount in ((sale, 300), (charge, 400)):
        undone = committed(await reverse(market, receipt))
        row = await market.row("promo", str(undone.id))
        assert (row.state, row.amount) == ("OPEN", amount)
    market.at(1_000 + GRACE)
    for row in await promos(market):
        await expired(market, row.id)
    assert await market.balance("ann:promo") == 0


async def test_an_expiry_that_is_undone_gives_an_end_too(market: Marketplace) -> None:
    grant = str(committed(await market.promo("ann", "5.00", ms=1_000)).id)
    market.at(1_000)
    receipt = await market.step(
        promo_expired(await market.row("promo", grant), market.economy.new_id)
    )
    committed(await reverse(market, Receipt(id=receipt.postings[0])))
    (row,) = await promos(market)
    assert (row.amount, row.due_at) == (500, START_MS + 1_000 + GRACE)


async def test_a_refund_that_is_undone_takes_its_grant_with_it(market: Marketplace) -> None:
    await paid_with_promo(market)
    refunded = committed(await market.refund("o1"))
    committed(await reverse(market, refunded))
    assert await promos(market) == []
    assert await market.balance("ann:promo") == 0
    again = committed(await market.refund("o1"))
    (row,) = await promos(market)
    assert (row.id, row.amount) == (again.id, 300)
    market.at(1_000 + GRACE)
    await expired(market, row.id)
    with pytest.raises(MalformedOperation, match="expired"):
        await reverse(market, again)


@pytest.mark.parametrize("change", ["amount", "owner", "expires", "anchor"])
async def test_a_grant_of_a_refund_that_was_altered_takes_nothing(
    market: Marketplace, change: str
) -> None:
    await paid_with_promo(market)
    refunded = committed(await market.refund("o1"))
    other = committed(await market.promo("eve", "9.00", ms=2 * GRACE))
    row = await market.row("promo", str(refunded.id))
    forged = {
        "amount": moved(row, 1, amount=900),
        "owner": moved(row, 1, owner="eve"),
        "expires": moved(row, 1, content=PromoBody(expires_at=1)),
        "anchor": moved(row, 1, anchor=other.id),
    }[change]
    store = await core_of(market.app).opened()
    posting = await store.ledger_postings(ids=(str(forged.anchor),))
    assert body(row, PromoBody) == proved_promo(
        row, (await store.ledger_postings(ids=(str(row.anchor),)))[0]
    )
    with pytest.raises(ChainBroken):
        proved_promo(forged, posting[0])


async def test_bought_credits_alone_bring_no_grant(market: Marketplace) -> None:
    await sold(market)
    committed(await market.refund("o1"))
    assert await promos(market) == []

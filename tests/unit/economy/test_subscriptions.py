"""Subscriptions: the first payment, renewals, lapses."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from offpath.economy import (
    Actor,
    CancelSubscription,
    ChainBroken,
    MalformedOperation,
    Outcome,
    Refund,
    Unauthorized,
)
from offpath.economy.ledger.operations.steps_payouts import STALE
from offpath.economy.ledger.operations.steps_subscriptions import (
    subscription_failed,
    subscription_lapsed,
    subscription_renewed,
)
from offpath.economy.ledger.rows import SubscriptionBody, body, moved
from offpath.jobs.client.core import core_of
from offpath.model.ledger.records import Receipt, SideRow
from tests.unit.economy.conftest import Opens
from tests.unit.economy.marketplace import BASE, OPS, Marketplace, committed, rejected

PERIOD = 5_000


async def subscribed(market: Marketplace, user: str, price: str, **given: Any) -> str:
    """Somebody who has just paid his first period, with nothing left."""
    committed(await market.top_up(user, price))
    receipt = committed(await market.subscribe(user, price, **given))
    return str(receipt.facts["subscription_id"])


async def cancel(market: Marketplace, subscription: str, actor: Actor = OPS) -> Outcome:
    return await market.economy.submit(
        CancelSubscription(key=market.key(), actor=actor, subscription_id=subscription)
    )


async def renew(market: Marketplace, row: SideRow) -> Receipt:
    return await market.step(subscription_renewed(row, market.economy.rules, market.economy.new_id))


async def leased(market: Marketplace) -> SideRow:
    store = await core_of(market.app).opened()
    (row,) = await store.lease_sides("subscription", limit=10, hold=60.0)
    return row


async def due(market: Marketplace, price: str = "100.00", funds: str | None = None) -> SideRow:
    """A subscription whose next period is due, leased as a sweep does."""
    await subscribed(market, "ann", price)
    market.at(PERIOD)
    if funds is not None:
        committed(await market.top_up("ann", funds))
    return await leased(market)


# -- subscribing -------------------------------------------------------------------------------


async def test_the_first_period_is_paid_at_once(market: Marketplace) -> None:
    subscription = await subscribed(market, "ann", "100.00")
    assert await market.balance("ann:spendable") == 0
    assert await market.balance("sel:earned") == 7_000
    assert await market.house("revenue") == 3_000
    found = await market.economy.read.subscription(subscription)
    assert found is not None
    assert (found.state, found.number, found.period) == ("ACTIVE", 1, 5.0)
    assert await market.economy.read.owns("ann", "perk")
    await market.sound()


async def test_promo_credits_pay_the_seller_in_full(market: Marketplace) -> None:
    await market.promo("ann", "40.00")
    committed(await market.top_up("ann", "60.00"))
    committed(await market.subscribe("ann", "100.00"))
    assert await market.balance("ann:promo") == 0
    assert await market.balance("sel:earned") == 4_000 + 4_200
    assert await market.house("revenue") == 1_800 - 4_000
    await market.sound()


async def test_one_active_subscription_of_user_thing_and_seller(market: Marketplace) -> None:
    subscription = await subscribed(market, "ann", "10.00")
    committed(await market.top_up("ann", "50.00"))
    assert rejected(await market.subscribe("ann", "10.00")) == (
        "ALREADY_SUBSCRIBED",
        {"userId": "ann", "sku": "perk"},
    )
    committed(await market.subscribe("ann", "10.00", seller="other"))
    committed(await cancel(market, subscription))
    committed(await market.subscribe("ann", "10.00"))


@pytest.mark.parametrize(
    "given",
    [
        {"seller": "ann"},
        {"seller": "platform"},
        {"sku": ""},
        {"period": 0.0},
        {"period": 0.0001},
        {"period": 11 * 366 * 86_400.0},
        {"period": 1.0004},
        {"price": "0.50"},
        {"price": "2000000.00"},
    ],
)
async def test_a_subscription_that_cannot_be_meant_is_malformed(
    open_market: Opens, given: dict[str, Any]
) -> None:
    market = await open_market(subscription_price_min_minor=100)
    price = given.pop("price", "10.00")
    with pytest.raises(MalformedOperation):
        await market.subscribe("ann", price, **given)


async def test_young_credits_wait_here_too(open_market: Opens) -> None:
    market = await open_market(maturity_card=60.0)
    committed(await market.top_up("ann", "10.00"))
    reason, fields = rejected(await market.subscribe("ann", "10.00"))
    assert (reason, fields["availableAt"]) == ("FUNDS_IMMATURE", BASE + 60_000)


# -- cancelling --------------------------------------------------------------------------------


async def test_a_cancelled_subscription_is_owned_until_its_end(market: Marketplace) -> None:
    subscription = await subscribed(market, "ann", "10.00")
    committed(await cancel(market, subscription, Actor.user("ann")))
    assert await market.economy.read.owns("ann", "perk")
    assert rejected(await cancel(market, subscription))[0] == "UNKNOWN_SUBSCRIPTION"
    assert (await market.row("subscription", subscription)).due_at is None
    market.at(PERIOD + 1)
    assert not await market.economy.read.owns("ann", "perk")


async def test_only_ones_own_subscription_is_cancelled(market: Marketplace) -> None:
    subscription = await subscribed(market, "ann", "10.00")
    with pytest.raises(Unauthorized):
        await cancel(market, subscription, Actor.user("eve"))
    assert rejected(await cancel(market, "sub_nobody")) == (
        "UNKNOWN_SUBSCRIPTION",
        {"subscriptionId": "sub_nobody"},
    )


async def test_a_lapsed_one_can_be_cancelled(market: Marketplace) -> None:
    row = await due(market)
    await renew(market, row)
    committed(await cancel(market, row.id))
    assert (await market.row("subscription", row.id)).state == "CANCELED"


# -- renewing ----------------------------------------------------------------------------------


async def test_a_renewal_pays_the_next_period(market: Marketplace) -> None:
    """§16.38"""
    row = await due(market, "100.00", funds="100.00")
    receipt = await renew(market, row)
    assert receipt.facts["outcome"] == "charged"
    assert await market.balance("ann:spendable") == 0
    assert await market.balance("sel:earned") == 2 * 7_000
    assert await market.house("revenue") == 2 * 3_000
    after = await market.row("subscription", row.id)
    assert body(after, SubscriptionBody).number == 2
    assert after.due_at == BASE + 2 * PERIOD
    assert (await market.topics()).count("economy.subscription.renewed") == 1
    await market.sound()


async def test_the_fee_of_a_renewal_is_whole_credits(market: Marketplace) -> None:
    """§16.39"""
    row = await due(market, "100.01", funds="100.01")
    await renew(market, row)
    assert await market.house("revenue") == 2 * 3_100
    assert await market.balance("sel:earned") == 2 * 6_901


async def test_a_renewal_without_the_money_lapses(market: Marketplace) -> None:
    """§16.40 §16.49"""
    row = await due(market, "100.00", funds="99.99")
    postings = await market.postings()
    receipt = await renew(market, row)
    assert receipt.facts["outcome"] == "lapsed"
    assert await market.postings() == postings
    assert await market.balance("ann:spendable") == 9_999
    assert not await market.economy.read.owns("ann", "perk")
    assert (await market.topics()).count("economy.subscription.lapsed") == 1
    after = await market.row("subscription", row.id)
    assert (after.state, after.due_at, after.unique_key) == ("LAPSED", None, None)


async def test_renewals_never_use_promo_credits(market: Marketplace) -> None:
    row = await due(market, "100.00")
    await market.promo("ann", "500.00")
    assert (await renew(market, row)).facts["outcome"] == "lapsed"
    assert await market.balance("ann:promo") == 50_000


async def test_two_sweeps_with_the_same_row_charge_once_and_lapse_nothing(
    market: Marketplace,
) -> None:
    """§16.46 §17.3"""
    row = await due(market, "100.00", funds="100.00")
    await renew(market, row)
    op = subscription_renewed(row, market.economy.rules, market.economy.new_id)
    decided = await market.decided(op)
    assert decided.refusal is not None
    assert decided.refusal.reason == STALE
    after = await market.row("subscription", row.id)
    assert after.state == "ACTIVE"
    assert await market.economy.read.owns("ann", "perk")
    assert await market.balance("ann:spendable") == 0
    assert (await market.topics()).count("economy.subscription.renewed") == 1


async def test_a_stale_lapse_ends_nothing(market: Marketplace) -> None:
    """§16.51 §17.3"""
    row = await due(market, "100.00", funds="100.00")
    await renew(market, row)
    decided = await market.decided(subscription_lapsed(row, "late", market.economy.new_id))
    assert decided.refusal is not None
    assert (await market.row("subscription", row.id)).state == "ACTIVE"


async def test_a_cancel_in_between_stays(market: Marketplace) -> None:
    """§17.5"""
    row = await due(market, "100.00", funds="100.00")
    committed(await cancel(market, row.id))
    for op in (
        subscription_failed(row, "X", market.economy.new_id, most=3, due_at=1),
        subscription_renewed(row, market.economy.rules, market.economy.new_id),
    ):
        assert (await market.decided(op)).refusal is not None
    assert (await market.row("subscription", row.id)).state == "CANCELED"
    assert await market.balance("ann:spendable") == 10_000


async def test_young_funds_put_a_renewal_off_and_count_nothing(open_market: Opens) -> None:
    """§16.47 §17.4"""
    market = await open_market(maturity_card=0.0, maturity_crypto=60.0)
    await subscribed(market, "ann", "100.00")
    market.at(PERIOD)
    committed(await market.top_up("ann", "100.00", source="crypto"))
    receipt = await renew(market, await leased(market))
    assert receipt.facts["outcome"] == "deferred"
    assert receipt.facts["code"] == "FUNDS_IMMATURE"
    available = BASE + PERIOD + 60_000
    after = await market.row("subscription", str(receipt.id))
    assert (after.due_at, after.attempts, after.state) == (available, 0, "ACTIVE")
    market.at(PERIOD + 60_000)
    assert (await renew(market, await leased(market))).facts["outcome"] == "charged"


async def test_failed_attempts_are_counted_and_the_last_one_lapses(market: Marketplace) -> None:
    """§16.44"""
    row = await due(market, "100.00", funds="100.00")
    for attempts in (1, 2):
        op = subscription_failed(row, "STORE.FAILURE", market.economy.new_id, most=3, due_at=7)
        assert (await market.step(op)).facts["attempts"] == attempts
        row = await market.row("subscription", row.id)
        assert (row.state, row.attempts, row.due_at) == ("ACTIVE", attempts, 7)
    op = subscription_failed(row, "STORE.FAILURE", market.economy.new_id, most=3, due_at=7)
    assert (await market.step(op)).facts["outcome"] == "lapsed"
    assert not await market.economy.read.owns("ann", "perk")


async def test_a_success_forgets_failed_attempts(market: Marketplace) -> None:
    """§16.45"""
    row = await due(market, "100.00", funds="100.00")
    op = subscription_failed(row, "X", market.economy.new_id, most=3, due_at=7)
    await market.step(op)
    row = await market.row("subscription", row.id)
    await renew(market, row)
    after = await market.row("subscription", row.id)
    assert (after.attempts, body(after, SubscriptionBody).number) == (0, 2)


async def test_a_renewal_is_owned_at_its_last_millisecond(market: Marketplace) -> None:
    """§16.48"""
    await renew(market, await due(market, "100.00", funds="100.00"))
    market.at(2 * PERIOD)
    assert await market.economy.read.owns("ann", "perk")
    market.at(2 * PERIOD + 1)
    assert not await market.economy.read.owns("ann", "perk")


async def test_an_overdue_subscription_catches_up_one_period_at_a_time(
    market: Marketplace,
) -> None:
    await subscribed(market, "ann", "100.00")
    committed(await market.top_up("ann", "300.00"))
    market.at(3 * PERIOD)
    for number in (2, 3, 4):
        receipt = await renew(market, await leased(market))
        assert receipt.facts["period"] == number
    store = await core_of(market.app).opened()
    assert await store.lease_sides("subscription", limit=10, hold=60.0) == []


@pytest.mark.parametrize("change", ["price", "seller", "period", "owner"])
async def test_an_altered_row_charges_nobody(market: Marketplace, change: str) -> None:
    """§16.50"""
    row = await due(market, "100.00", funds="1000.00")
    content = body(row, SubscriptionBody)
    forgeries: dict[str, Any] = {
        "price": replace(content, price=1),
        "seller": replace(content, seller="eve"),
        "period": replace(content, period=1),
        "owner": content,
    }
    owner = "ben" if change == "owner" else row.owner
    market.forge(moved(row, 1, content=forgeries[change], owner=owner))
    forged = await market.row("subscription", row.id)
    op = subscription_renewed(forged, market.economy.rules, market.economy.new_id)
    assert isinstance((await market.decided(op)).error, ChainBroken)
    assert await market.balance("ann:spendable") == 100_000
    receipt = await market.step(subscription_lapsed(forged, "CHAIN.BROKEN", market.economy.new_id))
    assert receipt.facts["outcome"] == "lapsed"


async def test_a_row_that_nobody_can_read_can_still_be_ended(market: Marketplace) -> None:
    row = await due(market)
    market.forge(replace(row, body="{"))
    forged = await market.row("subscription", row.id)
    with pytest.raises(ChainBroken):
        subscription_renewed(forged, market.economy.rules, market.economy.new_id)
    await market.step(subscription_lapsed(forged, "CHAIN.BROKEN", market.economy.new_id))
    assert (await market.row("subscription", row.id)).state == "LAPSED"


async def test_what_was_bought_outlives_a_subscription_to_it(market: Marketplace) -> None:
    committed(await market.top_up("ann", "10.00"))
    committed(await market.spend("ann", "10.00", sku="perk", order_id="o1"))
    row = await due(market, "100.00")
    await renew(market, row)
    assert await market.economy.read.owns("ann", "perk")
    committed(await market.economy.submit(Refund(key="r", actor=OPS, order_id="o1")))
    assert not await market.economy.read.owns("ann", "perk")

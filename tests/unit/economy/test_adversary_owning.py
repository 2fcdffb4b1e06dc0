"""Ownership of what a user has from several places."""

from __future__ import annotations

from datetime import timedelta

from offpath.economy import CancelSubscription, GrantEntitlement, RevokeEntitlement
from offpath.economy.ledger.operations.ownership import MOST
from offpath.economy.ledger.operations.steps_subscriptions import (
    subscription_lapsed,
    subscription_renewed,
)
from offpath.economy.ledger.rows import EntitlementBody, body
from tests.unit.economy.marketplace import OPS, START, Marketplace, committed


async def owns(market: Marketplace, user: str = "ann", sku: str = "perk") -> bool:
    return await market.economy.read.owns(user, sku)


async def test_a_thing_that_was_bought_twice_is_owned_until_both_are_refunded(
    market: Marketplace,
) -> None:
    committed(await market.top_up("ann", "9.00"))
    for order in ("o1", "o2"):
        committed(await market.spend("ann", "1.00", order_id=order, sku="perk"))
    committed(await market.refund("o2"))
    assert await owns(market)
    committed(await market.refund("o1"))
    assert not await owns(market)


async def test_a_refund_of_the_first_leaves_the_second(market: Marketplace) -> None:
    committed(await market.top_up("ann", "9.00"))
    for order in ("o1", "o2"):
        committed(await market.spend("ann", "1.00", order_id=order, sku="perk"))
    committed(await market.refund("o1"))
    assert await owns(market)


async def test_a_refund_leaves_what_a_subscription_gives(market: Marketplace) -> None:
    committed(await market.top_up("ann", "9.00"))
    committed(await market.spend("ann", "1.00", order_id="o1", sku="perk"))
    receipt = committed(await market.subscribe("ann", "1.00", period=5.0))
    committed(await market.refund("o1"))
    assert await owns(market)
    market.at(5_001)
    assert not await owns(market)  # as paid until then
    row = await market.row("subscription", str(receipt.facts["subscription_id"]))
    await market.step(subscription_renewed(row, market.economy.rules, market.economy.new_id))
    assert await owns(market)


async def test_what_lapses_leaves_what_was_bought(market: Marketplace) -> None:
    committed(await market.top_up("ann", "9.00"))
    receipt = committed(await market.subscribe("ann", "1.00", period=5.0))
    committed(await market.spend("ann", "1.00", order_id="o1", sku="perk"))
    row = await market.row("subscription", str(receipt.facts["subscription_id"]))
    await market.step(subscription_lapsed(row, "x", market.economy.new_id))
    assert await owns(market)
    committed(await market.refund("o1"))
    assert not await owns(market)


async def test_a_gift_and_a_purchase_are_two_titles(market: Marketplace) -> None:
    committed(await market.top_up("ann", "9.00"))
    committed(await market.top_up("ben", "9.00"))
    committed(await market.spend("ann", "1.00", order_id="o1", sku="perk"))
    committed(await market.spend("ben", "1.00", order_id="o2", sku="perk", gift_to="ann"))
    committed(await market.refund("o2"))
    assert await owns(market)


async def test_taken_by_hand_is_taken_wherever_it_came_from(market: Marketplace) -> None:
    committed(await market.top_up("ann", "9.00"))
    for order in ("o1", "o2"):
        committed(await market.spend("ann", "1.00", order_id=order, sku="perk"))
    committed(
        await market.economy.submit(RevokeEntitlement(key="r", actor=OPS, user="ann", sku="perk"))
    )
    assert not await owns(market)
    committed(await market.refund("o1"))
    assert not await owns(market)
    committed(await market.spend("ann", "1.00", order_id="o3", sku="perk"))
    committed(await market.refund("o3"))
    assert not await owns(market), "what was taken by hand does not come back"


async def test_titles_that_ended_are_forgotten(market: Marketplace) -> None:
    committed(await market.top_up("ann", "9.00"))
    receipt = committed(await market.subscribe("ann", "1.00", period=5.0))
    cancel = CancelSubscription(
        key="c", actor=OPS, subscription_id=str(receipt.facts["subscription_id"])
    )
    committed(await market.economy.submit(cancel))
    market.at(6_000)
    committed(await market.spend("ann", "1.00", order_id="o1", sku="perk"))
    content = body(await market.row("entitlement", "ann:perk"), EntitlementBody)
    assert (content.source, content.also) == ("sale:o1", ())


async def test_a_thing_that_is_bought_again_and_again_keeps_a_row_of_bounded_size(
    market: Marketplace,
) -> None:
    committed(await market.top_up("ann", "90.00"))
    for number in range(MOST + 5):
        committed(await market.spend("ann", "1.00", order_id=f"o{number}", sku="perk"))
    content = body(await market.row("entitlement", "ann:perk"), EntitlementBody)
    assert (content.source, len(content.also)) == (f"sale:o{MOST + 4}", MOST)
    for number in range(MOST + 5):
        assert await owns(market)
        committed(await market.refund(f"o{number}"))
    assert not await owns(market)


async def test_a_grant_by_hand_may_be_shortened_by_hand(market: Marketplace) -> None:
    for seconds in (90, 10):
        at = START + timedelta(seconds=seconds)
        request = GrantEntitlement(
            key=f"g{seconds}", actor=OPS, user="ann", sku="perk", expires_at=at
        )
        committed(await market.economy.submit(request))
    market.at(10_001)
    assert not await owns(market)

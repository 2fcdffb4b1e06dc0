"""Spending: promo first, then matured credits; fee and shares."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpath.economy import (
    Actor,
    Committed,
    MalformedOperation,
    Rates,
    Share,
    Spend,
    Unauthorized,
    credits,
)
from offpath.economy.ledger.operations.spends import split
from offpath.economy.ledger.rules import rules_of
from offpath.economy.ledger.settings import EconomySettings
from offpath.model.ledger.money import CEILING, Currency, Money
from tests.unit.economy.conftest import Opens
from tests.unit.economy.marketplace import BASE, Marketplace, committed, duplicate, rejected

UNEVEN = (Share("s1", 3333), Share("s2", 3333), Share("s3", 3334))


async def test_promo_credits_are_spent_first_and_without_a_fee(market: Marketplace) -> None:
    """§16.101"""
    await market.promo("ann", "5.00")
    await market.top_up("ann", "10.00")
    committed(await market.spend("ann", "4.00"))
    assert await market.balance("ann:promo") == 100
    assert await market.balance("ann:spendable") == 1000
    assert await market.balance("sel:earned") == 400
    assert await market.house("revenue") == -400
    await market.sound()


async def test_a_price_may_be_paid_of_both_wallets(market: Marketplace) -> None:
    await market.promo("ann", "1.00")
    await market.top_up("ann", "10.00")
    committed(await market.spend("ann", "4.00"))
    assert await market.balance("ann:promo") == 0
    assert await market.balance("ann:spendable") == 700
    assert await market.balance("sel:earned") == 100 + 200
    assert await market.house("revenue") == 100 - 100
    await market.sound()


async def test_too_little_is_declined_with_what_is_needed(market: Marketplace) -> None:
    """§16.101"""
    await market.top_up("ann", "3.00")
    reason, fields = rejected(await market.spend("ann", "4.00"))
    assert reason == "INSUFFICIENT_FUNDS"
    assert fields == {"account": "ann:spendable", "need": "CREDIT:4.00", "have": "CREDIT:3.00"}


async def test_credits_that_are_too_young_wait(open_market: Opens) -> None:
    """§16.102"""
    market = await open_market(maturity_card=60.0)
    await market.top_up("ann", "10.00")
    reason, fields = rejected(await market.spend("ann", "4.00"))
    assert (reason, fields) == ("FUNDS_IMMATURE", {"source": "card", "availableAt": BASE + 60_000})
    market.at(59_999)
    rejected(await market.spend("ann", "4.00"))
    market.at(60_000)
    committed(await market.spend("ann", "4.00"))


async def test_promo_credits_never_wait(open_market: Opens) -> None:
    """§16.102"""
    market = await open_market(maturity_card=60.0)
    await market.promo("ann", "10.00")
    committed(await market.spend("ann", "4.00"))


async def test_each_source_has_its_own_wait_and_what_is_spent_is_the_oldest(
    open_market: Opens,
) -> None:
    market = await open_market(maturity_card=60.0, maturity_crypto=10.0)
    await market.top_up("ann", "5.00")
    await market.top_up("ann", "5.00", source="crypto")
    await market.top_up("ann", "5.00", source="pigeon")
    reason, fields = rejected(await market.spend("ann", "4.00"))
    assert fields["availableAt"] == BASE + 10_000
    assert fields["source"] == "crypto"
    market.at(10_000)
    committed(await market.spend("ann", "4.00"))
    # the run of newest lots that makes 11.00: pigeon 5, crypto 5, card 1
    reason, fields = rejected(await market.spend("ann", "5.50"))
    assert (reason, fields["availableAt"]) == ("FUNDS_IMMATURE", BASE + 60_000)
    market.at(60_000)
    committed(await market.spend("ann", "11.00"))


async def test_an_order_is_charged_once_whatever_the_key(market: Marketplace) -> None:
    """§16.103"""
    await market.top_up("ann", "10.00")
    committed(await market.spend("ann", "4.00", order_id="o1"))
    reason, fields = rejected(await market.spend("ann", "4.00", order_id="o1"))
    assert (reason, fields) == ("DUPLICATE_ORDER", {"orderId": "o1"})
    assert await market.balance("ann:spendable") == 600


async def test_the_fee_is_whole_credits(open_market: Opens) -> None:
    """§16.104"""
    market = await open_market(platform_fee_bps=1530)
    await market.top_up("ann", "400.00")
    receipt = committed(await market.spend("ann", "400.00"))
    assert await market.house("revenue") == 6200
    assert receipt.facts["fee"] == "CREDIT:62.00"


async def test_what_is_left_over_of_shares_stays_with_the_platform(open_market: Opens) -> None:
    """§16.104"""
    market = await open_market(platform_fee_bps=1530)
    await market.top_up("ann", "400.00")
    receipt = committed(await market.spend("ann", "400.00", *UNEVEN, order_id="o1"))
    assert await market.house("revenue") == 6202
    assert receipt.facts["fee"] == "CREDIT:62.02"
    sale = await market.economy.read.sale("o1")
    assert sale is not None
    assert str(sale.fee) == "CREDIT:62.02"
    assert sum([await market.balance(f"s{n}:earned") for n in (1, 2, 3)]) == 40_000 - 6202


@pytest.mark.parametrize(
    "given",
    [
        {"recipients": (Share("sel", -5000), Share("s2", 15_000))},
        {"recipients": ()},
        {"recipients": [Share("sel", 10_000)]},
        {"recipients": (Share("sel", 5000), Share("sel", 5000))},
        {"recipients": (Share("sel", 9_999),)},
        {"recipients": (Share("sel", 10_000.0),)},  # type: ignore[arg-type]
        {"recipients": (Share("platform", 10_000),)},
        {"recipients": (Share("platform:revenue", 10_000),)},
        {"recipients": (Share("ann", 10_000),)},
        {"order_id": " "},
        {"sku": ""},
        {"gift_to": "platform"},
        {"sku": "x\x00y"},
        {"order_id": "o" * 300},
    ],
)
async def test_an_order_that_cannot_be_meant_is_malformed(
    market: Marketplace, given: dict[str, Any]
) -> None:
    """§16.105"""
    request = {
        "key": "k",
        "actor": Actor.user("ann"),
        "buyer": "ann",
        "order_id": "o",
        "sku": "hat",
        "price": credits(1),
        "recipients": (Share("sel", 10_000),),
    }
    with pytest.raises(MalformedOperation):
        await market.economy.submit(Spend(**{**request, **given}))


async def test_nobody_spends_for_somebody_else(market: Marketplace) -> None:
    await market.top_up("ann", "10.00")
    with pytest.raises(Unauthorized):
        await market.spend("ann", "1.00", actor=Actor.user("ben"))


async def test_a_gift_is_owned_by_who_gets_it(market: Marketplace) -> None:
    await market.top_up("ann", "10.00")
    committed(await market.spend("ann", "4.00", gift_to="ben"))
    assert await market.economy.read.owns("ben", "hat")
    assert not await market.economy.read.owns("ann", "hat")


async def test_a_repeat_gives_the_first_receipt(market: Marketplace) -> None:
    await market.top_up("ann", "10.00")
    order = market.order("ann", "4.00")
    first = committed(await market.economy.submit(order))
    assert duplicate(await market.economy.submit(order)) == first
    assert await market.balance("ann:spendable") == 600


async def test_parallel_spends_never_take_more_than_there_is(market: Marketplace) -> None:
    """§16.111"""
    await market.top_up("ann", "2.00")
    orders = [market.spend("ann", "1.00") for _ in range(4)]
    outcomes = await asyncio.gather(*orders)
    assert sum(isinstance(one, Committed) for one in outcomes) == 2
    assert await market.balance("ann:spendable") == 0
    await market.sound()


async def test_fifty_parallel_debits_of_sixty_of_a_hundred_commit_one(market: Marketplace) -> None:
    """M5"""
    await market.top_up("ann", "100.00")
    outcomes = await asyncio.gather(*(market.spend("ann", "60.00") for _ in range(50)))
    assert sum(isinstance(one, Committed) for one in outcomes) == 1
    assert await market.balance("ann:spendable") == 4000


@given(
    price=st.integers(1, CEILING),
    promo=st.floats(0, 1),
    cuts=st.sets(st.integers(1, 9_999), max_size=60),
    fee=st.integers(0, 10_000),
)
def test_the_parts_of_a_price_sum_to_it(price: int, promo: float, cuts: set[int], fee: int) -> None:
    """M2"""
    edges = [0, *sorted(cuts), 10_000]
    shares = tuple(Share(f"s{n}", high - low) for n, (low, high) in enumerate(pairwise(edges)))
    request = Spend(
        key="k",
        actor=Actor.user("ann"),
        buyer="ann",
        order_id="o",
        sku="hat",
        price=Money(Currency.CREDIT, price),
        recipients=shares,
    )
    rules = rules_of(EconomySettings(platform_fee_bps=fee), Rates())
    parts = split(request, rules, min(price, int(price * promo)))
    assert sum(entry.amount for entry in parts.entries) == 0
    taken = sum(entry.amount for entry in parts.entries if entry.account.startswith("ann:"))
    earned = -sum(entry.amount for entry in parts.entries if entry.account.endswith(":earned"))
    assert taken == price
    assert parts.promo + parts.spendable == price
    assert earned <= price
    assert parts.fee <= parts.spendable

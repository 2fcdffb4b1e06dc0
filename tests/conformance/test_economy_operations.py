"""Several processes ask the same economy at the same moment: the money moves once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from offpath.economy import (
    Actor,
    Clawback,
    Committed,
    Duplicate,
    GrantPromo,
    KeyReused,
    Outcome,
    Rates,
    Refund,
    Rejected,
    Request,
    RequestPayout,
    Reverse,
    Subscribe,
    credits,
    rate,
)
from offpath.economy.ledger.operations.steps_promos import promo_expired
from offpath.jobs.client.core import core_of
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.unit.economy.marketplace import OPS, RATES, Marketplace, committed
from tests.unit.economy.marketplace import START as MARKET_START

pytestmark = pytest.mark.needs("ledger")

LIMITS: dict[str, Any] = {"velocity_limit_minor": 10_000, "payout_min_interval": 60.0}


@pytest.fixture
async def markets(
    rivals: tuple[Store, ...], clock: ManualClock
) -> AsyncIterator[tuple[Marketplace, ...]]:
    """One for each process; keys that they make differ."""
    made = tuple(
        Marketplace(store=store, clock=clock, name=f"p{n}-", **LIMITS)
        for n, store in enumerate(rivals)
    )
    yield made
    for market in made:
        await market.app.close()


def kinds(outcomes: list[Outcome]) -> Counter[str]:
    return Counter(
        one.reason if isinstance(one, Rejected) else type(one).__name__ for one in outcomes
    )


async def test_a_balance_is_spent_once_by_whoever_comes_first(
    markets: tuple[Marketplace, ...],
) -> None:
    """§16.111 M5"""
    first = markets[0]
    committed(await first.top_up("ann", "4.00"))
    outcomes = await asyncio.gather(
        *(market.spend("ann", "1.00") for market in markets for _ in range(5))
    )
    assert kinds(outcomes) == {"Committed": 4, "INSUFFICIENT_FUNDS": 16}
    assert await first.balance("ann:spendable") == 0
    await first.sound()


async def test_parallel_attempts_are_all_counted(markets: tuple[Marketplace, ...]) -> None:
    """§16.108"""
    first = markets[0]
    committed(await first.top_up("ann", "100.00"))
    outcomes = await asyncio.gather(
        *(market.spend("ann", "30.00") for market in markets for _ in range(2))
    )
    assert kinds(outcomes) == {"Committed": 3, "RISK_DENIED": 5}
    assert kinds([await first.spend("ann", "0.01")]) == {"RISK_DENIED": 1}
    first.clock.advance(3_600)
    committed(await first.spend("ann", "10.00"))


async def test_a_list_is_decided_in_its_order(markets: tuple[Marketplace, ...]) -> None:
    """Also where one has to be looked up and the next one has not."""
    market = markets[0]
    committed(await market.top_up("ann", "10.00"))
    committed(await market.spend("ann", "10.00", order_id="o1"))
    asked: list[Request] = [
        Refund(key="r1", actor=OPS, order_id="o1"),
        market.order("ann", "10.00", order_id="o2"),
        market.order("ann", "10.00", order_id="poor"),
        Refund(key="r2", actor=OPS, order_id="o2"),
        market.order("ann", "10.00", order_id="o3"),
        Clawback(key="c3", actor=OPS, user="ann", amount=credits(10), order_id="o3"),
        Refund(key="r3", actor=OPS, order_id="o3"),
    ]
    outcomes = await market.economy.submit_many(asked)
    assert [type(one) for one in outcomes] == [
        *[Committed, Committed, Rejected],
        *[Committed, Committed],
        *[Committed, Committed],
    ]
    assert await market.balance("ann:owed") == 0
    await market.sound()


async def test_a_list_keeps_its_order_around_one_that_is_planned_anew(
    markets: tuple[Marketplace, ...],
) -> None:
    """The first two give promo credits that the refund did not see: it is planned anew."""
    market = markets[0]
    end = market.clock.now() + timedelta(days=1)

    def grant(key: str, amount: int = 1) -> GrantPromo:
        return GrantPromo(key=key, actor=OPS, user="ann", amount=credits(amount), expires_at=end)

    committed(await market.economy.submit(grant("g0", 5)))
    committed(await market.spend("ann", "5.00", order_id="o1"))

    asked: list[Request] = [
        grant("g1"),
        Refund(key="r1", actor=OPS, order_id="o1"),
        market.order("ann", "6.00", order_id="o2"),
        market.order("ann", "0.01", order_id="poor"),
        grant("g2"),
        Refund(key="r2", actor=OPS, order_id="o2"),
        market.order("ann", "7.00", order_id="o3"),
        grant("g2"),
    ]
    outcomes = await market.economy.submit_many(asked)
    assert [type(one) for one in outcomes] == [
        *[Committed, Committed, Committed, Rejected],
        *[Committed, Committed, Committed, KeyReused],
    ]
    await market.sound()


async def test_one_key_is_used_once(markets: tuple[Marketplace, ...]) -> None:
    committed(await markets[0].top_up("ann", "50.00"))
    order = markets[0].order("ann", "4.00")
    outcomes = await asyncio.gather(*(market.economy.submit(order) for market in markets))
    assert kinds(outcomes) == {"Committed": 1, "Duplicate": 3}
    receipts = {one.receipt.id for one in outcomes if isinstance(one, Committed | Duplicate)}
    assert len(receipts) == 1
    assert await markets[0].balance("ann:spendable") == 4_600


async def test_one_order_is_charged_once(markets: tuple[Marketplace, ...]) -> None:
    """§16.103"""
    committed(await markets[0].top_up("ann", "50.00"))
    outcomes = await asyncio.gather(
        *(market.spend("ann", "4.00", order_id="o1") for market in markets)
    )
    assert kinds(outcomes) == {"Committed": 1, "DUPLICATE_ORDER": 3}
    assert await markets[0].balance("ann:spendable") == 4_600


async def test_an_order_is_taken_back_once_in_whatever_way(
    markets: tuple[Marketplace, ...],
) -> None:
    """§16.106 §16.107 §16.114"""
    first = markets[0]
    committed(await first.top_up("ann", "10.00"))
    sale = committed(await first.spend("ann", "10.00", order_id="o1"))
    asked: list[Request] = [
        Refund(key="r1", actor=OPS, order_id="o1"),
        Refund(key="r2", actor=OPS, order_id="o1"),
        Reverse(key="r3", actor=OPS, posting_id=str(sale.id), reason="x"),
        Reverse(key="r4", actor=OPS, posting_id=str(sale.id), reason="x"),
    ]
    outcomes = await asyncio.gather(
        *(market.economy.submit(one) for market, one in zip(markets, asked, strict=True))
    )
    assert kinds(outcomes) == {"Committed": 1, "Duplicate": 3}
    late = Clawback(key="c", actor=OPS, user="ann", amount=credits(10), order_id="o1")
    assert kinds([await first.economy.submit(late)]) == {"Duplicate": 1}
    assert await first.balance("ann:spendable") == 1_000
    assert await first.house("receivable") == 0
    await first.sound()


async def test_an_order_whose_clawback_was_undone_is_taken_back_once_more(
    markets: tuple[Marketplace, ...],
) -> None:
    first = markets[0]
    committed(await first.top_up("ann", "10.00"))
    committed(await first.spend("ann", "4.00", order_id="o1"))
    for key in ("c1", "c2"):
        dispute = Clawback(key=key, actor=OPS, user="ann", amount=credits(4), order_id="o1")
        taken = committed(await first.economy.submit(dispute))
        undoing = [
            Reverse(key=f"{key}-{n}", actor=OPS, posting_id=str(taken.id), reason="x")
            for n, _ in enumerate(markets)
        ]
        outcomes = await asyncio.gather(
            *(market.economy.submit(one) for market, one in zip(markets, undoing, strict=True))
        )
        assert kinds(outcomes) == {"Committed": 1, "Duplicate": len(markets) - 1}
    refunds = await asyncio.gather(*(market.refund("o1") for market in markets))
    assert kinds(refunds) == {"Committed": 1, "Duplicate": len(markets) - 1}
    assert await first.balance("ann:spendable") == 1_000
    await first.sound()


async def test_a_subscription_whose_first_payment_is_undone_ends_once(
    markets: tuple[Marketplace, ...],
) -> None:
    first = markets[0]
    committed(await first.top_up("ann", "10.00"))
    made = committed(await first.subscribe("ann", "10.00"))
    outcomes = await asyncio.gather(
        *(
            market.economy.submit(
                Reverse(key=f"r{n}", actor=OPS, posting_id=str(made.id), reason="x")
            )
            for n, market in enumerate(markets)
        )
    )
    assert kinds(outcomes) == {"Committed": 1, "Duplicate": len(markets) - 1}
    row = await first.row("subscription", str(made.facts["subscription_id"]))
    assert (row.state, row.due_at, row.unique_key) == ("CANCELED", None, None)
    assert not await first.economy.read.owns("ann", "perk")
    assert await first.balance("ann:spendable") == 1_000
    committed(await first.subscribe("ann", "10.00"))
    await first.sound()


async def test_promo_credits_that_outlived_their_grant_come_back_with_an_end(
    markets: tuple[Marketplace, ...],
) -> None:
    first, second = markets[0], markets[1]
    now = (first.clock.now() - MARKET_START) // timedelta(milliseconds=1)
    grant = committed(await first.promo("ann", "5.00", ms=now + 1_000))
    committed(await first.promo("ann", "1.00", ms=now + 50_000_000_000))
    committed(await first.spend("ann", "3.00", order_id="o1"))
    first.clock.advance(1)
    expiry = promo_expired(await first.row("promo", str(grant.id)), first.economy.new_id)
    assert (await first.step(expiry)).facts["amount"] == "CREDIT:3.00"
    refunded = committed(await second.refund("o1"))
    row = await first.row("promo", str(refunded.id))
    assert (row.state, row.amount) == ("OPEN", 200)  # the grant that is open covers one
    first.clock.advance(31 * 86_400)
    store = await core_of(second.app).opened()
    assert [one.id for one in await store.lease_sides("promo", limit=9, hold=1.0)] == [row.id]
    row = await first.row("promo", row.id)
    taken = await second.step(promo_expired(row, second.economy.new_id))
    assert taken.facts["amount"] == "CREDIT:2.00"
    assert await first.balance("ann:promo") == 100
    await first.sound()


async def test_a_refund_that_was_planned_before_the_sale_finds_it(
    markets: tuple[Marketplace, ...],
) -> None:
    first, second = markets[0], markets[1]
    committed(await first.top_up("ann", "10.00"))
    early = await second.economy.prepare(Refund(key="r1", actor=OPS, order_id="o1"))
    committed(await first.spend("ann", "10.00", order_id="o1"))
    assert (await second.decided(early)).error is not None
    committed(await second.economy.submit(Refund(key="r1", actor=OPS, order_id="o1")))
    assert await first.balance("ann:spendable") == 1_000


async def test_a_seller_has_one_payout_at_a_time(markets: tuple[Marketplace, ...]) -> None:
    """§16.36"""
    await markets[0].earns("sel", 70)

    def asked(market: Marketplace) -> RequestPayout:
        return RequestPayout(
            key=market.key(), actor=Actor.user("sel"), user="sel", amount=credits(7)
        )

    outcomes = await asyncio.gather(*(one.economy.submit(asked(one)) for one in markets))
    assert kinds(outcomes) == {"Committed": 1, "PAYOUT_TOO_SOON": 3}
    assert await markets[0].house("payout_reserve") == 700


async def test_a_user_has_one_subscription_to_a_thing(markets: tuple[Marketplace, ...]) -> None:
    committed(await markets[0].top_up("ann", "50.00"))

    def asked(market: Marketplace) -> Subscribe:
        return Subscribe(
            key=market.key(),
            actor=Actor.user("ann"),
            user="ann",
            seller="sel",
            sku="perk",
            price=credits(10),
            period=60.0,
        )

    outcomes = await asyncio.gather(*(one.economy.submit(asked(one)) for one in markets))
    assert kinds(outcomes) == {"Committed": 1, "ALREADY_SUBSCRIBED": 3}
    assert await markets[0].balance("ann:spendable") == 4_000
    assert await markets[3].economy.read.owns("ann", "perk")


async def test_a_payout_is_settled_at_the_price_of_its_request(
    rivals: tuple[Store, ...], clock: ManualClock
) -> None:
    """§16.13 §16.34"""
    before = Marketplace(store=rivals[0], clock=clock)
    cheaper = Rates(buy=RATES.buy, par=RATES.par, payout=rate("payout", 1, 3))
    after = Marketplace(cheaper, store=rivals[1], clock=clock, name="after-")
    payout_id = await before.payout("sel", 70, submitted=True)
    cash = await after.house("trust_cash")
    receipt = committed(await after.settle(payout_id))
    assert receipt.facts["quote"] == "USD:0.35"
    assert await after.house("trust_cash") == cash - 35
    await after.sound()
    for market in (before, after):
        await market.app.close()


async def test_maturity_is_by_the_stores_clock_on_every_backend(
    rivals: tuple[Store, ...], clock: ManualClock
) -> None:
    """§16.102"""
    market = Marketplace(store=rivals[0], clock=clock, maturity_card=60.0, maturity_crypto=5.0)
    committed(await market.top_up("ann", "10.00", source="crypto"))
    clock.advance(3)
    committed(await market.top_up("ann", "10.00"))
    clock.advance(2)
    committed(await market.spend("ann", "10.00"))
    outcome = await market.spend("ann", "0.01")
    assert kinds([outcome]) == {"FUNDS_IMMATURE": 1}
    clock.advance(58)
    committed(await market.spend("ann", "10.00"))
    await market.app.close()

"""Random streams of operations: whatever is asked, the books stay sound."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from offpath.economy import (
    Actor,
    Adjust,
    CancelSubscription,
    Clawback,
    Committed,
    Duplicate,
    Fund,
    GrantPromo,
    LedgerError,
    Refund,
    Rejected,
    RequestPayout,
    Reverse,
    ReversePayout,
    Reward,
    SettlePayout,
    Share,
    Spend,
    StoreFailed,
    Subscribe,
    TopUp,
    WriteOff,
)
from offpath.economy.ledger.operations.steps_payouts import payout_dead_lettered, payout_submitted
from offpath.economy.ledger.operations.steps_promos import promo_expired
from offpath.economy.ledger.operations.steps_subscriptions import subscription_renewed
from offpath.economy.ledger.shortfalls import explained
from offpath.jobs.client.core import core_of
from offpath.model.ledger.decision import LedgerOp
from offpath.model.ledger.money import Currency, Money
from tests.unit.economy.marketplace import BANK, OPS, Marketplace

USERS = ("u1", "u2", "u3", "u4")
users = st.sampled_from(USERS)
amounts = st.integers(1, 40_000).map(lambda minor: Money(Currency.CREDIT, minor))
orders = st.integers(0, 12).map(lambda number: f"order-{number}")
picks = st.integers(0, 1_000)

top_ups = st.tuples(st.just("top_up"), users, amounts, st.sampled_from(("card", "crypto")))
promos = st.tuples(st.just("promo"), users, amounts, st.integers(1, 5_000))
spends = st.tuples(st.just("spend"), users, amounts, orders, st.integers(1, 9_999), users)
refunds = st.tuples(st.just("refund"), orders)
dollars = st.none() | st.integers(1, 5_000).map(lambda minor: Money(Currency.USD, minor))
clawbacks = st.tuples(st.just("clawback"), users, amounts, st.none() | orders, dollars, dollars)
write_offs = st.tuples(st.just("write_off"), users, st.none() | amounts)
rewards = st.tuples(st.just("reward"), users, amounts)
funds = st.tuples(st.just("fund"), st.integers(1, 5_000).map(lambda n: Money(Currency.USD, n)))
requests = st.tuples(st.just("request"), users, amounts)
others = st.tuples(
    st.sampled_from(
        ("settle", "return", "submit", "give_up", "renew", "cancel", "expire", "reverse", "fees")
    ),
    picks,
)
subscriptions = st.tuples(st.just("subscribe"), users, users, amounts)
adjusts = st.tuples(st.just("adjust"), users, st.integers(-5_000, 5_000))
waits = st.tuples(st.just("wait"), st.integers(1, 3_000))
steps = st.one_of(
    top_ups,
    top_ups,
    spends,
    spends,
    promos,
    refunds,
    clawbacks,
    write_offs,
    rewards,
    funds,
    requests,
    others,
    others,
    subscriptions,
    adjusts,
    waits,
)


class Stream:
    """Carries out steps; what they refer to is picked from what is there."""

    def __init__(self, market: Marketplace) -> None:
        self.market = market
        self.economy = market.economy

    async def take(self, step: tuple[Any, ...]) -> None:
        name, *arguments = step
        if name == "wait":
            self.market.clock.advance(arguments[0] / 1_000)
            return
        try:
            outcome = await getattr(self, name)(*arguments)
        except StoreFailed:
            raise
        except LedgerError:
            return
        assert outcome is None or isinstance(outcome, Committed | Duplicate | Rejected)

    def key(self) -> str:
        return self.market.key()

    async def top_up(self, user: str, amount: Money, source: str) -> Any:
        return await self.economy.submit(
            TopUp(key=self.key(), actor=BANK, user=user, amount=amount, source=source)
        )

    async def promo(self, user: str, amount: Money, ms: int) -> Any:
        at = self.market.clock.now() + timedelta(milliseconds=ms)
        return await self.economy.submit(
            GrantPromo(key=self.key(), actor=BANK, user=user, amount=amount, expires_at=at)
        )

    async def spend(self, buyer: str, price: Money, order: str, bps: int, seller: str) -> Any:
        shares = (Share(seller, bps), Share("house-band", 10_000 - bps))
        return await self.economy.submit(
            Spend(
                key=self.key(),
                actor=Actor.user(buyer),
                buyer=buyer,
                order_id=order,
                sku="hat",
                price=price,
                recipients=shares,
            )
        )

    async def refund(self, order: str) -> Any:
        return await self.economy.submit(Refund(key=self.key(), actor=OPS, order_id=order))

    async def clawback(
        self,
        user: str,
        amount: Money,
        order: str | None,
        dollars: Money | None,
        fee: Money | None,
    ) -> Any:
        given: dict[str, Any] = {"order_id": order, "dollars": dollars, "fee": fee}
        return await self.economy.submit(
            Clawback(key=self.key(), actor=OPS, user=user, amount=amount, **given)
        )

    async def write_off(self, user: str, amount: Money | None) -> Any:
        return await self.economy.submit(
            WriteOff(key=self.key(), actor=OPS, user=user, amount=amount, reason="x")
        )

    async def reward(self, user: str, amount: Money) -> Any:
        return await self.economy.submit(
            Reward(key=self.key(), actor=OPS, user=user, amount=amount, reason="x")
        )

    async def fund(self, amount: Money) -> Any:
        return await self.economy.submit(Fund(key=self.key(), actor=OPS, amount=amount, reason="x"))

    async def request(self, user: str, amount: Money) -> Any:
        return await self.economy.submit(
            RequestPayout(key=self.key(), actor=Actor.user(user), user=user, amount=amount)
        )

    async def subscribe(self, user: str, seller: str, price: Money) -> Any:
        return await self.economy.submit(
            Subscribe(
                key=self.key(),
                actor=Actor.user(user),
                user=user,
                seller=seller,
                sku="perk",
                price=price,
                period=1.0,
            )
        )

    async def adjust(self, user: str, minor: int) -> Any:
        amount = Money(Currency.CREDIT, minor)
        return await self.economy.submit(
            Adjust(
                key=self.key(), actor=OPS, account=f"{user}:spendable", amount=amount, reason="x"
            )
        )

    async def settle(self, pick: int) -> Any:
        payout = await self.picked("payout", pick)
        return payout and await self.economy.submit(
            SettlePayout(key=self.key(), actor=BANK, payout_id=payout.id, provider_ref="r")
        )

    async def _return(self, pick: int) -> Any:
        payout = await self.picked("payout", pick)
        return payout and await self.economy.submit(
            ReversePayout(
                key=self.key(), actor=OPS, user=payout.owner, payout_id=payout.id, reason="x"
            )
        )

    async def submit(self, pick: int) -> None:
        row = await self.picked("payout", pick)
        if row:
            await self.step(payout_submitted(row, "r", due_at=1))

    async def give_up(self, pick: int) -> None:
        row = await self.picked("payout", pick)
        if row:
            await self.step(payout_dead_lettered(row, "x", self.economy.rules, self.economy.new_id))

    async def renew(self, pick: int) -> None:
        row = await self.picked("subscription", pick)
        if row:
            op = subscription_renewed(row, self.economy.rules, self.economy.new_id)
            await self.step(op)

    async def cancel(self, pick: int) -> Any:
        row = await self.picked("subscription", pick)
        return row and await self.economy.submit(
            CancelSubscription(key=self.key(), actor=OPS, subscription_id=row.id)
        )

    async def expire(self, pick: int) -> None:
        row = await self.picked("promo", pick)
        if row:
            await self.step(promo_expired(row, self.economy.new_id))

    async def reverse(self, pick: int) -> Any:
        store = await core_of(self.market.app).opened()
        postings = await store.ledger_postings(limit=1_000)
        if not postings:
            return None
        chosen = postings[pick % len(postings)].id
        return await self.economy.submit(
            Reverse(key=self.key(), actor=OPS, posting_id=chosen, reason="x")
        )

    async def fees(self, pick: int) -> Any:
        return await self.economy.sweep_fees(f"fees-{pick}")

    async def step(self, op: LedgerOp) -> None:
        """A sweep's step on a row that nobody altered: it is done, or the row moved on."""
        assert (await self.economy.run_op(op)).error is None

    async def picked(self, kind: str, pick: int) -> Any:
        store = await core_of(self.market.app).opened()
        rows = await store.ledger_sides(kind, limit=1_000)
        return rows[pick % len(rows)] if rows else None


setattr(Stream, "return", Stream._return)


async def whole(market: Marketplace) -> None:
    """Rules that must hold at every moment, whatever was asked."""
    await market.sound()
    store = await core_of(market.app).opened()
    reserved = quotes = 0
    for row in await store.ledger_sides("payout", limit=1_000):
        payout = await market.economy.read.payout(row.id)
        assert payout is not None
        if payout.state in {"RESERVED", "SUBMITTED"}:
            reserved += payout.amount.minor
            quotes += payout.quote.minor
    totals = await store.ledger_totals()
    assert totals.quotes == quotes
    if not await _reversed(market):  # by hand dollars may be undone without their credits
        assert explained(totals, market.economy.rates).unexplained == 0
    undone = [
        link
        for link in await store.ledger_links("platform:payout_reserve", limit=10_000)
        if (await market.economy.read.posting(link.posting) or _missing()).facts["kind"]
        == "reverse"
    ]
    if not undone:  # a reversal by hand leaves payouts as they are
        assert totals.balances.get("payout_reserve", 0) == reserved


async def _reversed(market: Marketplace) -> bool:
    postings = await (await core_of(market.app).opened()).ledger_postings(limit=10_000)
    return any(one.facts["kind"] == "reverse" for one in postings)


def _missing() -> Any:
    raise AssertionError("a link without its posting")


def carried(settings_: dict[str, Any], given_steps: list[list[tuple[Any, ...]]]) -> None:
    async def run() -> None:
        market = Marketplace(**settings_)
        async with market.app:
            stream = Stream(market)
            for together in given_steps:
                await asyncio.gather(*(stream.take(step) for step in together))
                await whole(market)

    asyncio.run(run())


@settings(max_examples=60)
@given(st.lists(st.lists(steps, min_size=1, max_size=8), min_size=1, max_size=12))
def test_a_stream_of_operations_leaves_the_books_sound(
    given_steps: list[list[tuple[Any, ...]]],
) -> None:
    carried({}, given_steps)


@settings(max_examples=40)
@given(st.lists(st.lists(steps, min_size=1, max_size=8), min_size=1, max_size=12))
def test_it_does_so_with_waits_and_limits_too(given_steps: list[list[tuple[Any, ...]]]) -> None:
    strict = {
        "maturity_card": 1.0,
        "maturity_crypto": 2.0,
        "maturity_default": 0.5,
        "velocity_limit_minor": 60_000,
        "velocity_window": 2.0,
        "payout_min_interval": 1.0,
    }
    carried(strict, given_steps)


@settings(max_examples=60)
@given(st.lists(st.one_of(steps, st.tuples(st.just("fees"), picks)), min_size=1, max_size=40))
def test_fees_never_take_what_users_and_sellers_are_owed(
    given_steps: list[tuple[Any, ...]],
) -> None:
    """§17.1"""

    async def run() -> None:
        market = Marketplace()
        async with market.app:
            stream = Stream(market)
            await stream.take(("top_up", "u1", Money(Currency.CREDIT, 40_000), "card"))
            for step in given_steps:
                before = await market.house("trust_cash")
                await stream.take(step)
                if step[0] == "fees" and await market.house("trust_cash") != before:
                    assert (await market.economy.read.position()).shortfall == 0

    asyncio.run(run())

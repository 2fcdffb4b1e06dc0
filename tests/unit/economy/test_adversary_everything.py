"""Every operation and every sweep, in any order, on a clock that jumps: two sets of books.

The second set is kept by hand, from the receipts and reads alone: who owns what, what each order
gave, which payouts a provider has. What the ledger says must follow from it at every moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
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
    GrantEntitlement,
    GrantPromo,
    LedgerError,
    Outcome,
    ProviderStatus,
    Refund,
    RequestPayout,
    ReversePayout,
    RevokeEntitlement,
    SettlePayout,
    Share,
    Spend,
    StoreFailed,
    Subscribe,
    SweepInput,
    TopUp,
)
from offpath.economy.ledger.operations.maturity import young
from offpath.economy.ledger.rows import PayoutBody, body
from offpath.economy.sweeps.prune import PruneLedger
from offpath.economy.testing import FakeProvider, Killed, Mode
from offpath.jobs.client.core import core_of
from offpath.model.ledger.book import Book
from offpath.model.ledger.decision import LedgerOp
from offpath.model.ledger.money import Currency, Money
from offpath.model.ledger.needs import LotsNeed, Needs
from offpath.model.ledger.records import Receipt
from tests.unit.economy.marketplace import BANK, OPS, Marketplace

USERS = ("u1", "u2", "u3")
users = st.sampled_from(USERS)
minors = st.integers(1, 30_000)
orders = st.integers(0, 30).map(lambda n: f"o{n}")
skus = st.sampled_from(("hat", "perk"))
picks = st.integers(0, 99)
steps = st.one_of(
    st.tuples(st.just("top_up"), users, minors),
    st.tuples(st.just("top_up"), users, minors),
    st.tuples(st.just("spend"), users, minors, orders, users, st.integers(1, 9_999), skus),
    st.tuples(st.just("spend"), users, minors, orders, users, st.integers(1, 9_999), skus),
    st.tuples(st.just("refund"), picks),
    st.tuples(st.just("refund"), picks),
    st.tuples(st.just("clawback"), users, minors, st.none() | orders),
    st.tuples(st.just("promo"), users, minors, st.integers(1, 90_000)),
    st.tuples(st.just("request"), users, st.integers(1, 110)),
    st.tuples(st.just("request"), users, st.integers(1, 110)),
    st.tuples(st.just("settle"), picks),
    st.tuples(st.just("fail"), picks, st.booleans()),
    st.tuples(st.just("subscribe"), users, users, minors, skus),
    st.tuples(st.just("cancel"), picks),
    st.tuples(st.just("give"), users, skus),
    st.tuples(st.just("take"), users, skus),
    st.tuples(st.just("adjust"), users, st.integers(-3_000, 3_000)),
    st.tuples(st.just("sweep"), st.lists(st.sampled_from(list(Mode)), max_size=3)),
    st.tuples(st.just("sweep"), st.just([])),
    st.tuples(st.just("fees"), picks),
    st.tuples(st.just("says"), st.sampled_from(list(ProviderStatus))),
    st.tuples(st.just("wait"), st.integers(-2_000, 200_000)),
    st.tuples(st.just("wait"), st.integers(0, 40_000)),
    st.tuples(st.just("prune")),
)


class World:
    """The economy, and the second set of books."""

    def __init__(self) -> None:
        self.provider = FakeProvider()
        self.market = Marketplace(
            provider=self.provider,
            keep_keys=60.0,
            maturity_card=20.0,
            maturity_default=30.0,
            max_payout_attempts=3,
            max_payout_age=100.0,
            payout_min_interval=10.0,
            velocity_limit_minor=90_000,
            velocity_window=120.0,
        )
        self.economy = self.market.economy
        self.pruned = False
        self.undone: set[str] = set()
        self.sold: dict[str, int] = {}
        self.moved: list[tuple[str, int, int]] = []
        """Movements by user, amount and time: what velocity must have let through."""
        self.paid: dict[str, int] = {}

    async def take(self, step: tuple[Any, ...]) -> None:
        name, *arguments = step
        do: Callable[..., Any] = getattr(self, name)
        try:
            await do(*arguments)
        except StoreFailed:
            raise
        except LedgerError:
            pass

    async def asked(self, request: Any) -> Outcome:
        return await self.economy.submit(request)

    @property
    def ms(self) -> int:
        return round(self.market.clock.now().timestamp() * 1_000)

    # -- operations ------------------------------------------------------------------------------

    async def top_up(self, user: str, minor: int) -> None:
        outcome = await self.asked(
            TopUp(
                key=self.market.key(), actor=BANK, user=user, amount=_credits(minor), source="card"
            )
        )
        if isinstance(outcome, Committed):
            self.moved.append((f"in:{user}", minor, self.ms))

    async def spend(
        self, buyer: str, minor: int, order: str, seller: str, bps: int, sku: str
    ) -> None:
        seller = f"seller-{seller}" if seller == buyer else seller
        request = Spend(
            key=self.market.key(),
            actor=Actor.user(buyer),
            buyer=buyer,
            order_id=order,
            sku=sku,
            price=_credits(minor),
            recipients=(Share(seller, bps), Share("band", 10_000 - bps)),
        )
        before = await self.wealth(buyer)
        outcome = await self.asked(request)
        if isinstance(outcome, Committed):
            assert order not in self.sold, "an order is charged once"
            self.sold[order] = minor
            self.moved.append((f"out:{buyer}", minor, self.ms))
            assert await self.wealth(buyer) == before - minor

    async def refund(self, pick: int) -> None:
        order = sorted(self.sold)[pick % len(self.sold)] if self.sold else "nothing"
        row = await self.market.row("sale", order) if self.sold else None
        before = 0 if row is None else await self.wealth(row.owner)
        outcome = await self.asked(Refund(key=self.market.key(), actor=OPS, order_id=order))
        if isinstance(outcome, Committed):
            assert row is not None
            assert order not in self.undone, "an order is undone once"
            self.undone.add(order)
            assert await self.wealth(row.owner) == before + self.sold[order]

    async def clawback(self, user: str, minor: int, order: str | None) -> None:
        outcome = await self.asked(
            Clawback(
                key=self.market.key(),
                actor=OPS,
                user=user,
                amount=_credits(minor),
                order_id=order,
            )
        )
        if isinstance(outcome, Committed) and order is not None:
            assert order not in self.undone, "an order is undone once"
            self.undone.add(order)

    async def promo(self, user: str, minor: int, ms: int) -> None:
        at = self.market.clock.now() + timedelta(milliseconds=ms)
        outcome = await self.asked(
            GrantPromo(
                key=self.market.key(), actor=BANK, user=user, amount=_credits(minor), expires_at=at
            )
        )
        if isinstance(outcome, Committed):
            self.moved.append((f"in:{user}", minor, self.ms))

    async def request(self, user: str, percent: int) -> None:
        earned = (await self.economy.read.balances(user)).earned.minor
        minor = earned * percent // 100 or 1
        outcome = await self.asked(
            RequestPayout(
                key=self.market.key(), actor=Actor.user(user), user=user, amount=_credits(minor)
            )
        )
        if isinstance(outcome, Committed):
            self.moved.append((f"out:{user}", minor, self.ms))

    async def settle(self, pick: int) -> None:
        row = await self.picked("payout", pick)
        if row is not None:
            outcome = await self.asked(
                SettlePayout(key=self.market.key(), actor=BANK, payout_id=row.id, provider_ref="r")
            )
            if isinstance(outcome, Committed):
                self.paid[row.id] = self.paid.get(row.id, 0) + 1

    async def fail(self, pick: int, reported: bool) -> None:
        row = await self.picked("payout", pick)
        if row is not None:
            await self.asked(
                ReversePayout(
                    key=self.market.key(),
                    actor=OPS,
                    user=row.owner,
                    payout_id=row.id,
                    reason="x",
                    provider_reported=reported,
                )
            )

    async def subscribe(self, user: str, seller: str, minor: int, sku: str) -> None:
        outcome = await self.asked(
            Subscribe(
                key=self.market.key(),
                actor=Actor.user(user),
                user=user,
                seller=seller,
                sku=sku,
                price=_credits(minor),
                period=25.0,
            )
        )
        if isinstance(outcome, Committed):
            self.moved.append((f"out:{user}", minor, self.ms))
            assert await self.economy.read.owns(user, sku)

    async def cancel(self, pick: int) -> None:
        row = await self.picked("subscription", pick)
        if row is not None:
            await self.asked(
                CancelSubscription(key=self.market.key(), actor=OPS, subscription_id=row.id)
            )

    async def give(self, user: str, sku: str) -> None:
        await self.asked(GrantEntitlement(key=self.market.key(), actor=OPS, user=user, sku=sku))
        assert await self.economy.read.owns(user, sku)

    async def take_from(self, user: str, sku: str) -> None:
        await self.asked(RevokeEntitlement(key=self.market.key(), actor=OPS, user=user, sku=sku))
        assert not await self.economy.read.owns(user, sku)

    async def adjust(self, user: str, minor: int) -> None:
        await self.asked(
            Adjust(
                key=self.market.key(),
                actor=OPS,
                account=f"{user}:spendable",
                amount=_credits(minor),
                reason="x",
            )
        )

    # -- sweeps ----------------------------------------------------------------------------------

    async def sweep(self, modes: list[Mode]) -> None:
        self.provider.script(*(mode for mode in modes if mode is not Mode.HANG))
        with suppress(Killed):
            run = await self.economy.run_sweeps(SweepInput())
            assert all(result.ok for result in run.batch), run.batch
        self.provider.heal()

    async def fees(self, pick: int) -> None:
        outcome = await self.economy.sweep_fees(f"f{pick}-{self.market.key()}")
        if isinstance(outcome, Committed):
            assert (await self.economy.read.position()).shortfall == 0

    async def says(self, status: ProviderStatus) -> None:
        self.provider.reports(status)

    async def wait(self, ms: int) -> None:
        if ms < 0 and self.pruned:
            return  # what was too old to count then may be young again: it is gone
        self.market.clock.set(self.market.clock.now() + timedelta(milliseconds=ms))

    async def prune(self) -> None:
        self.pruned = True
        await PruneLedger(self.economy).run(None, self.market.clock.now(), 1_000)  # type: ignore[arg-type]

    # -- looking ---------------------------------------------------------------------------------

    async def picked(self, kind: str, pick: int) -> Any:
        rows = await (await core_of(self.market.app).opened()).ledger_sides(kind, limit=1_000)
        return rows[pick % len(rows)] if rows else None

    async def wealth(self, user: str) -> int:
        held = await self.economy.read.balances(user)
        return held.spendable.minor + held.promo.minor

    async def hold(self) -> None:
        """Rules that must be true at every moment."""
        await self.market.sound()
        store = await core_of(self.market.app).opened()
        totals = await store.ledger_totals()
        balances = totals.balances
        payouts = await store.ledger_sides("payout", limit=1_000)
        reserves = {row.id: body(row, PayoutBody).reserve for row in payouts}
        opened = [row for row in payouts if row.state in {"RESERVED", "SUBMITTED"}]
        assert balances.get("payout_reserve", 0) == sum(reserves[row.id] for row in opened)
        assert totals.quotes == sum(row.amount or 0 for row in opened)
        for row in payouts:
            assert self.paid.get(row.id, 0) == (row.state == "SETTLED"), "paid once, or never"
        # All that is backed has its dollars: what left left with its credits.
        par = self.economy.rates.par
        assert balances.get("trust_cash", 0) >= par.floor(balances.get("stored_value", 0))
        assert balances.get("receivable", 0) >= 0
        self._within_velocity()
        await self._maturity()

    def _within_velocity(self) -> None:
        window, limit = self.economy.rules.window, self.economy.rules.outflow
        times: dict[str, int] = {}
        for subject, _, at in self.moved:
            # The ledger dates no attempt before the subject's last one.
            times[subject] = max(times.get(subject, 0), at)
        if any(at < times[subject] for subject, _, at in self.moved[-1:]):
            return
        for subject, _, at in self.moved[-1:]:
            total = sum(
                minor
                for other, minor, then in self.moved
                if other == subject and at - window < then <= at
            )
            assert total <= limit

    async def _maturity(self) -> None:
        seen: list[tuple[int, int]] = []
        names = [f"{user}:{kind}" for user in (*USERS, "band") for kind in ("spendable", "earned")]

        def look(book: Book) -> Receipt:
            for name in names:
                waiting = young(book, self.economy.rules, name)
                assert all(one.amount > 0 and one.at > book.now for one in waiting)
                seen.append((sum(one.amount for one in waiting), book.balance(name)))
            return Receipt()

        longest = self.economy.rules.longest
        needs = Needs(
            accounts=frozenset(names), lots=frozenset(LotsNeed(name, longest) for name in names)
        )
        await self.market.step(LedgerOp(decide=look, needs=needs))
        assert len(seen) == len(names)
        assert all(0 <= waits <= balance for waits, balance in seen)


def _credits(minor: int) -> Money:
    return Money(Currency.CREDIT, minor)


@settings(max_examples=120, deadline=None)
@given(st.lists(steps, min_size=1, max_size=40))
def test_two_sets_of_books_agree(given_steps: list[tuple[Any, ...]]) -> None:
    async def run() -> None:
        world = World()
        async with world.market.app:
            for step in given_steps:
                await world.take(("take_from", *step[1:]) if step[0] == "take" else step)
                await world.hold()

    asyncio.run(run())

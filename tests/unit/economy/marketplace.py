"""A small marketplace over memory, with the rates and settings that the edge cases are told in."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

from offpath import App
from offpath.economy import (
    Actor,
    Committed,
    Duplicate,
    Economy,
    GrantPromo,
    Money,
    Outcome,
    Rates,
    Receipt,
    Refund,
    Rejected,
    RequestPayout,
    SettlePayout,
    Share,
    Spend,
    Subscribe,
    TopUp,
    credits,
    rate,
)
from offpath.economy.ledger.operations.steps_payouts import payout_submitted
from offpath.jobs.client.core import core_of
from offpath.model.ledger.decision import Decided, LedgerOp, raised_by
from offpath.model.ledger.posting import verified
from offpath.model.ledger.records import SideRow
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store

BANK = Actor.system("bank")
OPS = Actor.operator("olivia")
START = datetime(2026, 1, 1, tzinfo=UTC)
BASE = round(START.timestamp() * 1000)
"""The tests tell times in milliseconds from here."""
RATES = Rates(buy=rate("buy", 1, 2), par=rate("par", 5, 3), payout=rate("payout", 5, 3))
FIXTURE: dict[str, Any] = {
    "platform_fee_bps": 3000,
    "max_subscription_attempts": 3,
    "max_payout_age": 86_400.0,
    "payout_min_earned_minor": 0,
    "payout_min_interval": 0.0,
    "maturity_card": 0.0,
    "velocity_limit_minor": 100_000_000,
    "subscription_price_min_minor": 1,
    "subscription_grace": 0.0,
}


class Marketplace:
    """An economy, its clock, and the words that the tests are written in."""

    def __init__(
        self,
        rates: Rates = RATES,
        *,
        store: Store | None = None,
        clock: ManualClock | None = None,
        name: str = "",
        **given: Any,
    ) -> None:
        self.clock = clock or ManualClock(START)
        self.app = App(store=store, clock=self.clock, auto_start=False)
        self._name = name
        ports = ("provider", "directory", "feed", "anchor", "signer", "production")
        arguments = {**FIXTURE, **given}
        self.economy = Economy(
            self.app,
            rates=rates,
            **{name: arguments.pop(name) for name in ports if name in arguments},
            **arguments,
        )
        self._numbers = itertools.count(1)

    def key(self) -> str:
        return f"{self._name}key-{next(self._numbers)}"

    def at(self, ms: int) -> None:
        self.clock.set(START + timedelta(milliseconds=ms))

    # -- operations ------------------------------------------------------------------------

    async def top_up(self, user: str, amount: Money | str, **given: Any) -> Outcome:
        request = {"key": self.key(), "actor": BANK, "source": "card", **given}
        return await self.economy.submit(TopUp(user=user, amount=_money(amount), **request))

    async def promo(self, user: str, amount: Money | str, *, ms: int = 10_000_000) -> Outcome:
        expires = START + timedelta(milliseconds=ms)
        return await self.economy.submit(
            GrantPromo(
                key=self.key(), actor=BANK, user=user, amount=_money(amount), expires_at=expires
            )
        )

    def order(self, buyer: str, price: Money | str, *sellers: Share | str, **given: Any) -> Spend:
        shares = tuple(
            one if isinstance(one, Share) else Share(one, 10_000) for one in sellers or ("sel",)
        )
        number = self.key()
        request: dict[str, Any] = {
            "key": number,
            "actor": Actor.user(buyer),
            "order_id": f"order-{number}",
            "sku": "hat",
            **given,
        }
        return Spend(buyer=buyer, price=_money(price), recipients=shares, **request)

    async def spend(
        self, buyer: str, price: Money | str, *sellers: Share | str, **given: Any
    ) -> Outcome:
        return await self.economy.submit(self.order(buyer, price, *sellers, **given))

    async def refund(self, order_id: str) -> Outcome:
        return await self.economy.submit(Refund(key=self.key(), actor=OPS, order_id=order_id))

    async def subscribe(self, user: str, price: Money | str, **given: Any) -> Outcome:
        request: dict[str, Any] = {
            "key": self.key(),
            "actor": Actor.user(user),
            "seller": "sel",
            "sku": "perk",
            "period": 5.0,
            **given,
        }
        return await self.economy.submit(Subscribe(user=user, price=_money(price), **request))

    async def request_payout(self, user: str, amount: Money | str) -> Outcome:
        return await self.economy.submit(
            RequestPayout(key=self.key(), actor=Actor.user(user), user=user, amount=_money(amount))
        )

    async def settle(self, payout_id: str, **given: Any) -> Outcome:
        request: dict[str, Any] = {
            "key": self.key(),
            "actor": BANK,
            "provider_ref": "tr_1",
            **given,
        }
        return await self.economy.submit(SettlePayout(payout_id=payout_id, **request))

    # -- scenes ----------------------------------------------------------------------------

    async def earns(self, seller: str, amount: int) -> None:
        """Credits that a seller earned: bought and spent, with the fee on top."""
        buyer = f"{seller}-buyer-{self.key()}"
        price = credits(amount * 10 // 7)
        assert price.minor * 7 == credits(amount).minor * 10, "seven tenths of whole credits"
        committed(await self.top_up(buyer, price))
        committed(await self.spend(buyer, price, seller))

    async def payout(self, seller: str, amount: int, *, submitted: bool = False) -> str:
        """A requested payout of what the seller earned for it."""
        await self.earns(seller, amount)
        receipt = committed(await self.request_payout(seller, credits(amount)))
        payout_id = str(receipt.facts["payout_id"])
        if submitted:
            await self.submitted(payout_id)
        return payout_id

    async def submitted(self, payout_id: str) -> None:
        row = await self.row("payout", payout_id)
        await self.step(payout_submitted(row, "tr_1", due_at=1))

    async def step(self, op: LedgerOp) -> Receipt:
        return raised_by(await self.economy.run_op(op))

    async def decided(self, op: LedgerOp) -> Decided:
        return await self.economy.run_op(op)

    # -- looking ---------------------------------------------------------------------------

    async def balance(self, account: str) -> int:
        return (await self.economy.read.balance(account)).minor

    async def house(self, name: str) -> int:
        return await self.balance(f"platform:{name}")

    async def row(self, kind: str, row_id: str) -> SideRow:
        store = await core_of(self.app).opened()
        (row,) = await store.ledger_sides(kind, ids=(row_id,))
        return row

    async def topics(self) -> list[str]:
        found = await self.app.messages.find(limit=1000)
        return [record.topic for record in found.items]

    async def postings(self) -> int:
        return (await (await core_of(self.app).opened()).ledger_counts()).postings

    async def sound(self) -> None:
        """Every posting hashes and balances, all sums are zero, no user's wallet is below zero."""
        store = await core_of(self.app).opened()
        assert set((await store.ledger_sums()).values()) <= {0}
        for record in await store.ledger_postings(limit=10_000):
            verified(record)
        for account in await store.ledger_accounts(limit=10_000):
            links = await store.ledger_links(account.id, limit=10_000)
            assert sum(link.amount for link in links) == account.sum
            assert account.id.startswith("platform:") or account.balance >= 0

    def forge(self, row: SideRow) -> None:
        """Write a row behind the ledger's back."""
        seen: Any = self.app.store()
        seen._inner._tables.ledger.put_side(row)


def committed(outcome: Outcome) -> Receipt:
    assert isinstance(outcome, Committed), outcome
    return outcome.receipt


def duplicate(outcome: Outcome) -> Receipt:
    assert isinstance(outcome, Duplicate), outcome
    return outcome.receipt


def rejected(outcome: Outcome) -> tuple[str, dict[str, Any]]:
    assert isinstance(outcome, Rejected), outcome
    return outcome.reason, outcome.fields


def _money(amount: Money | str) -> Money:
    return amount if isinstance(amount, Money) else credits(amount)

"""An economy over memory on a clock that stands still, with ports that do as they are told.

The settings are those of the spec's fixture: fee 30 %, no waits, no minimum, rates 0.01, 0.005 and
0.005; a payout may be pending for a minute.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import count
from typing import Any

from msgspec.structs import replace

from offpath import App
from offpath.economy import (
    Actor,
    Committed,
    Economy,
    GrantPromo,
    Outcome,
    Rates,
    Receipt,
    Request,
    RequestPayout,
    SettlePayout,
    Share,
    Spend,
    Subscribe,
    TopUp,
    accept_operation,
    rate,
    settle_due_payouts,
)
from offpath.economy import credits as in_credits
from offpath.economy.ledger.rows import body
from offpath.economy.ledger.rules import rules_of
from offpath.economy.sweeps.runs import EconomyRun, SweepInput
from offpath.economy.testing import FakeDirectory, FakeFeed, FakeProvider, MemoryAnchor, TestSigner
from offpath.events.inbox import Accepted
from offpath.model.ledger.posting import PostingRecord
from offpath.model.ledger.rates import fee_of
from offpath.model.ledger.records import SideRow
from offpath.model.message import MessageFilter
from offpath.store.memory.store import MemoryStore
from offpath.testing import FlakyStore, ManualClock

SYSTEM = Actor.system("test")
SETTINGS: dict[str, Any] = {
    "platform_fee_bps": 3000,
    "max_subscription_attempts": 3,
    "max_payout_age": 60.0,
    "payout_min_earned_minor": 0,
    "payout_min_interval": 0.0,
    "velocity_limit_minor": 100_000_000,
    "subscription_price_min_minor": 1,
    "subscription_grace": 0.0,
}
RATES = Rates(buy=rate("buy", 1, 2), par=rate("par", 5, 3), payout=rate("payout", 5, 3))


class Rig(Economy):
    """The economy, and short words for what tests do with it."""

    def __init__(
        self,
        settings: dict[str, Any] | None = None,
        rates: Rates = RATES,
        *,
        bare: bool = False,
        store: Any = None,
        clock: ManualClock | None = None,
    ) -> None:
        self.clock = clock = clock or ManualClock()
        self.store = FlakyStore(store or MemoryStore(clock))
        self.errors: list[tuple[str, str]] = []
        """The errors that ``on_error`` was given."""
        self.provider = FakeProvider()
        self.directory = FakeDirectory()
        self.feed = FakeFeed()
        self.anchor = MemoryAnchor()
        ports: dict[str, Any] = {
            "provider": self.provider,
            "directory": self.directory,
            "feed": self.feed,
            "anchor": self.anchor,
            "signer": TestSigner(),
        }
        self._count = count(1)
        app = App(clock=clock, store=self.store, auto_start=False, on_error=self._note)
        super().__init__(
            app, rates=rates, **({} if bare else ports), **{**SETTINGS, **(settings or {})}
        )

    def _note(self, error: BaseException, phase: str) -> None:
        self.errors.append((type(error).__name__, phase))

    def change(self, **settings: Any) -> None:
        """Go on with other settings."""
        self.settings = replace(self.settings, **settings)
        self.rules = rules_of(self.settings, self.rates)
        self._submitting.rules = self.rules

    # -- time --------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        return self.clock.now()

    @property
    def ms(self) -> int:
        return round(self.now.timestamp() * 1000)

    def later(self, seconds: float) -> datetime:
        self.clock.advance(seconds)
        return self.now

    # -- doing -------------------------------------------------------------------------------------

    def key(self) -> str:
        """A key that no other economy on the same store makes."""
        return f"key-{self.app.new_id()}"

    async def done(self, request: Request) -> Receipt:
        outcome = await self.submit(request)
        assert isinstance(outcome, Committed), outcome
        return outcome.receipt

    async def top_up(self, user: str, amount: str, source: str = "card") -> Receipt:
        return await self.done(
            TopUp(key=self.key(), actor=SYSTEM, user=user, amount=in_credits(amount), source=source)
        )

    async def earn(self, seller: str, amount: str) -> None:
        """Let a seller earn exactly this: a buyer pays it and the fee."""
        minor = in_credits(amount).minor
        price = minor * 10_000 // (10_000 - self.settings.platform_fee_bps)
        while price - fee_of(price, self.settings.platform_fee_bps) != minor:
            price += 1
        buyer = f"buyer-{next(self._count)}"
        paid = f"{price // 100}.{price % 100:02d}"
        await self.top_up(buyer, paid)
        await self.sell(buyer, paid, seller)

    async def sell(self, buyer: str, price: str, seller: str) -> Receipt:
        return await self.done(
            Spend(
                key=self.key(),
                actor=SYSTEM,
                buyer=buyer,
                order_id=self.key(),
                sku="hat",
                price=in_credits(price),
                recipients=(Share(seller=seller, bps=10_000),),
            )
        )

    async def request_payout(self, seller: str, amount: str) -> str:
        receipt = await self.done(
            RequestPayout(
                key=self.key(), actor=Actor.user(seller), user=seller, amount=in_credits(amount)
            )
        )
        return str(receipt.facts["payout_id"])

    async def due_payout(self, amount: str = "20000.00", seller: str = "seller") -> str:
        """A payout that is due now."""
        await self.earn(seller, amount)
        payout = await self.request_payout(seller, amount)
        self.later(31)
        return payout

    async def taken_payout(self, amount: str = "20000.00") -> str:
        """A payout that the provider took, and that is due now; it is 120 s old."""
        payout = await self.due_payout(amount)
        assert (await settle_due_payouts(self)).submitted == (payout,)
        self.later(120)
        return payout

    async def settle(self, payout: str) -> Outcome:
        return await self.submit(
            SettlePayout(key=self.key(), actor=SYSTEM, payout_id=payout, provider_ref="ref")
        )

    async def subscribe(
        self, user: str, price: str, *, seller: str = "seller", period: float = 1_000.0
    ) -> str:
        receipt = await self.done(
            Subscribe(
                key=self.key(),
                actor=Actor.user(user),
                user=user,
                seller=seller,
                sku="club",
                price=in_credits(price),
                period=period,
            )
        )
        return str(receipt.facts["subscription_id"])

    async def grant(self, user: str, amount: str, *, lasts: float = 1_000.0) -> str:
        receipt = await self.done(
            GrantPromo(
                key=self.key(),
                actor=SYSTEM,
                user=user,
                amount=in_credits(amount),
                expires_at=self.now + timedelta(seconds=lasts),
            )
        )
        return str(receipt.id)

    async def accept(self, event: str, request: Request) -> Accepted:
        return await accept_operation(self, event, request)

    async def sweep(self, *only: str, **asked: Any) -> EconomyRun:
        return await self.run_sweeps(SweepInput(only=only or None, **asked))

    # -- looking -----------------------------------------------------------------------------------

    async def balance(self, account: str) -> str:
        found = await self.store.ledger_accounts(ids=[account])
        minor = found[0].balance if found else 0
        sign = "-" if minor < 0 else ""
        return f"{sign}{abs(minor) // 100}.{abs(minor) % 100:02d}"

    async def row(self, kind: str, row_id: str) -> SideRow:
        (found,) = await self.store.ledger_sides(kind, ids=[row_id])
        return found

    async def body(self, row_id: str, kind: str, shape: type[Any]) -> Any:
        return body(await self.row(kind, row_id), shape)

    async def postings(self) -> list[PostingRecord]:
        return await self.store.ledger_postings()

    async def topics(self) -> list[str]:
        page = await self.store.find_messages(MessageFilter(), limit=10_000)
        return [message.topic for message in page.items]

    # -- altering what is stored, as nothing in offpath does ---------------------------------------

    def tamper(self, kind: str, row_id: str, **changes: Any) -> None:
        """Change a row behind everybody's back."""
        self.ledger.put_side(replace(self.ledger.sides[kind][row_id], **changes))

    @property
    def ledger(self) -> Any:
        """The very rows of the memory store."""
        inner: Any = self.store._wrapped
        return inner._tables.ledger

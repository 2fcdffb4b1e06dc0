"""One process of the economy's campaign: ``python -m tests.integration.economy_member JSON``.

It submits random operations of every kind, many at a time, and some of its kind run the sweeps. It
may die at any moment: what it is about to ask and what it was told are in its journal, and whoever
follows it asks again for what has no answer there.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offpath import App
from offpath.economy import (
    Actor,
    Adjust,
    CancelSubscription,
    Clawback,
    Committed,
    Economy,
    EconomyRun,
    Fund,
    GrantEntitlement,
    GrantPromo,
    LedgerError,
    Money,
    ProviderFailed,
    Rates,
    Receipt,
    Refund,
    Rejected,
    Request,
    RequestPayout,
    Reverse,
    ReversePayout,
    RevokeEntitlement,
    SettlePayout,
    Share,
    Spend,
    StoreFailed,
    Subscribe,
    SweepInput,
    TopUp,
    WriteOff,
    accept_operation,
    event_key,
    rate,
)
from offpath.economy.ledger import wire
from offpath.economy.testing import TestSigner
from offpath.errors import StoreBusy, StoreUnavailable
from offpath.events import Event
from offpath.model.ledger.money import Currency
from tests.integration.economy_provider import SharedProvider, fails, ref_of
from tests.integration.polling import window

USERS = tuple(f"u{n}" for n in range(50))
SELLERS = tuple(f"s{n}" for n in range(6))
SKUS, OPS, BANK = ("hat", "map", "sword"), Actor.operator("olivia"), Actor.system("bank")
RATES = Rates(buy=rate("buy", 1, 2), par=rate("par", 5, 3), payout=rate("payout", 4, 3))
SETTINGS: dict[str, Any] = {
    "platform_fee_bps": 1_530,
    "velocity_limit_minor": 150_000,
    "velocity_window": 2.0,
    "maturity_card": 0.3,
    "maturity_crypto": 0.0,
    "maturity_default": 0.2,
    "payout_min_earned_minor": 500,
    "payout_min_interval": 0.0,
    "sla_pending": 0.1,
    "sla_submitted": 0.3,
    "max_payout_age": 86_400.0,
    "subscription_price_min_minor": 1,
    "subscription_grace": 0.0,
}
LIKELY: dict[str, int] = {
    "top_up": 20, "spend": 30, "refund": 5, "clawback": 3, "promo": 5, "request_payout": 10,
    "settle": 8, "reverse_payout": 3, "subscribe": 5, "cancel": 2, "grant": 2, "revoke": 2,
    "adjust": 2, "reverse": 3, "again": 8, "report": 4, "write_off": 2, "fund": 1,
}  # fmt: skip
"""The weight with which each is asked for."""

sweeping: ContextVar[int | None] = ContextVar("sweeping", default=None)
"""By which time (ms) the sweep decides in which an id is made."""


class Orders(Struct, frozen=True, kw_only=True):
    """The orders of a member."""

    url: str
    folder: str
    number: int
    start: int
    """The number of times that it was started before."""
    sweeps: bool
    callers: int = 6


class Line(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a journal: what is about to be asked, or what was told."""

    key: str
    op: dict[str, Any] | None = None
    told: str | None = None
    """``committed``, ``duplicate``, ``rejected``, or the code of a fault."""
    receipt: Receipt | None = None


class Ids:
    """Ids in the order in which they were made: a plan's follow one another.

    Those made in a sweep also have the time by which it decides.
    """

    def __init__(self, member: str) -> None:
        self._member = member
        self._numbers = count()

    def __call__(self) -> str:
        now = sweeping.get()
        at = "" if now is None else f"@{now}"
        return f"{self._member}{at}-{next(self._numbers)}"


class Journal:
    """The journal that survives a member, line by line."""

    def __init__(self, path: Path) -> None:
        self.lines = read_journal(path)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, line: Line) -> None:
        """Keep a line, whatever happens to this process next."""
        os.write(self._file, msgspec.json.encode(line) + b"\n")

    def unanswered(self) -> list[Request]:
        """Requests that led to nothing, as far as anybody knows."""
        asked = {line.key: line.op for line in self.lines if line.op is not None}
        told = {line.key for line in self.lines if line.told is not None}
        return [wire.decode(op) for key, op in asked.items() if key not in told]


def read_journal(path: Path) -> list[Line]:
    """The lines; none of a file that is not there."""
    if not path.exists():
        return []
    return [msgspec.json.decode(line, type=Line) for line in path.read_bytes().splitlines()]


def economy_of(app: App, provider: object, new_id: Callable[[], str]) -> Economy:
    """The economy of every process of a campaign, and of its replay."""
    made = Economy(
        app,
        rates=RATES,
        provider=provider,  # type: ignore[arg-type]
        signer=TestSigner(),
        new_id=new_id,
        **SETTINGS,
    )
    made.ports = replace(made.ports, provider_timeout=2.0)
    return made


async def swept(economy: Economy, asked: SweepInput) -> EconomyRun:
    """Run sweeps by a time that is given, and note that in the ids that they make."""
    assert asked.now is not None
    token = sweeping.set(round(asked.now.timestamp() * 1_000))
    try:
        return await economy.run_sweeps(asked)
    finally:
        sweeping.reset(token)


class Member:
    """The process."""

    def __init__(self, orders: Orders) -> None:
        folder = Path(orders.folder)
        self.name = f"m{orders.number}.{orders.start}"
        self.orders = orders
        self.stop = folder / "stop"
        self.ready = folder / f"ready-{self.name}"
        self.random = random.Random(f"{orders.number}/{orders.start}")
        self.journal = Journal(folder / f"journal-{orders.number}")
        self.app = App(orders.url, auto_start=False)
        self.app.outbox(dispatcher=self._delivered)
        self._events = os.open(
            folder / f"events-{orders.number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND
        )
        self.provider = SharedProvider(
            folder / "provider.db", chaos=0.3, seed=orders.number * 1_000 + orders.start
        )
        self.economy = economy_of(self.app, self.provider, Ids(self.name))
        self._numbers = count()
        self.asked: list[Request] = []
        self.sales: list[str] = []
        self._buyers: dict[str, str] = {}
        self._debtors: list[str] = []
        self.postings: list[str] = []
        self.payouts: list[tuple[str, str]] = []
        self.subscriptions: list[str] = []

    def _delivered(self, event: Event) -> None:
        os.write(self._events, f"{event.id}\n".encode())

    async def run(self) -> None:
        """Work until everybody is to stop."""
        await self._open()
        for line in self.journal.lines:
            if line.told == "committed" and line.receipt is not None:
                self._learn(line.receipt)
        self.ready.touch()
        left = self.journal.unanswered()
        parts = [left[n :: self.orders.callers] for n in range(self.orders.callers)]
        loops = [self._call(part) for part in parts]
        if self.orders.sweeps:
            loops.append(self._sweep())
        await asyncio.gather(*loops)
        await self.app.close()

    async def _open(self) -> None:
        while True:
            try:
                await self.app.open()
            except StoreUnavailable:  # connections are cut here
                await window(0.1)
            else:
                return

    # -- calling --------------------------------------------------------------------------------

    async def _call(self, left: list[Request]) -> None:
        for request in left:
            await self._ask(request)
        kinds, weights = list(LIKELY), list(LIKELY.values())
        while not self.stop.exists():
            kind = self.random.choices(kinds, weights)[0]
            if kind == "report":
                await self._report()
                continue
            request = getattr(self, f"_{kind}")()
            if request is not None:
                self.journal.write(Line(key=request.key, op=wire.encode(request)))
                await self._ask(request)

    async def _ask(self, request: Request) -> None:
        """Submit until there is an answer, as long as the campaign lasts."""
        while not self.stop.exists():
            try:
                outcome = await self.economy.submit(request)
            except (StoreFailed, ProviderFailed) as fault:
                if not fault.retryable:
                    self._told(request, fault.code, None)
                    return
                await window(0.05)
                continue
            except LedgerError as fault:
                self._told(request, fault.code, None)
                return
            if isinstance(outcome, Rejected):
                self._told(request, "rejected", None)
                return
            self._told(request, type(outcome).__name__.lower(), outcome.receipt)
            self.asked.append(request)
            if isinstance(outcome, Committed):
                self._learn(outcome.receipt)
                if isinstance(request, Spend):
                    self.sales.append(request.order_id)
                    self._buyers[request.order_id] = request.buyer
                if isinstance(request, Spend | TopUp | Adjust | GrantPromo):
                    self.postings.append(str(outcome.receipt.id))
            return

    def _told(self, request: Request, what: str, receipt: Receipt | None) -> None:
        self.journal.write(Line(key=request.key, told=what, receipt=receipt))

    def _learn(self, receipt: Receipt) -> None:
        facts = receipt.facts
        if "payout_id" in facts and "quote" in facts:
            self.payouts.append((str(facts["payout_id"]), ""))
        if "subscription_id" in facts:
            self.subscriptions.append(str(facts["subscription_id"]))

    async def _report(self) -> None:
        """The provider's webhooks, any number of times each."""
        taken = self.provider.taken()
        if not taken:
            await window(0.02)
            return
        key, user, _ = self.random.choice(taken[-200:])
        event = f"pay:{key}"
        request = report_of(key, user, event_key(event))
        self.journal.write(Line(key=request.key, op=wire.encode(request)))
        try:
            await accept_operation(self.economy, event, request)
        except (StoreBusy, StoreUnavailable):
            await window(0.05)  # connections are cut here: it is told again

    # -- sweeping -------------------------------------------------------------------------------

    async def _sweep(self) -> None:
        while not self.stop.exists():
            now = self._soon(0, 0)  # in whole milliseconds, as it is noted in ids
            run = await swept(self.economy, SweepInput(now=now, limit=40))
            for result in run.batch:
                mismatch = getattr(result.summary, "mismatch", False)
                bad = result.code not in {None, "STORE.FAILURE"}
                if mismatch or bad:
                    self.journal.write(Line(key=f"sweep {result.name}", told=f"{result}"))
            await window(0.1)

    # -- what may be asked for ------------------------------------------------------------------

    def _key(self) -> str:
        return f"{self.name}#{next(self._numbers)}"

    def _money(self, most: int, *, least: int = 1) -> Money:
        return Money(Currency.CREDIT, self.random.randrange(least, most))

    def _soon(self, least: float, most: float) -> datetime:
        seconds = self.random.uniform(least, most)
        moment = datetime.now(UTC) + timedelta(seconds=seconds)
        return moment.replace(microsecond=moment.microsecond // 1_000 * 1_000)

    def _user(self) -> str:
        return self.random.choice(USERS)

    def _top_up(self) -> Request:
        source = self.random.choice(("card", "crypto"))
        return TopUp(
            key=self._key(),
            actor=BANK,
            user=self._user(),
            amount=self._money(90_000),
            source=source,
        )

    def _spend(self) -> Request:
        key, buyer = self._key(), self._user()
        sellers = self.random.sample(SELLERS, self.random.choice((1, 1, 2, 3)))
        first = 10_000 - 3_333 * (len(sellers) - 1)
        shares = tuple(Share(one, 3_333 if n else first) for n, one in enumerate(sellers))
        again = self.sales and self.random.random() < 0.05
        return Spend(
            key=key,
            actor=Actor.user(buyer),
            buyer=buyer,
            order_id=self.random.choice(self.sales) if again else f"o-{key}",
            sku=self.random.choice(SKUS),
            price=self._money(25_000),
            recipients=shares,
            gift_to=self._user() if self.random.random() < 0.1 else None,
        )

    def _refund(self) -> Request | None:
        if not self.sales:
            return None
        return Refund(key=self._key(), actor=OPS, order_id=self.random.choice(self.sales))

    def _clawback(self) -> Request:
        known = self.sales and self.random.random() < 0.5
        order = self.random.choice(self.sales) if known else None
        # the buyer of an order that this process knows, so that it is his
        user = self._user() if order is None else self._buyers[order]
        self._debtors.append(user)
        dollars = Money(Currency.USD, self.random.randrange(1, 500))
        return Clawback(
            key=self._key(),
            actor=OPS,
            user=user,
            amount=self._money(8_000),
            order_id=order,
            dollars=self.random.choice([None, dollars]),
            fee=self.random.choice([None, dollars]),
        )

    def _write_off(self) -> Request:
        amount = self.random.choice([None, self._money(2_000)])
        # those who may owe something: of all users few ever do
        user = self.random.choice(self._debtors or [*USERS, *SELLERS])
        return WriteOff(key=self._key(), actor=OPS, user=user, amount=amount, reason="gone")

    def _fund(self) -> Request:
        amount = Money(Currency.USD, self.random.randrange(1, 500))
        return Fund(key=self._key(), actor=OPS, amount=amount, reason="promos")

    def _promo(self) -> Request:
        return GrantPromo(
            key=self._key(),
            actor=OPS,
            user=self._user(),
            amount=self._money(6_000),
            expires_at=self._soon(1.0, 6.0),
        )

    def _request_payout(self) -> Request:
        seller = self.random.choice(SELLERS)
        return RequestPayout(
            key=self._key(),
            actor=Actor.user(seller),
            user=seller,
            amount=self._money(9_000, least=300),
        )

    def _settle(self) -> Request | None:
        paid = [one for one in self.provider.taken()[-100:] if not fails(one.key)]
        if not paid:
            return None
        key = self.random.choice(paid).key
        return SettlePayout(key=self._key(), actor=BANK, payout_id=key, provider_ref=ref_of(key))

    def _reverse_payout(self) -> Request | None:
        if not self.payouts:
            return None
        payout, _ = self.random.choice(self.payouts)
        return ReversePayout(
            key=self._key(),
            actor=OPS,
            user=self.random.choice(SELLERS),
            payout_id=payout,
            reason="asked for",
        )

    def _subscribe(self) -> Request:
        user = self._user()
        return Subscribe(
            key=self._key(),
            actor=Actor.user(user),
            user=user,
            seller=self.random.choice(SELLERS),
            sku=self.random.choice(SKUS),
            price=self._money(4_000),
            period=0.8,
        )

    def _cancel(self) -> Request | None:
        if not self.subscriptions:
            return None
        subscription = self.random.choice(self.subscriptions)
        return CancelSubscription(key=self._key(), actor=OPS, subscription_id=subscription)

    def _grant(self) -> Request:
        expires = self._soon(1.0, 9.0) if self.random.random() < 0.5 else None
        return GrantEntitlement(
            key=self._key(),
            actor=OPS,
            user=self._user(),
            sku=self.random.choice(SKUS),
            expires_at=expires,
        )

    def _revoke(self) -> Request:
        sku = self.random.choice(SKUS)
        return RevokeEntitlement(key=self._key(), actor=OPS, user=self._user(), sku=sku)

    def _adjust(self) -> Request:
        minor = self.random.choice((-1, 1)) * self.random.randrange(1, 5_000)
        account = f"{self._user()}:spendable"
        amount = Money(Currency.CREDIT, minor)
        return Adjust(key=self._key(), actor=OPS, account=account, amount=amount, reason="tests")

    def _reverse(self) -> Request | None:
        if not self.postings:
            return None
        posting = self.random.choice(self.postings)
        return Reverse(key=self._key(), actor=OPS, posting_id=posting, reason="tests")

    def _again(self) -> Request | None:
        return self.random.choice(self.asked) if self.asked else None


def report_of(key: str, user: str, operation: str) -> Request:
    """The provider's word on a payout, as the operation that it becomes."""
    if fails(key):
        return ReversePayout(
            key=operation,
            actor=BANK,
            user=user,
            payout_id=key,
            reason="the provider says so",
            provider_reported=True,
        )
    return SettlePayout(key=operation, actor=BANK, payout_id=key, provider_ref=ref_of(key))


if __name__ == "__main__":
    asyncio.run(Member(msgspec.convert(json.loads(sys.argv[1]), Orders)).run())

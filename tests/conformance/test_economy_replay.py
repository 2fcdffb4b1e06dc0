"""The same stream of operations, sweeps and waits comes out the same wherever it is carried out:
on every backend, many in one transaction or each in its own. §16.111
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from offpath import App
from offpath.economy import (
    Actor,
    Adjust,
    CancelSubscription,
    Clawback,
    Economy,
    GrantEntitlement,
    GrantPromo,
    LedgerError,
    Money,
    Rates,
    Refund,
    Request,
    RequestPayout,
    Reverse,
    ReversePayout,
    RevokeEntitlement,
    SettlePayout,
    Share,
    Spend,
    Subscribe,
    SweepInput,
    TopUp,
    accept_operation,
    event_key,
    rate,
)
from offpath.economy.ledger.merkle import root_of
from offpath.economy.ledger.outcome import Outcome, outcome_of
from offpath.economy.sweeps.catalogue import IDLE
from offpath.economy.testing import FakeDirectory, FakeProvider, Mode, TestSigner
from offpath.model.ledger.decision import Decided
from offpath.model.ledger.faults import Unplanned
from offpath.model.ledger.money import Currency
from offpath.model.ledger.records import STATES, Leaf
from offpath.runtime.clock import ManualClock
from offpath.store.memory.store import MemoryStore
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.model_place import EXAMPLES, PHASES
from tests.conformance.test_model_ledger import Place

pytestmark = pytest.mark.needs("ledger")

USERS = ("u1", "u2", "u3", "s1", "s2")
OPS, BANK = Actor.operator("olivia"), Actor.system("bank")
RATES = Rates(buy=rate("buy", 1, 2), par=rate("par", 5, 3), payout=rate("payout", 4, 3))
SETTINGS: dict[str, Any] = {
    "platform_fee_bps": 1_530,
    "velocity_limit_minor": 90_000,
    "velocity_window": 20.0,
    "maturity_card": 4.0,
    "maturity_crypto": 0.0,
    "maturity_default": 2.0,
    "payout_min_earned_minor": 300,
    "payout_min_interval": 3.0,
    "sla_pending": 1.0,
    "sla_submitted": 2.0,
    "max_payout_age": 30.0,
    "max_payout_attempts": 2,
    "max_subscription_attempts": 2,
    "subscription_price_min_minor": 1,
    "subscription_grace": 0.0,
}
SWEPT = (
    "payouts", "subscriptions", "treasury", "fee_sweep", "checkpoint_verify", "checkpoint",
    "drain_inbox", "promos",
)  # fmt: skip

Result: TypeAlias = Outcome | str
"""An outcome, or the code of a fault."""


class Asked(NamedTuple):
    """An operation to make: what it refers to is picked from what was done so far."""

    kind: str
    user: str
    other: str
    minor: int
    pick: int


asked = st.builds(
    Asked,
    st.sampled_from(
        (
            *("top_up", "top_up", "spend", "spend", "spend", "refund", "clawback", "promo"),
            *(
                "request_payout",
                "settle",
                "back",
                "subscribe",
                "cancel",
                "grant",
                "revoke",
                "adjust",
            ),
            *("reverse", "again"),
        )
    ),
    st.sampled_from(USERS),
    st.sampled_from(USERS),
    st.integers(1, 40_000),
    st.integers(0, 30),
)
batches = st.tuples(st.just("batch"), st.lists(asked, min_size=1, max_size=10))
sweeps = st.tuples(st.just("sweep"), st.sampled_from(SWEPT), st.integers(1, 4))
waits = st.tuples(st.just("wait"), st.sampled_from((0.001, 1.0, 2.0, 4.0, 40.0)))
scripts = st.tuples(st.just("script"), st.sampled_from(("REFUSE", "TIME_OUT", "ACCEPT")))
inbound = st.tuples(st.just("inbound"), asked)


def _fixed(kind: str, *users: str, least: int = 9_000, other: str = "s1") -> Any:
    """A batch of one kind, for these users."""
    made = (
        st.builds(
            Asked, st.just(kind), st.just(user), st.just(other), st.integers(least, 40_000),
            st.integers(0, 30),
        )
        for user in users
    )  # fmt: skip
    return st.tuples(st.just("batch"), st.tuples(*made).map(list))


def _undone(pick: int) -> tuple[str, list[Asked]]:
    """A sale, and in the same batch what takes it back."""
    kinds = ("spend", "refund", "clawback", "refund")
    return "batch", [Asked(kind, "u1", "s1", 1_000, pick) for kind in kinds]


undoing = st.integers(0, 30).map(_undone)
funded = st.tuples(
    _fixed("top_up", "u1", "u2", "u3", "s1"), st.tuples(st.just("wait"), st.just(4.0)), undoing
)
earning = st.tuples(
    _fixed("top_up", "u1", "u2", "u3"),
    st.tuples(st.just("wait"), st.just(4.0)),
    _fixed("spend", "u1", "u2", "u3", "u1"),
    _fixed("subscribe", "u1", "u2", least=600),
    st.tuples(st.just("wait"), st.just(4.0)),
    scripts,
    _fixed("request_payout", "s1", "s2", least=300),
    st.tuples(st.just("wait"), st.just(2.0)),
    st.tuples(st.just("sweep"), st.just("payouts"), st.just(2)),
)
"""The beginning of a stream that is to have payouts and subscriptions."""
anything = st.lists(
    st.one_of(batches, batches, batches, undoing, sweeps, sweeps, sweeps, waits, inbound, scripts),
    min_size=4,
    max_size=16,
)
streams = st.tuples(st.one_of(funded, earning), anything).map(lambda both: [*both[0], *both[1]])


class Ids:
    """Ids by what they are for, so that who plans something once more makes the same ones."""

    def __init__(self) -> None:
        self.begin("none")

    def begin(self, what: str) -> None:
        self._what, self._numbers = what, count()

    def __call__(self) -> str:
        return f"{self._what}.{next(self._numbers)}"


class World:
    """One economy, and what was done on it."""

    def __init__(
        self, store: Store, clock: ManualClock, *, late: frozenset[str] | None = None
    ) -> None:
        self.store, self.clock = store, clock
        self.in_turn = late
        """None: batches in one transaction each. Else one operation after the other, with these
        last in their batch."""
        self.late: set[str] = set()
        """Operations planned before what they need was there, which so came after their batch."""
        self.ids = Ids()
        self.provider = FakeProvider()
        self.economy = Economy(
            App(store=store, clock=clock, auto_start=False),
            rates=RATES,
            provider=self.provider,
            directory=FakeDirectory("u3"),
            signer=TestSigner(),
            new_id=self.ids,
            **SETTINGS,
        )
        self.results: list[Any] = []
        self.told: list[str] = []
        self.requests: list[Request] = []
        self._numbers = count()

    # -- carrying out ----------------------------------------------------------------------------

    async def carry_out(self, stream: list[tuple[Any, ...]]) -> None:
        await self.economy.app.open()
        for name, *arguments in stream:
            await getattr(self, f"_{name}")(*arguments)

    async def _wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    async def _script(self, mode: str) -> None:
        self.provider.script(Mode[mode])

    async def _inbound(self, one: Asked) -> None:
        request = await self._request(one, event_key(f"e{next(self._numbers)}"))
        if request is None:
            return
        try:
            await accept_operation(self.economy, request.key, request)
        except LedgerError as fault:  # it could never be applied
            self.results.append(type(fault).__name__)

    async def _sweep(self, name: str, times: int) -> None:
        """Row by row: within a page, a backend's pace decides which of the rows comes first."""
        for _ in range(times):
            self.ids.begin(f"sweep{next(self._numbers)}")
            run = await self.economy.run_sweeps(SweepInput(only=name, limit=1))
            result = run[name]
            assert result.ok, result
            told = len(run.postings) if name == "drain_inbox" else result.summary
            self.results.append((name, told, result.more, run.postings))
            if result.summary != IDLE[name]:
                self.told.append(f"{name} {len(run.postings)}")

    async def _batch(self, batch: list[Asked]) -> None:
        requests = []
        for one in batch:
            request = await self._request(one, f"k{next(self._numbers)}")
            if request is not None:
                requests.append((f"op{next(self._numbers)}", request))
        done = await (self._at_once(requests) if self.in_turn is None else self._in_turn(requests))
        self.results += done
        for (_, request), result in zip(requests, done, strict=True):
            what = result if isinstance(result, str) else type(result).__name__
            self.told += [what, f"{type(request).__name__} {what}"]
        self.requests += [request for _, request in requests]

    async def _at_once(self, requests: list[tuple[str, Request]]) -> list[Result]:
        """All in one transaction; what was planned too early for its needs comes after it."""
        planned = [await self._planned(*one) for one in requests]
        ops = [one for one in planned if not isinstance(one, str)]
        decided = iter(await asyncio.gather(*map(self.economy.run_op, ops)))
        results = [one if isinstance(one, str) else _result(next(decided)) for one in planned]
        for place, (what, request) in enumerate(requests):
            if results[place] is None:
                self.late.add(what)
                results[place] = await self._alone(what, request)
        return [one for one in results if one is not None]

    async def _in_turn(self, requests: list[tuple[str, Request]]) -> list[Result]:
        late = self.in_turn or frozenset()
        order = sorted(range(len(requests)), key=lambda place: requests[place][0] in late)
        results = {place: await self._alone(*requests[place]) for place in order}
        return [results[place] for place in range(len(requests))]

    async def _planned(self, what: str, request: Request) -> Any:
        self.ids.begin(what)
        try:
            return await self.economy.prepare(request)
        except LedgerError as fault:
            return fault.code

    async def _alone(self, what: str, request: Request) -> Result:
        for _ in range(4):
            op = await self._planned(what, request)
            result = op if isinstance(op, str) else _result(await self.economy.run_op(op))
            if result is not None:
                found: Result = result
                return found
        raise AssertionError(f"{request} is never planned well enough")

    # -- making requests -------------------------------------------------------------------------

    async def _request(self, one: Asked, key: str) -> Request | None:
        made: Callable[..., Coroutine[Any, Any, Request | None]] = getattr(self, f"_{one.kind}")
        return await made(one, key)

    async def _top_up(self, one: Asked, key: str) -> Request:
        source = ("card", "crypto")[one.pick % 2]
        return TopUp(key=key, actor=BANK, user=one.user, amount=_credits(one.minor), source=source)

    async def _spend(self, one: Asked, key: str) -> Request:
        shares = (Share("s1", 3_333), Share("s2", 6_667))
        return Spend(
            key=key,
            actor=Actor.user(one.user),
            buyer=one.user,
            order_id=_order(one),
            sku=f"sku-{one.pick % 3}",
            price=_credits(one.minor // 3 + 1),
            recipients=shares if one.pick % 3 else (Share(one.other, 10_000),),
            gift_to=one.other if one.pick % 5 == 0 else None,
        )

    async def _refund(self, one: Asked, key: str) -> Request:
        return Refund(key=key, actor=OPS, order_id=_order(one))

    async def _clawback(self, one: Asked, key: str) -> Request:
        order = _order(one) if one.pick % 2 else None
        amount = _credits(one.minor // 5 + 1)
        return Clawback(key=key, actor=OPS, user=one.user, amount=amount, order_id=order)

    async def _promo(self, one: Asked, key: str) -> Request:
        expires = self.clock.now() + timedelta(milliseconds=one.pick * 500)
        amount = _credits(one.minor // 4 + 1)
        return GrantPromo(key=key, actor=OPS, user=one.user, amount=amount, expires_at=expires)

    async def _request_payout(self, one: Asked, key: str) -> Request:
        seller = one.user if one.pick % 4 == 0 else ("s1", "s2")[one.pick % 2]
        amount = _credits(one.minor // 6 + 250)
        return RequestPayout(key=key, actor=Actor.user(seller), user=seller, amount=amount)

    async def _settle(self, one: Asked, key: str) -> Request | None:
        row = await self._picked("payout", one)
        return row and SettlePayout(key=key, actor=BANK, payout_id=row.id, provider_ref="r")

    async def _back(self, one: Asked, key: str) -> Request | None:
        row = await self._picked("payout", one)
        return row and ReversePayout(
            key=key,
            actor=OPS,
            user=row.owner,
            payout_id=row.id,
            reason="x",
            provider_reported=one.pick % 2 == 0,
        )

    async def _subscribe(self, one: Asked, key: str) -> Request:
        return Subscribe(
            key=key,
            actor=Actor.user(one.user),
            user=one.user,
            seller=one.other,
            sku="club",
            price=_credits(one.minor // 6 + 1),
            period=1.0 + one.pick % 3,
        )

    async def _cancel(self, one: Asked, key: str) -> Request | None:
        row = await self._picked("subscription", one)
        return row and CancelSubscription(key=key, actor=OPS, subscription_id=row.id)

    async def _grant(self, one: Asked, key: str) -> Request:
        expires = self.clock.now() + timedelta(seconds=one.pick) if one.pick % 2 else None
        sku = f"sku-{one.pick % 3}"
        return GrantEntitlement(key=key, actor=OPS, user=one.user, sku=sku, expires_at=expires)

    async def _revoke(self, one: Asked, key: str) -> Request:
        return RevokeEntitlement(key=key, actor=OPS, user=one.user, sku=f"sku-{one.pick % 3}")

    async def _adjust(self, one: Asked, key: str) -> Request:
        kind = ("spendable", "earned", "promo")[one.pick % 3]
        amount = _credits((one.minor - 20_000) or 1)
        account = f"{one.user}:{kind}"
        return Adjust(key=key, actor=OPS, account=account, amount=amount, reason="x")

    async def _reverse(self, one: Asked, key: str) -> Request | None:
        postings = await self.store.ledger_postings(limit=1_000)
        if not postings:
            return None
        posting = postings[one.pick % len(postings)].id
        return Reverse(key=key, actor=OPS, posting_id=posting, reason="x")

    async def _again(self, one: Asked, key: str) -> Request | None:
        return self.requests[one.pick % len(self.requests)] if self.requests else None

    async def _picked(self, kind: str, one: Asked) -> Any:
        rows = await self.store.ledger_sides(kind, limit=1_000)
        return rows[one.pick % len(rows)] if rows else None

    # -- what is left ----------------------------------------------------------------------------

    async def left(self) -> dict[str, Any]:
        """All that the ledger holds, and what was answered."""
        store = self.store
        accounts = await store.ledger_accounts(limit=10_000)
        leaves = [
            Leaf(account=one.id, number=one.number, head=one.head, sum=one.sum) for one in accounts
        ]
        totals = await store.ledger_totals()
        return {
            "results": self.results,
            "accounts": accounts,
            "root": root_of(leaves).hash,
            "postings": [replace(one, seq=0) for one in await store.ledger_postings(limit=10_000)],
            "sides": {kind: await store.ledger_sides(kind, limit=10_000) for kind in STATES},
            "keys": [await store.ledger_key(request.key) for request in self.requests],
            "totals": {name: one for name, one in totals.balances.items() if one},
            "quotes": totals.quotes,
            "sums": await store.ledger_sums(),
            "checkpoints": await store.ledger_checkpoints(limit=100),
            "paid": self.provider.accepted,
            "asked": self.provider.calls,
        }


def _order(one: Asked) -> str:
    """Few enough that a refund often meets a sale, also one of its own batch."""
    return f"order-{one.pick % 12}"


def _credits(minor: int) -> Money:
    return Money(Currency.CREDIT, minor)


def _result(decided: Decided) -> Result | None:
    """None: it has to be planned anew."""
    try:
        return outcome_of(decided)
    except Unplanned:
        return None
    except LedgerError as fault:
        return fault.code


async def _left(world: World, stream: list[tuple[Any, ...]]) -> dict[str, Any]:
    await world.carry_out(stream)
    return await world.left()


def _same(one: dict[str, Any], two: dict[str, Any]) -> None:
    for name, left in one.items():
        assert left == two[name], name


@pytest.mark.timeout(900)
def test_a_stream_comes_out_the_same_on_every_backend_and_one_by_one(
    backend: Backend, clock: ManualClock, tmp_path: Path
) -> None:
    """On memory it is compared with itself, one operation in a transaction."""
    place, start = Place(backend, clock, tmp_path), clock.now()
    seen: Counter[str] = Counter()

    async def both(stream: list[tuple[Any, ...]]) -> None:
        own = ManualClock(start)
        expected = World(MemoryStore(own), own)
        left = await _left(expected, stream)
        clock.set(start)
        if backend.name == "memory":
            late = frozenset(expected.late)
            other = World(MemoryStore(clock), clock, late=late)
        else:
            other = World(await place.empty_store(), clock)
        _same(left, await _left(other, stream))
        seen.update(_told(expected))

    @settings(
        max_examples=EXAMPLES,
        phases=PHASES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(streams)
    def compare(stream: list[tuple[Any, ...]]) -> None:
        runner.run(both(stream))

    with asyncio.Runner() as runner:
        try:
            compare()
        finally:
            runner.run(place.close())
    assert seen["Committed"] > seen["Rejected"] > 0, seen


def _told(world: World) -> Counter[str]:
    """The answers to operations of each kind, and what each sweep did."""
    return Counter(world.told)

"""The credits economy: its operations alone and 32 at a time, its sweeps, its seals and its prover.

As the original measures itself: users and sellers are many, all share the platform's accounts,
limits are out of the way, and each run counts only when the prover passes afterwards.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import offpath
from benchmarks import raw_economy
from benchmarks.report import Measurement, percentile
from offpath.economy import (
    Actor,
    Committed,
    Economy,
    GrantPromo,
    Request,
    RequestPayout,
    Share,
    Spend,
    Subscribe,
    TopUp,
    accept_operation,
    credits,
    drain_inbox,
    expire_promos,
    relay_outbox,
    renew_subscriptions,
    seal_checkpoint,
    settle_due_payouts,
    verify_checkpoint,
)
from offpath.economy.testing import FakeProvider, TestSigner
from offpath.events import Event
from offpath.model.ledger.money import Currency, Money

IN_FLIGHT = 32
USERS = 64
_ALONE = 300
_TOGETHER = 3_000
_WARM = 64
_ROUNDS = 3
"""The best of them counts, as with the original."""
_ROWS = 1_000
"""Due rows of a sweep; it takes them in one pass."""
_EVENTS = 5_000
_POSTINGS = 4_000
_MOVED = 100
_PAGE = 128
"""Rows that a sweep writes in one transaction, for the bare statements."""
_MANY = 10**12
_LIMIT = 10**15

_ADMIN = Actor.operator("bench")
_ORIGINAL = {
    "top_up": ("298", "94-179"),
    "top_up_32": ("260", "70-81"),
    "spend": ("205", "98-106"),
    "spend_32": ("239", "77-87"),
    "request_payout": ("231", "105-163"),
    "request_payout_32": ("268", "90-112"),
    "payouts": ("none", "193"),
    "renewals": ("none", "70"),
    "promos": ("none", "94"),
    "inbox": ("none", "51"),
    "relay": ("none", "7,979"),
    "seal_full": ("100 ms at 8,000 postings", "3,577 ms at 908 accounts"),
    "seal_still": ("none", "148 ms"),
    "verify": ("0.84 ms at 8,000 postings", "80 ms"),
    "prove": ("4.6 ms at 8,000 postings", "11 ms at 8,000 postings"),
}
"""The original's figures on Postgres: as published, and as measured on a small shared machine; its
seals and proofs are published for memory alone."""
_ORIGINAL_MEMORY = {
    "top_up": ("21,120", "4,290-4,696"),
    "top_up_32": ("24,317", "6,575-6,912"),
    "spend": ("33,753", "6,018-6,034"),
    "spend_32": ("40,091", "6,596-8,128"),
    "request_payout": ("42,584", "7,171-10,735"),
    "request_payout_32": ("44,264", "6,915-8,303"),
    "payouts": ("none", "1,863"),
    "renewals": ("none", "950"),
    "promos": ("none", "1,588"),
    "inbox": ("none", "1,203"),
    "relay": ("none", "17,246"),
    "seal_full": ("100 ms at 8,000 postings", "2,667 ms at 908 accounts"),
    "seal_still": ("none", "236 ms"),
    "verify": ("0.84 ms at 8,000 postings", "132 ms"),
    "prove": ("4.6 ms at 8,000 postings", "11 ms at 8,000 postings"),
}

Case = Callable[[str, str], Coroutine[None, None, Measurement]]
Work: TypeAlias = Callable[[], Awaitable[object]]


def raw_rates(_backend: str, _url: str) -> dict[str, float]:
    """None: each case writes its own rows again by bare statements."""
    return {}


def settings() -> str:
    """The settings that the figures depend on."""
    return (
        f"{USERS} users, {IN_FLIGHT} in flight, best of {_ROUNDS} runs, {_ROWS:,} rows a sweep, "
        "chains, keys, velocity and outbox on, maturity 0, durable; raw is the same rows by bare "
        f"statements in as large batches, {os.cpu_count()} cores shared with the database"
    )


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Economy]:
    """An economy on the store under test, whose users have credits; nobody works for it."""
    app = offpath.App(url, migrate=True, auto_start=False)

    async def dispatch(_: Event) -> None:
        return None

    app.outbox(dispatcher=dispatch)
    economy = Economy(
        app,
        provider=FakeProvider(),
        signer=TestSigner(),
        velocity_limit_minor=_LIMIT,
        payout_min_earned_minor=1,
        payout_min_interval=0.0,
        subscription_price_min_minor=1,
    )
    async with app:
        await _all(economy, (_top_up("start", n, _MANY) for n in range(USERS)))
        yield economy
        proof = await economy.prove()
        if not proof.holds:
            msg = f"the books do not hold: {proof}"
            raise RuntimeError(msg)


# -- operations ------------------------------------------------------------------------------


def _top_up(run: str, n: int, minor: int = 1_000) -> Request:
    amount = Money(Currency.CREDIT, minor)
    return TopUp(key=f"top-{run}-{n}", actor=_ADMIN, user=_user(n), amount=amount, source="card")


def _spend(run: str, n: int, minor: int = 1_000) -> Request:
    return Spend(
        key=f"spend-{run}-{n}",
        actor=_ADMIN,
        buyer=_user(n),
        order_id=f"order-{run}-{n}",
        sku=f"sku-{run}-{n}",
        price=Money(Currency.CREDIT, minor),
        recipients=(Share(_seller(n), 10_000),),
    )


def _request_payout(run: str, n: int) -> Request:
    return RequestPayout(
        key=f"pay-{run}-{n}", actor=_ADMIN, user=_seller(n), amount=credits("10.00")
    )


def _subscribe(run: str, n: int) -> Request:
    return Subscribe(
        key=f"sub-{run}-{n}",
        actor=_ADMIN,
        user=_user(n),
        seller=_seller(n),
        sku=f"sku-{run}-{n}",
        price=credits("10.00"),
        period=timedelta(days=1),
    )


def _user(n: int) -> str:
    return f"usr_{n % USERS:04}"


def _seller(n: int) -> str:
    return f"sel_{n % USERS:04}"


Make = Callable[[str, int], Request]


def _operations(name: str, make: Make, in_flight: int) -> Case:
    async def case(backend: str, url: str) -> Measurement:
        async with opened(url) as economy:
            if make is _request_payout:
                await _earn(economy)
            await _all(economy, (make("warm", n) for n in range(_WARM)))
            began = await _moment()
            count = _ALONE if in_flight == 1 else _TOGETHER
            runs = [
                await _timed_operations(economy, make, str(turn), count, in_flight)
                for turn in range(_ROUNDS)
            ]
            seconds, used, waits = min(runs)
            raw = raw_economy.rate(backend, url, began, _ROUNDS * count, in_flight)
            return Measurement(
                bench="economy",
                backend=backend,
                case=name,
                per_s=count / seconds,
                raw_per_s=raw,
                p50_ms=percentile(waits, 0.5) * 1e3,
                p99_ms=percentile(waits, 0.99) * 1e3,
                cpu_us_per_job=used / count * 1e6,
                note=_note(name, backend),
            )

    return case


async def _timed_operations(
    economy: Economy, make: Make, run: str, count: int, in_flight: int
) -> tuple[float, float, list[float]]:
    """Seconds, of these of the processor, and how long each waited."""
    requests = [make(run, n) for n in range(count)]
    waits: list[float] = []
    start, cpu = time.perf_counter(), time.process_time()
    await _submitted(economy, iter(requests), in_flight, waits)
    used, seconds = time.process_time() - cpu, time.perf_counter() - start
    return seconds, used, waits


async def _submitted(
    economy: Economy, requests: Iterator[Request], in_flight: int, waits: list[float]
) -> None:
    async def caller() -> None:
        for request in requests:
            began = time.perf_counter()
            outcome = await economy.submit(request)
            waits.append(time.perf_counter() - began)
            if not isinstance(outcome, Committed):
                msg = f"{request} was not committed: {outcome}"
                raise TypeError(msg)

    await asyncio.gather(*(caller() for _ in range(in_flight)))


async def _all(economy: Economy, requests: Iterator[Request]) -> None:
    await _submitted(economy, requests, _PAGE, [])


async def _earn(economy: Economy) -> None:
    """Every seller has much to pay out."""
    await _all(economy, (_spend("earn", n, _MANY // 10) for n in range(USERS)))


# -- sweeps ----------------------------------------------------------------------------------


async def payouts(backend: str, url: str) -> Measurement:
    """Due payouts go to a provider that takes each at once."""
    async with opened(url) as economy:
        await _earn(economy)
        await _all(economy, (_request_payout("due", n) for n in range(_ROWS)))
        due = datetime.now(UTC) + timedelta(hours=1)

        async def sweep() -> int:
            return len((await settle_due_payouts(economy, now=due, limit=_ROWS)).submitted)

        return await _swept("payouts", backend, url, sweep, _ROWS)


async def renewals(backend: str, url: str) -> Measurement:
    """Due subscriptions are charged their second period."""
    async with opened(url) as economy:
        await _all(economy, (_subscribe("due", n) for n in range(_ROWS)))
        due = datetime.now(UTC) + timedelta(days=1, seconds=1)

        async def sweep() -> int:
            return len((await renew_subscriptions(economy, now=due, limit=_ROWS)).charged)

        return await _swept("renewals", backend, url, sweep, _ROWS)


async def promos(backend: str, url: str) -> Measurement:
    """Expired grants are taken back."""
    now = datetime.now(UTC).replace(microsecond=0)

    def grant(n: int) -> Request:
        expires = now + timedelta(hours=1)
        return GrantPromo(
            key=f"promo-{n}",
            actor=_ADMIN,
            user=_user(n),
            amount=credits("10.00"),
            expires_at=expires,
        )

    async with opened(url) as economy:
        await _all(economy, (grant(n) for n in range(_ROWS)))
        due = now + timedelta(hours=2)

        async def sweep() -> int:
            return len((await expire_promos(economy, now=due, limit=_ROWS)).reversed)

        return await _swept("promos", backend, url, sweep, _ROWS)


async def inbox(backend: str, url: str) -> Measurement:
    """Top-ups that came in from outside are applied."""
    async with opened(url) as economy:
        for n in range(_ROWS):
            await accept_operation(economy, f"evt-{n}", _top_up("inbox", n))

        async def sweep() -> int:
            return len((await drain_inbox(economy, limit=_ROWS)).applied)

        return await _swept("inbox", backend, url, sweep, _ROWS)


async def relay(backend: str, url: str) -> Measurement:
    """Events of spends go to a dispatcher that does nothing."""
    async with opened(url) as economy:
        await _all(economy, (_spend("relay", n) for n in range(_EVENTS - USERS)))

        async def sweep() -> int:
            return len((await relay_outbox(economy, limit=_EVENTS)).relayed)

        return await _swept("relay", backend, url, sweep, _EVENTS)


async def _swept(
    case: str, backend: str, url: str, sweep: Callable[[], Awaitable[int]], rows: int
) -> Measurement:
    began = await _moment()
    start, cpu = time.perf_counter(), time.process_time()
    done = await sweep()
    used, seconds = time.process_time() - cpu, time.perf_counter() - start
    if done != rows:
        msg = f"{done} of {rows} rows of {case}"
        raise RuntimeError(msg)
    raw = None if case == "relay" else raw_economy.rate(backend, url, began, rows, _PAGE)
    return Measurement(
        bench="economy",
        backend=backend,
        case=case,
        per_s=rows / seconds,
        raw_per_s=raw,
        cpu_us_per_job=used / rows * 1e6,
        note=_note(case, backend),
    )


# -- seals and proofs ------------------------------------------------------------------------


async def seal_full(backend: str, url: str) -> Measurement:
    """The first seal replays the whole ledger."""
    async with _grown(url) as economy:
        return await _took("seal_full", backend, lambda: seal_checkpoint(economy))


async def seal_incremental(backend: str, url: str) -> Measurement:
    """A seal after some of the accounts moved."""
    async with _grown(url) as economy:
        await seal_checkpoint(economy)
        await _all(economy, (_spend("moved", n) for n in range(_MOVED)))
        return await _took("seal_incremental", backend, lambda: seal_checkpoint(economy))


async def seal_still(backend: str, url: str) -> Measurement:
    """A seal when nothing moved."""
    async with _grown(url) as economy:
        await seal_checkpoint(economy)
        return await _took("seal_still", backend, lambda: seal_checkpoint(economy))


async def verify(backend: str, url: str) -> Measurement:
    """The last seal is verified, after some of the accounts moved."""
    async with _grown(url) as economy:
        await seal_checkpoint(economy)
        await _all(economy, (_spend("moved", n) for n in range(_MOVED)))
        return await _took("verify", backend, lambda: verify_checkpoint(economy))


async def prove(backend: str, url: str) -> Measurement:
    """Every chain is replayed from its genesis."""
    async with _grown(url) as economy:
        return await _took("prove", backend, economy.prove)


@asynccontextmanager
async def _grown(url: str) -> AsyncIterator[Economy]:
    async with opened(url) as economy:
        await _all(economy, (_spend("grown", n) for n in range(_POSTINGS)))
        yield economy


async def _took(case: str, backend: str, work: Work) -> Measurement:
    start, cpu = time.perf_counter(), time.process_time()
    await work()
    used, seconds = time.process_time() - cpu, time.perf_counter() - start
    return Measurement(
        bench="economy",
        backend=backend,
        case=case,
        p50_ms=seconds * 1e3,
        cpu_us_per_job=used / _POSTINGS * 1e6,
        note=f"{_POSTINGS:,} postings; {_note(case, backend)}",
    )


# -- within ----------------------------------------------------------------------------------


def _note(case: str, backend: str) -> str:
    figures = (_ORIGINAL_MEMORY if backend == "memory" else _ORIGINAL).get(case)
    return "" if figures is None else f"original: {figures[0]} published, {figures[1]} measured"


async def _moment() -> int:
    """A time in milliseconds that is after all that was written and before what comes."""
    await asyncio.sleep(0.01)
    return time.time_ns() // 1_000_000


CASES: dict[str, Case] = {
    "top_up": _operations("top_up", _top_up, 1),
    "top_up_32": _operations("top_up_32", _top_up, IN_FLIGHT),
    "spend": _operations("spend", _spend, 1),
    "spend_32": _operations("spend_32", _spend, IN_FLIGHT),
    "request_payout": _operations("request_payout", _request_payout, 1),
    "request_payout_32": _operations("request_payout_32", _request_payout, IN_FLIGHT),
    **{
        each.__name__: each
        for each in (
            payouts,
            renewals,
            promos,
            inbox,
            relay,
            seal_full,
            seal_incremental,
            seal_still,
            verify,
            prove,
        )
    },
}

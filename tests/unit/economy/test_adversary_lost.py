"""Answers of the store that get lost: the same key again, and nothing happens twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from offpath import App, Context, RetryOptions
from offpath.economy import (
    Adjust,
    Clawback,
    Economy,
    GrantEntitlement,
    Refund,
    Request,
    Reverse,
    StoreFailed,
    TopUp,
    credits,
)
from offpath.runtime.clock import ManualClock
from offpath.store.memory.store import MemoryStore
from offpath.testing import FlakyStore
from tests.unit.economy.marketplace import (
    BANK,
    FIXTURE,
    OPS,
    START,
    Marketplace,
    committed,
    duplicate,
)

Fleeting = tuple[Marketplace, FlakyStore]


@pytest.fixture
async def fleeting() -> AsyncIterator[Fleeting]:
    clock = ManualClock(START)
    store = FlakyStore(MemoryStore(clock))
    market = Marketplace(store=store, clock=clock)
    async with market.app:
        yield market, store


async def _top_up(_market: Marketplace) -> Request:
    return TopUp(key="k", actor=BANK, user="ann", amount=credits(1), source="card")


async def _spend(market: Marketplace) -> Request:
    return market.order("ann", "1.00", key="k", order_id="o2")


async def _refund(market: Marketplace) -> Request:
    committed(await market.spend("ann", "1.00", order_id="o1"))
    return Refund(key="k", actor=OPS, order_id="o1")


async def _clawback(_market: Marketplace) -> Request:
    return Clawback(key="k", actor=OPS, user="ann", amount=credits(1))


async def _adjust(_market: Marketplace) -> Request:
    return Adjust(key="k", actor=OPS, account="ann:promo", amount=credits(1), reason="x")


async def _reverse(market: Marketplace) -> Request:
    made = committed(await market.top_up("ann", "1.00"))
    return Reverse(key="k", actor=OPS, posting_id=str(made.id), reason="x")


async def _entitlement(_market: Marketplace) -> Request:
    return GrantEntitlement(key="k", actor=OPS, user="ann", sku="hat")


@pytest.mark.parametrize(
    "make", [_top_up, _spend, _refund, _clawback, _adjust, _reverse, _entitlement]
)
async def test_a_commit_whose_answer_is_lost_happens_once(
    fleeting: Fleeting, make: Callable[[Marketplace], Awaitable[Request]]
) -> None:
    market, store = fleeting
    committed(await market.top_up("ann", "9.00"))
    request = await make(market)
    store.lose_answer("post")
    with pytest.raises(StoreFailed) as caught:
        await market.economy.submit(request)
    assert caught.value.retryable
    store.heal()
    postings, before = await market.postings(), await market.economy.read.balances("ann")
    duplicate(await market.economy.submit(request))
    assert await market.postings() == postings
    assert await market.economy.read.balances("ann") == before
    await market.sound()


async def test_a_commit_that_failed_happens_when_it_is_repeated(fleeting: Fleeting) -> None:
    market, store = fleeting
    request = await _top_up(market)
    store.fail("post")
    with pytest.raises(StoreFailed):
        await market.economy.submit(request)
    store.heal()
    committed(await market.economy.submit(request))
    assert await market.balance("ann:spendable") == 100


async def test_a_job_that_is_tried_again_posts_once() -> None:
    """It raises once, and then the answer to its settlement is lost."""
    store = FlakyStore(MemoryStore())
    app = App(store=store, auto_start=False)
    economy, runs = Economy(app, **FIXTURE), 0

    @app.task(retry=RetryOptions(attempts=5, base=0))
    async def bonus(ctx: Context) -> None:
        nonlocal runs
        runs += 1
        request = TopUp(key="b", actor=BANK, user="ann", amount=credits(5), source="bonus")
        ctx.post(await economy.prepare(request))
        if runs == 1:
            raise ConnectionError
        if runs == 2:
            store.lose_answer("settle")

    async with app:
        job = await bonus.enqueue()
        async with app.worker():
            await job.result(timeout=10)
        assert runs >= 2
        assert (await economy.read.balance("ann:spendable")) == credits(5)

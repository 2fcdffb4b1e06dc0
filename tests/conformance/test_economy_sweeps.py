"""Several processes sweep the same economy: each step is taken once. §16.46, §16.85,
§16.88-§16.90, §17.3.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from offpath.economy import (
    TopUp,
    accept_operation,
    credits,
    drain_inbox,
    event_key,
    expire_promos,
    relay_outbox,
    renew_subscriptions,
    settle_due_payouts,
)
from offpath.economy.ledger.rows import SubscriptionBody, body
from offpath.events import Event
from offpath.model.message import MessageState
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.conftest import MakeStore
from tests.unit.sweeps.economy.rig import SYSTEM, Rig

pytestmark = pytest.mark.needs("ledger")

ROWS, SWEEPS, LIMIT, DRAINS = 80, 6, 4, 20


@pytest.fixture
async def rigs(
    store: Store, make_store: MakeStore, clock: ManualClock
) -> AsyncIterator[tuple[Rig, ...]]:
    """The stores of as many processes as sweep at once; one store where it cannot be shared."""
    shared = store.capabilities.shared
    stores = [store, *[await make_store() if shared else store for _ in range(SWEEPS - 1)]]
    made = tuple(Rig(store=one, clock=clock) for one in stores)
    for one in made[1:]:
        one.provider = made[0].provider
        one.ports = made[0].ports
    yield made
    for one in made:
        await one.app.close()


@pytest.fixture
def rig(rigs: tuple[Rig, ...]) -> Rig:
    return rigs[0]


async def test_each_payout_is_taken_by_one_sweep(rigs: tuple[Rig, ...]) -> None:
    """§16.88."""
    first = rigs[0]
    made = []
    for n in range(ROWS):
        await first.earn(f"seller-{n}", "4.00")
        made.append(await first.request_payout(f"seller-{n}", "4.00"))
    first.later(31)

    async def drain(rig: Rig) -> list[str]:
        found: list[str] = []
        for _ in range(DRAINS):
            found += (await settle_due_payouts(rig, limit=LIMIT)).submitted
        return found

    submitted = [one for found in await asyncio.gather(*map(drain, rigs)) for one in found]
    assert sorted(submitted) == sorted(made)
    assert Counter(first.provider.calls) == Counter(made)
    rows = await first.store.ledger_sides("payout", limit=ROWS)
    assert {(row.state, row.attempts) for row in rows} == {("SUBMITTED", 1)}


async def test_each_event_is_delivered_and_ends_relayed(rigs: tuple[Rig, ...]) -> None:
    """§16.89."""
    got: Counter[str] = Counter()

    async def outside(event: Event) -> None:
        got[event.id] += 1
        await asyncio.sleep(0)

    for one in rigs:
        one.app.outbox(dispatcher=outside)
    for n in range(ROWS):
        await rigs[0].top_up(f"fan-{n}", "1.00")

    async def drain(rig: Rig) -> None:
        for _ in range(DRAINS):
            await relay_outbox(rig, limit=LIMIT)

    await asyncio.gather(*map(drain, rigs))
    page = await rigs[0].app.messages.find(limit=10_000)
    assert {message.state for message in page.items} == {MessageState.DONE}
    assert set(got) == {message.id for message in page.items}
    assert len(got) == ROWS


async def test_each_top_up_that_came_in_lands_once(rigs: tuple[Rig, ...]) -> None:
    """§16.90."""
    first = rigs[0]
    for n in range(ROWS):
        request = TopUp(
            key=event_key(f"e{n}"),
            actor=SYSTEM,
            user=f"fan-{n % 4}",
            amount=credits(10),
            source="card",
        )
        await accept_operation(first, f"e{n}", request)

    async def drain(rig: Rig) -> list[str]:
        found: list[str] = []
        for _ in range(DRAINS):
            found += (await drain_inbox(rig, limit=LIMIT)).applied
        return found

    applied = [one for found in await asyncio.gather(*map(drain, rigs)) for one in found]
    assert len(applied) == len(set(applied)) == ROWS
    for n in range(4):
        assert await first.balance(f"fan-{n}:spendable") == "200.00"


async def test_each_period_is_charged_once(rigs: tuple[Rig, ...]) -> None:
    """§16.46, §17.3: with money for exactly one more."""
    first, made = rigs[0], []
    for n in range(20):
        await first.top_up(f"fan-{n}", "2.00")
        made.append(await first.subscribe(f"fan-{n}", "1.00"))
    first.later(1_000)
    summaries = await asyncio.gather(
        *(renew_subscriptions(rig, limit=LIMIT) for rig in rigs for _ in range(2))
    )
    assert sorted(one for each in summaries for one in each.charged) == sorted(made)
    assert [one for each in summaries for one in (*each.lapsed, *each.retrying)] == []
    rows = await first.store.ledger_sides("subscription")
    assert {(row.state, body(row, SubscriptionBody).number) for row in rows} == {("ACTIVE", 2)}


async def test_each_grant_is_taken_back_once(rigs: tuple[Rig, ...]) -> None:
    first = rigs[0]
    made = [await first.grant("fan", "1.00", lasts=10) for _ in range(20)]
    first.later(10)
    summaries = await asyncio.gather(
        *(expire_promos(rig, limit=LIMIT) for rig in rigs for _ in range(2))
    )
    assert sorted(one.id for each in summaries for one in each.reversed) == sorted(made)
    assert await first.balance("fan:promo") == "0.00"
    assert await first.balance("platform:promo_float") == "0.00"


async def test_an_ingress_that_is_rolled_back_leaves_no_row(rig: Rig, caller: Backend) -> None:
    """§16.85."""
    request = TopUp(key="whk:e1", actor=SYSTEM, user="fan", amount=credits(10), source="card")
    async with caller.async_transaction() as connection:
        await accept_operation(rig, "e1", request, within=connection)
        await connection.rollback()
    assert (await rig.app.messages.find()).items == ()
    assert (await accept_operation(rig, "e1", request)).new
    assert len((await drain_inbox(rig)).applied) == 1

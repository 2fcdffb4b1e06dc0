"""Subscriptions by the calendar, their grace, and rewards of settlement runs, on every store."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from offpath.economy import (
    Actor,
    CancelSubscription,
    Committed,
    EconomySettings,
    Reverse,
    Subscribe,
    credits,
    renew_subscriptions,
)
from offpath.economy.ledger.rows import SubscriptionBody, body
from offpath.errors import SettlementFailed
from offpath.runtime.clock import ManualClock
from offpath.settlements.rates import PlayerActivity, Rebate, Share
from offpath.store.protocol import Store
from offpath.testing import FakeRecords
from tests.unit.sweeps.economy.rig import SYSTEM, Rig

pytestmark = pytest.mark.needs("ledger")

START = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
async def rig(store: Store, clock: ManualClock) -> AsyncIterator[Rig]:
    clock.set(START)
    made = Rig(store=store, clock=clock)
    yield made
    await made.app.close()


async def subscribed(rig: Rig, price: str = "100.00", **terms: Any) -> str:
    asked = Subscribe(
        key=rig.key(),
        actor=Actor.user("ann"),
        user="ann",
        seller="sue",
        sku="club",
        price=credits(price),
        **{"period": "P1M", **terms},
    )
    return str((await rig.done(asked)).facts["subscription_id"])


async def until(rig: Rig, subscription: str) -> str:
    found = await rig.read.subscription(subscription)
    assert found is not None
    return f"{found.paid_until:%Y-%m-%dT%H:%M}"


async def test_a_month_is_paid_to_its_last_day_and_then_to_the_31st_again(rig: Rig) -> None:
    await rig.top_up("ann", "300.00")
    subscription = await subscribed(rig, zone="Europe/Madrid")
    assert await until(rig, subscription) == "2026-02-28T12:00"
    rig.clock.set(datetime(2026, 2, 28, 12, 0, 1, tzinfo=UTC))
    assert (await renew_subscriptions(rig)).charged == (subscription,)
    assert await until(rig, subscription) == "2026-03-31T11:00"  # one o'clock in Madrid, in summer
    assert (await rig.prove()).holds


async def test_a_thing_is_owned_until_its_renewal_came(rig: Rig) -> None:
    """By default for a minute, in which the sweep comes twelve times."""
    assert EconomySettings().subscription_grace == 60
    await rig.top_up("ann", "200.00")
    await subscribed(rig, period=1_000.0, grace=60.0)
    rig.later(1_005)
    assert await rig.read.owns("ann", "club")
    await renew_subscriptions(rig)
    rig.later(990)
    assert await rig.read.owns("ann", "club")


async def test_within_its_grace_a_renewal_waits_for_the_money_and_then_lapses(rig: Rig) -> None:
    await rig.top_up("ann", "100.00")
    subscription = await subscribed(rig, grace=3 * 86_400.0)
    rig.clock.set(datetime(2026, 2, 28, 12, 0, 1, tzinfo=UTC))
    assert [one.code for one in (await renew_subscriptions(rig)).retrying] == ["INSUFFICIENT_FUNDS"]
    assert await rig.read.owns("ann", "club")
    await rig.top_up("ann", "100.00")
    rig.later(3_601)
    assert (await renew_subscriptions(rig)).charged == (subscription,)
    assert await until(rig, subscription) == "2026-03-31T12:00"
    rig.clock.set(datetime(2026, 4, 3, 12, 0, 1, tzinfo=UTC))
    assert (await renew_subscriptions(rig)).lapsed == (subscription,)
    assert not await rig.read.owns("ann", "club")


async def test_who_cancels_has_no_grace(rig: Rig) -> None:
    await rig.top_up("ann", "100.00")
    subscription = await subscribed(rig, period=100.0, grace=1_000.0)
    asked = CancelSubscription(key=rig.key(), actor=Actor.user("ann"), subscription_id=subscription)
    assert isinstance(await rig.submit(asked), Committed)
    rig.later(100)
    assert await rig.read.owns("ann", "club")
    rig.later(1)
    assert not await rig.read.owns("ann", "club")


@pytest.mark.parametrize(("overdue", "paid"), [("charge", 5), ("skip", 1), ("one", 1)])
async def test_a_worker_that_was_away_for_five_months_charges_as_was_agreed(
    rig: Rig, overdue: str, paid: int
) -> None:
    await rig.top_up("ann", "1000.00")
    await subscribed(rig, overdue=overdue)
    rig.clock.set(datetime(2026, 7, 10, tzinfo=UTC))
    before = await rig.read.balance("ann:spendable")
    for _ in range(8):
        await renew_subscriptions(rig)
    after = await rig.read.balance("ann:spendable")
    assert before.minor - after.minor == paid * 10_000


@pytest.mark.parametrize(
    "change", [{"calendar": "P1D"}, {"zone": "UTC"}, {"grace": 1}, {"overdue": "charge"}]
)
async def test_terms_that_were_altered_charge_nothing(rig: Rig, change: dict[str, Any]) -> None:
    await rig.top_up("ann", "300.00")
    subscription = await subscribed(rig, zone="Europe/Madrid", grace=60.0, overdue="skip")
    (row,) = await rig.store.ledger_sides("subscription", ids=(subscription,))
    rig.clock.set(datetime(2026, 4, 10, tzinfo=UTC))
    (leased,) = await rig.store.lease_sides("subscription", limit=1, hold=0.001)
    spoilt = replace(body(row, SubscriptionBody), **change)
    from offpath.economy.ledger.anchors import proved_subscription
    from offpath.model.ledger.faults import ChainBroken

    (posting,) = await rig.store.ledger_postings(ids=(row.anchor or "",))
    proved_subscription(leased, posting)
    altered = replace(leased, body=json.dumps(json.loads(_body(spoilt))))
    with pytest.raises(ChainBroken):
        proved_subscription(altered, posting)


def _body(content: SubscriptionBody) -> str:
    from offpath.economy.ledger.rows import encoded

    return encoded(content)


# -- rewards ---------------------------------------------------------------------------------------


def settled(rig: Rig, *records: PlayerActivity) -> None:
    rig.app.settlements.define(
        "rebate",
        records=FakeRecords(records),
        calculate=Rebate(share=Share(1, 10)),
        credit=rig.crediting("rebate"),
        unit="month",
    )


async def test_a_settlement_run_credits_the_ledger_once(rig: Rig) -> None:
    await rig.app.open()
    settled(rig, PlayerActivity(id="r-1", user="ann", turnover=12_340))
    summary = await rig.app.settlements.run("rebate", "2026-01")
    assert summary.counts() == {"attempted": 1, "credited": 1, "failed": 0, "skipped": 0}
    again = await rig.app.settlements.run("rebate", "2026-01")
    assert (again.outcome, again.skipped) == ("clean", 1)
    assert str(await rig.read.balance("ann:spendable")) == "CREDIT:12.34"
    proof = await rig.prove()
    assert proof.conserved
    assert proof.rows


async def test_another_amount_under_the_same_key_is_a_failed_credit(rig: Rig) -> None:
    await rig.app.open()
    records = FakeRecords([PlayerActivity(id="r-1", user="ann", turnover=1_000)])
    rig.app.settlements.define(
        "rebate",
        records=records,
        calculate=Rebate(share=Share(1, 10)),
        credit=rig.crediting("rebate"),
    )
    await rig.app.settlements.run("rebate", "2026-01")
    records.records[:] = [PlayerActivity(id="r-1", user="ann", turnover=2_000)]
    with pytest.raises(SettlementFailed) as told:
        await rig.app.settlements.run("rebate", "2026-01")
    assert [one.error for one in told.value.summary.failures] == ["KeyReused"]
    assert str(await rig.read.balance("ann:spendable")) == "CREDIT:1.00"


async def test_a_reward_pays_a_debt_first_and_can_be_reversed(rig: Rig) -> None:
    from offpath.economy import Clawback, Reward

    await rig.done(Clawback(key="c", actor=SYSTEM, user="ann", amount=credits(3)))
    made = await rig.done(
        Reward(key="w", actor=SYSTEM, user="ann", amount=credits(5), reason="sorry")
    )
    assert str(await rig.read.balance("ann:spendable")) == "CREDIT:2.00"
    assert await rig.read.debts() == []
    await rig.top_up("ann", "3.00")
    await rig.done(Reverse(key="x", actor=SYSTEM, posting_id=made.postings[0], reason="too much"))
    assert (await rig.prove()).conserved

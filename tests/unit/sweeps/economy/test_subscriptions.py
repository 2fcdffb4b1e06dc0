"""The subscriptions sweep. §16.38-§16.51, §17.3-§17.5, §17.8.

A period is 1,000 s. The club costs what the case says; the platform keeps 30 %.
"""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from offpath.economy import CancelSubscription, Committed, Rejected, renew_subscriptions
from offpath.economy.ledger.operations.steps_subscriptions import (
    subscription_failed,
    subscription_lapsed,
    subscription_renewed,
)
from offpath.economy.ledger.rows import (
    EntitlementBody,
    SubscriptionBody,
    body,
    encoded,
    entitlement_id,
)
from offpath.economy.sweeps.summaries import Coded, SubscriptionsSummary
from offpath.model.ledger.records import SideRow
from offpath.model.tally import Verdict
from tests.unit.sweeps.economy.rig import SYSTEM, Rig

IDLE = SubscriptionsSummary()
PERIOD = 1_000.0


async def due(
    rig: Rig, left: str | None, price: str = "100.00", *, user: str = "fan", seller: str = "seller"
) -> str:
    """A subscription whose second period is due, and its owner has so much left."""
    await rig.top_up(user, price)
    made = await rig.subscribe(user, price, seller=seller)
    if left is not None:
        await rig.top_up(user, left)
    rig.later(PERIOD)
    return made


async def all_due(rig: Rig, number: int) -> list[str]:
    """So many of them, each with money for one more period."""
    made = []
    for n in range(number):
        await rig.top_up(f"fan-{n}", "200.00")
        made.append(await rig.subscribe(f"fan-{n}", "100.00"))
    rig.later(PERIOD)
    return made


async def content(rig: Rig, row_id: str) -> SubscriptionBody:
    return body(await rig.row("subscription", row_id), SubscriptionBody)


async def owns(rig: Rig, at: int, user: str = "fan") -> bool:
    row: SideRow = await rig.row("entitlement", entitlement_id(user, "club"))
    expires = body(row, EntitlementBody).expires_at
    return row.state == "OWNED" and (expires is None or at <= expires)


async def test_a_period_is_charged(rig: Rig) -> None:
    """§16.38."""
    made = await due(rig, "100.00")
    before = await rig.row("subscription", made)
    seller, revenue = await rig.balance("seller:earned"), await rig.balance("platform:revenue")
    assert (seller, revenue) == ("70.00", "30.00")
    run = await rig.sweep("subscriptions")
    assert run["subscriptions"].summary == SubscriptionsSummary(charged=(made,))
    assert len(run.postings) == 1
    assert await rig.balance("fan:spendable") == "0.00"
    assert await rig.balance("seller:earned") == "140.00"
    assert await rig.balance("platform:revenue") == "60.00"
    after = await content(rig, made)
    assert (after.number, after.paid_until) == (2, rig.ms + 1_000_000)
    assert (await rig.row("subscription", made)).due_at == rig.ms + 1_000_000
    assert before.state == "ACTIVE"
    assert "economy.subscription.renewed" in await rig.topics()


async def test_the_fee_is_rounded_to_whole_credits(rig: Rig) -> None:
    """§16.39."""
    await due(rig, "100.01", "100.01")
    seller, revenue = await rig.balance("seller:earned"), await rig.balance("platform:revenue")
    assert (seller, revenue) == ("69.01", "31.00")
    await renew_subscriptions(rig)
    assert await rig.balance("seller:earned") == "138.02"
    assert await rig.balance("platform:revenue") == "62.00"


async def test_too_little_money_lets_it_lapse(rig: Rig) -> None:
    """§16.40, §16.49: nothing is posted, the perk is gone, and it is told once."""
    made = await due(rig, "99.99")
    posted = len(await rig.postings())
    assert await renew_subscriptions(rig) == SubscriptionsSummary(lapsed=(made,))
    assert (await rig.row("subscription", made)).state == "LAPSED"
    assert await rig.balance("fan:spendable") == "99.99"
    assert len(await rig.postings()) == posted
    assert not await owns(rig, rig.ms)
    assert (await rig.topics()).count("economy.subscription.lapsed") == 1
    rig.later(100_000)
    assert await renew_subscriptions(rig) == IDLE


async def test_what_is_not_due_is_left_alone(rig: Rig) -> None:
    """§16.41."""
    await rig.top_up("fan", "200.00")
    made = await rig.subscribe("fan", "100.00")
    rig.later(PERIOD - 0.001)
    before = await rig.row("subscription", made)
    assert await renew_subscriptions(rig) == IDLE
    assert await rig.row("subscription", made) == before


async def test_each_has_an_end_of_its_own(rig: Rig) -> None:
    """§16.42."""
    await rig.top_up("poor", "100.00")
    poor = await rig.subscribe("poor", "100.00")
    rich = await due(rig, "100.00")
    assert await renew_subscriptions(rig) == SubscriptionsSummary(charged=(rich,), lapsed=(poor,))


async def test_one_that_cannot_be_proved_lapses_and_the_others_are_charged(rig: Rig) -> None:
    """§16.43, §16.50: its price was overwritten, and nobody pays it."""
    await rig.top_up("poor", "300.00")
    bad = await rig.subscribe("poor", "100.00")
    good = await due(rig, "100.00")
    rig.tamper("subscription", bad, body=encoded(replace(await content(rig, bad), price=20_000)))
    summary = await renew_subscriptions(rig)
    assert summary == SubscriptionsSummary(
        charged=(good,), dead_lettered=(Coded(bad, "CHAIN.BROKEN"),)
    )
    assert (await rig.row("subscription", bad)).state == "LAPSED"
    assert await rig.balance("poor:spendable") == "200.00"


async def test_one_whose_row_cannot_be_read_lapses(rig: Rig) -> None:
    bad = await due(rig, "100.00")
    rig.tamper("subscription", bad, body="{}")
    summary = await renew_subscriptions(rig)
    assert summary.dead_lettered == (Coded(bad, "CHAIN.BROKEN"),)
    assert (await rig.row("subscription", bad)).state == "LAPSED"
    assert await rig.balance("fan:spendable") == "100.00"


async def test_a_fault_that_may_go_away_is_tried_so_often(rig: Rig) -> None:
    """§16.44."""
    made = await due(rig, "100.00")
    for attempts in (1, 2):
        rig.store.fail("post")
        summary = await renew_subscriptions(rig)
        assert summary == SubscriptionsSummary(retrying=(Coded(made, "STORE.FAILURE"),))
        assert (await rig.row("subscription", made)).attempts == attempts
        rig.later(3_600)
    rig.store.fail("post")
    assert await renew_subscriptions(rig) == SubscriptionsSummary(lapsed=(made,))
    rig.later(3_600)
    assert await renew_subscriptions(rig) == IDLE


async def test_a_success_forgets_what_failed_before(rig: Rig) -> None:
    """§16.45."""
    made = await due(rig, "100.00")
    for _ in range(2):
        rig.store.fail("post")
        await renew_subscriptions(rig)
        rig.later(3_600)
    assert (await renew_subscriptions(rig)).charged == (made,)
    row = await rig.row("subscription", made)
    assert (row.attempts, (await content(rig, made)).number) == (0, 2)


async def test_the_perk_lasts_to_the_very_end_of_the_period(rig: Rig) -> None:
    """§16.48."""
    made = await due(rig, "100.00")
    await renew_subscriptions(rig)
    until = (await content(rig, made)).paid_until
    assert await owns(rig, until)
    assert not await owns(rig, until + 1)


async def test_an_overdue_one_catches_up_period_by_period(rig: Rig) -> None:
    made = await due(rig, "1000.00")
    first = (await content(rig, made)).paid_until
    rig.later(2 * PERIOD)
    for _ in range(3):
        assert (await renew_subscriptions(rig)).charged == (made,)
    assert await renew_subscriptions(rig) == IDLE
    after = await content(rig, made)
    assert (after.number, after.paid_until) == (4, first + 3_000_000)


# -- two sweeps with the same row ------------------------------------------------------------------


@pytest.mark.parametrize("left", ["100.00", "200.00"])
async def test_two_sweeps_with_the_same_row_charge_it_once(rig: Rig, left: str) -> None:
    """§16.46, §16.51, and §17.3: in the original the second, who sees an empty wallet, let what was
    paid a moment ago lapse, and took the perk away.
    """
    made = await due(rig, left)
    row = await rig.row("subscription", made)
    stale = [subscription_renewed(row, rig.rules, rig.new_id, now=rig.ms) for _ in range(2)]
    first, second = await asyncio.gather(*map(rig.run_op, stale))
    assert first.receipt is not None
    assert first.receipt.facts["outcome"] == "charged"
    assert second.refusal is not None
    assert second.refusal.reason == "STALE"
    after = await rig.row("subscription", made)
    assert (after.state, body(after, SubscriptionBody).number) == ("ACTIVE", 2)
    assert await owns(rig, rig.ms + 1_000_000)
    assert (await rig.topics()).count("economy.subscription.renewed") == 1


async def test_sweeps_at_the_same_time_share_the_rows(rig: Rig) -> None:
    """§16.46: each row is charged by one of them."""
    made = await all_due(rig, 20)
    other = Rig(store=rig.store._wrapped)
    summaries = await asyncio.gather(
        *(renew_subscriptions(one, now=rig.now, limit=4) for one in (rig, other) * 8)
    )
    charged = [one for summary in summaries for one in summary.charged]
    assert sorted(charged) == sorted(made)
    assert all(len(summary.charged) <= 4 for summary in summaries)
    assert {(await content(rig, one)).number for one in made} == {2}
    await other.app.close()


# -- faults of the original ------------------------------------------------------------------------


async def test_money_that_is_not_mature_yet_puts_it_off_and_costs_no_attempt(rig: Rig) -> None:
    """§16.47, §17.4: in the original each sweep burned an attempt, and it lapsed in minutes."""
    made = await due(rig, None)
    rig.change(maturity_card=60.0)
    await rig.top_up("fan", "100.00")
    mature = rig.ms + 60_000
    for _ in range(10):
        summary = await renew_subscriptions(rig)
        assert summary in (IDLE, SubscriptionsSummary(retrying=(Coded(made, "FUNDS_IMMATURE"),)))
        rig.later(5)
    row = await rig.row("subscription", made)
    assert (row.state, row.attempts, row.due_at) == ("ACTIVE", 0, mature)
    rig.later(11)
    assert (await renew_subscriptions(rig)).charged == (made,)


async def test_waiting_for_money_to_mature_is_no_failure(rig: Rig) -> None:
    made = await due(rig, None)
    rig.change(maturity_card=60.0)
    await rig.top_up("fan", "100.00")
    tally = (await renew_subscriptions(rig)).tally()
    assert (tally.verdict, tally.buckets) == (Verdict.CLEAN, {"waiting": (made,)})


async def test_a_cancellation_is_never_undone(rig: Rig) -> None:
    """§17.5: in the original the failed attempt of a sweep wrote back the row as it was before."""
    made = await due(rig, "100.00")
    stale = await rig.row("subscription", made)
    canceled = await rig.submit(
        CancelSubscription(key="cancel", actor=SYSTEM, subscription_id=made)
    )
    assert isinstance(canceled, Committed)
    for op in (
        subscription_failed(stale, "x", rig.new_id, most=3, due_at=rig.ms),
        subscription_lapsed(stale, "x", rig.new_id),
        subscription_renewed(stale, rig.rules, rig.new_id),
    ):
        decided = await rig.run_op(op)
        assert decided.refusal is not None
    assert (await rig.row("subscription", made)).state == "CANCELED"
    assert await rig.balance("fan:spendable") == "100.00"
    again = await rig.submit(CancelSubscription(key="again", actor=SYSTEM, subscription_id=made))
    assert isinstance(again, Rejected)


async def test_a_failure_that_cannot_be_recorded_is_the_rows_own(rig: Rig) -> None:
    """§17.8: in the original it ended the sweep."""
    made = await all_due(rig, 3)
    rig.store.fail("post", times=2)
    summary = await renew_subscriptions(rig)
    assert {one.code for one in summary.retrying} == {"STORE.FAILURE"}
    assert {one.id for one in summary.retrying} == set(made)
    assert [(await rig.row("subscription", one)).attempts for one in made] == [0, 0, 0]
    rig.later(61)
    assert set((await renew_subscriptions(rig)).charged) == set(made)

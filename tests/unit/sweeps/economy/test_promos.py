"""The promos sweep. §16.95-§16.99, §17.6."""

from __future__ import annotations

import pytest

from offpath.economy import Share, Spend, credits, expire_promos
from offpath.economy.sweeps.summaries import Coded, Expired, PromosSummary
from offpath.errors import StoreUnavailable
from offpath.model.tally import Verdict
from tests.unit.sweeps.economy.rig import SYSTEM, Rig

FLOAT = "platform:promo_float"
IDLE = PromosSummary()


async def spend(rig: Rig, amount: str) -> None:
    await rig.done(
        Spend(
            key=rig.key(),
            actor=SYSTEM,
            buyer="fan",
            order_id=rig.key(),
            sku="hat",
            price=credits(amount),
            recipients=(Share("seller", 10_000),),
        )
    )


async def test_what_was_not_spent_is_taken_back(rig: Rig) -> None:
    """§16.95."""
    await rig.top_up("fan", "10.00")
    before = await rig.balance(FLOAT)
    grant = await rig.grant("fan", "500.00")
    rig.later(1_001)
    run = await rig.sweep("promos")
    assert run["promos"].summary == PromosSummary(reversed=(Expired(grant, credits(500)),))
    assert len(run.postings) == 1
    assert await rig.balance(FLOAT) == before
    assert await rig.balance("fan:promo") == "0.00"
    assert await rig.balance("fan:spendable") == "10.00"
    assert await expire_promos(rig) == IDLE
    told = rig.app.metrics.get("offpath_economy_promos_total", outcome="reversed")
    assert told is not None
    assert told.value == 1


@pytest.mark.parametrize(("spent", "left"), [("300.00", "200.00"), ("500.00", "0.00")])
async def test_what_was_spent_stays_spent(rig: Rig, spent: str, left: str) -> None:
    """§16.96: one that was spent wholly is told with nothing."""
    grant = await rig.grant("fan", "500.00")
    await spend(rig, spent)
    rig.later(1_001)
    assert await expire_promos(rig) == PromosSummary(reversed=(Expired(grant, credits(left)),))
    assert (await rig.row("promo", grant)).state == "REVERSED"
    assert await rig.balance("fan:promo") == "0.00"


async def test_two_grants_take_back_what_is_left_of_both(rig: Rig) -> None:
    """§16.97."""
    for _ in range(2):
        await rig.grant("fan", "500.00")
    await spend(rig, "800.00")
    rig.later(1_001)
    summary = await expire_promos(rig)
    assert len(summary.reversed) == 2
    assert sum(one.amount.minor for one in summary.reversed) == credits(200).minor
    assert await rig.balance("fan:promo") == "0.00"


async def test_the_longest_expired_come_first_and_so_many(rig: Rig) -> None:
    """§16.98."""
    grants = [await rig.grant(f"fan-{n}", "1.00", lasts=10 + n) for n in range(3)]
    young = await rig.grant("fan", "1.00", lasts=2_000)
    rig.later(1_000)
    first = await expire_promos(rig, limit=2)
    assert {one.id for one in first.reversed} == set(grants[:2])
    assert [one.id for one in (await expire_promos(rig, limit=2)).reversed] == grants[2:]
    assert await expire_promos(rig) == IDLE
    assert (await rig.row("promo", young)).state == "OPEN"


async def test_it_expires_at_the_very_moment(rig: Rig) -> None:
    """§16.98."""
    grant = await rig.grant("fan", "1.00", lasts=10)
    rig.later(9.999)
    assert await expire_promos(rig) == IDLE
    rig.later(0.001)
    assert [one.id for one in (await expire_promos(rig)).reversed] == [grant]


async def test_a_failure_leaves_it_for_later(rig: Rig) -> None:
    """§16.99."""
    grant = await rig.grant("fan", "500.00", lasts=10)
    rig.later(10)
    rig.store.fail("post", error=StoreUnavailable("cut"))
    assert await expire_promos(rig) == PromosSummary(failed=(Coded(grant, "STORE.FAILURE"),))
    assert await rig.balance("fan:promo") == "500.00"
    rig.later(31)
    assert [one.id for one in (await expire_promos(rig)).reversed] == [grant]


async def test_a_forged_grant_takes_nothing(rig: Rig) -> None:
    """§16.99."""
    grant = await rig.grant("fan", "5.00", lasts=10)
    await rig.grant("fan", "500.00", lasts=100_000)
    rig.tamper("promo", grant, amount=50_000)
    rig.later(10)
    summary = await expire_promos(rig)
    assert summary == PromosSummary(failed=(Coded(grant, "CHAIN.BROKEN"),))
    assert await rig.balance("fan:promo") == "505.00"


async def test_poison_is_set_aside_after_so_many_attempts_and_blocks_nobody(rig: Rig) -> None:
    """§17.6: in the original it came first in every sweep, for ever."""
    rig.change(max_promo_attempts=3)
    poison = await rig.grant("bad", "5.00", lasts=10)
    rig.tamper("promo", poison, amount=50_000)
    rig.later(20)
    fresh = await rig.grant("fan", "5.00", lasts=10)
    rig.later(10)
    found = []
    for _ in range(5):
        summary = await expire_promos(rig, limit=1)
        found.append((summary.failed, summary.dead_lettered, [r.id for r in summary.reversed]))
        rig.later(3_600)
    coded = (Coded(poison, "CHAIN.BROKEN"),)
    assert found == [
        (coded, (), []),
        ((), (), [fresh]),
        (coded, (), []),
        ((), coded, []),
        ((), (), []),
    ]
    row = await rig.row("promo", poison)
    assert (row.state, row.due_at, row.attempts) == ("DEAD", None, 3)
    assert await rig.balance("bad:promo") == "5.00"
    assert PromosSummary(dead_lettered=coded).tally().verdict is Verdict.FAILED

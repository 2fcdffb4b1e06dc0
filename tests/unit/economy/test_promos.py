"""Promo credits: granted, and taken back when they expire."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from offpath.economy import (
    Actor,
    ChainBroken,
    GrantPromo,
    MalformedOperation,
    Rejected,
    Unauthorized,
    credits,
)
from offpath.economy.ledger.operations.steps_promos import promo_expired, promo_failed
from offpath.economy.ledger.rows import PromoBody, encoded
from offpath.model.ledger.records import Receipt, SideRow
from tests.unit.economy.marketplace import BANK, BASE, START, Marketplace, committed

LATER = 2_000


async def granted(market: Marketplace, amount: str, *, ms: int = LATER) -> str:
    return str(committed(await market.promo("ann", amount, ms=ms)).id)


async def expire(market: Marketplace, grant: str) -> Receipt:
    row = await market.row("promo", grant)
    return await market.step(promo_expired(row, market.economy.new_id))


async def test_a_grant_has_a_row_that_falls_due_when_it_expires(market: Marketplace) -> None:
    grant = await granted(market, "500.00")
    row = await market.row("promo", grant)
    assert (row.due_at, row.amount, row.anchor) == (BASE + LATER, 50_000, grant)
    assert await market.house("promo_float") == 50_000


async def test_what_was_not_spent_is_taken_back(market: Marketplace) -> None:
    """§16.95"""
    grant = await granted(market, "500.00")
    market.at(LATER)
    receipt = await expire(market, grant)
    assert receipt.facts == {"amount": "CREDIT:500.00"}
    assert await market.house("promo_float") == 0
    assert (await market.row("promo", grant)).state == "REVERSED"
    decided = await market.decided(
        promo_expired(await market.row("promo", grant), market.economy.new_id)
    )
    assert decided.refusal is not None
    assert await market.house("promo_float") == 0


@pytest.mark.parametrize(("spent", "left"), [("300.00", "200.00"), ("500.00", "0.00")])
async def test_what_was_spent_is_not(market: Marketplace, spent: str, left: str) -> None:
    """§16.96"""
    grant = await granted(market, "500.00")
    committed(await market.spend("ann", spent))
    market.at(LATER)
    receipt = await expire(market, grant)
    assert receipt.facts == {"amount": f"CREDIT:{left}"}
    assert bool(receipt.postings) is (left != "0.00")
    assert (await market.row("promo", grant)).state == "REVERSED"
    await market.sound()


async def test_two_grants_give_back_what_is_left_of_both(market: Marketplace) -> None:
    """§16.97"""
    grants = [await granted(market, "500.00") for _ in range(2)]
    committed(await market.spend("ann", "800.00"))
    market.at(LATER)
    taken = [str((await expire(market, one)).facts["amount"]) for one in grants]
    assert sorted(taken) == ["CREDIT:0.00", "CREDIT:200.00"]
    assert await market.balance("ann:promo") == 0


async def test_before_its_time_nothing_is_taken(market: Marketplace) -> None:
    """§16.98"""
    grant = await granted(market, "500.00")
    market.at(LATER - 1)
    row = await market.row("promo", grant)
    decided = await market.decided(promo_expired(row, market.economy.new_id))
    assert decided.refusal is not None
    assert await market.balance("ann:promo") == 50_000


@pytest.mark.parametrize(
    "change",
    [
        {"amount": 99_999},
        {"amount": None},
        {"owner": "ben"},
        {"body": encoded(PromoBody(expires_at=BASE))},
        {"anchor": "elsewhere"},
    ],
)
async def test_a_forged_grant_claws_nothing(market: Marketplace, change: dict[str, Any]) -> None:
    """§16.99"""
    grant = await granted(market, "500.00")
    committed(await market.top_up("ann", "5.00"))
    market.at(LATER)
    market.forge(replace(await market.row("promo", grant), **change))
    row = await market.row("promo", grant)
    decided = await market.decided(promo_expired(row, market.economy.new_id))
    assert isinstance(decided.error, ChainBroken)
    assert await market.balance("ann:promo") == 50_000
    assert await market.balance("ann:spendable") == 500


async def test_a_grant_that_fails_too_often_is_dead(market: Marketplace) -> None:
    """§17.6"""
    grant = await granted(market, "500.00")
    row: SideRow = await market.row("promo", grant)
    await market.step(promo_failed(row, most=2, due_at=7))
    row = await market.row("promo", grant)
    assert (row.state, row.attempts, row.due_at) == ("OPEN", 1, 7)
    await market.step(promo_failed(row, most=2, due_at=8))
    row = await market.row("promo", grant)
    assert (row.state, row.attempts, row.due_at) == ("DEAD", 2, None)
    assert await market.balance("ann:promo") == 50_000


@pytest.mark.parametrize(
    "expires",
    [
        START,
        START - timedelta(days=1),
        START + timedelta(days=6 * 366),
        START + timedelta(microseconds=1_500_001),
        datetime(2027, 1, 1),  # noqa: DTZ001 - that is the point
        "2027-01-01",
    ],
)
async def test_a_time_that_cannot_be_meant_is_malformed(market: Marketplace, expires: Any) -> None:
    with pytest.raises(MalformedOperation):
        await market.economy.submit(
            GrantPromo(key="k", actor=BANK, user="ann", amount=credits(1), expires_at=expires)
        )


async def test_users_give_nothing_away(market: Marketplace) -> None:
    with pytest.raises(Unauthorized):
        await market.economy.submit(
            GrantPromo(
                key="k",
                actor=Actor.user("ann"),
                user="ann",
                amount=credits(1),
                expires_at=datetime(2027, 1, 1, tzinfo=UTC),
            )
        )


# -- what has ended is not spendable ---------------------------------------------------------------


@pytest.mark.parametrize(("ms", "from_promo"), [(LATER - 1, 4_000), (LATER, 0), (LATER + 1_000, 0)])
@pytest.mark.parametrize("paid", ["spend", "subscribe"])
async def test_what_has_ended_is_not_spendable_though_no_sweep_has_come(
    market: Marketplace, ms: int, from_promo: int, paid: str
) -> None:
    """T2-26: from the very moment, by an order and by a subscription."""
    await granted(market, "50.00")
    committed(await market.top_up("ann", "100.00"))
    market.at(ms)
    committed(await getattr(market, paid)("ann", "40.00"))
    assert await market.balance("ann:promo") == 5_000 - from_promo
    assert await market.balance("ann:spendable") == 6_000 + from_promo
    await market.sound()


async def test_promo_credits_pay_the_same_before_the_sweep_as_after_it(market: Marketplace) -> None:
    """An older grant takes its part when it ends; what is left is spendable."""
    ended = await granted(market, "50.00")
    await granted(market, "30.00", ms=10 * LATER)
    committed(await market.spend("ann", "10.00"))
    market.at(LATER)
    refused = await market.spend("ann", "21.00")
    assert isinstance(refused, Rejected)
    assert refused.fields["need"] == "CREDIT:1.00"
    committed(await market.spend("ann", "15.00"))
    assert (await expire(market, ended)).facts["amount"] == "CREDIT:50.00"
    committed(await market.spend("ann", "5.00"))
    assert await market.balance("ann:promo") == 0


async def test_what_a_given_up_grant_left_is_not_spendable_either(market: Marketplace) -> None:
    grant = await granted(market, "50.00")
    market.at(LATER)
    row = await market.row("promo", grant)
    await market.step(promo_failed(row, most=1, due_at=BASE + LATER + 1))
    assert (await market.row("promo", grant)).state == "DEAD"
    assert isinstance(await market.spend("ann", "1.00"), Rejected)


async def test_a_list_of_orders_is_decided_in_turn_also_with_promo_credits(
    market: Marketplace,
) -> None:
    await granted(market, "50.00")
    orders = [market.order("ann", "20.00") for _ in range(4)]
    answers = await market.economy.submit_many(orders)
    assert [type(one).__name__ for one in answers] == [*["Committed"] * 2, *["Rejected"] * 2]
    assert await market.balance("ann:promo") == 1_000


async def test_a_prepared_order_knows_which_promo_credits_it_pays_with(market: Marketplace) -> None:
    await granted(market, "50.00")
    op = await market.economy.prepare(market.order("ann", "20.00"))
    market.at(LATER)
    decided = await market.decided(op)
    assert decided.refusal is not None
    assert decided.refusal.reason == "INSUFFICIENT_FUNDS"

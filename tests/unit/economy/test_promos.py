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
    Unauthorized,
    credits,
)
from offpath.ledger.operations.steps_promos import promo_expired, promo_failed
from offpath.ledger.rows import PromoBody, encoded
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

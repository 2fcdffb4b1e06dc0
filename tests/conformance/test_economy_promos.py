"""Promo credits that end while they are spent, and debts that come to be while they are paid."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from offpath.economy import Clawback, GrantPromo, TopUp, WriteOff, credits, expire_promos
from tests.conformance.test_economy_operations import (
    markets,  # noqa: F401 - the fixture
)
from tests.unit.economy.marketplace import BANK, OPS, Marketplace, committed

pytestmark = pytest.mark.needs("ledger")

USERS = [f"user-{n}" for n in range(60)]


async def test_sixty_users_spend_while_three_processes_expire(
    markets: tuple[Marketplace, ...],  # noqa: F811 - the fixture
) -> None:
    """T2-26: nobody spends what has ended, and nobody loses what he bought."""
    first = markets[0]
    ends = first.clock.now() + timedelta(seconds=10)
    given = [GrantPromo(key=f"g-{one}", actor=BANK, user=one, amount=credits(10), expires_at=ends)
             for one in USERS]  # fmt: skip
    bought = [TopUp(key=f"t-{one}", actor=BANK, user=one, amount=credits(10), source="card")
              for one in USERS]  # fmt: skip
    await first.economy.submit_many([*given, *bought])
    first.clock.advance(10)
    spends = [
        markets[n % len(markets)].spend(one, "5.00", key=f"s-{one}", order_id=f"o-{one}")
        for n, one in enumerate(USERS)
    ]
    sweeps = [expire_promos(market.economy, limit=25) for market in (*markets, *markets)[:3]]
    sweeping = asyncio.gather(*sweeps)
    for outcome in await asyncio.gather(*spends):
        committed(outcome)
    await sweeping
    for one in USERS:
        assert await first.balance(f"{one}:spendable") == 500
    await expire_promos(first.economy, limit=100)
    assert {await first.balance(f"{one}:promo") for one in USERS} == {0}
    assert await first.house("promo_float") == 0
    await first.sound()


async def test_debts_are_paid_whoever_makes_and_pays_them(
    markets: tuple[Marketplace, ...],  # noqa: F811 - the fixture
) -> None:
    first, last = markets[0], markets[-1]
    owing = USERS[:8]
    taken = [
        Clawback(key=f"c-{one}", actor=OPS, user=one, amount=credits(10)) for one in reversed(owing)
    ]
    await first.economy.submit_many(taken)
    found = await last.economy.read.debts()
    assert [one.user for one in found] == sorted(owing)
    assert [one.user for one in await last.economy.read.debts(after=owing[2], limit=2)] == owing[
        3:5
    ]
    paid = [
        markets[n % len(markets)].top_up(one, "4.00", key=f"{n}-{one}")
        for n in range(4)
        for one in owing
    ]
    for outcome in await asyncio.gather(*paid):
        committed(outcome)
    for one in owing:
        assert await first.balance(f"{one}:owed") == 0
        assert await first.balance(f"{one}:spendable") == 600
    assert await last.economy.read.debts() == []
    await first.sound()


async def test_what_comes_in_while_a_debt_comes_to_be_is_not_paid_out(
    markets: tuple[Marketplace, ...],  # noqa: F811 - the fixture
) -> None:
    """A sale and the clawback of its seller at one moment: whichever is first, the gate counts."""
    first, last = markets[0], markets[-1]
    committed(await first.top_up("ann", "20.00"))
    dispute = Clawback(key="c", actor=OPS, user="sue", amount=credits(7))
    outcomes = await asyncio.gather(
        last.economy.submit(dispute), first.spend("ann", "10.00", "sue", order_id="o")
    )
    for outcome in outcomes:
        committed(outcome)
    earned, owed = [await first.balance(f"sue:{kind}") for kind in ("earned", "owed")]
    assert (earned, owed) in {(0, 0), (700, 700)}
    refused = await last.request_payout("sue", "7.00")
    assert type(refused).__name__ == "Rejected"
    off = WriteOff(key="w", actor=OPS, user="sue", reason="gone")
    if owed:
        committed(await first.economy.submit(off))
        committed(await last.request_payout("sue", "7.00"))
    await first.sound()

"""Rebate, cashback and lossback: the same three outcomes, whatever is calculated."""

from __future__ import annotations

from typing import Any

import pytest

from offpath.errors import SettlementFailed
from offpath.settlements import SettlementOutcome
from offpath.settlements.rates import Cashback, Lossback, PlayerActivity, Rebate, Share
from offpath.testing import FakeRecords
from tests.unit.health.desk import Desk, counts

TENTH = Share(1, 10)
KINDS = [
    pytest.param(Rebate(share=TENTH), [10, 20, 30], id="rebate"),
    pytest.param(Cashback(share=TENTH), [4, 8, 12], id="cashback"),
    pytest.param(Lossback(share=TENTH, floor=50), [5, 10, 15], id="lossback"),
]


def desk(calculate: Any) -> Desk:
    players = [
        PlayerActivity(id=f"r{n}", user=f"u{n}", turnover=100 * n, lost=50 * n, won=10 * n)
        for n in (1, 2, 3)
    ]
    return Desk(FakeRecords(players), calculate=calculate)


@pytest.mark.parametrize(("calculate", "amounts"), KINDS)
async def test_each_kind_raises_when_every_credit_fails(calculate: Any, amounts: list[int]) -> None:
    made = desk(calculate)
    made.credits.fail("u1", "u2", "u3")
    with pytest.raises(SettlementFailed) as raised:
        await made.run()
    assert raised.value.summary.outcome is SettlementOutcome.FAILED
    assert counts(raised.value.summary) == (3, 0, 3, 0)
    made.credits.heal()
    await made.run()
    assert list(made.credits.balances.values()) == amounts


@pytest.mark.parametrize(("calculate", "amounts"), KINDS)
async def test_each_kind_tells_clean_degraded_and_failed_apart(
    calculate: Any, amounts: list[int]
) -> None:
    made = desk(calculate)
    made.credits.fail("u2")
    summary = await made.run()
    assert (summary.outcome, counts(summary)) == (SettlementOutcome.DEGRADED, (3, 2, 1, 0))
    made.credits.heal()
    summary = await made.run()
    assert (summary.outcome, counts(summary)) == (SettlementOutcome.CLEAN, (3, 1, 0, 2))
    assert made.credits.balances == {f"u{n}": amounts[n - 1] for n in (1, 2, 3)}
    assert made.app.settlements.status("rebate").healthy


@pytest.mark.parametrize("calculate", [kind.values[0] for kind in KINDS])
async def test_each_kind_without_anything_eligible_is_clean(calculate: Any) -> None:
    idle = PlayerActivity(id="r1", user="u1", turnover=0, lost=0, won=0)
    made = Desk(FakeRecords([idle]), calculate=calculate)
    summary = await made.run()
    assert (summary.outcome, counts(summary)) == (SettlementOutcome.CLEAN, (0, 0, 0, 0))
    assert made.credits.balances == {}

"""Limits of velocity against who would like to move more."""

from __future__ import annotations

import pytest

from offpath.economy import Actor, RequestPayout, credits
from offpath.model.ledger.money import MOST
from tests.unit.economy.conftest import Opens
from tests.unit.economy.marketplace import Marketplace, committed, rejected


async def test_a_larger_amount_under_a_key_that_was_declined_counts(open_market: Opens) -> None:
    market = await open_market(velocity_limit_minor=1_000, velocity_inflow_limit_minor=10**9)
    assert rejected(await market.spend("ann", "0.01", key="k"))[0] == "INSUFFICIENT_FUNDS"
    committed(await market.top_up("ann", "100.00"))
    assert rejected(await market.spend("ann", "100.00", key="k"))[0] == "RISK_DENIED"


async def test_another_kind_under_a_key_that_was_declined_counts(open_market: Opens) -> None:
    market = await open_market(velocity_limit_minor=1_000, velocity_inflow_limit_minor=10**9)
    payout = RequestPayout(key="k", actor=Actor.user("ann"), user="ann", amount=credits(2))
    assert rejected(await market.economy.submit(payout))[0] == "INSUFFICIENT_FUNDS"
    committed(await market.top_up("ann", "100.00"))
    assert rejected(await market.spend("ann", "9.00", key="k"))[0] == "RISK_DENIED"
    assert rejected(await market.subscribe("ann", "9.00", key="k"))[0] == "RISK_DENIED"


async def test_attempts_beyond_all_bounds_do_not_run_out_of_bits(open_market: Opens) -> None:
    market = await open_market(velocity_limit_minor=1_000)
    for _ in range(3):
        assert rejected(await market.spend("ann", credits(10**13)))[0] == "RISK_DENIED"
    tries = market.app.store()._inner._tables.ledger.tries["out:ann"].made  # type: ignore[attr-defined]
    assert tries[-1].total == 3 * 1_001
    assert tries[-1].total < MOST


@pytest.mark.parametrize("limit", [1, 399, 400, 401])
async def test_the_limit_is_exact_for_one_operation(open_market: Opens, limit: int) -> None:
    market = await open_market(velocity_limit_minor=limit)
    outcome = await market.top_up("ann", "4.00")
    if limit >= 400:
        committed(outcome)
    else:
        assert rejected(outcome)[0] == "RISK_DENIED"


async def test_a_key_of_one_user_is_no_attempt_of_another(market: Marketplace) -> None:
    assert rejected(await market.spend("ann", "1.00", key="k"))[0] == "INSUFFICIENT_FUNDS"
    committed(await market.top_up("ben", "1.00"))
    committed(await market.spend("ben", "1.00", key="k"))

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


async def test_what_was_declined_long_ago_counts_when_it_is_tried_again(
    open_market: Opens,
) -> None:
    """The store keeps the last attempt of each, however old: else it stood for its own repeat."""
    market = await open_market(
        velocity_limit_minor=1_000, velocity_window=10.0, velocity_inflow_limit_minor=10**9
    )
    committed(await market.top_up("ann", "100.00"))
    orders = [market.order("ann", "6.00") for _ in range(4)]
    for order in orders[:2]:
        await market.economy.submit(order)
    big = market.order("ann", "50.00")
    assert rejected(await market.economy.submit(big))[0] == "RISK_DENIED"
    market.at(10_000)
    assert rejected(await market.economy.submit(big))[0] == "RISK_DENIED"
    assert rejected(await market.economy.submit(orders[1]))[0] == "RISK_DENIED"
    market.at(20_000)
    committed(await market.economy.submit(orders[1]))
    assert rejected(await market.economy.submit(orders[2]))[0] == "RISK_DENIED"


async def test_a_repeat_within_the_window_counts_once_also_after_one_long_ago(
    open_market: Opens,
) -> None:
    market = await open_market(velocity_limit_minor=1_000, velocity_window=10.0)
    order = market.order("ann", "9.00")
    for ms in (0, 10_000, 11_000, 12_000, 19_999, 20_000, 20_001):
        market.at(ms)
        assert rejected(await market.economy.submit(order))[0] == "INSUFFICIENT_FUNDS"


async def test_what_was_declined_early_counts_when_it_goes_through(open_market: Opens) -> None:
    """Else the limit could be moved twice: once late under an early try, once right after it."""
    market = await open_market(
        velocity_limit_minor=1_000, velocity_window=10.0, velocity_inflow_limit_minor=10**9
    )
    order = market.order("ann", "10.00")
    assert rejected(await market.economy.submit(order))[0] == "INSUFFICIENT_FUNDS"
    committed(await market.top_up("ann", "100.00"))
    market.at(9_999)
    committed(await market.economy.submit(order))
    for ms in (10_000, 19_998):
        market.at(ms)
        assert rejected(await market.spend("ann", "0.01", key="next"))[0] == "RISK_DENIED"
    market.at(19_999)
    committed(await market.spend("ann", "9.98", key="next"))


async def test_what_is_declined_again_goes_on_counting_from_its_first_time(
    open_market: Opens,
) -> None:
    """Else who asks often enough would be kept waiting by his own tries for ever."""
    market = await open_market(
        velocity_limit_minor=1_000, velocity_window=10.0, velocity_inflow_limit_minor=10**9
    )
    committed(await market.top_up("ann", "100.00"))
    orders = [market.order("ann", "6.00") for _ in range(2)]
    committed(await market.spend("ann", "6.00"))
    for ms in (1, 5_000, 9_999):
        market.at(ms)
        for order in orders:
            assert rejected(await market.economy.submit(order))[0] == "RISK_DENIED"
    market.at(10_001)
    committed(await market.economy.submit(orders[0]))

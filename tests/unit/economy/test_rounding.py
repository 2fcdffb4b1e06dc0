"""Every place that divides, with a remainder: how it rounds, and who has the rest. G31, D3."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offpath.economy import InvalidAmount, Rates, Share, credits, rate
from offpath.economy.ledger.obligations import sweepable
from offpath.jobs.client.core import core_of
from offpath.model.ledger.rates import fee_of, share_of
from offpath.model.ledger.records import Totals
from tests.unit.economy.conftest import Opens
from tests.unit.economy.marketplace import Marketplace, committed

THIRD = rate("third", 1, 3)
"""A tenth of a cent a minor unit."""


def test_dollars_that_go_out_round_down_and_those_that_come_in_up() -> None:
    assert (THIRD.floor(2_999), THIRD.ceil(2_001)) == (2, 3)
    assert (THIRD.floor(-1), THIRD.ceil(1)) == (-1, 1)


def test_credits_that_dollars_cover_round_down() -> None:
    assert rate("par", 3, 2).credits_covered(1) == 33


def test_a_fee_goes_up_to_the_next_whole_credit_and_a_share_down() -> None:
    assert fee_of(1_001, 3_000) == 400
    assert fee_of(50, 3_000) == 50
    assert share_of(101, 3_333) == 33


def test_the_step_of_whole_cents() -> None:
    assert [rate("r", *pair).step for pair in ((5, 3), (1, 2), (8333, 6), (2, 0))] == [
        200,
        100,
        1_000_000,
        1,
    ]


async def test_a_payouts_fee_rounds_down(open_market: Opens) -> None:
    """202 credits are worth 1.01 dollars, of which 150 bps are 1.515 cents."""
    market = await open_market(payout_fee_bps=150)
    await market.earns("sel", 210)
    asked = committed(await market.request_payout("sel", credits(202)))
    payout = str(asked.facts["payout_id"])
    await market.submitted(payout)
    paid = committed(await market.settle(payout))
    store = await core_of(market.app).opened()
    (dollars,) = await store.ledger_postings(ids=paid.postings[1:])
    told = {name: dollars.facts[name] for name in ("payoutUsd", "fee", "net")}
    assert told == {"payoutUsd": "USD:1.01", "fee": "USD:0.01", "net": "USD:1.00"}


async def test_a_quote_rounds_down(market: Marketplace) -> None:
    await market.earns("sel", 7)
    asked = committed(await market.request_payout("sel", credits("5.99")))
    assert asked.facts["quote"] == "USD:0.02"


async def test_a_top_up_rounds_what_is_paid_and_what_backs_it_up(market: Marketplace) -> None:
    committed(await market.top_up("ann", "1.01"))
    assert await market.house("trust_cash") == 1
    assert await market.house("revenue_usd") == 1


async def test_what_is_left_over_of_shares_is_the_platforms(market: Marketplace) -> None:
    committed(await market.top_up("ann", "1.01"))
    shares = (Share("a", 3_333), Share("b", 3_333), Share("c", 3_334))
    committed(await market.spend("ann", "1.01", *shares))
    parts = [await market.balance(f"{one}:earned") for one in "abc"]
    assert parts == [0, 0, 0]
    assert await market.house("revenue") == 101


async def test_a_sweep_takes_whole_cents(market: Marketplace) -> None:
    """D3: a credit is half a cent, so of three there is a cent to take, and one stays."""
    await market.earns("sel", 7)
    assert await market.house("revenue") == 300
    with pytest.raises(InvalidAmount, match=r"multiple of CREDIT:2\.00"):
        await market.economy.sweep_fees("odd", credits(3))
    swept = committed(await market.economy.sweep_fees("all"))
    assert (swept.facts["amount"], swept.facts["usd"]) == ("CREDIT:2.00", "USD:0.01")
    assert await market.house("revenue") == 100


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.integers(1, 5_000)), max_size=30),
    st.sampled_from([(5, 3), (1, 2), (3, 3), (8333, 6)]),
)
def test_any_sequence_of_sales_and_sweeps_realises_the_same(
    steps: list[int | None], pair: tuple[int, int]
) -> None:
    """None is a sweep, a number a sale's fee: swept in between or once at the end."""
    par = rate("par", *pair)
    rates = Rates(buy=par, par=par, payout=par)
    often = _realised(steps, rates)
    once = _realised([one for one in steps if one is not None], rates)
    assert often == once


def _realised(steps: list[int | None], rates: Rates) -> tuple[int, int]:
    """The cents that were taken with a sweep at the end, and the credits that are left."""
    revenue, taken, cash = 0, 0, 10**9
    for step in [*steps, None]:
        if step is not None:
            revenue += step
            continue
        minor = sweepable(Totals(balances={"trust_cash": cash}), rates, revenue)
        dollars = rates.par.floor(minor)
        revenue, taken, cash = revenue - minor, taken + dollars, cash - dollars
    return taken, revenue

"""Rates and rounding: exact, each in the direction that its place names."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpath.model.ledger.faults import EconomyConfigInvalid, MoneyOverflow
from offpath.model.ledger.money import CEILING, MOST
from offpath.model.ledger.rates import BPS, Rates, fee_of, rate, share_of


@pytest.mark.parametrize(
    ("price", "bps", "fee"),
    [
        (10001, 3000, 3100),
        (40000, 1530, 6200),
        (400, 3000, 200),
        (50, 3000, 50),
        (10000, 3000, 3000),
        (1, 1530, 1),
        (100, 0, 0),
        (0, 3000, 0),
        (CEILING, BPS, CEILING),
    ],
)
def test_a_fee_is_whole_credits_and_at_most_the_price(price: int, bps: int, fee: int) -> None:
    assert fee_of(price, bps) == fee


def test_three_uneven_shares_leave_two_to_the_platform() -> None:
    price, fee = 40000, fee_of(40000, 1530)
    parts = [share_of(price - fee, bps) for bps in (3333, 3333, 3334)]
    assert price - sum(parts) == 6202


@given(
    st.integers(0, CEILING),
    st.integers(0, BPS),
    st.lists(st.integers(1, 100), min_size=1, max_size=500),
)
def test_parts_sum_to_the_total(price: int, bps: int, weights: list[int]) -> None:
    """M2: shares in basis points that make up the whole, whatever they are."""
    whole = sum(weights)
    shares = [weight * BPS // whole for weight in weights]
    shares[0] += BPS - sum(shares)
    fee = fee_of(price, bps)
    net = price - fee
    parts = [share_of(net, one) for one in shares]
    residue = net - sum(parts)
    assert all(type(part) is int and part >= 0 for part in (*parts, fee, residue))
    assert fee + sum(parts) + residue == price
    assert residue < len(weights)
    assert fee == price or fee % 100 == 0
    assert 0 <= fee - Fraction(price * bps, BPS) < 100 or fee == price


@given(st.integers(-CEILING, CEILING), st.integers(1, 10**6), st.integers(0, 9))
def test_a_rate_rounds_as_it_is_told_also_below_zero(minor: int, value: int, scale: int) -> None:
    one, exact = rate("par", value, scale), Fraction(minor * value, 10**scale)
    if abs(exact) < MOST:
        assert one.floor(minor) == floor(exact)
        assert one.ceil(minor) == ceil(exact)
        back = one.credits_covered(one.floor(minor))
        assert one.floor(back) <= one.floor(minor)


def test_dollars_for_credits_in_the_usual_cases() -> None:
    par = Rates().par
    assert par.ceil(50) == 1  # half a credit
    assert par.ceil(200) == 1
    assert par.ceil(201) == 2
    assert par.floor(199) == 0
    assert par.credits_covered(1) == 200
    assert Rates().buy.ceil(10_000) == 84


def test_what_does_not_fit_is_an_overflow() -> None:
    with pytest.raises(MoneyOverflow):
        rate("par", 10**6, 0).floor(MOST)


def test_an_id_names_the_pair() -> None:
    assert Rates().par.id == "par:CREDIT->USD:5/3"
    assert Rates().buy.id == "buy:CREDIT->USD:8333/6"


@pytest.mark.parametrize(
    ("value", "scale"),
    [(0, 3), (-5, 3), (0.005, 0), ("5", 3), (True, 3), (5, -1), (5, 19), (5, 1.0), (5, None)],
)
def test_a_rate_is_a_positive_pair_of_whole_numbers(value: Any, scale: Any) -> None:
    with pytest.raises(EconomyConfigInvalid):
        rate("par", value, scale)


def test_buy_par_and_payout_fall_in_this_order_across_scales() -> None:
    same = Rates(buy=rate("buy", 5, 3), par=rate("par", 50, 4), payout=rate("payout", 500, 5))
    assert same.payout <= same.par <= same.buy
    with pytest.raises(EconomyConfigInvalid, match="buy:CREDIT->USD:49/4"):
        Rates(buy=rate("buy", 49, 4))
    with pytest.raises(EconomyConfigInvalid):
        Rates(payout=rate("payout", 51, 4))

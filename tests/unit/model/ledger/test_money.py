"""Money: its text form, its range, and that nothing but whole numbers makes it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpath.model.ledger.faults import CurrencyMismatch, InvalidAmount, MoneyOverflow
from offpath.model.ledger.money import (
    CEILING,
    LEAST,
    MOST,
    Currency,
    Money,
    checked,
    credits,
    text,
    usd,
)

CREDIT, USD = Currency.CREDIT, Currency.USD
minors = st.integers(LEAST, MOST)


@pytest.mark.parametrize(
    ("money", "written"),
    [
        (Money(CREDIT, 1234), "CREDIT:12.34"),
        (Money(USD, -5), "USD:-0.05"),
        (Money(USD, 0), "USD:0.00"),
        (Money(CREDIT, 100_000_000), "CREDIT:1000000.00"),
        (Money(CREDIT, MOST), "CREDIT:92233720368547758.07"),
        (Money(CREDIT, LEAST), "CREDIT:-92233720368547758.08"),
    ],
)
def test_the_text_form_has_two_decimals_and_no_grouping(money: Money, written: str) -> None:
    assert str(money) == written
    assert Money.parse(written) == money


@given(st.sampled_from(Currency), minors)
def test_what_is_written_is_read_back(currency: Currency, minor: int) -> None:
    assert Money.parse(str(Money(currency, minor))) == Money(currency, minor)
    assert text(currency, minor).startswith(f"{currency.value}:")


@pytest.mark.parametrize(
    ("given", "minor"),
    [("12", 1200), ("-12", -1200), ("CREDIT:12", 1200), ("CREDIT:0.5", 50), ("CREDIT:-0.00", 0)],
)
def test_whole_units_and_fewer_decimals_are_read(given: str, minor: int) -> None:
    assert Money.parse(given) == Money(CREDIT, minor)


def test_a_bare_number_is_of_the_currency_that_is_asked_for() -> None:
    assert Money.parse("12", currency=USD) == usd(12)


@pytest.mark.parametrize(
    "given",
    [
        "CREDIT:12.345",
        "CREDIT:1,000.00",
        "CREDIT:1_000",
        "EUR:1.00",
        "credit:1.00",
        "CREDIT:",
        "CREDIT:.50",
        "CREDIT:1.",
        "CREDIT: 1.00",
        "CREDIT:1.00 ",
        "CREDIT:+1.00",
        "CREDIT:--1",
        "CREDIT:1e3",
        "CREDIT:١٢.٠٠",
        "CREDIT:NaN",
        "12.50",
        "",
        "CREDIT:92233720368547758.08",
        "CREDIT:-92233720368547758.09",
        "CREDIT:99999999999999999999.00",
        "CREDIT:1.00\n",
        None,
        12,
        12.5,
        b"CREDIT:1.00",
    ],
)
def test_anything_else_is_no_amount(given: Any) -> None:
    with pytest.raises(InvalidAmount):
        Money.parse(given)


@pytest.mark.parametrize("minor", [1.0, 1.5, "1", None, True, float("nan")])
def test_a_float_cannot_be_money(minor: Any) -> None:
    with pytest.raises(InvalidAmount):
        Money(CREDIT, minor)
    with pytest.raises(InvalidAmount):
        checked(minor)


@pytest.mark.parametrize("given", [1.0, True, None, b"1"])
def test_nor_can_one_make_credits(given: Any) -> None:
    for make in (credits, usd):
        with pytest.raises(InvalidAmount):
            make(given)


def test_credits_and_dollars_are_whole_units_or_decimal_texts() -> None:
    assert credits(4) == Money(CREDIT, 400)
    assert credits("12.34") == Money(CREDIT, 1234)
    assert usd("-0.05") == Money(USD, -5)


@pytest.mark.parametrize("minor", [MOST + 1, LEAST - 1, 10**30])
def test_beyond_64_bits_is_an_overflow(minor: int) -> None:
    with pytest.raises(MoneyOverflow):
        Money(CREDIT, minor)


def test_sums_and_signs_stay_in_range() -> None:
    with pytest.raises(MoneyOverflow):
        -Money(CREDIT, LEAST)
    with pytest.raises(MoneyOverflow):
        Money(CREDIT, MOST) + Money(CREDIT, 1)
    with pytest.raises(MoneyOverflow):
        Money(CREDIT, LEAST) - Money(CREDIT, 1)
    assert -Money(CREDIT, MOST) == Money(CREDIT, -MOST)
    assert MOST > CEILING


def test_two_currencies_do_not_meet() -> None:
    one, other = credits(1), usd(1)
    for meet in (
        lambda: one + other,
        lambda: one - other,
        lambda: one < other,
        lambda: one <= other,
        lambda: one > other,
        lambda: one >= other,
    ):
        with pytest.raises(CurrencyMismatch):
            meet()
    assert one != other


def test_amounts_of_one_currency_are_ordered() -> None:
    assert credits(1) < credits(2) <= credits(2)
    assert credits(2) > credits(1)
    assert credits(2) >= credits(2)
    assert max(credits(1), credits(3), credits(2)) == credits(3)
    assert not credits(0)
    assert credits("0.01")

"""The calculators are exact, bounded and monotone, and never give more for a record in parts."""

from __future__ import annotations

import ast
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from offpath.errors import InvalidArgument
from offpath.model import settlement_period, settlement_rates, settlement_run
from offpath.model.settlement_rates import (
    MAX_AMOUNT,
    Cashback,
    Lossback,
    PlayerActivity,
    Rebate,
    Share,
)

AMOUNTS = st.integers(0, MAX_AMOUNT)
SHARES = st.integers(1, MAX_AMOUNT).flatmap(
    lambda below: st.integers(0, below).map(lambda above: Share(above, below))
)


def activity(turnover: int = 0, won: int = 0, lost: int = 0) -> PlayerActivity:
    return PlayerActivity(id="1", user="ada", turnover=turnover, won=won, lost=lost)


def test_a_rebate_is_a_share_of_the_turnover_rounded_down() -> None:
    rebate = Rebate(share=Share(1, 40))
    assert rebate(activity(turnover=1_000, won=900, lost=0)) == 25
    assert rebate(activity(turnover=1_039)) == 25
    assert rebate(activity(turnover=39)) == 0


def test_cashback_is_a_share_of_the_net_loss_and_never_negative() -> None:
    cashback = Cashback(share=Share.parse("10%"), cap=500)
    assert cashback(activity(won=300, lost=1_300)) == 100
    assert cashback(activity(won=1_300, lost=300)) == 0
    assert cashback(activity(lost=1_000_000)) == 500


def test_lossback_has_a_floor_and_a_cap() -> None:
    lossback = Lossback(share=Share.parse("1/5"), floor=1_000, cap=5_000)
    assert lossback(activity(lost=999)) == 0
    assert lossback(activity(lost=1_000, won=9_999)) == 200
    assert lossback(activity(lost=25_000)) == 5_000
    assert lossback(activity(lost=25_001)) == 5_000


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("2.5%", Share(1, 40)),
        ("0.025", Share(1, 40)),
        ("1/40", Share(1, 40)),
        (" 100% ", Share(1, 1)),
        ("0", Share(0, 1)),
        ("0.1", Share(1, 10)),
    ],
)
def test_a_share_is_read_exactly(text: str, share: Share) -> None:
    assert Share.parse(text) == share


@pytest.mark.parametrize(
    "text", ["", "%", "nan", "inf", "1e-3", "101%", "-1%", "1/0", "1/2/3", "2,5%", "٥%", "9" * 99]
)
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        Share.parse(text)


@pytest.mark.parametrize(("above", "below"), [(2, 1), (-1, 2), (0, 0), (1, -2), (0.1, 1), (1, 2.0)])
def test_a_share_is_made_of_whole_numbers_up_to_one(above: int, below: int) -> None:
    with pytest.raises(InvalidArgument):
        Share(above, below)


@pytest.mark.parametrize("value", [-1, MAX_AMOUNT + 1, 1.0, "1", None, True])
def test_amounts_that_are_none_are_refused(value: int) -> None:
    share = Share(1, 2)
    for calculate in (
        lambda: Rebate(share=share)(activity(turnover=value)),
        lambda: Cashback(share=share)(activity(won=value)),
        lambda: Lossback(share=share)(activity(lost=value)),
        lambda: Rebate(share=share, cap=value),
        lambda: Lossback(share=share, floor=value),
    ):
        with pytest.raises(InvalidArgument):
            calculate()


@given(SHARES, AMOUNTS, AMOUNTS)
def test_none_exceeds_its_cap_or_its_exact_share(share: Share, amount: int, cap: int) -> None:
    exact = Fraction(share.numerator, share.denominator) * amount
    for made in (
        Rebate(share=share, cap=cap)(activity(turnover=amount)),
        Cashback(share=share, cap=cap)(activity(lost=amount)),
        Lossback(share=share, cap=cap)(activity(lost=amount)),
    ):
        assert type(made) is int
        assert 0 <= made <= cap
        assert made <= exact
        assert made == cap or exact - made < 1


@given(SHARES, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)
def test_all_are_monotone(share: Share, one: int, other: int, floor: int, cap: int) -> None:
    low, high = sorted((one, other))
    rebate, cashback = Rebate(share=share, cap=cap), Cashback(share=share, cap=cap)
    lossback = Lossback(share=share, floor=floor, cap=cap)
    assert rebate(activity(turnover=low)) <= rebate(activity(turnover=high))
    assert cashback(activity(lost=low, won=floor)) <= cashback(activity(lost=high, won=floor))
    assert cashback(activity(won=high, lost=floor)) <= cashback(activity(won=low, lost=floor))
    assert lossback(activity(lost=low)) <= lossback(activity(lost=high))


@given(SHARES, AMOUNTS, AMOUNTS, AMOUNTS)
def test_a_record_in_parts_earns_no_more_than_the_whole(
    share: Share, whole: int, part: int, floor: int
) -> None:
    assume(part <= whole)
    rest = whole - part
    rebate, lossback = Rebate(share=share), Lossback(share=share, floor=floor)
    assert rebate(activity(turnover=part)) + rebate(activity(turnover=rest)) <= rebate(
        activity(turnover=whole)
    )
    assert lossback(activity(lost=part)) + lossback(activity(lost=rest)) <= lossback(
        activity(lost=whole)
    )


@given(SHARES, AMOUNTS)
def test_a_users_cashback_is_never_more_than_what_was_lost(share: Share, lost: int) -> None:
    assert Cashback(share=share)(activity(lost=lost)) <= lost


@pytest.mark.parametrize("module", [settlement_rates, settlement_run, settlement_period])
def test_there_is_no_float_where_money_is(module: object) -> None:
    tree = ast.parse(Path(str(getattr(module, "__file__", ""))).read_text("utf-8"))
    divisions = [n for n in ast.walk(tree) if isinstance(n, ast.BinOp | ast.AugAssign)]
    made = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and type(n.value) is float]
    true_divisions = [n for n in divisions if isinstance(n.op, ast.Div)]
    assert made == []
    # the one true division is of an exact fraction, in Share.parse
    assert [ast.unparse(n) for n in true_divisions] in ([], ["Fraction(Decimal(text[:-1])) / 100"])

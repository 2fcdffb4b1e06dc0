"""Rates in numbers: A.28 91 to 95, where a start that is refused costs nothing."""

from __future__ import annotations

from typing import Literal

import pytest

from offpath.model.limit import Algorithm, RateSpec
from offpath.model.rate import RateState, Taken, decode_state, encode_state, take

START = 1_700_000_000.0
"""A whole number of seconds: aligned windows of a second begin with it."""


class Meter:
    """One key. Times are seconds after ``START``."""

    def __init__(
        self,
        count: int,
        per: float,
        algorithm: Literal["token_bucket", "fixed_window", "sliding_window"],
    ) -> None:
        self.spec = RateSpec(count=count, per=per, algorithm=Algorithm(algorithm))
        self.state: RateState | None = None

    def take(self, at: float, wanted: int = 1) -> Taken:
        taken = take(self.spec, self.state, START + at, wanted)
        self.state = decode_state(encode_state(taken.state))
        return taken

    def passes(self, at: float) -> bool:
        return self.take(at).granted == 1


def test_a28_091_a_fixed_window_opens_with_the_first_start() -> None:
    meter = Meter(3, 1, "fixed_window")
    assert [meter.passes(at) for at in (0.0, 0.01, 0.02)] == [True] * 3
    refused = meter.take(0.03)
    assert refused.granted == 0
    assert refused.next_in == pytest.approx(0.97)
    assert meter.passes(1.001)


def test_a_fixed_window_begins_anew_with_the_first_start_after_it() -> None:
    meter = Meter(1, 1, "fixed_window")
    assert meter.passes(0.7)
    assert not meter.passes(1.6)
    assert meter.passes(1.7)
    assert not meter.passes(2.6)


def test_a28_092_a_sliding_window_weighs_the_one_before() -> None:
    meter = Meter(10, 1, "sliding_window")
    assert [meter.passes(0.5 + n / 1000) for n in range(10)] == [True] * 10
    assert not meter.passes(1.01)
    assert meter.passes(1.99)


def test_a28_093_refused_starts_cost_nothing() -> None:
    meter = Meter(2, 1, "sliding_window")
    assert meter.take(0.0, 2).granted == 2
    assert meter.take(0.1, 10).granted == 0
    assert [meter.passes(0.2) for _ in range(9)] == [False] * 9
    assert meter.passes(1.5)


def test_a28_094_a_token_bucket_fills_evenly() -> None:
    meter = Meter(5, 1, "token_bucket")
    assert meter.take(0.0, 6).granted == 5
    assert meter.take(0.0).next_in == pytest.approx(0.2)
    assert not meter.passes(0.19)
    assert meter.passes(0.2)
    assert not meter.passes(0.2)


def test_a_token_bucket_holds_no_more_than_its_count() -> None:
    meter = Meter(5, 1, "token_bucket")
    assert meter.take(0.0, 1).granted == 1
    assert meter.take(1_000.0, 100).granted == 5


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_a28_095_keys_are_independent(algorithm: Algorithm) -> None:
    one, other = Meter(1, 60, algorithm.value), Meter(1, 60, algorithm.value)
    assert one.passes(0.0)
    assert not one.passes(0.1)
    assert other.passes(0.1)


@pytest.mark.parametrize("algorithm", list(Algorithm))
@pytest.mark.parametrize(("count", "per"), [(1, 0.05), (3, 1.0), (7, 60.0), (1000, 1.0)])
def test_what_next_in_promises_is_kept_and_no_sooner(
    algorithm: Algorithm, count: int, per: float
) -> None:
    meter = Meter(count, per, algorithm.value)
    now = 0.37 * per
    assert meter.take(now, count).granted == count
    for _ in range(20):
        wait = meter.take(now, 0).next_in
        assert wait > 0
        assert not meter.passes(now + wait * 0.98)
        now += wait + max(per, 1.0) * 1e-6  # a float of today knows no smaller part of a second
        assert meter.passes(now)
        meter.take(now, count)


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_a_clock_that_goes_back_gives_nothing_away(algorithm: Algorithm) -> None:
    meter = Meter(2, 10, algorithm.value)
    assert meter.take(100.0, 2).granted == 2
    assert meter.take(0.0, 1).granted == 0


@pytest.mark.parametrize("algorithm", ["token_bucket", "fixed_window"])
def test_no_window_of_a_rate_has_more_than_twice_its_count(
    algorithm: Literal["token_bucket", "fixed_window"],
) -> None:
    meter = Meter(10, 1, algorithm)
    starts: list[float] = []
    for step in range(5_000):
        at = step / 1_000
        starts += [at] * meter.take(at, 100).granted
    for begin in starts:
        assert sum(begin <= at < begin + 1 for at in starts) <= 20

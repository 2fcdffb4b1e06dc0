"""The retry arithmetic: spec A.6 and A.28 29-31, B.1 and B.6 (10), (11)."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpath.errors import InvalidArgument
from offpath.model.retry import (
    DEFAULT_POLICY,
    Backoff,
    BackoffKind,
    RetryOptions,
    RetryPolicy,
    as_retry,
    custom_delay,
    delay,
    merged_retry,
)


def policy_of(*levels: RetryOptions | int) -> RetryPolicy:
    return merged_retry(tuple(as_retry(level) for level in levels))[0]


def test_exponential_doubles_up_to_the_cap() -> None:
    policy = policy_of(Backoff.exponential(base=0.1, factor=2, cap=10, jitter=0))
    assert [delay(policy, n, 0.0) for n in (1, 2)] == [pytest.approx(0.1), pytest.approx(0.2)]
    capped = policy_of(Backoff.exponential(base=0.1, factor=2, cap=0.15, jitter=0))
    assert delay(capped, 3, 0.0) == pytest.approx(0.15)


def test_jitter_only_shortens() -> None:
    policy = policy_of(Backoff.exponential(base=0.1, jitter=0.5))
    assert delay(policy, 1, 1.0) == pytest.approx(0.05)
    assert delay(policy, 1, 0.0) == pytest.approx(0.1)


def test_no_options_wait_a_second() -> None:
    assert delay(DEFAULT_POLICY, 1, 0.0) == 1.0
    assert delay(DEFAULT_POLICY, 0, 0.0) == 1.0


@given(n=st.integers(1, 30), random=st.floats(0, 1, exclude_max=True))
def test_half_jitter_lies_between_half_and_the_whole(n: int, random: float) -> None:
    policy = policy_of(Backoff.half_jitter())
    whole = min(0.5 * 2**n, 60.0)
    assert whole / 2 <= delay(policy, n, random) <= whole  # rounding may reach the bound
    assert 0 < delay(policy, n, random) <= 60


@pytest.mark.parametrize(
    ("n", "low", "high"), [(1, 0.5, 1), (2, 1, 2), (3, 2, 4), (7, 30, 60), (30, 30, 60)]
)
def test_half_jitter_has_the_documented_steps(n: int, low: float, high: float) -> None:
    policy = policy_of(Backoff.half_jitter())
    assert delay(policy, n, 0.0) == low
    assert delay(policy, n, 0.999999) == pytest.approx(high, rel=1e-4)


def test_custom_function_decides() -> None:
    policy, function = merged_retry((as_retry(Backoff.custom(lambda n: n)),))
    assert policy.kind is BackoffKind.CUSTOM
    assert function is not None
    assert custom_delay(function, 3) == 3.0
    assert custom_delay(lambda _: timedelta(minutes=1), 1) == 60.0


@pytest.mark.parametrize("nonsense", [-1.0, math.nan, math.inf, "5", None, True])
def test_custom_function_must_give_a_wait(nonsense: object) -> None:
    with pytest.raises(InvalidArgument):
        custom_delay(lambda _: nonsense, 1)  # type: ignore[arg-type,return-value]


def test_huge_numbers_of_failures_stay_capped() -> None:
    assert delay(RetryPolicy(jitter=0.0), 10_000_000, 0.0) == 30.0
    assert delay(RetryPolicy(base=0.0), 10_000_000, 0.5) == 0.0


def test_levels_merge_field_by_field() -> None:
    queue_time = RetryOptions(attempts=2)
    task = Backoff.half_jitter(base=2.0, attempts=9)
    app = RetryOptions(jitter=0.1, cap=7.0)
    merged = policy_of(queue_time, task, app)
    assert merged == RetryPolicy(
        attempts=2, base=2.0, factor=2.0, cap=60.0, jitter=0.1, kind=BackoffKind.HALF_JITTER
    )


def test_a_stored_kind_above_lifts_a_custom_function_below() -> None:
    levels = (Backoff.exponential(), Backoff.custom(lambda _: 1.0))
    policy, function = merged_retry(tuple(as_retry(level) for level in levels))
    assert policy.kind is BackoffKind.EXPONENTIAL
    assert function is None


def test_an_int_is_the_number_of_attempts() -> None:
    assert policy_of(7).attempts == 7
    assert policy_of(1).allows(1) is False
    assert policy_of(2).allows(1) is True


@pytest.mark.parametrize(
    "bad",
    [
        0,
        -1,
        True,
        1.5,
        "3",
        RetryOptions(base=-1),
        RetryOptions(base=math.nan),
        RetryOptions(cap=math.inf),
        RetryOptions(factor=0.5),
        RetryOptions(factor=math.nan),
        RetryOptions(jitter=1.1),
        RetryOptions(jitter=-0.1),
        RetryOptions(function=lambda _: 1.0),
        RetryOptions(kind=BackoffKind.CUSTOM, function=5),  # type: ignore[arg-type]
    ],
)
def test_nonsense_is_refused(bad: object) -> None:
    with pytest.raises(InvalidArgument):
        as_retry(bad)  # type: ignore[arg-type]


def test_constant_waits_the_same_each_time() -> None:
    policy = policy_of(Backoff.constant(timedelta(seconds=3), attempts=4))
    assert [delay(policy, n, 0.7) for n in (1, 2, 9)] == [3.0, 3.0, 3.0]
    assert policy.attempts == 4

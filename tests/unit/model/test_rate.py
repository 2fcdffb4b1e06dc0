"""Rates: never more starts than allowed, whatever the calls; and "when" is told truly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpath.model.limit import Algorithm, RateSpec
from offpath.model.rate import RateState, decode_state, encode_state, take

ALGORITHMS = list(Algorithm)
_NOW = 1_000_000_020.0  # the first moment of a minute

specs = st.builds(
    RateSpec,
    count=st.integers(1, 20),
    per=st.sampled_from([0.5, 1.0, 7.0, 60.0, 3600.0]),
    algorithm=st.sampled_from(ALGORITHMS),
)
calls = st.lists(st.tuples(st.floats(0, 2), st.integers(0, 30)), min_size=1, max_size=40)
"""Time between calls, in parts of the rate's period, and how many are wanted."""


def _rate(count: int, algorithm: Algorithm, per: float = 60.0) -> RateSpec:
    return RateSpec(count=count, per=per, algorithm=algorithm)


def _run(spec: RateSpec, asked: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """The times of starts, with their numbers."""
    state: RateState | None = None
    now, starts = _NOW, []
    for gap, wanted in asked:
        now += gap * spec.per
        taken = take(spec, state, now, wanted)
        state = taken.state
        starts.append((now, taken.granted))
    return starts


@given(specs, calls)
def test_no_more_than_wanted_and_never_less_than_none(
    spec: RateSpec, asked: list[tuple[float, int]]
) -> None:
    for (_, granted), (_, wanted) in zip(_run(spec, asked), asked, strict=True):
        assert 0 <= granted <= min(wanted, spec.count)


@given(specs, calls)
def test_no_window_has_more_than_the_algorithm_allows(
    spec: RateSpec, asked: list[tuple[float, int]]
) -> None:
    """A bucket lets through its tokens and what is refilled meanwhile; two windows that touch may
    let through twice the count.
    """
    starts = _run(spec, asked)
    for at, (begin, _) in enumerate(starts):
        inside = sum(granted for now, granted in starts[at:] if now < begin + spec.per)
        assert inside <= 2 * spec.count


@given(st.integers(1, 20), calls)
def test_a_bucket_gives_no_more_than_its_tokens_and_its_refill(
    count: int, asked: list[tuple[float, int]]
) -> None:
    starts = _run(_rate(count, Algorithm.TOKEN_BUCKET), asked)
    for at, (begin, _) in enumerate(starts):
        total = 0
        for now, granted in starts[at:]:
            total += granted
            assert total <= count + (now - begin) * count / 60 + 1e-3


@given(st.integers(1, 20), calls)
def test_an_aligned_window_never_has_more_than_the_count(
    count: int, asked: list[tuple[float, int]]
) -> None:
    starts = _run(_rate(count, Algorithm.SLIDING_WINDOW), asked)
    windows: dict[float, int] = {}
    for now, granted in starts:
        windows[now // 60] = windows.get(now // 60, 0) + granted
    assert max(windows.values()) <= count


@given(specs, calls)
def test_when_one_more_is_allowed_is_told_truly(
    spec: RateSpec, asked: list[tuple[float, int]]
) -> None:
    state: RateState | None = None
    now = _NOW
    for gap, wanted in asked:
        now += gap * spec.per
        taken = take(spec, state, now, wanted)
        state = taken.state
        slack = spec.per * 1e-5
        assert take(spec, state, now + taken.next_in + slack, 1).granted == 1
        if taken.next_in > 2 * slack:
            assert take(spec, state, now + taken.next_in - slack, 1).granted == 0


@given(specs, calls)
def test_asking_for_nothing_costs_nothing(spec: RateSpec, asked: list[tuple[float, int]]) -> None:
    state: RateState | None = None
    now = _NOW
    for gap, wanted in asked:
        now += gap * spec.per
        looked = take(spec, state, now, 0)
        assert (
            take(spec, looked.state, now, wanted).granted == take(spec, state, now, wanted).granted
        )
        state = take(spec, state, now, wanted).state


@given(specs, st.integers(0, 30))
def test_a_clock_that_goes_back_gives_nothing_away(spec: RateSpec, wanted: int) -> None:
    state = take(spec, None, _NOW, spec.count).state
    assert take(spec, state, _NOW - 10 * spec.per, wanted).granted == 0
    back = take(spec, state, _NOW - 10 * spec.per, wanted).state
    assert take(spec, back, _NOW, wanted).granted == 0


@given(specs, calls)
def test_a_state_survives_its_text(spec: RateSpec, asked: list[tuple[float, int]]) -> None:
    state: RateState | None = None
    now = _NOW
    for gap, wanted in asked:
        now += gap * spec.per
        state = take(spec, state, now, wanted).state
        assert decode_state(encode_state(state)) == state
    assert decode_state(None) is None


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_fresh_key_has_its_whole_count(algorithm: Algorithm) -> None:
    taken = take(_rate(5, algorithm), None, _NOW, 9)
    assert taken.granted == 5
    assert taken.next_in > 0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_after_a_long_rest_it_is_fresh_again(algorithm: Algorithm) -> None:
    spec = _rate(5, algorithm)
    state = take(spec, None, _NOW, 5).state
    assert take(spec, state, _NOW + 600, 9).granted == 5


def test_a_bucket_refills_one_after_the_other() -> None:
    spec = _rate(6, Algorithm.TOKEN_BUCKET)
    state = take(spec, None, _NOW, 6).state
    assert take(spec, state, _NOW + 9.9, 9).granted == 0
    assert take(spec, state, _NOW + 10, 9).granted == 1
    assert take(spec, state, _NOW + 35, 9).granted == 3


def test_a_fixed_window_opens_with_the_first_start() -> None:
    spec = _rate(2, Algorithm.FIXED_WINDOW)
    state = take(spec, None, _NOW + 30, 1).state
    state = take(spec, state, _NOW + 80, 1).state
    taken = take(spec, state, _NOW + 85, 1)
    assert taken.granted == 0
    assert taken.next_in == pytest.approx(5)
    assert take(spec, state, _NOW + 90, 9).granted == 2


def test_a_sliding_window_weighs_the_one_before() -> None:
    spec = _rate(10, Algorithm.SLIDING_WINDOW)
    state = take(spec, None, _NOW, 10).state
    assert take(spec, state, _NOW + 60, 9).granted == 0
    assert take(spec, state, _NOW + 75, 9).granted == 2
    assert take(spec, state, _NOW + 90, 9).granted == 5


def test_sums_of_shares_lose_no_start_to_rounding() -> None:
    spec = _rate(3, Algorithm.TOKEN_BUCKET, per=1.0)
    state, now = take(spec, None, _NOW, 3).state, _NOW
    for _ in range(30):
        now += 0.1
        state = take(spec, state, now, 0).state
    assert take(spec, state, now, 9).granted == 3

"""Loops that turn together: one wake-up of the process serves all of them."""

from __future__ import annotations

import pytest

from offpath.runtime.pace import Moments, Pace

TOGETHER = Moments(every=0.5, phase=0.2)


@pytest.mark.parametrize(
    ("now", "interval", "rest"),
    [
        (10.2, 1.0, 1.0),
        (10.2, 0.5, 0.5),
        (10.3, 1.0, 0.9),
        (10.6, 1.0, 0.6),
        (10.1999, 0.5, 0.5001),  # a timer that fires early is not followed by another at once
        (10.2, 5.0, 5.0),
        (10.2, 0.25, 0.25),  # more often than the moments: as it asks
    ],
)
def test_a_rest_ends_at_the_last_moment_within_the_interval(
    now: float, interval: float, rest: float
) -> None:
    assert TOGETHER.rest(now, interval) == pytest.approx(min(rest, interval))


def test_a_loop_whose_turns_take_long_rests_in_between() -> None:
    assert TOGETHER.rest(10.65, 0.5) == pytest.approx(0.2)


def test_loops_that_began_apart_turn_together_from_their_second_turn_on() -> None:
    pace = Pace(interval=1.0, moments=TOGETHER)
    ends = {round(now + pace.rest(None, 0.7, now), 6) for now in (10.21, 10.4, 10.65)}
    assert ends == {10.7 + 0.5}


def test_a_turn_that_asks_for_a_time_gets_it() -> None:
    pace = Pace(interval=1.0, moments=TOGETHER)
    assert pace.rest(0.3, 0.0, 10.3) == 0.3


def test_without_moments_a_rest_is_shortened_by_chance() -> None:
    assert Pace(interval=10, jitter=0.1).rest(None, 1.0, 10.3) == 9

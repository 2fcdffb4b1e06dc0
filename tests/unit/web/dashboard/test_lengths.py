"""Lengths of time and other numbers are told in words that need no knowledge of exponents."""

from __future__ import annotations

import pytest

from offpath.cli.flow import _rate
from offpath.cli.job_views import _percent
from offpath.model.job import Progress
from offpath.model.limit import RateSpec
from offpath.model.schedule import Timing, TimingKind
from offpath.operating.documents.schedules import in_words
from offpath.web.console.lengths import lasted, rounded


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0 ms"),
        (0.0000001, "0.0001 ms"),
        (0.04, "40 ms"),
        (0.99949, "999 ms"),
        (0.9996, "1 s"),
        (1.0, "1 s"),
        (9.54, "9.54 s"),
        (59.96, "60 s"),
    ],
)
def test_a_length_is_told_in_its_unit(seconds: float, words: str) -> None:
    assert lasted(seconds) == words


def test_digits_that_count_are_kept_and_others_are_not() -> None:
    assert [rounded(one, 2) for one in (0, 0.123, 99.7, 1_234, 0.00001)] == [
        "0", "0.12", "100", "1,200", "0.00001"
    ]  # fmt: skip


def test_no_number_of_a_list_has_an_exponent() -> None:
    month = 30 * 86_400.0
    assert in_words(Timing(kind=TimingKind.EVERY, seconds=month)) == "every 2592000 s"
    assert _rate(RateSpec(count=5, per=month)).startswith("5 per 2592000 s")
    assert _percent(Progress(done=1_234_567)) == "1234567"

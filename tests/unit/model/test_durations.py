"""Durations, as people write them."""

from __future__ import annotations

import pytest

from offpath.model.durations import seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30.0), ("0.5", 0.5), ("500ms", 0.5), ("90s", 90.0), ("5m", 300.0), ("2h", 7_200.0),
        ("7d", 604_800.0), ("1w", 604_800.0), (" 5 m ", 300.0),
        ("", None), ("5 months", None), ("-5", None), ("m", None), ("1h30m", None), ("٣", None),
    ],
)  # fmt: skip
def test_a_number_and_a_unit(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds

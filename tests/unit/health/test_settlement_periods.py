"""A period is what its text says in its zone, and nothing else is a period."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpath.errors import InvalidArgument
from offpath.model.settlement_period import Period, PeriodUnit, parse_period

MADRID = ZoneInfo("Europe/Madrid")


def period(text: str, zone: str = "UTC") -> Period:
    return parse_period(text, ZoneInfo(zone), zone)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]  # year, month, day are there


@pytest.mark.parametrize(
    ("text", "unit", "start", "end"),
    [
        ("2026-11", PeriodUnit.MONTH, utc(2026, 11, 1), utc(2026, 12, 1)),
        ("2026-12", PeriodUnit.MONTH, utc(2026, 12, 1), utc(2027, 1, 1)),
        ("2028-02", PeriodUnit.MONTH, utc(2028, 2, 1), utc(2028, 3, 1)),
        ("2026-11-27", PeriodUnit.DAY, utc(2026, 11, 27), utc(2026, 11, 28)),
        ("2026-W48", PeriodUnit.WEEK, utc(2026, 11, 23), utc(2026, 11, 30)),
        ("2026-W53", PeriodUnit.WEEK, utc(2026, 12, 28), utc(2027, 1, 4)),
        (" 2026-11-01/2026-11-15 ", PeriodUnit.RANGE, utc(2026, 11, 1), utc(2026, 11, 15)),
    ],
)
def test_the_forms_of_a_period(text: str, unit: PeriodUnit, start: datetime, end: datetime) -> None:
    made = period(text)
    assert (made.unit, made.start, made.end) == (unit, start, end)


def test_midnights_are_those_of_the_zone() -> None:
    made = period("2026-11", "Europe/Madrid")
    assert made.start == utc(2026, 10, 31, 23)
    assert made.name == "2026-11@Europe/Madrid"
    october = period("2026-10", "Europe/Madrid")
    assert october.end - october.start == timedelta(days=31, hours=1)  # the clocks went back
    assert october.end == made.start


def test_where_midnight_is_skipped_the_day_begins_with_the_change() -> None:
    zone = "America/Santiago"  # summer time begins at midnight, which becomes 1 o'clock
    before, day = period("2025-09-06", zone), period("2025-09-07", zone)
    assert before.end == day.start == utc(2025, 9, 7, 4)
    assert day.end - day.start == timedelta(hours=23)


def test_a_range_is_known_by_its_instants_however_it_is_written() -> None:
    written = {
        period("2026-11-01/2026-11-02", "Europe/Madrid").name,
        period("2026-11-01T00:00/2026-11-02T00:00", "Europe/Madrid").name,
        period("2026-10-31T23:00Z/2026-11-01T23:00Z", "Europe/Madrid").name,
        period("2026-11-01T00:00+01:00/2026-11-02T00:00:00+01:00").name,
    }
    assert written == {"2026-10-31T23:00:00Z/2026-11-01T23:00:00Z"}


def test_the_end_is_not_in_it() -> None:
    made = period("2026-11")
    assert made.start in made
    assert made.end not in made
    assert str(made) == "2026-11@UTC"


@pytest.mark.parametrize(
    "text",
    [
        *("", "nonsense", "2026", "2026-13", "2026-00", "2026-11-31", "2026-2-3", "26-11"),
        *("2026-W00", "2026-W54", "2027-W53", "2026-w48", "0000-01", "9999-12", "9999-W52"),
        *("٢٠٢٦-11", "2026-11/2026-12", "2026-11-01/", "/2026-11-01", "2026-11-01/2026-11-02/x"),
        *("2026-11-02/2026-11-01", "2026-11-01/2026-11-01", "2026-11\0", "2026-11-01..2026-11-02"),
    ],
)
def test_nonsense_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"write|comes last"):
        period(text)


def test_a_range_the_wrong_way_round_says_so() -> None:
    with pytest.raises(InvalidArgument, match="ends before it begins"):
        period("2026-11-02/2026-11-01")


def test_another_type_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="a period is a text"):
        period(202611)  # type: ignore[arg-type]


@given(st.text(max_size=40))
def test_any_text_is_a_period_or_a_typed_error(text: str) -> None:
    try:
        made = period(text, "Europe/Madrid")
    except InvalidArgument:
        return
    assert made.start < made.end


@given(st.dates(datetime(2, 1, 1).date(), datetime(9990, 1, 1).date()))  # noqa: DTZ001 - dates
def test_days_and_weeks_leave_no_gap(day: datetime) -> None:
    after = day + timedelta(days=1)
    one, next_one = (
        period(f"{day:%Y-%m-%d}".zfill(10), "UTC"),
        period(f"{after:%Y-%m-%d}".zfill(10), "UTC"),
    )
    assert one.end == next_one.start
    year, week, _ = day.isocalendar()
    assert one.start in period(f"{year:04}-W{week:02}")
    assert one.start in period(f"{day.year:04}-{day.month:02}")

"""The times of a schedule, above all where the clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from offpath.errors import InvalidArgument
from offpath.jobs.schedules.times import Cron, Every, Function, NextTime, explained, next_time
from offpath.model.schedule import Timing, TimingKind

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("0 3 * * *", "At 03:00 every day"),
        ("@daily", "At 00:00 every day"),
        (
            "*/5 9-17 * * 1-5",
            "Every fifth minute from 09:00 through 17:59 on Monday through Friday",
        ),
        ("0 0 1 * MON", "At 00:00 on the first day of month and on Monday"),
        ("0 0 31 2 *", None),
        ("nightly", None),
    ],
)
def test_an_expression_is_told_in_words(expression: str, words: str | None) -> None:
    assert explained(expression) == words


def local(cron: str, zone: str, after: str, count: int) -> list[str]:
    """The next occurrences as a clock in that zone shows them, with its offset."""
    times = Cron(cron, zone)
    at: datetime | None = datetime.fromisoformat(after).replace(tzinfo=ZoneInfo(zone))
    found = []
    for _ in range(count):
        assert at is not None
        at = times(at)
        assert at is not None
        found.append(at.astimezone(ZoneInfo(zone)).strftime("%m-%d %H:%M%z"))
    return found


# -- the gap in spring -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "eve", "cron", "expected"),
    [
        (
            "Europe/Berlin",
            "2026-03-28T12:00",
            "30 2 * * *",
            ["03-29 03:00+0200", "03-30 02:30+0200"],
        ),
        (
            "America/New_York",
            "2026-03-07T12:00",
            "30 2 * * *",
            ["03-08 03:00-0400", "03-09 02:30-0400"],
        ),
        (
            "Australia/Lord_Howe",
            "2026-10-03T12:00",
            "15 2 * * *",
            ["10-04 02:30+1100", "10-05 02:15+1100"],
        ),
        (
            "America/Havana",
            "2026-03-07T12:00",
            "0 0 * * *",
            ["03-08 01:00-0400", "03-09 00:00-0400"],
        ),
    ],
)
def test_a_time_in_the_gap_comes_once_right_after_it(
    zone: str, eve: str, cron: str, expected: list[str]
) -> None:
    assert local(cron, zone, eve, 2) == expected


def test_several_times_in_the_gap_are_one_occurrence() -> None:
    found = local("0,15,30,45 2 * * *", "Europe/Berlin", "2026-03-29T01:00", 2)
    assert found == ["03-29 03:00+0200", "03-30 02:00+0200"]


def test_a_time_in_the_gap_and_the_time_after_it_are_one_occurrence() -> None:
    found = local("0 2,3 * * *", "Europe/Berlin", "2026-03-29T01:00", 2)
    assert found == ["03-29 03:00+0200", "03-30 02:00+0200"]


def test_a_day_that_never_was_comes_at_the_first_moment_of_the_next() -> None:
    found = local("0 9 * * *", "Pacific/Apia", "2011-12-29T08:00", 3)
    assert found == ["12-29 09:00-1000", "12-31 00:00+1400", "12-31 09:00+1400"]


# -- the hour that comes twice ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "eve", "cron", "expected"),
    [
        (
            "Europe/Berlin",
            "2026-10-24T12:00",
            "30 2 * * *",
            ["10-25 02:30+0200", "10-26 02:30+0100"],
        ),
        (
            "America/New_York",
            "2026-10-31T12:00",
            "30 1 * * *",
            ["11-01 01:30-0400", "11-02 01:30-0500"],
        ),
        (
            "Australia/Lord_Howe",
            "2026-04-04T12:00",
            "45 1 * * *",
            ["04-05 01:45+1100", "04-06 01:45+1030"],
        ),
    ],
)
def test_a_time_that_comes_twice_is_taken_the_first_time(
    zone: str, eve: str, cron: str, expected: list[str]
) -> None:
    assert local(cron, zone, eve, 2) == expected


def test_in_the_second_pass_of_an_hour_its_times_have_passed() -> None:
    second = datetime(2026, 10, 25, 2, 10, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)
    assert Cron("30 2 * * *", "Europe/Berlin")(second) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


# -- every hour: the clock as it runs --------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "after", "cron", "expected"),
    [
        (
            "America/New_York",
            "2026-03-08T00:30",
            "0 * * * *",
            ["03-08 01:00-0500", "03-08 03:00-0400", "03-08 04:00-0400"],
        ),
        (
            "America/New_York",
            "2026-11-01T00:30",
            "0 * * * *",
            ["11-01 01:00-0400", "11-01 01:00-0500", "11-01 02:00-0500"],
        ),
        (
            "Australia/Lord_Howe",
            "2026-04-05T01:00",
            "45 * * * *",
            ["04-05 01:45+1100", "04-05 01:45+1030", "04-05 02:45+1030"],
        ),
        (
            "Australia/Lord_Howe",
            "2026-10-04T01:00",
            "15 * * * *",
            ["10-04 01:15+1030", "10-04 03:15+1100", "10-04 04:15+1100"],
        ),
    ],
)
def test_every_hour_goes_on_through_a_change(
    zone: str, after: str, cron: str, expected: list[str]
) -> None:
    assert local(cron, zone, after, 3) == expected


# -- against a model that looks at every minute ----------------------------------------------------

ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Havana",
    "Africa/Casablanca",
    "Asia/Kolkata",
    "UTC",
)
_minutes = st.sampled_from(("*", "0", "30", "15,45", "*/20", "10-12", "59"))
_hours = st.sampled_from(("*", "0", "1", "2", "3", "1-3", "*/2", "23", "2,14", "0-23"))


def walls(cron: str) -> tuple[set[int], set[int]]:
    minute, hour = cron.split()[:2]
    return _field(minute, 60), _field(hour, 24)


def _field(text: str, size: int) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = ("0", "-", str(size - 1)) if span == "*" else span.partition("-")
        found.update(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


@lru_cache(maxsize=1)
def readings(zone: str, start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """The time that a clock in the zone shows at each minute."""
    place = ZoneInfo(zone)
    moments = (start + count * MINUTE for count in range(int((end - start) / MINUTE) + 1))
    return [(at, at.astimezone(place).replace(tzinfo=None)) for at in moments]


def model(cron: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """The rule, by looking at what a clock shows at each minute from ``start`` to ``end``."""
    minutes, hours = walls(cron)
    found = []
    (_, shown), *rest = readings(zone, start, end)
    latest = shown  # the latest time that the clock has shown
    for at, reading in rest:
        before, shown = shown, reading
        if len(hours) == 24:
            fits = shown.minute in minutes
        else:
            passed = [shown] if shown > latest else []  # shown for the first time
            skipped = before + MINUTE
            while skipped < shown:  # never shown at all
                passed.append(skipped)
                skipped += MINUTE
            fits = any(one.minute in minutes and one.hour in hours for one in passed)
        latest = max(latest, shown)
        if fits:
            found.append(at)
    return found


def walked(times: NextTime, start: datetime, end: datetime) -> list[datetime]:
    found, at = [], times(start)
    while at is not None and at <= end:
        found.append(at)
        at = times(at)
    return found


@settings(max_examples=25)
@given(st.sampled_from(ZONES), _minutes, _hours, st.integers(0, 400))
@example("Europe/Berlin", "*", "2", 86)
@example("Australia/Lord_Howe", "45", "*", 93)
@example("Australia/Lord_Howe", "15", "1-3", 275)
def test_it_agrees_with_looking_at_every_minute(
    zone: str, minute: str, hour: str, day: int
) -> None:
    cron = f"{minute} {hour} * * *"
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day)
    end = start + timedelta(days=3)
    assert walked(Cron(cron, zone), start, end) == model(cron, zone, start, end)


@pytest.mark.parametrize("zone", ZONES[:3])
def test_400_days_agree_with_looking_at_every_minute(zone: str) -> None:
    start = datetime(2026, 1, 10, tzinfo=UTC)
    end = start + timedelta(days=400)
    for cron in ("30 2 * * *", "*/30 1-3 * * *", "45 * * * *"):
        found = walked(Cron(cron, zone), start, end)
        assert found == model(cron, zone, start, end)
        assert found == sorted(set(found))


def test_the_model_holds_for_a_day_that_was_skipped() -> None:
    start, end = datetime(2011, 12, 29, tzinfo=UTC), datetime(2012, 1, 2, tzinfo=UTC)
    for cron in ("0 9 * * *", "*/10 * * * *", "0 */6 * * *"):
        found = walked(Cron(cron, "Pacific/Apia"), start, end)
        assert found == model(cron, "Pacific/Apia", start, end)


@settings(max_examples=200)
@given(
    st.sampled_from((*ZONES, "Pacific/Apia", "America/Sao_Paulo", "Asia/Tehran")),
    st.sampled_from(("30 2 * * *", "0 0 * * *", "*/7 * * * *", "59 23 31 * *", "*/20 * 2 * * *")),
    st.datetimes(datetime(1990, 1, 1), datetime(2037, 12, 31)),  # noqa: DTZ001 - it wants them so
)
def test_the_next_time_is_always_later(zone: str, cron: str, moment: datetime) -> None:
    times = Cron(cron, zone)
    at = moment.replace(tzinfo=UTC)
    for _ in range(5):
        following = times(at)
        assert following is not None
        assert following > at
        # Nothing lies between: from any moment before it, it is the next one.
        assert times(at + (following - at) / 2) == following
        assert times(following - timedelta(microseconds=1)) == following
        at = following


# -- what expressions may say ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("0 9 * * MON", "2026-01-05T09:00"),
        ("0 9 1 feb *", "2026-02-01T09:00"),
        ("@hourly", "2026-01-01T01:00"),
        ("@daily", "2026-01-02T00:00"),
        ("@weekly", "2026-01-04T00:00"),
        ("@monthly", "2026-02-01T00:00"),
        ("@yearly", "2027-01-01T00:00"),
        ("0 0 29 2 *", "2028-02-29T00:00"),
        ("0 0 13 * FRI", "2026-01-02T00:00"),
        ("0 0 L * *", "2026-01-31T00:00"),
        ("15 30 4 * * *", "2026-01-01T04:30:15"),
        (" 0  9 * * 7 ", "2026-01-04T09:00"),
    ],
)
def test_an_expression_says_when(cron: str, expected: str) -> None:
    found = Cron(cron)(datetime(2026, 1, 1, tzinfo=UTC))
    assert found == datetime.fromisoformat(expected).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "cron",
    [
        "0 0 30 2 *",
        "0 0 31 4,6 *",
        "61 * * * *",
        "* * * *",
        "* * * * * * *",
        "0 0 * * FOO",
        "@never",
        "a b c d e",
        "",
        "5-1 * * * *",
        "0 0 1 1 * ; drop",
        "0 " * 200,
    ],
)
def test_an_expression_that_cannot_be_is_refused(cron: str) -> None:
    with pytest.raises(InvalidArgument, match="cron"):
        Cron(cron)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "Europe", "../etc/passwd", "/etc/localtime", ""])
def test_a_zone_that_is_none_is_refused(zone: str) -> None:
    with pytest.raises(InvalidArgument, match="zone"):
        Cron("@daily", zone)


def test_there_is_no_time_after_the_last_year() -> None:
    assert Cron("@yearly")(datetime(9999, 6, 1, tzinfo=UTC)) is None
    assert Every(10 * 86_400)(datetime(9999, 12, 31, tzinfo=UTC)) is None


# -- intervals -------------------------------------------------------------------------------------


def test_an_interval_is_counted_from_its_anchor_and_never_drifts() -> None:
    anchor = datetime(2026, 1, 1, 0, 0, 7, tzinfo=UTC)
    times = Every(60, anchor)
    assert times(anchor + timedelta(seconds=90, microseconds=5)) == anchor + timedelta(minutes=2)
    assert times(anchor + timedelta(minutes=2)) == anchor + timedelta(minutes=3)
    assert times(anchor - timedelta(seconds=1)) == anchor
    late = anchor + timedelta(days=1000, seconds=59)
    assert times(late) == anchor + timedelta(days=1000, minutes=1)


def test_without_an_anchor_everybody_counts_from_the_same_moment() -> None:
    assert Every(3600)(datetime(2026, 5, 5, 10, 20, tzinfo=UTC)) == datetime(
        2026, 5, 5, 11, tzinfo=UTC
    )


@given(
    st.floats(1.0, 1e7),
    st.datetimes(datetime(1980, 1, 1), datetime(2100, 1, 1)),  # noqa: DTZ001 - as above
)
def test_an_interval_is_strictly_later_and_at_most_a_step_away(
    seconds: float, moment: datetime
) -> None:
    at = moment.replace(tzinfo=UTC)
    following = Every(seconds)(at)
    assert following is not None
    assert timedelta(0) < following - at <= timedelta(seconds=seconds)


@pytest.mark.parametrize("seconds", [0.0, 0.999, -5.0, float("nan"), float("inf"), 1e12])
def test_an_interval_that_cannot_be_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidArgument, match="every"):
        Every(seconds)


# -- functions -------------------------------------------------------------------------------------


def test_a_function_says_when_until_it_says_none() -> None:
    end = datetime(2026, 1, 3, tzinfo=UTC)

    def daily(after: datetime) -> datetime | None:
        return after + timedelta(days=1) if after < end else None

    times = next_time(Timing(kind=TimingKind.FUNCTION, function="daily"), {"daily": daily})
    assert (
        len(walked(times, datetime(2026, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC))) == 2
    )


@pytest.mark.parametrize(
    "returned",
    [
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2027, 1, 1),  # noqa: DTZ001 - without a zone, which is what is refused
        "tomorrow",
    ],
)
def test_a_function_that_returns_no_later_time_is_told(returned: object) -> None:
    times = Function("odd", lambda _: returned)  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidArgument, match="odd"):
        times(datetime(2026, 1, 1, tzinfo=UTC))


def test_a_function_that_is_not_here_is_named() -> None:
    with pytest.raises(InvalidArgument, match="quarter_end"):
        next_time(Timing(kind=TimingKind.FUNCTION, function="quarter_end"), {})

"""Periods of subscriptions: by the calendar, missed ones, and what cannot be meant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpath.economy import MalformedOperation
from offpath.economy.ledger.periods import ahead, calendar, checked, first
from offpath.economy.ledger.rows import SubscriptionBody
from offpath.model.ledger.faults import ChainBroken
from offpath.runtime.zones import zone_of

DAY = 86_400_000


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000)


def iso(at: int) -> str:
    return datetime.fromtimestamp(at / 1_000, UTC).isoformat(timespec="minutes")[:16]


def series(period: str | int, began: str, **terms: Any) -> SubscriptionBody:
    by = {"calendar": period, "period": 0} if isinstance(period, str) else {"period": period}
    blank = SubscriptionBody(seller="s", sku="k", price=1, number=1, paid_until=0, **by, **terms)
    return first(blank, ms(began), zone_of)


def ends(body: SubscriptionBody, count: int) -> list[str]:
    found = [iso(body.paid_until)]
    for _ in range(count - 1):
        body = ahead(body, body.paid_until, zone_of).body
        found.append(iso(body.paid_until))
    return found


def test_a_month_keeps_its_day_also_behind_a_shorter_one() -> None:
    began = series("P1M", "2027-12-31T10:00+00:00")
    assert ends(began, 4) == [
        "2028-01-31T10:00",
        "2028-02-29T10:00",
        "2028-03-31T10:00",
        "2028-04-30T10:00",
    ]


def test_a_day_is_a_day_of_the_zone_over_a_change_of_the_clocks() -> None:
    """23 hours in the night to the 29th of March 2026, when the clocks of Madrid go forward."""
    began = series("P1D", "2026-03-28T12:00+01:00", zone="Europe/Madrid")
    assert ends(began, 2) == ["2026-03-29T10:00", "2026-03-30T10:00"]


def test_a_time_that_the_zone_skips_is_the_one_after_and_comes_back() -> None:
    began = series("P1D", "2026-03-28T02:30+01:00", zone="Europe/Madrid")
    assert ends(began, 2) == ["2026-03-29T01:30", "2026-03-30T00:30"]


def test_weeks_months_and_years_are_counted() -> None:
    assert ends(series("P2W", "2026-01-01T00:00+00:00"), 2) == [
        "2026-01-15T00:00",
        "2026-01-29T00:00",
    ]
    assert ends(series("P3M", "2026-01-31T00:00+00:00"), 2) == [
        "2026-04-30T00:00",
        "2026-07-31T00:00",
    ]
    assert ends(series("P1Y", "2028-02-29T00:00+00:00"), 2) == [
        "2029-02-28T00:00",
        "2030-02-28T00:00",
    ]


@pytest.mark.parametrize(
    ("overdue", "until", "number"),
    [
        ("charge", "2026-03-01T00:00", 2),
        ("skip", "2026-06-01T00:00", 2),
        ("one", "2026-06-10T12:00", 2),
    ],
)
def test_missed_months_are_charged_skipped_or_begun_anew(
    overdue: str, until: str, number: int
) -> None:
    """Paid until February; the renewal comes in the middle of May."""
    body = series("P1M", "2026-01-01T00:00+00:00", overdue=overdue)
    made = ahead(body, ms("2026-05-10T12:00+00:00"), zone_of)
    assert (iso(made.until), made.body.number) == (until, number)


@pytest.mark.parametrize(
    ("overdue", "days"), [("charge", [2, 3, 4]), ("skip", [6, 7, 8]), ("one", [6.5, 7.5, 8.5])]
)
def test_missed_days_of_a_fixed_period(overdue: str, days: list[float]) -> None:
    body = series(DAY, "1970-01-01T00:00+00:00", overdue=overdue)
    now, found = round(5.5 * DAY), list[float]()
    for _ in days:
        made = ahead(body, now, zone_of)
        found.append(made.until / DAY)
        body, now = made.body, max(now, made.until if overdue != "charge" else now)
    assert found == days


@pytest.mark.parametrize("overdue", ["charge", "skip", "one"])
def test_a_sweep_that_is_a_little_late_moves_no_period(overdue: str) -> None:
    body = series("P1M", "2026-01-15T00:00+00:00", overdue=overdue)
    made = ahead(body, body.paid_until + 5_000, zone_of)
    assert iso(made.until) == "2026-03-15T00:00"


@given(
    began=st.integers(0, 4_000_000_000).map(lambda at: datetime.fromtimestamp(at, UTC)),
    text=st.sampled_from(["P1D", "P1W", "P1M", "P5M", "P1Y"]),
    zone=st.sampled_from(["UTC", "Europe/Madrid", "America/Santiago", "Asia/Kathmandu"]),
)
def test_ends_only_grow_and_the_day_never_drifts(began: datetime, text: str, zone: str) -> None:
    body = series(text, began.isoformat(), zone=zone)
    day, at = began.astimezone(zone_of(zone)).day, [ms(began.isoformat())]
    for _ in range(15):
        at.append(body.paid_until)
        body = ahead(body, body.paid_until, zone_of).body
    assert all(one < other for one, other in pairwise(at))
    if text in {"P1M", "P5M"}:
        local = [datetime.fromtimestamp(one / 1_000, zone_of(zone)) for one in at]
        assert all(one.day == day or one.day == _last(one) for one in local)


def _last(at: datetime) -> int:
    return ((at.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)).day


@pytest.mark.parametrize("text", ["", "P", "1M", "P0M", "PT1H", "P1M2D", "P121M", "P11Y", "P3661D"])
def test_what_no_period_can_be_is_refused(text: str) -> None:
    with pytest.raises(MalformedOperation, match="period"):
        calendar(text)


@pytest.mark.parametrize(
    ("terms", "told"),
    [
        (("P1M", "Mars/Base", None, "charge"), "no time zone"),
        ((5.0, "Europe/Madrid", None, "charge"), "zone is for a calendar"),
        (("P1M", "UTC", -1.0, "charge"), "grace"),
        (("P1M", "UTC", None, "forgive"), "overdue"),
    ],
)
def test_terms_that_cannot_be_meant_are_refused(terms: tuple[Any, ...], told: str) -> None:
    with pytest.raises(MalformedOperation, match=told):
        checked(*terms, zone_of=zone_of)


def test_a_row_whose_beginning_is_gone_charges_nothing() -> None:
    body = SubscriptionBody(
        seller="s", sku="k", price=1, period=0, number=1, paid_until=1, calendar="P1M"
    )
    with pytest.raises(ChainBroken, match="beginning"):
        ahead(body, 2, zone_of)

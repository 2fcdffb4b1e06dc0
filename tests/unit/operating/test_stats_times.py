"""Times of stats: what is asked for by `from`, `to` and `step`, and what no row tells."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import offpath
from offpath.errors import InvalidArgument
from offpath.model.stats import DAY, HOUR, KEPT, MINUTE, SECONDS, STEPS, StatRow, StatSpan, written
from offpath.operating.stats_times import StatTimes, stat_range
from offpath.runtime.clock import ManualClock
from tests.unit.web.dashboard.rig import Site, site_of

NOW = datetime(2026, 12, 1, 8, 0, 7, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("times", "since", "until", "step"),
    [
        # the running span is not told: it has not ended
        ({"since": ago(600)}, "07:50:00", "08:00:00", SECONDS),
        ({"since": ago(3_000)}, "07:10:00", "08:00:00", MINUTE),
        ({"since": ago(3_000), "step": HOUR}, "07:00:00", "08:00:00", HOUR),
        # a point that is begun is told whole
        ({"since": ago(605), "until": ago(596)}, "07:50:00", "07:50:20", SECONDS),
        ({"since": ago(600), "until": ago(590), "step": MINUTE}, "07:50:00", "07:51:00", MINUTE),
        # one that says little has the rest of what is kept
        ({"step": SECONDS}, "07:44:00", "08:00:00", SECONDS),
        ({"until": ago(HOUR)}, "06:00:00", "07:05:00", 300),
        ({"since": ago(60), "until": NOW + timedelta(days=9)}, "07:59:00", "08:00:00", SECONDS),
    ],
)
def test_a_range_is_said_by_its_times(times: Any, since: str, until: str, step: int) -> None:
    found = stat_range(None, StatTimes(**times), NOW)
    assert (f"{found.since:%H:%M:%S}", f"{found.until:%H:%M:%S}") == (since, until)
    assert (found.step, found.name) == (step, "")


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ({"since": ago(HOUR), "step": SECONDS}, "kept for 16 minutes: from must .* or step 60"),
        ({"since": ago(2 * DAY), "step": MINUTE}, "kept for 75 minutes: from must .* or step 3600"),
        ({"since": ago(60), "until": ago(60)}, "from must be a time before to"),
        ({"since": NOW + timedelta(days=1)}, "before now"),
        ({"since": ago(93 * DAY)}, "from is too long ago: stats are kept for 92 days"),
        ({"until": datetime.min.replace(tzinfo=UTC)}, "to is too long ago"),
    ],
)
def test_times_of_which_no_row_tells_are_refused(times: Any, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        stat_range(None, StatTimes(**times), NOW)


def test_a_range_has_a_name_or_times() -> None:
    with pytest.raises(InvalidArgument, match="range is one way"):
        stat_range("1h", StatTimes(since=ago(60)), NOW)


ZONES = st.timezones()


@given(
    since=st.none() | st.datetimes(timezones=ZONES),
    until=st.none() | st.datetimes(timezones=ZONES),
    step=st.none() | st.sampled_from(STEPS),
)
def test_any_times_are_told_in_few_points_or_refused(
    since: datetime | None, until: datetime | None, step: int | None
) -> None:
    try:
        found = stat_range(None, StatTimes(since=since, until=until, step=step), NOW)
    except InvalidArgument:
        return
    assert found.since <= found.until <= NOW
    assert (found.until - found.since).total_seconds() <= KEPT[found.step] + found.step


# -- by the API ------------------------------------------------------------------------------------


def _minutes(first: datetime, number: int) -> list[StatRow]:
    body = written(StatSpan(jobs={"succeeded": {"mail\nsend": 3}}))
    times = (first + timedelta(minutes=n) for n in range(number))
    return [StatRow(step=MINUTE, at=at, source="", body=body) for at in times]


async def _site(app: offpath.App) -> Site:
    await app.store().put_stats(_minutes(ago(1_807), 30))
    return site_of(app)


async def test_the_api_tells_the_points_between_two_times() -> None:
    async with offpath.App("memory://", clock=ManualClock(NOW), auto_start=False) as app:
        site = await _site(app)
        asked = "from=2026-12-01T07:40:00Z&to=2026-12-01T07:50:00Z&step=60&queue=mail"
        told = (await site.get(f"/api/v1/stats?{asked}")).document
        assert (told["range"], told["step"]) == ("", 60)
        assert [told["since"], told["until"]] == ["2026-12-01T07:40:00Z", "2026-12-01T07:50:00Z"]
        assert [one["ended"] for one in told["points"]] == [3] * 10
        wide = (await site.get("/api/v1/stats?from=2h&step=3600")).document
        assert [(one["at"], one["ended"]) for one in wide["points"]] == [
            ("2026-12-01T06:00:00Z", None),
            ("2026-12-01T07:00:00Z", 90),
        ]
        page = await site.get(f"/stats?{asked}")
        assert page.code == 200
        assert 'href="?queue=mail&amp;range=6h"' in page.text, "a range takes the times' place"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("step=7", "10, 60, 300, 900, 3600, 86400 seconds"),
        ("step=1e1", "10, 60, 300, 900, 3600, 86400 seconds"),
        ("step=-60", "10, 60, 300, 900, 3600, 86400 seconds"),
        ("from=yesterday", "from is a time"),
        ("to=2026-13-01", "to is a time"),
        ("from=1h&range=1h", "range is one way"),
        ("from=0001-01-01T00:00%2B14:00", "from is too long ago"),
        ("from=1h&until=2m", "there is no filter until"),
    ],
)
async def test_wrong_times_are_refused_with_what_there_is(query: str, said: str) -> None:
    async with offpath.App("memory://", clock=ManualClock(NOW), auto_start=False) as app:
        answer = await (await _site(app)).get(f"/api/v1/stats?{query}")
        assert (answer.code, answer.headers["content-type"]) == (400, "application/problem+json")
        told = answer.document
        assert (told["code"], told["retryable"]) == ("INVALID_ARGUMENT", False)
        assert said.casefold() in told["detail"].casefold()


async def test_the_steps_are_in_the_description() -> None:
    async with offpath.App("memory://", auto_start=False) as app:
        told = (await site_of(app).get("/api/v1/openapi.json")).document
    fields = {one["name"]: one["schema"] for one in told["paths"]["/stats"]["get"]["parameters"]}
    assert fields["step"] == {"type": "integer", "enum": list(STEPS)}
    assert fields["from"] == fields["to"]
    assert {"type": "string", "format": "date-time"} in fields["from"]["anyOf"]

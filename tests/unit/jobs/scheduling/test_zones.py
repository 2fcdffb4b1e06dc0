"""T2-6: which zones there are is the same on every machine, and an unknown one stops no other."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator
from datetime import datetime

import pytest
from msgspec.structs import replace

from offpath.errors import InvalidArgument
from offpath.model.tally import Verdict
from offpath.runtime.zones import zone_of
from tests.unit.jobs.scheduling.scheduled import HOUR, Rig


@pytest.fixture(params=["with", "without"])
def system_zones(request: pytest.FixtureRequest) -> Iterator[str]:
    """The machine's own zone files, or a slim image that has none."""
    zone_of.cache_clear()
    zoneinfo.ZoneInfo.clear_cache()
    if request.param == "without":
        zoneinfo.reset_tzpath(to=())
    yield str(request.param)
    zoneinfo.reset_tzpath()
    zoneinfo.ZoneInfo.clear_cache()
    zone_of.cache_clear()


@pytest.mark.parametrize(
    ("name", "hours"),
    [
        ("Europe/Berlin", 1),
        ("Europe/Kiev", 2),
        ("Europe/Kyiv", 2),
        ("Asia/Calcutta", 5.5),
        ("Asia/Kolkata", 5.5),
        ("US/Pacific", -8),
        ("UTC", 0),
        ("Etc/GMT+5", -5),
    ],
)
@pytest.mark.usefixtures("system_zones")
def test_names_and_older_names_work_in_every_image(name: str, hours: float) -> None:
    offset = datetime(2026, 1, 15, tzinfo=zone_of(name)).utcoffset()
    assert offset is not None
    assert offset.total_seconds() == hours * HOUR


@pytest.mark.parametrize(
    "name",
    [
        *("europe/berlin", "EUROPE/BERLIN", "utc "),
        *("/etc/localtime", "../Europe/Berlin", "/usr/share/zoneinfo/Europe/Berlin"),
        *("Europe", "America/Argentina", "posix/Europe/Berlin", "right/Europe/Berlin"),
        *("localtime", "posixrules", "tzdata.zi", "zone.tab", "Mars/Olympus"),
        *("", " ", "Europe/Berlin\n", "Europe/Berlin\x00", "x" * 300),
    ],
)
@pytest.mark.usefixtures("system_zones")
def test_all_else_is_one_clear_error_where_it_is_defined(rig: Rig, name: str) -> None:
    with pytest.raises(InvalidArgument, match="zone"):
        rig.schedules.define("nightly", rig.report.job(), cron="0 3 * * *", zone=name)


async def test_a_row_whose_zone_is_unknown_here_is_named_and_others_fire(rig: Rig) -> None:
    """Another release, or a hand, has put it into the store."""
    rig.schedules.define("good", rig.report.job("good"), every=HOUR)
    rig.schedules.define("bad", rig.report.job("bad"), cron="0 * * * *", zone="Europe/Berlin")
    await rig.tick()
    (bad,) = await rig.store.schedules(["bad"])
    timing = replace(bad.schedule.timing, zone="Mars/Olympus")
    await rig.store.put_schedule(
        replace(bad.schedule, timing=timing, origin="api"), next_at=bad.next_at
    )
    rig.clock.advance(HOUR)
    turn = await rig.ticker.step()
    assert turn.verdict is Verdict.DEGRADED
    assert turn.cause is not None
    assert "bad (invalid_argument)" in turn.cause
    assert turn.counts["fired"] == 1
    await rig.run()
    assert [of for of, _ in rig.ran] == ["good"]

"""All that a killed worker held beside jobs is free once its death is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import offpath
from tests.integration.polling import eventually

if TYPE_CHECKING:
    from tests.integration.fleet import Fleet

TARGET = "tests.integration.held_service:app"
WITHIN = 15.0
"""Seconds from the kill; the leases are 60 and more."""


@pytest.mark.timeout(120)
async def test_all_that_a_killed_worker_held_is_taken_within_seconds(
    app: offpath.App, fleet: Fleet, url: str
) -> None:
    keys = [f"k{number}" for number in range(8)]
    expected = {"sweep"}
    async with offpath.App(url, auto_start=False) as own:
        router = own.router("held", domain="held", start="beginning")
        router.route(name="all", enabled=True, dry_run=False)
        await own.routers.open_gate()
        await router.open_gate()
        for key in keys:
            await own.log.append("held", "t", "s", key=key)
        await own.publish("t", 1, stream="out")
        await own.accept("bank", "m")
    expected |= {"outbox-1", "inbox-m"}
    expected |= {f"log-{key}" for key in keys}
    first = await fleet.up(app, target=TARGET, test_hangs=1)
    await eventually(
        lambda: expected <= {one.job for one in fleet.journal.all("held")},
        within=30,
        what="all is in the hand of the first worker",
    )
    second = await fleet.up(app, target=TARGET)
    first.kill()

    def left() -> set[str]:
        return expected - {one.job for one in fleet.journal.all("held") if one.pid == second.pid}

    try:
        await eventually(lambda: not left(), within=WITHIN)
    except AssertionError:
        raise AssertionError(f"{left()} is not taken") from None
    assert not left()

"""A run says when somebody else has a part of what it was to go through."""

from __future__ import annotations

import pytest

from offpath import App
from offpath.events.deliveries import RoutedEvent
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store

pytestmark = pytest.mark.needs("log")


async def test_a_run_is_busy_also_when_only_some_partitions_are_held(
    store: Store, clock: ManualClock
) -> None:
    app = App(store=store, clock=clock, auto_start=False)
    router = app.router("iu", domain="iu", start="beginning", partitions=4)
    got: list[int] = []

    @router.route(type="paid", name="paid", enabled=True, dry_run=False)
    async def paid(event: RoutedEvent) -> None:
        got.append(event.payload)

    async with app:
        await router.run_once()
        await app.routers.open_gate()
        await router.open_gate()
        for number in range(32):
            await app.log.append("iu", "paid", "s", number, key=str(number))
        held = await store.lease_cursor("iu", 2, "another", lease_seconds=30)
        assert held is not None
        run = await router.run_once()
        assert (run.stopped, run.busy) == ("busy", (2,))
        assert 0 < run.passed == len(got) < 32
        again = await router.run_once()
        assert (again.stopped, again.busy, again.passed) == ("busy", (2,), 0)
        await store.release_cursor(held)
        rest = await router.run_once()
        assert (rest.stopped, rest.busy) == (None, ())
        assert sorted(got) == list(range(32))

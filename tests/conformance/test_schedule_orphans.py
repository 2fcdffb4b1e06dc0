"""T2-5: a schedule that outlived the code that can run its jobs is named, and piles up nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from offpath import App, RetryOptions
from offpath.health.fleet import FleetHealth, examine
from offpath.health.thresholds import Thresholds
from offpath.operating.checkup import look
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Level, Store

DAY = 86_400.0


@pytest.fixture
async def app(store: Store, clock: ManualClock) -> AsyncIterator[App]:
    """The service after a deploy: the task of yesterday's schedule has another name now."""
    made = App(store=store, clock=clock, auto_start=False)

    @made.task(name="reports.nightly")
    async def nightly() -> None: ...

    async with made:
        yield made


async def fleet(app: App) -> FleetHealth:
    store = app.store()
    return await examine(store, Thresholds(store, app.settings))


async def yesterday(app: App, task: str) -> None:
    """The schedule that the release before has left in the store."""
    before = App(store=app.store(), clock=app.clock, auto_start=False)

    @before.task(name=task)
    async def old() -> None: ...

    await before.schedules.create("nightly", old.job(), every=timedelta(hours=1))


async def test_a_schedule_whose_task_nobody_has_is_named(app: App, clock: ManualClock) -> None:
    await yesterday(app, "nightly")
    assert not any("schedule" in one for one in (await fleet(app)).warnings), "nobody lives"
    async with app.worker():
        (named,) = (one for one in (await fleet(app)).warnings if "schedule" in one)
        assert named.startswith("schedule nightly makes jobs of task nightly, which no live worker")
        found = {one.name: one for one in await look(app)}
        assert (found["schedules"].level, found["schedules"].message) == (Level.WARNING, named)
        await app.schedules.pause("nightly")
        assert not any("schedule" in one for one in (await fleet(app)).warnings)


async def test_one_whose_task_is_known_is_not(app: App) -> None:
    await yesterday(app, "reports.nightly")
    async with app.worker():
        assert not any("schedule" in one for one in (await fleet(app)).warnings)
        found = {one.name: one for one in await look(app)}
    assert found["schedules"].level is Level.FINE


async def test_its_jobs_are_told_as_waiting_and_never_pile_up_in_silence(
    app: App, clock: ManualClock
) -> None:
    await yesterday(app, "nightly")
    for _ in range(24):
        clock.advance(3_600)
        await app.worker().run_once(only="schedules")
    reasons = (await fleet(app)).reasons
    assert any(one.startswith("the oldest due job of queue default has waited") for one in reasons)
    takers = {one.name: one for one in await look(app)}["takers"]
    assert (takers.level, "of nightly in queue default" in takers.message) == (Level.PROBLEM, True)


async def test_a_new_argument_makes_its_jobs_dead_with_the_reason(
    store: Store, clock: ManualClock
) -> None:
    app = App(store=store, clock=clock, auto_start=False)

    @app.task(name="nightly", retry=RetryOptions(attempts=1))
    async def nightly(day: str) -> None: ...

    async with app:
        await yesterday(app, "nightly")
        clock.advance(3_601)
        await app.worker().run_once(only="schedules")
        await app.worker().run_until_idle()
        (job,) = (await app.jobs.find()).items
        assert (job.state, job.reason) == ("dead", "bad_input")
        warnings = (await fleet(app)).warnings
        assert any("1 new dead letter of task nightly" in one for one in warnings)

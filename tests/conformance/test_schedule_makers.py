"""Schedules whose jobs are made by a function of the occurrence's time."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

import pytest

from offpath import App, InvalidArgument, Job
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store

START = datetime(2026, 3, 28, 12, tzinfo=UTC)


def service(store: Store, clock: ManualClock, ran: list[str]) -> App:
    app = App(store=store, clock=clock, auto_start=False)

    @app.task
    async def report(day: str) -> None:
        ran.append(day)

    return app


def daily(app: App) -> Any:
    return lambda at: app.tasks["report"].job(f"{at:%Y-%m-%d %H:%M}")


async def test_each_occurrence_has_a_job_of_its_own_time(store: Store, clock: ManualClock) -> None:
    """In the zone of the expression, also over a change of the clocks."""
    clock.set(START)
    ran: list[str] = []
    app = service(store, clock, ran)
    made = app.schedule("nightly", daily(app), cron="30 0 * * *", zone="Europe/Madrid")
    assert made.timing.maker == "nightly"
    async with app:
        await app.worker().run_until_idle()
        for _ in range(3):
            clock.advance(86_400)
            await app.worker().run_until_idle()
        assert ran == ["2026-03-29 00:30", "2026-03-30 00:30", "2026-03-31 00:30"]
        (record,) = await app.schedules.list()
        assert record.schedule == made
        job = await app.jobs.get(await app.schedules.trigger("nightly"))
        assert job.tags == ("schedule:nightly",)
        await app.worker().run_until_idle()
        assert ran[-1].startswith("2026-03-31 14:00")


async def test_a_worker_without_the_function_names_the_schedule_and_fires_the_others(
    store: Store, clock: ManualClock
) -> None:
    clock.set(START)
    ran: list[str] = []
    first, second = service(store, clock, ran), service(store, clock, ran)
    first.schedule("made", daily(first), every=3_600)
    async with first:
        await first.worker().run_until_idle()
    second.schedule("plain", second.tasks["report"].job("plain"), every=3_600)
    clock.advance(3_600)
    async with second:
        tally = await second.schedules.ticker(clock, lambda *_: None, store).sweep(10)
        assert tally.reasons == {"made": "invalid_argument"}
        clock.advance(3_600)
        await second.worker().run_until_idle()
    assert ran == ["plain"]


async def test_a_fixed_job_takes_its_place(store: Store, clock: ManualClock) -> None:
    clock.set(START)
    ran: list[str] = []
    app = service(store, clock, ran)
    app.schedule("made", daily(app), every=3_600)
    async with app:
        await app.worker().run_until_idle()
        kept = await app.schedules.change("made", every=1_800)
        assert kept.schedule.timing.maker == "made"
        fixed = await app.schedules.change("made", app.tasks["report"].job("fixed"))
        assert fixed.schedule.timing.maker is None


async def test_a_function_that_depends_on_something_else_is_refused(
    store: Store, clock: ManualClock
) -> None:
    app = service(store, clock, [])
    numbers = itertools.count()
    with pytest.raises(InvalidArgument, match="depend on the time"):
        app.schedule("odd", lambda _: app.tasks["report"].job(str(next(numbers))), every=60)
    with pytest.raises(InvalidArgument, match="needs an unsent job"):
        app.schedule("odd", lambda _: "no job", every=60)  # type: ignore[arg-type, return-value]
    assert "odd" not in app.schedules.makers

    def raises(at: datetime) -> Job[Any, Any]:
        raise ValueError(at)

    with pytest.raises(ValueError, match="1970"):
        app.schedule("odd", raises, every=60)


async def test_one_of_run_time_is_a_job(store: Store, clock: ManualClock) -> None:
    app = service(store, clock, [])
    async with app:
        with pytest.raises(InvalidArgument, match="needs an unsent job"):
            await app.schedules.create("x", daily(app), every=60)

"""Schedules in workers: started ones, workers by hand, and the sweep."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from offpath import App, Context, InvalidArgument
from offpath.runtime.clock import ManualClock
from offpath.sweeps import Verdict

START = datetime(2026, 3, 2, tzinfo=UTC)
HOUR = 3600.0


class Service:
    """An app with a task that notes what it was made for."""

    def __init__(self) -> None:
        self.clock = ManualClock(START)
        self.app = App(auto_start=False, clock=self.clock)
        self.ran: list[datetime | None] = []

        @self.app.task(retry=3)
        async def report(ctx: Context, *, fails: int = 0) -> None:
            if ctx.attempt <= fails:
                raise ConnectionError
            self.ran.append(ctx.scheduled_for)

        self.report = report


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    made = Service()
    async with made.app:
        yield made


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(10):
        while not await true():  # noqa: ASYNC110 - many things lead to it, none tells
            await asyncio.sleep(0)


async def test_two_started_workers_live_a_week(service: Service) -> None:
    app, clock = service.app, service.clock
    app.schedule("nightly", service.report.job(), cron="0 3 * * *")
    day = 86_400.0  # of lease: a clock that is moved by hours must not look like a hang

    async with app.worker(lease_seconds=day), app.worker(lease_seconds=day):
        for hour in range(0, 7 * 24, 3):
            nights = (hour + 21) // 24  # three in the morning comes after 0, 24, 48 hours

            async def seen(nights: int = nights) -> bool:
                put = await app.schedules.list()
                return bool(put) and len(service.ran) == nights

            await until(seen)
            clock.advance(3 * HOUR)
            for _ in range(50):
                await asyncio.sleep(0)  # heartbeats
    assert service.ran == [START + timedelta(days=n, hours=3) for n in range(7)]
    history = await app.schedules.history("nightly")
    assert [one.outcome.value for one in history] == ["fired"] * 7


async def test_a_worker_by_hand_fires_and_runs_what_is_due(service: Service) -> None:
    service.app.schedule("hourly", service.report.job(), every=HOUR)
    await service.app.worker().run_until_idle()
    for _ in range(24):
        service.clock.advance(HOUR)
        await service.app.worker().run_until_idle()
    assert service.ran == [START + timedelta(hours=n) for n in range(1, 25)]


async def test_the_nominal_time_is_the_same_at_every_attempt(service: Service) -> None:
    service.app.schedule("hourly", service.report.job(fails=2), every=HOUR)
    await service.app.worker().run_until_idle()
    for _ in range(9):
        service.clock.advance(HOUR / 10 + 37)
        await service.app.worker().run_until_idle()
    for _ in range(3):
        service.clock.advance(120)
        await service.app.worker().run_until_idle()
    assert service.ran[:1] == [START + timedelta(hours=1)]


async def test_a_job_that_no_schedule_made_has_no_such_time(service: Service) -> None:
    await service.report.enqueue()
    await service.app.worker().run_until_idle()
    assert service.ran == [None]


async def test_a_pass_of_the_sweep_fires_what_is_due(service: Service) -> None:
    app = service.app
    app.schedule("hourly", service.report.job(), every=HOUR)
    worker = app.worker()
    assert (await worker.run_once(only="schedules")).verdict is Verdict.EMPTY
    service.clock.advance(HOUR)
    run = await worker.run_once(only="schedules")
    assert run["schedules"].tally.buckets == {"fired": ("hourly",)}
    assert [one.task for one in (await app.jobs.find()).items] == ["report"]


async def test_a_worker_tells_of_its_loop(service: Service) -> None:
    async with service.app.worker() as worker:

        async def seen() -> bool:
            return any(one.name == "schedules" and one.iterations for one in worker.loops())

        await until(seen)


async def test_a_next_time_function_is_registered_by_its_name(service: Service) -> None:
    @service.app.next_time
    def tomorrow(after: datetime) -> datetime:
        return after + timedelta(days=1)

    service.app.schedule("t", service.report.job(), when="tomorrow")
    await service.app.worker().run_until_idle()
    found = await service.app.schedules.next("t", count=2)
    assert found == [START + timedelta(days=1), START + timedelta(days=2)]
    with pytest.raises(InvalidArgument, match="next-time function"):
        service.app.schedule("u", service.report.job(), when="yesterday")

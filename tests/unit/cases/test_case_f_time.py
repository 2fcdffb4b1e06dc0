"""F3, F5, F6: the store's clock decides, times have a zone, a deadline is not started anew."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from offpath import App, InvalidArgument, Snooze
from offpath.runtime.clock import ManualClock
from offpath.store.memory import MemoryStore

NAIVE = datetime(2026, 1, 1, 12)  # noqa: DTZ001 - what is to be refused
KOLKATA = timezone(timedelta(hours=5, minutes=30))


@pytest.fixture(params=["UTC", "Asia/Kolkata"])
def _zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_zone")
async def test_f5_a_time_without_zone_is_refused_everywhere() -> None:
    app = App(auto_start=False)

    @app.task
    async def work() -> None: ...

    async with app:
        given: list[dict[str, Any]] = [
            {name: NAIVE}
            for name in ("enqueued_after", "enqueued_before", "finished_after", "finished_before")
        ]
        for where in given:
            for verb in (app.jobs.find, app.jobs.count, app.jobs.cancel, app.jobs.delete):
                with pytest.raises(InvalidArgument, match="time zone"):
                    await verb(**where)
            with pytest.raises(InvalidArgument, match="time zone"):
                await app.dead.redrive(**where)
        for options in ({"run_at": NAIVE}, {"deadline": NAIVE}):
            with pytest.raises(InvalidArgument, match="time zone"):
                work.options(**options)  # type: ignore[arg-type]


@pytest.mark.usefixtures("_zone")
async def test_f5_a_naive_snooze_fails_the_attempt_and_says_why() -> None:
    app = App(auto_start=False)

    @app.task(retry=1)
    async def work() -> None:
        raise Snooze(until=NAIVE)

    async with app:
        handle = await work.enqueue()
        await app.worker().run_until_idle()
        failure = (await handle.status()).failure
    assert failure is not None
    assert "aware datetime" in failure.message


@pytest.mark.usefixtures("_zone")
async def test_f5_one_moment_in_two_zones_is_one_time() -> None:
    clock = ManualClock()
    app = App(auto_start=False, clock=clock)

    @app.task
    async def work() -> None: ...

    moment = clock.now() + timedelta(hours=1)
    async with app:
        for zone in (UTC, KOLKATA):
            job = work.options(run_at=moment.astimezone(zone)).job()
            record = await (await app.enqueue(job)).status()
            assert (record.run_at, record.run_at.utcoffset()) == (moment, timedelta(0))


@pytest.mark.parametrize("minutes", [5, -5])
async def test_f3_a_workers_wrong_clock_moves_no_due_time(minutes: int) -> None:
    true = ManualClock()
    wrong = ManualClock(true.now() + timedelta(minutes=minutes))
    store = MemoryStore(true)
    app = App(store=store, auto_start=False, clock=wrong)

    @app.task
    async def work() -> str:
        return "done"

    async with app:
        handle = await work.options(delay=60).enqueue()
        true.advance(59)
        wrong.advance(59)
        assert (await app.worker().run_until_idle()).succeeded == 0
        true.advance(1)
        wrong.advance(1)
        assert (await app.worker().run_until_idle()).succeeded == 1
        record = await handle.status()
    assert record.finished_at == true.now()
    assert record.deliveries == 1


async def test_f6_a_deadline_goes_on_while_nobody_works() -> None:
    """60 s to live, the next worker comes after 70 s; a redrive starts it anew, as documented."""
    clock = ManualClock()
    store = MemoryStore(clock)
    app = App(store=store, auto_start=False, clock=clock)
    runs: list[int] = []

    @app.task(deadline=60)
    async def work() -> None:
        runs.append(1)

    async with app:
        handle = await work.enqueue()
        first = (await handle.status()).deadline
        assert first == clock.now() + timedelta(seconds=60)
        clock.advance(70)
        await app.worker().run_until_idle()
        record = await handle.status()
        assert (record.state, record.reason, record.deadline) == ("dead", "deadline", first)
        assert runs == []
        await app.jobs.redrive(handle.id)
        assert (await handle.status()).deadline == clock.now() + timedelta(seconds=60)
        await app.worker().run_until_idle()
    assert runs == [1]

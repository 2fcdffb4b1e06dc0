"""The seats of user code: what raised nothing need not have run, and nothing ends the worker."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

import offpath
from offpath.errors import DrainFailed, RelayFailed, TaskError
from offpath.events.inbox import InboxMessage
from offpath.model.job import JobState
from offpath.runtime.clock import ManualClock
from offpath.runtime.seats import check_seat, seated
from offpath.store.memory import MemoryStore
from tests.unit.jobs.worker.rig import Rig


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def app(clock: ManualClock) -> AsyncIterator[offpath.App]:
    store = MemoryStore(clock)
    async with offpath.App(store=store, clock=clock, auto_start=False) as app:
        yield app


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    yield rig
    await rig.close()


async def inner(*_: object) -> None:
    raise AssertionError("it must not count as run unless this is seen")


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator as many are: it forgets to await."""

    async def outer(message: InboxMessage) -> Any:
        return function(message)

    return outer


def usage(*_: object) -> None:
    """The exit of a library's ``parse_args`` at an option that it does not know."""
    argparse.ArgumentParser(exit_on_error=True).parse_args(["--nope"])


def closing(*_: object) -> None:
    raise GeneratorExit


async def test_an_inbox_handler_whose_coroutine_nobody_awaits_has_failed(app: offpath.App) -> None:
    app.inbox("bank")(logged(inner))
    taken = await app.accept("bank", "k", 1)
    with pytest.raises(DrainFailed):
        await app.drain("bank").run_once()
    failure = (await app.messages.get(taken.id)).failure
    assert failure is not None
    assert failure.type == "TaskError"
    assert "a coroutine nobody awaited" in failure.message


async def test_a_dispatcher_whose_coroutine_nobody_awaits_has_failed(app: offpath.App) -> None:
    app.outbox(dispatcher=logged(inner))
    event = await app.publish("t", 1)
    with pytest.raises(RelayFailed):
        await app.relay().run_once()
    failure = (await app.messages.get(event)).failure
    assert failure is not None
    assert "a coroutine nobody awaited" in failure.message


@pytest.mark.parametrize("plain", [usage, closing])
async def test_a_plain_dispatcher_that_ends_processes_fails_counted_attempts(
    app: offpath.App, clock: ManualClock, plain: Callable[..., None]
) -> None:
    app.outbox(dispatcher=plain, attempts=3)
    event = await app.publish("t", 1)
    for attempt in (1, 2, 3):
        with pytest.raises(RelayFailed):
            await app.relay().run_once()
        failure = (await app.messages.get(event)).failure
        assert failure is not None
        assert failure.attempt == attempt
        clock.advance(3_600)
    assert (await app.messages.get(event)).state == "dead"


@pytest.mark.parametrize("plain", [usage, closing])
async def test_a_seat_contains_what_would_end_the_process(plain: Callable[..., None]) -> None:
    async def coloured(*args: object) -> None:
        plain(*args)

    for function in (plain, coloured):
        with pytest.raises(Exception, match=r"SystemExit|GeneratorExit") as raised:
            await seated(function, 1)
        assert isinstance(raised.value, Exception)


async def test_a_seat_lets_a_cancellation_through() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await seated(cancelled)


async def test_a_plain_handler_that_raises_generator_exit_fails_counted_attempts(rig: Rig) -> None:
    rig.task(closing, name="closing")
    job = await rig.enqueue("closing", "[1]")
    await rig.run()
    record = await rig.record(job)
    assert record.attempt + (record.state is JobState.DEAD) >= 2
    assert len(record.failures) >= 1


def left_over(event: object) -> Iterator[None]:
    yield None


class Sender:
    """A dispatcher object with a left-over yield."""

    def dispatch(self, event: object) -> Iterator[None]:
        yield None


async def left_over_async(event: InboxMessage) -> AsyncIterator[None]:
    yield None


def test_generators_are_refused_where_they_are_defined(app: offpath.App) -> None:
    for dispatcher in (left_over, left_over_async, Sender()):
        with pytest.raises(TaskError, match="drop the yield"):
            app.outbox("s", dispatcher=dispatcher)  # type: ignore[type-var]
    with pytest.raises(TaskError, match="drop the yield"):
        app.inbox("bank")(left_over_async)
    with pytest.raises(TaskError, match="drop the yield"):
        check_seat(left_over, "deliver")


@pytest.mark.parametrize("raises", [SystemExit(2), KeyboardInterrupt(), GeneratorExit()])
async def test_what_a_hook_raises_does_not_leave_through_enqueue(raises: BaseException) -> None:
    def hook(event: offpath.JobEvent) -> None:
        raise raises

    seen: list[tuple[BaseException, str]] = []
    app = offpath.App("memory://", on_event=hook, on_error=lambda *args: seen.append(args))

    @app.task
    async def work() -> None:
        return None

    async with app:
        await app.enqueue(work.job())
    assert {phase for _, phase in seen} == {"hook"}
    assert type(raises).__name__ in str(seen[0][0])


async def test_a_snooze_is_a_bucket_of_its_own_and_no_failure(
    app: offpath.App, clock: ManualClock
) -> None:
    def later(event: object) -> None:
        raise offpath.Snooze(30)

    app.outbox(dispatcher=later)
    ids = [await app.publish("t", number) for number in range(3)]
    tally = await app.relay().run_once()
    assert sorted(tally.buckets["snoozed"]) == sorted(ids)
    assert list(tally.buckets) == ["snoozed"]
    assert tally.failures == 0
    assert (await app.relay().run_once()).total == 0, "they wait as they were told"


async def test_a_snooze_until_a_time_that_has_passed_waits_a_second_at_least(rig: Rig) -> None:
    runs: list[float] = []

    async def polls() -> None:
        runs.append(rig.clock.monotonic())
        raise offpath.Snooze(until=datetime(2020, 1, 1, tzinfo=UTC))

    rig.task(polls)
    await rig.enqueue("polls")
    await rig.started()
    await rig.pass_time(200, step=0.5)
    assert 100 < len(runs) < 215
    assert all(later - sooner >= 1.0 for sooner, later in pairwise(runs[11:]))
    assert "snooze" in rig.phases(), "told after a hundred"


@pytest.mark.parametrize("verb", ["outbox", "inbox"])
def test_a_decorator_without_parentheses_is_refused_and_not_silently_nothing(verb: str) -> None:
    app: Any = offpath.App(auto_start=False)

    async def handler(message: object) -> None: ...

    with pytest.raises(offpath.InvalidArgument, match=rf"@app\.{verb} needs parentheses"):
        getattr(app, verb)(handler)

"""Extensions: entered where the handler runs, told of its end, and never the cost of a job."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import pytest

import offpath
from offpath.batch_tasks import BatchContext
from offpath.errors import InvalidArgument
from offpath.extensions import Ended, Extension, Running
from offpath.jobs.values.run import Run
from offpath.runtime import seats
from offpath.runtime.clock import ManualClock
from offpath.runtime.extensions import Extensions
from offpath.testing import drain

SEEN: ContextVar[str] = ContextVar("SEEN", default="nothing")


class Journal(Extension):
    """Notes what it is called with."""

    def __init__(self, name: str = "a", notes: list[Any] | None = None) -> None:
        self.name = name
        self.notes: list[Any] = [] if notes is None else notes
        self.ends: list[Ended] = []
        self.threads: list[str] = []

    @contextmanager
    def running(self, run: Running, /) -> Iterator[None]:
        self.notes.append(f"{self.name} in {run.task}")
        self.threads.append(threading.current_thread().name)
        run.state[self] = "kept"
        token = SEEN.set(self.name)
        try:
            yield
        except BaseException as error:
            self.notes.append(f"{self.name} saw {type(error).__name__}")
            raise
        finally:
            SEEN.reset(token)
            self.notes.append(f"{self.name} out")

    def ended(self, run: Running, end: Ended, /) -> None:
        assert run.state[self] == "kept"
        self.ends.append(end)


def made(*extensions: Extension, **settings: Any) -> offpath.App:
    return offpath.App(extensions=extensions, auto_start=False, clock=ManualClock(), **settings)


async def test_an_extension_is_entered_in_the_task_of_an_async_handler() -> None:
    journal, seen = Journal(), []

    async def look() -> None:
        seen.append(SEEN.get())

    async with made(journal) as app:
        await app.task(look).enqueue()
        await drain(app)
    assert seen == ["a"]
    assert journal.notes == ["a in look", "a out"]
    assert [end.verdict for end in journal.ends] == ["succeeded"]
    assert journal.ends[0].error is None


async def test_an_extension_is_entered_in_the_thread_of_a_sync_handler() -> None:
    journal, seen = Journal(), []

    def look() -> None:
        seen.append((SEEN.get(), threading.current_thread().name))

    async with made(journal) as app:
        await app.task(look).enqueue()
        await drain(app)
    assert seen == [("a", journal.threads[0])]
    assert journal.threads[0].startswith("offpath-handler")


async def test_one_call_of_a_batch_is_one_running_with_all_its_jobs_and_an_end_for_each() -> None:
    journal, runs = Journal(), []

    class Also(Extension):
        def running(self, run: Running, /) -> Any:
            runs.append(run)
            return super().running(run)

    async def double(items: list[int]) -> list[int | Exception]:
        return [ValueError("odd") if one % 2 else one * 2 for one in items]

    async with made(journal, Also()) as app:
        task = app.batch_task(size=5, retry=1)(double)
        handles = [await task.enqueue(number) for number in range(3)]
        await drain(app)
    assert [[job.id for job in run.jobs] for run in runs] == [[one.id for one in handles]]
    ends = {end.job.id: (end.verdict, type(end.error).__name__) for end in journal.ends}
    assert ends == {
        handles[0].id: ("succeeded", "NoneType"),
        handles[1].id: ("dead", "ValueError"),
        handles[2].id: ("succeeded", "NoneType"),
    }


async def test_extensions_are_entered_in_their_order_and_left_in_reverse() -> None:
    notes: list[Any] = []

    async def work() -> None:
        notes.append("work")

    async with made(Journal("a", notes), Journal("b", notes)) as app:
        await app.task(work).enqueue()
        await drain(app)
    assert notes == ["a in work", "b in work", "work", "b out", "a out"]


async def _fails() -> None:
    raise ConnectionError("refused")


async def _gives_up() -> None:
    raise offpath.Abort("no use")


async def _snoozes() -> None:
    raise offpath.Snooze(60)


@pytest.mark.parametrize(
    ("handler", "verdict", "error", "retry_in"),
    [
        (_fails, "retry", ConnectionError, 7.0),
        (_gives_up, "dead", offpath.Abort, None),
        (_snoozes, "snoozed", offpath.Snooze, 60.0),
    ],
)
async def test_the_end_tells_the_verdict_the_error_and_when_it_runs_again(
    handler: Any, verdict: str, error: type[Exception], retry_in: float | None
) -> None:
    journal = Journal()
    retry = offpath.RetryOptions(attempts=2, base=7, jitter=0)
    async with made(journal, retry=retry) as app:
        await app.task(handler).enqueue()
        await drain(app)
    (end,) = journal.ends
    assert (end.verdict, type(end.error), end.retry_in) == (verdict, error, retry_in)
    assert f"a saw {error.__name__}" in journal.notes


class Broken(Extension):
    """Fails at each point, in the way that it was told."""

    def __init__(self, at: str) -> None:
        self.at = at

    @contextmanager
    def running(self, run: Running, /) -> Iterator[None]:
        if self.at == "enter":
            raise ValueError("a secret: hunter2")
        yield
        if self.at == "leave":
            raise ValueError("a secret: hunter2")

    def ended(self, run: Running, end: Ended, /) -> None:
        if self.at == "ended":
            raise SystemExit(3)

    def moved(self, event: offpath.JobEvent, /) -> None:
        if self.at == "moved":
            raise ValueError("a secret: hunter2")

    def opened(self, app: offpath.App) -> None:
        if self.at == "opened":
            raise ValueError("a secret: hunter2")


async def test_an_extension_without_anything_to_do_is_left_out_until_the_next_opening() -> None:
    class Sleeper(Journal):
        awake = False
        openings = 0

        def active(self) -> bool:
            return self.awake

        def opened(self, app: object) -> None:
            self.openings += 1

    sleeper, journal = Sleeper("sleeper"), Journal()
    app = made(sleeper, journal)

    @app.task
    async def work() -> None: ...

    async with app:
        sleeper.awake = True  # too late for this opening
        await work.enqueue()
        await drain(app)
    assert (sleeper.notes, sleeper.openings) == ([], 0)
    assert journal.notes == ["a in work", "a out"]
    async with app:
        await work.enqueue()
        await drain(app)
    assert sleeper.openings == 1
    assert sleeper.notes == ["sleeper in work", "sleeper out"]


async def test_an_extension_that_fails_to_say_whether_it_is_active_is_left_out() -> None:
    class Broken(Journal):
        def active(self) -> bool:
            raise ValueError("what?")

    broken = Broken()
    async with made(broken) as app:

        @app.task
        async def work() -> int:
            return 1

        handle = await work.enqueue()
        await drain(app)
        assert await handle.result() == 1
    assert broken.notes == []
    assert app.metrics.counter("offpath_swallowed_errors_total", phase="extension").value > 0


@pytest.mark.parametrize("at", ["enter", "leave", "ended", "moved", "opened"])
@pytest.mark.parametrize("sync", [False, True])
async def test_a_fault_of_an_extension_is_counted_and_logged_once_and_costs_no_job(
    at: str, sync: bool, caplog: pytest.LogCaptureFixture
) -> None:
    journal, told = Journal(), []

    async def double(n: int) -> int:
        return n * 2

    def double_sync(n: int) -> int:
        return n * 2

    app = made(Broken(at), journal, on_error=lambda error, phase: told.append(phase))
    with caplog.at_level(logging.WARNING, "offpath"):
        await app.open()
        task = app.task(double_sync if sync else double)
        handles = [await task.enqueue(n) for n in range(3)]
        await drain(app)
        assert [await one.result() for one in handles] == [0, 2, 4]
        await app.close()
    assert "extension" in told
    counted = app.metrics.counter("offpath_swallowed_errors_total", phase="extension").value
    assert counted == told.count("extension")
    lines = [record for record in caplog.records if "extension" in record.getMessage()]
    assert len(lines) == 1
    assert "hunter2" not in caplog.text
    assert [end.verdict for end in journal.ends] == ["succeeded"] * 3


async def test_an_extension_cannot_hold_back_what_a_handler_raises() -> None:
    class Swallowing(Extension):
        @contextmanager
        def running(self, run: Running, /) -> Iterator[None]:
            with suppress(Exception):
                yield

    async with made(Swallowing(), retry=1) as app:
        handle = await app.task(_fails).enqueue()
        await drain(app)
        with pytest.raises(offpath.JobDead):
            await handle.result()


async def test_a_cancelled_handler_is_left_in_its_own_context() -> None:
    journal = Journal()
    began = asyncio.Event()

    async def hangs() -> None:
        began.set()
        await asyncio.Event().wait()

    async with offpath.App(extensions=[journal]) as app:
        handle = await app.task(hangs).enqueue()
        await asyncio.wait_for(began.wait(), 10)
        await handle.cancel()
        with pytest.raises(offpath.JobCancelled):
            await handle.result(timeout=10)
    assert journal.notes == ["a in hangs", "a saw CancelledError", "a out"]
    assert [end.verdict for end in journal.ends] == ["cancelled"]


async def test_a_handler_that_sleeps_is_left_and_entered_again() -> None:
    journal = Journal()

    async def naps(ctx: offpath.Context) -> None:
        await ctx.sleep(60)

    async with made(journal) as app:
        clock = app.clock
        assert isinstance(clock, ManualClock)
        await app.task(naps).enqueue()
        await drain(app)
        clock.advance(61)
        await drain(app)
    assert journal.notes == ["a in naps", "a saw Suspended", "a out", "a in naps", "a out"]
    assert [end.verdict for end in journal.ends] == ["snoozed", "succeeded"]


async def test_a_thread_that_outlives_its_attempt_is_left_in_the_thread_and_told_once() -> None:
    journal = Journal()
    began, go_on = threading.Event(), threading.Event()

    def hangs() -> None:
        began.set()
        go_on.wait(10)

    app = offpath.App(extensions=[journal], auto_start=False)
    try:
        async with app, app.worker() as worker:
            await app.task(hangs).enqueue()
            await asyncio.to_thread(began.wait, 10)
            stopped = await worker.stop(drain=False)
            assert stopped.given_up == 1
            assert [end.verdict for end in journal.ends] == ["released"]
            assert journal.notes == ["a in hangs"]
            go_on.set()
            await asyncio.to_thread(_until, lambda: "a out" in journal.notes)
            await asyncio.sleep(0)
    finally:
        go_on.set()
    assert journal.notes == ["a in hangs", "a out"]
    assert len(journal.ends) == 1


def _until(true: Any) -> None:
    done = threading.Event()
    for _ in range(1_000):
        if true():
            return
        done.wait(0.01)
    raise AssertionError("it never came")


async def test_each_step_that_is_done_now_is_surrounded_where_it_runs() -> None:
    notes: list[Any] = []

    class Steps(Extension):
        @contextmanager
        def stepping(self, run: Running, name: str, /) -> Iterator[None]:
            notes.append((name, threading.current_thread() is threading.main_thread()))
            yield
            notes.append(f"{name} done")

    async def fetch() -> int:
        return 1

    def count() -> int:
        return 2

    async def works(ctx: offpath.Context) -> int:
        return await ctx.step("fetch", fetch) + await ctx.step("count", count)

    async with made(Steps()) as app:
        handle = await app.task(works).enqueue()
        await drain(app)
        assert await handle.result() == 3
    assert notes == [("fetch", True), "fetch done", ("count", False), "count done"]


async def test_transitions_are_told_as_to_on_event() -> None:
    class Moves(Extension):
        def __init__(self) -> None:
            self.kinds: list[str] = []

        def moved(self, event: offpath.JobEvent, /) -> None:
            self.kinds.append(event.kind.value)

    moves, told = Moves(), []
    async with made(moves, on_event=lambda event: told.append(event.kind.value)) as app:
        await app.task(_gives_up).enqueue()
        await drain(app)
    assert moves.kinds == told
    assert "dead" in told


async def test_opened_and_closed_are_called_with_the_app() -> None:
    notes: list[Any] = []

    class Life(Extension):
        def opened(self, app: offpath.App) -> None:
            notes.append(("opened", app))

        def closed(self, app: offpath.App) -> None:
            notes.append(("closed", app))

    app = made(Life())
    async with app:
        assert notes == [("opened", app)]
    assert notes == [("opened", app), ("closed", app)]


@pytest.fixture
async def everywhere() -> AsyncIterator[Journal]:
    journal = Journal("everywhere")
    offpath.extend(journal)
    yield journal
    seats.EVERYWHERE.remove(journal)


async def test_an_extension_of_the_process_is_in_every_app_once_and_before_its_own(
    everywhere: Journal,
) -> None:
    offpath.extend(everywhere)
    own = Journal("own", everywhere.notes)

    async def work() -> None: ...

    async with made(own) as app:
        await app.task(work).enqueue()
        await drain(app)
    assert everywhere.notes == ["everywhere in work", "own in work", "own out", "everywhere out"]


@pytest.mark.parametrize("given", [[object()], [Journal], Journal()])
def test_what_is_no_extension_is_refused_with_what_to_write(given: Any) -> None:
    with pytest.raises(InvalidArgument, match="extension"):
        offpath.App(extensions=given)


async def test_without_one_that_is_there_for_handlers_the_handler_itself_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No context manager and no dictionary: neither of the two is ever made."""
    entered: list[Run] = []
    monkeypatch.setattr(Extensions, "running", lambda *_: entered.append(_))

    async def work() -> None: ...

    for extensions in ((), (Extension(),)):
        async with made(*extensions) as app:
            await app.task(work).enqueue()
            await drain(app)
    assert entered == []


async def test_a_call_in_a_test_passes_no_extension() -> None:
    journal = Journal()
    app = made(journal)

    @app.task
    async def work(n: int) -> int:
        return n

    @app.batch_task(size=2)
    async def many(ctx: BatchContext, items: list[int]) -> list[int]:
        return items

    assert await work(1) == 1
    assert journal.notes == []

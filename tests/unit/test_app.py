"""The app: hooks, worker settings, and every way of opening and closing it."""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from offpath import App, InvalidArgument, JobEvent, JobState, StoreUnavailable
from offpath.errors import AppClosed, CapabilityMissing, ConfigurationError
from offpath.jobs.client.core import core_of
from offpath.records import EventKind
from offpath.runtime.clock import ManualClock
from offpath.store.memory import MemoryStore


@pytest.fixture
async def still() -> AsyncIterator[App]:
    """An app in which nothing runs by itself."""
    app = App(auto_start=False, clock=ManualClock())
    yield app
    await app.close()


async def test_hooks_metrics_and_listings() -> None:
    events: list[JobEvent] = []
    app = App(auto_start=False, clock=ManualClock(), on_event=events.append)

    @app.task
    async def work() -> int:
        return 1

    async with app:
        await work.enqueue()
        (backlog,) = await app.backlog()
        assert (backlog.task, backlog.ready) == ("work", 1)
        assert await app.workers() == []
        async with app.worker(concurrency=3, queues=["default"]) as worker:
            (record,) = await app.workers()
            assert (record.info.id, record.info.concurrency) == (worker.id, 3)
        await app.worker().run_until_idle()
    kinds = [event.kind for event in events]
    assert kinds[:3] == [EventKind.QUEUED, EventKind.STARTED, EventKind.SUCCEEDED]
    reading = app.metrics.get("offpath_jobs_succeeded_total", task="work", queue="default")
    assert reading is not None
    assert reading.value == 1


async def test_a_hook_of_a_task_that_came_late_hears_of_its_jobs_alone(still: App) -> None:
    heard: list[tuple[str, EventKind]] = []

    @still.task
    async def unheard() -> None: ...

    await unheard.enqueue()

    @still.task(on_event=lambda event: heard.append((event.task, event.kind)))
    async def late() -> None: ...

    await still.enqueue([late.job(), unheard.job()])
    assert heard == [("late", EventKind.QUEUED)]


@pytest.mark.parametrize(
    "bad",
    [
        {"concurrency": 0},
        {"lease_seconds": 0},
        {"poll_interval": -1},
        {"queues": "default"},
        {"queues": ["a\0"]},
        {"abort": "maybe"},
        {"max_deliveries": 0},
        {"drain_timeout": -1},
    ],
)
def test_worker_settings_are_checked(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        App().worker(**bad)


def test_misspelt_worker_settings_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="concurency"):
        App().worker(concurency=5)  # type: ignore[call-arg]


async def test_it_opens_once_whoever_asks_first() -> None:
    opened = 0

    class Store(MemoryStore):
        async def open(self) -> None:
            nonlocal opened
            opened += 1
            await asyncio.sleep(0)

    app = App(store=Store(), auto_start=False)
    await asyncio.gather(*(app.jobs.count() for _ in range(10)))
    assert opened == 1
    await app.close()


async def test_a_failed_opening_closes_what_it_opened_and_can_be_repeated() -> None:
    class Store(MemoryStore):
        down = True
        closed = 0

        async def open(self) -> None:
            if self.down:
                raise StoreUnavailable("down")

        async def close(self) -> None:
            self.closed += 1

    store = Store()
    app = App(store=store, auto_start=False)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await app.open()
    assert store.closed == 2
    store.down = False
    assert await app.jobs.count() == 0
    await app.close()


async def test_closing_is_final_until_it_is_opened_again(still: App) -> None:
    @still.task
    async def never() -> None: ...

    handle = await never.enqueue()
    waiting = asyncio.ensure_future(handle.result())
    await asyncio.sleep(0)
    await asyncio.gather(still.close(), still.close())
    with pytest.raises(AppClosed):
        await waiting
    with pytest.raises(AppClosed, match="async with app"):
        await never.enqueue()
    async with still:
        assert (await handle.status()).state is JobState.QUEUED
    await still.close()


async def test_a_cancelled_first_use_leaves_the_app_usable() -> None:
    gate = asyncio.Event()

    class Store(MemoryStore):
        async def open(self) -> None:
            await gate.wait()

    app = App(store=Store(), auto_start=False)
    first = asyncio.ensure_future(app.jobs.count())
    await asyncio.sleep(0)
    first.cancel()
    gate.set()
    assert await app.jobs.count() == 0
    await app.close()


def test_another_loop_is_told_what_to_do() -> None:
    app = App(auto_start=False)

    async def use() -> None:
        await app.jobs.count()

    asyncio.run(use())
    with pytest.raises(AppClosed, match="async with app"):
        asyncio.run(use())
    asyncio.run(app.close())

    async def use_well() -> None:
        async with app:
            await app.jobs.count()

    asyncio.run(use_well())
    asyncio.run(use_well())


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_a_child_forked_within_a_loop_is_told_what_to_do(still: App) -> None:
    await still.open()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            await still.jobs.count()
        except AppClosed as error:
            code = 0 if "app.blocking" in str(error) else 2
        finally:
            os._exit(code)
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_an_app_cannot_be_pickled() -> None:
    with pytest.raises(TypeError, match="import it"):
        pickle.dumps(App())


@pytest.mark.parametrize(
    "url", ["mysql://x", "nonsense", "sqlite://work.db", "sqlite:///", "sqlite:///:memory:"]
)
def test_unusable_urls_are_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        App(url).store()


def test_urls_are_never_shown() -> None:
    app = App("postgresql://me:s3cr3t@host/db")
    assert "s3cr3t" not in repr(app)
    with pytest.raises(ConfigurationError) as caught:
        App("mysql://me:s3cr3t@host/db")
    assert "s3cr3t" not in str(caught.value)


async def test_memory_has_no_transaction_to_join(still: App) -> None:
    @still.task
    async def never() -> None: ...

    with pytest.raises(CapabilityMissing):
        await still.enqueue(never.job(), within=object())


async def test_what_is_no_job_is_refused(still: App) -> None:
    @still.task
    async def never() -> None: ...

    for wrong in (5, never, "x", [5], None):
        with pytest.raises(InvalidArgument, match=r"task\.job"):
            await still.enqueue(wrong)  # type: ignore[arg-type]


async def test_another_store_can_take_its_place_for_a_while(still: App) -> None:
    @still.task
    async def never() -> None: ...

    real = await never.enqueue()
    restore = core_of(still).swap_store(MemoryStore(), clock=ManualClock())
    assert await still.jobs.count() == 0
    await never.enqueue()
    assert await still.jobs.count() == 1
    await still.close()
    restore()
    assert (await real.status()).state is JobState.QUEUED


async def test_metrics_and_randomness_may_be_passed_in() -> None:
    """Two apps of a process may share a registry; backoffs use the randomness that was given."""
    drawn: list[float] = []

    def chance() -> float:
        drawn.append(0.5)
        return 0.5

    metrics = App(auto_start=False).metrics
    clock = ManualClock()
    app = App(auto_start=False, clock=clock, random=chance, metrics=metrics, retry=2)

    @app.task
    async def fail() -> None:
        raise ValueError

    async with app:
        handle = await fail.enqueue()
        await app.worker().run_until_idle()
        assert (await app.jobs.get(handle.id)).attempt == 2
    assert app.metrics is metrics
    assert metrics.get("offpath_jobs_failed_total", task="fail", queue="default") is not None
    assert drawn

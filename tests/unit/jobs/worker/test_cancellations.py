"""Cancellations: that of a handler is recorded whatever it makes of it, and a caller's own arrives.

T2-18: one cancellation must not be taken for another.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from offpath import App
from offpath.model.job import JobState
from offpath.runtime.clock import ManualClock
from offpath.store.memory import MemoryStore
from offpath.testing import FlakyStore
from tests.unit.jobs.worker.rig import Rig, breathe, until

Handler = Callable[[], Awaitable[object]]


async def _wait() -> None:
    await asyncio.Event().wait()


async def swallows() -> str:
    with contextlib.suppress(asyncio.CancelledError):
        await _wait()
    return "done"


async def uncancels() -> str:
    try:
        await _wait()
    except asyncio.CancelledError:
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
    await asyncio.sleep(0)
    return "done"


async def delays() -> None:
    try:
        await _wait()
    finally:
        for _ in range(5):
            await asyncio.sleep(0)


async def replaces() -> None:
    try:
        await _wait()
    except asyncio.CancelledError:
        raise OSError("while it cleaned up") from None


async def groups() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_wait())
        group.create_task(_wait())


async def waits_for_who_swallows() -> str:
    child = asyncio.ensure_future(swallows())
    try:
        return await child
    except asyncio.CancelledError:
        return await child


async def cancels_its_child() -> None:
    child = asyncio.ensure_future(_wait())
    await asyncio.sleep(0)
    child.cancel()
    try:
        await child
    except asyncio.CancelledError:
        await _wait()


HANDLERS: list[Handler] = [
    swallows,
    uncancels,
    delays,
    replaces,
    groups,
    waits_for_who_swallows,
    cancels_its_child,
]
each_handler = pytest.mark.parametrize("handler", HANDLERS, ids=lambda one: one.__name__)


@each_handler
async def test_a_timeout_is_recorded_whatever_the_handler_makes_of_it(
    rig: Rig, handler: Handler
) -> None:
    rig.task(handler, name="one")
    job = await rig.enqueue("one", attempts=1, timeout=1.0)
    worker = await rig.started()
    await rig.pass_time(2)
    await until(lambda: worker.active() == [])
    record = await rig.record(job)
    assert record.failure is not None
    assert (record.state, record.failure.kind) == (JobState.DEAD, "timeout")


@each_handler
async def test_a_cancelled_job_is_cancelled_whatever_the_handler_makes_of_it(
    rig: Rig, handler: Handler
) -> None:
    rig.task(handler, name="one")
    job = await rig.enqueue("one", attempts=1)
    worker = await rig.started()
    await rig.store.cancel([job])
    await rig.pass_time(2)
    await until(lambda: worker.active() == [])
    record = await rig.record(job)
    assert (record.state, record.result) == (JobState.CANCELLED, None)


@each_handler
async def test_a_stop_ends_with_all_slots_free_and_the_job_kept(rig: Rig, handler: Handler) -> None:
    rig.task(handler, name="one")
    job = await rig.enqueue("one", attempts=1)
    worker = await rig.started()
    stopping = asyncio.ensure_future(worker.stop(drain=False))
    while not stopping.done():
        rig.clock.advance(0.5)
        await breathe()
    await stopping
    record = await rig.record(job)
    assert worker.active() == []
    # a handler that gives a result all the same has done its work; others begin again
    assert record.state in {JobState.QUEUED, JobState.SUCCEEDED}
    assert record.attempt == 1


async def test_a_handler_that_cancels_itself_has_failed(rig: Rig) -> None:
    async def turns_on_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await _wait()

    rig.task(turns_on_itself)
    job = await rig.enqueue("turns_on_itself", attempts=1)
    worker = await rig.started()
    await until(lambda: worker.active() == [])
    record = await rig.record(job)
    assert record.state is JobState.DEAD
    assert record.failure is not None


# -- callers ---------------------------------------------------------------------------------------


@pytest.fixture
async def store() -> FlakyStore:
    return FlakyStore(MemoryStore(ManualClock()))


@pytest.fixture
async def app(store: FlakyStore) -> AsyncIterator[App]:
    made = App(store=store, auto_start=False)

    @made.task(name="add")
    async def add(n: int) -> int:
        return n

    async with made:
        yield made
        store.heal()


VERBS: dict[str, Callable[[App, Any], Awaitable[object]]] = {
    "enqueue": lambda app, _: app.enqueue(app.tasks["add"].job(1)),
    "publish": lambda app, _: app.publish("t", 1),
    "result": lambda _, handle: handle.result(),
    "status": lambda _, handle: handle.status(),
    "group": lambda app, handle: app.groups.get(handle.id),
    "find": lambda app, _: app.jobs.find(),
    "get": lambda app, handle: app.jobs.get(handle.id),
    "cancel": lambda app, handle: app.jobs.cancel(handle.id),
    "retry": lambda app, handle: app.jobs.redrive(handle.id),
    "signal": lambda app, handle: app.signal(handle.id, "s"),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_a_callers_own_cancellation_arrives(app: App, store: FlakyStore, verb: str) -> None:
    handle = await app.enqueue(app.tasks["add"].job(0))
    store.hang(times=100)
    calling = asyncio.ensure_future(VERBS[verb](app, handle))
    await breathe()
    assert not calling.done()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    store.heal()
    await breathe()
    again = await app.enqueue(app.tasks["add"].job(2))
    assert (await again.status()).state is JobState.QUEUED

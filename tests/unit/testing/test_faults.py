"""The store that fails on demand, and what the app makes of it: each effect once, always.

The cases: a write is repeated after an error, and after an answer that was lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from offpath import (
    Abort,
    App,
    Context,
    InvalidArgument,
    JobEvent,
    JobState,
    RetryOptions,
    Snooze,
    StoreUnavailable,
)
from offpath.errors import StoreBusy
from offpath.records import EventKind
from offpath.store.memory import MemoryStore
from offpath.store.protocol import Store
from offpath.testing import FlakyStore, ManualClock, MemorySwap, drain

Memory = MemorySwap[ManualClock]

KINDS = ("fail", "lose_answer")


def fault(memory: Memory, kind: str, operation: str, **options: Any) -> None:
    getattr(memory.store, kind)(operation, **options)


async def twice(call: Callable[[], Awaitable[Any]]) -> Any:
    """A caller's tries: the first ends unknown, the second tells."""
    with pytest.raises(StoreUnavailable):
        await call()
    return await call()


# -- the store itself ------------------------------------------------------------------------------


async def test_the_call_asked_for_fails_and_no_other() -> None:
    store = FlakyStore(MemoryStore())
    store.fail("ping", call=2, times=2, error=StoreBusy("locked"))
    outcomes = []
    for _ in range(5):
        try:
            await store.ping()
            outcomes.append("ok")
        except StoreBusy:
            outcomes.append("busy")
    assert outcomes == ["ok", "busy", "busy", "ok", "ok"]
    assert store.calls == ["ping"] * 5


async def test_any_call_can_be_meant() -> None:
    store = FlakyStore(MemoryStore())
    store.fail(call=2)
    await store.ping()
    with pytest.raises(StoreUnavailable):
        await store.workers()
    assert await store.workers() == []


async def test_a_hanging_call_goes_on_when_it_is_healed() -> None:
    store = FlakyStore(MemoryStore(ManualClock()))
    store.hang("ping")
    call = asyncio.ensure_future(store.ping())
    await asyncio.sleep(0)
    assert not call.done()
    store.heal()
    assert await call == ManualClock().now()


async def test_healing_forgets_what_was_asked_for() -> None:
    store = FlakyStore(MemoryStore())
    store.fail("ping", times=100)
    store.heal()
    await store.ping()


def test_it_has_every_operation_of_a_store() -> None:
    store = FlakyStore(MemoryStore())
    names = [name for name in vars(Store) if not name.startswith("_")]
    assert len(names) > 20
    assert [name for name in names if not hasattr(store, name)] == []
    assert store.capabilities == MemoryStore().capabilities


async def test_a_blocking_door_fails_too(tmp_path: Any) -> None:
    calls: list[str] = []

    class Door(MemoryStore):
        def commit_within_blocking(self, connection: Any, effects: Any) -> Any:
            calls.append("written")
            return []

    store = FlakyStore(Door())
    store.fail("commit_within_blocking")
    store.lose_answer("commit_within_blocking", call=2)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            store.commit_within_blocking(None, None)  # type: ignore[arg-type]
    store.hang("commit_within_blocking")
    assert store.commit_within_blocking(None, None) == []  # type: ignore[arg-type]
    assert calls == ["written", "written"]


@pytest.mark.parametrize("bad", [{"operation": "comit"}, {"call": 0}, {"times": 0}])
def test_faults_that_would_never_strike_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        FlakyStore(MemoryStore()).fail(**bad)


# -- callers: the verb is repeated -----------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_enqueue_once(app: App, memory: Memory, kind: str) -> None:
    @app.task
    async def work(n: int) -> None: ...

    fault(memory, kind, "commit")
    job = work.job(1)
    handle = await twice(lambda: app.enqueue(job))
    assert handle.id == job.id
    assert handle.created is (kind == "fail")
    fault(memory, kind, "commit")
    several = [work.job(n) for n in range(3)]
    await twice(lambda: app.enqueue(several))
    assert await app.jobs.count() == 4
    assert (await drain(app)).succeeded == 4


@pytest.mark.parametrize("kind", KINDS)
async def test_enqueue_once_although_it_ran_meanwhile(app: App, memory: Memory, kind: str) -> None:
    ran: list[int] = []

    @app.task
    async def work() -> None:
        ran.append(1)

    job = work.job()
    fault(memory, kind, "commit")
    with pytest.raises(StoreUnavailable):
        await app.enqueue(job)
    await drain(app)
    await app.enqueue(job)
    await drain(app)
    assert ran == [1]


@pytest.mark.parametrize("kind", KINDS)
async def test_enqueue_a_unique_job_once(app: App, memory: Memory, kind: str) -> None:
    @app.task(unique=lambda order: f"order:{order}")
    async def charge(order: str) -> None: ...

    fault(memory, kind, "commit")
    await twice(lambda: charge.enqueue("A"))
    assert await app.jobs.count() == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_cancel_retry_delete_once(app: App, memory: Memory, kind: str) -> None:
    @app.task
    async def work() -> None: ...

    handle = await work.options(delay=60).enqueue()
    fault(memory, kind, "cancel")
    await twice(handle.cancel)
    assert (await handle.status()).state is JobState.CANCELLED
    fault(memory, kind, "redrive")
    await twice(lambda: app.jobs.redrive(handle.id))
    record = await handle.status()
    assert (record.state, record.redrives) == (JobState.QUEUED, 1)
    assert (await drain(app)).succeeded == 1
    fault(memory, kind, "delete")
    await twice(lambda: app.jobs.delete(handle.id))
    assert await app.jobs.count() == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_dead_letters_once(app: App, memory: Memory, kind: str) -> None:
    ran: list[int] = []

    @app.task(retry=1)
    async def dies() -> None:
        ran.append(1)
        raise Abort

    handle = await dies.enqueue()
    await drain(app)
    fault(memory, kind, "redrive")
    await twice(lambda: app.dead.redrive(handle.id))
    assert (await handle.status()).redrives == 1
    await drain(app)
    assert ran == [1, 1]
    fault(memory, kind, "delete")
    await twice(lambda: app.dead.discard(handle.id))
    assert await app.jobs.count() == 0


# -- the worker: it repeats by itself --------------------------------------------------------------


class Course:
    """A task that goes every way an attempt can end, and what was seen of it."""

    def __init__(self, app: App) -> None:
        self.events: list[JobEvent] = []
        self.ran: list[str] = []

        @app.task
        async def child(of: str) -> None:
            self.ran.append(f"child of {of}")

        @app.task(retry=RetryOptions(attempts=2, base=0, jitter=0), on_event=self.events.append)
        async def parent(ctx: Context, way: str) -> str:
            self.ran.append(way)
            first = len([one for one in self.ran if one == way]) == 1
            if way == "snooze" and first:
                ctx.enqueue(child.job(way))
                raise Snooze(0)
            if way == "retry" and first:
                raise ConnectionError
            if way == "die":
                raise Abort
            if way != "snooze":
                ctx.enqueue(child.job(way))
            return way

        self.parent = parent

    def told(self, kind: EventKind) -> int:
        return sum(one.kind is kind for one in self.events)


RUNS = {"succeed": 1, "retry": 2, "snooze": 2, "die": 1}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("call", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", RUNS)
async def test_an_end_is_recorded_once(kind: str, way: str, call: int) -> None:
    app = App(store=(store := FlakyStore(MemoryStore())), auto_start=False)
    course = Course(app)
    async with app:
        handle = await course.parent.enqueue(way)
        getattr(store, kind)("settle", call=call)
        counts = await drain(app)
        record = await handle.status()
        last = JobState.DEAD if way == "die" else JobState.SUCCEEDED
        assert record.state is last
        assert course.ran.count(way) == RUNS[way]
        children = 0 if way == "die" else 1
        assert course.ran.count(f"child of {way}") == children
        assert await app.jobs.count() == 1 + children
        assert counts.total == RUNS[way] + children
        assert len(record.failures) == (way in {"retry", "die"})
        assert course.told(EventKind.STARTED) == RUNS[way]
        assert course.told(EventKind(last.value)) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_a_claim_is_held_by_the_job_that_repeats_it(
    app: App, memory: Memory, kind: str
) -> None:
    held: list[bool] = []

    @app.task(retry=RetryOptions(attempts=2, base=0, jitter=0))
    async def once(ctx: Context) -> None:
        held.append(await ctx.claim("only me"))

    fault(memory, kind, "claim")
    await once.enqueue()
    assert (await drain(app)).retried == 1
    assert held == [True]

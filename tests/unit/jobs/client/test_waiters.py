"""Waiting: one task for all, flat in calls, never leaking, surviving the store's absence."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from offpath import App
from offpath.errors import AppClosed, JobNotFound, StoreUnavailable, WaitTimeout
from offpath.jobs.client.waiters import PollPace, Waiters
from offpath.model.effects import Effects
from offpath.model.job import JobRecord, JobState, NewJob
from offpath.model.lease import LeaseRequest, WorkerInfo
from offpath.model.settlement import Settlement, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.runtime.ids import new_id
from offpath.store.hints import Hint
from offpath.store.memory import MemoryStore

WORKER = WorkerInfo(id=new_id(), host="h", pid=1, version="0", concurrency=1, tasks=("t",))


class Counting(MemoryStore):
    """Counts its reads, and fails them while ``down``."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.calls: Counter[str] = Counter()
        self.down = False
        self.silent = False
        self.called = asyncio.Event()

    async def get(self, ids: Sequence[str]) -> list[JobRecord]:
        self._note("get")
        return await super().get(ids)

    async def states(self, ids: Sequence[str]) -> dict[str, JobState]:
        self._note("states")
        return await super().states(ids)

    def listen(self, callback: Any) -> Any:
        return super().listen(lambda hint: None if self.silent else callback(hint))

    def _note(self, name: str) -> None:
        self.calls[name] += 1
        self.called.set()
        if self.down:
            raise StoreUnavailable("down")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(clock: ManualClock) -> Counting:
    store = Counting(clock)
    await store.register(WORKER, lease_seconds=1e6)
    return store


@pytest.fixture
def reported() -> list[tuple[BaseException, str]]:
    return []


@pytest.fixture
async def waiters(
    store: Counting, clock: ManualClock, reported: list[tuple[BaseException, str]]
) -> AsyncIterator[Waiters]:
    waiters = Waiters(store, clock, lambda error, phase: reported.append((error, phase)))
    yield waiters
    await waiters.close()


async def add(store: MemoryStore, count: int = 1) -> list[str]:
    jobs = tuple(
        NewJob(id=new_id(), task="t", input="{}", fingerprint=str(n)) for n in range(count)
    )
    await store.commit(Effects(jobs=jobs))
    return [job.id for job in jobs]


async def finish(store: MemoryStore, count: int = 1) -> list[str]:
    leased = await store.lease(LeaseRequest(worker=WORKER.id, limit=count, tasks={"t": count}))
    await store.settle([Settlement(job=job, outcome=Succeeded(result="1")) for job in leased.jobs])
    return [job.id for job in leased.jobs]


async def settle_down(turns: int = 20) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


def start(waiters: Waiters, ids: list[str], timeout: float | None = None) -> list[Any]:
    return [asyncio.ensure_future(waiters.wait(each, timeout)) for each in ids]


async def test_a_job_that_has_ended_is_answered_at_once(store: Counting, waiters: Waiters) -> None:
    (job,) = await add(store)
    await finish(store)
    assert (await waiters.wait(job, None)).result == "1"


async def test_a_job_that_ends_here_is_told_without_polling(
    store: Counting, waiters: Waiters
) -> None:
    store.silent = True
    (job,) = await add(store)
    (waiting,) = start(waiters, [job])
    await settle_down()
    waiters.ended(await finish(store))
    assert (await waiting).state is JobState.SUCCEEDED
    assert store.calls["states"] == 0


async def test_a_job_that_ends_elsewhere_is_found_by_polling(
    store: Counting, waiters: Waiters, clock: ManualClock
) -> None:
    store.silent = True
    (job,) = await add(store)
    (waiting,) = start(waiters, [job])
    await settle_down()
    await finish(store)
    clock.advance(1.0)
    assert (await waiting).state is JobState.SUCCEEDED


async def test_a_hint_shortens_the_way(
    store: Counting, waiters: Waiters, clock: ManualClock
) -> None:
    (job,) = await add(store)
    (waiting,) = start(waiters, [job])
    for _ in range(10):  # long quiet: polls lie far apart
        await settle_down()
        clock.advance(1.0)
    await settle_down()
    await finish(store)  # the store hints ENDED
    await settle_down()
    clock.advance(0.05)
    assert (await waiting).state is JobState.SUCCEEDED


async def test_an_unknown_job_is_a_definite_answer(waiters: Waiters) -> None:
    with pytest.raises(JobNotFound, match="retention"):
        await waiters.wait(new_id(), None)


async def test_a_job_whose_retention_passes_meanwhile_is_a_definite_answer(
    store: Counting, waiters: Waiters, clock: ManualClock
) -> None:
    store.silent = True
    (job,) = await add(store)
    (waiting,) = start(waiters, [job])
    await settle_down()
    await finish(store)
    await store.delete([job])
    clock.advance(1.0)
    with pytest.raises(JobNotFound):
        await waiting


async def test_a_timeout_leaves_nothing_behind(
    store: Counting, waiters: Waiters, clock: ManualClock
) -> None:
    ids = await add(store, 3)
    waiting = start(waiters, ids, timeout=5.0)
    await settle_down()
    clock.advance(5.0)
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(each, WaitTimeout) for each in results)
    await settle_down()
    assert (len(waiters), waiters.idle) == (0, True)
    assert clock.sleeping == 0


@pytest.mark.parametrize("limit", [100.0, None])
async def test_a_cancelled_wait_leaves_nothing_behind(
    limit: float | None, store: Counting, waiters: Waiters, clock: ManualClock
) -> None:
    ids = await add(store, 3)
    waiting = start(waiters, ids, limit)
    await settle_down()
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await settle_down()
    assert (len(waiters), waiters.idle) == (0, True)
    assert clock.sleeping == 0


async def test_a_cancelled_task_takes_its_wait_out_of_the_line(
    store: Counting, waiters: Waiters
) -> None:
    (job,) = await add(store)

    async def waits() -> None:
        await waiters.wait(job, None)

    task = asyncio.create_task(waits())
    await settle_down()
    task.cancel()
    await asyncio.wait([task])
    await settle_down()
    assert task.cancelled()
    assert (len(waiters), waiters.idle) == (0, True)


async def test_no_timeout_left_asks_once(store: Counting, waiters: Waiters) -> None:
    (job,) = await add(store)
    with pytest.raises(WaitTimeout):
        await waiters.wait(job, 0)
    await finish(store)
    assert (await waiters.wait(job, 0)).state is JobState.SUCCEEDED
    with pytest.raises(JobNotFound):
        await waiters.wait(new_id(), 0)
    assert waiters.idle


async def test_several_wait_for_one_job(store: Counting, waiters: Waiters) -> None:
    (job,) = await add(store)
    waiting = start(waiters, [job, job, job])
    await settle_down()
    waiters.ended(await finish(store))
    assert [each.id for each in await asyncio.gather(*waiting)] == [job] * 3
    missing = new_id()
    errors = await asyncio.gather(*start(waiters, [missing] * 2), return_exceptions=True)
    assert errors[0] is not errors[1]


@pytest.mark.parametrize("leaving", [(0,), (1,), (0, 1), (2, 0, 1)], ids=str)
async def test_some_of_several_waits_for_one_job_are_given_up(
    leaving: tuple[int, ...], store: Counting, waiters: Waiters
) -> None:
    (job,) = await add(store)
    waits = start(waiters, [job] * 3)
    await settle_down()
    for one in leaving:
        waits[one].cancel()
        await asyncio.wait([waits[one]])
    assert len(waiters) == (len(leaving) < 3)
    waiters.ended(await finish(store))
    left = [wait for number, wait in enumerate(waits) if number not in leaving]
    assert all(one.id == job for one in await asyncio.gather(*left))
    assert len(waiters) == 0


async def test_ten_thousand_waits_stay_flat(store: Counting, waiters: Waiters) -> None:
    store.silent = True
    ids = await add(store, 10_000)
    waiting = start(waiters, ids)
    await settle_down()
    entered = store.calls["get"]
    assert entered <= 21  # 500 a call, and one for the first to come
    while ended := await finish(store, 500):
        waiters.ended(ended)
        await settle_down(5)
    await asyncio.gather(*waiting)
    assert store.calls["get"] - entered <= 40
    assert store.calls["states"] == 0
    await settle_down()
    assert (len(waiters), waiters.idle) == (0, True)


async def test_polling_asks_for_thousands_at_a_time(
    store: Counting, waiters: Waiters, clock: ManualClock
) -> None:
    store.silent = True
    waiting = start(waiters, await add(store, 2500))
    await settle_down()
    clock.advance(1.0)
    await settle_down()
    assert store.calls["states"] == 3
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_waits_survive_the_stores_absence(
    store: Counting,
    waiters: Waiters,
    clock: ManualClock,
    reported: list[tuple[BaseException, str]],
) -> None:
    (job,) = await add(store)
    store.down = True
    (waiting,) = start(waiters, [job])
    for _ in range(20):
        await settle_down()
        clock.advance(4.0)
    await settle_down()
    assert not waiting.done()
    assert sum(store.calls.values()) < 25
    assert len(reported) == 1
    await finish(store)
    store.down = False
    clock.advance(4.0)
    assert (await waiting).state is JobState.SUCCEEDED


async def test_a_timeout_holds_while_the_store_hangs(
    store: Counting, waiters: Waiters, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(_ids: Sequence[str]) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(store, "get", hang)
    monkeypatch.setattr("offpath.jobs.client.waiters._LAST_LOOK", 0.01)
    (waiting,) = start(waiters, [new_id()], timeout=2.0)
    await settle_down()
    clock.advance(2.0)
    with pytest.raises(WaitTimeout):
        await waiting


async def test_closing_ends_every_wait(store: Counting, waiters: Waiters) -> None:
    waiting = start(waiters, await add(store, 2))
    await settle_down()
    await waiters.close()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(each, AppClosed) for each in results)
    with pytest.raises(AppClosed):
        await waiters.wait(new_id(), None)
    await waiters.close()


async def test_a_new_wait_after_idleness_works_again(store: Counting, waiters: Waiters) -> None:
    for _ in range(3):
        (job,) = await add(store)
        await finish(store)
        await waiters.wait(job, None)
        await settle_down()
        assert waiters.idle


def test_hints_of_other_kinds_are_nothing_to_us(store: Counting, waiters: Waiters) -> None:
    waiters._hint(Hint.ENDED)
    waiters._hint(Hint.WORK)
    assert not waiters._hinted


def test_the_pace_bounds_the_share_of_time() -> None:
    pace = PollPace()
    assert pace.interval(1) == 0.05
    assert pace.interval(10_000) == pytest.approx(0.2)
    for _ in range(20):
        pace.polled(found=False)
    assert pace.interval(1) == 1.0
    assert pace.shortest(10_000) == pytest.approx(0.2)
    pace.polled(found=True)
    assert pace.interval(1) == 0.05


async def test_a_handle_that_nobody_keeps_does_not_wait_for_its_job() -> None:
    async with App("memory://", auto_start=False) as app:

        @app.task
        async def noop() -> int:
            return 1

        handle = await noop.enqueue()
        waiting = asyncio.create_task(handle.result())
        await settle_down()
        holding = [getattr(each, "__name__", "") for each in gc.get_referrers(handle)]
        assert "result" not in holding
        await app.worker().run_until_idle()
        assert await waiting == 1

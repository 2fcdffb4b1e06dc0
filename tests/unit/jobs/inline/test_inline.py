"""Jobs that begin in the process that enqueues them: at once, and as safe as any other."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import offpath
from offpath import App, Context, JobState
from offpath.runtime.clock import ManualClock
from offpath.store.memory import MemoryStore
from tests.unit.jobs.worker.rig import breathe

RETRY = offpath.RetryOptions(attempts=3, base=1.0, jitter=0.0)


class House:
    """Apps over one memory store, none of which has a worker."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)
        self.door = asyncio.Event()
        self.ran: list[tuple[str, int]] = []

    def app(self) -> App:
        app = App(store=self.store, clock=self.clock, auto_start=False, retry=RETRY)

        @app.task
        async def add(a: int, b: int = 0) -> int:
            self.ran.append(("add", a))
            return a + b

        @app.task
        async def wait(ctx: Context) -> int:
            self.ran.append(("wait", ctx.attempt))
            await self.door.wait()
            return ctx.attempt

        @app.task
        async def second_time(ctx: Context) -> int:
            self.ran.append(("second_time", ctx.attempt))
            if ctx.attempt == 1:
                raise OSError("not yet")
            return ctx.attempt

        return app

    async def pass_time(self, seconds: float) -> None:
        await breathe()
        while seconds > 1e-9:
            self.clock.advance(min(0.25, seconds))
            seconds -= 0.25
            await breathe()


@pytest.fixture
async def house() -> House:
    return House()


def task(app: App, name: str) -> Any:
    return app.tasks[name]


async def close(app: App, house: House) -> None:
    house.door.set()
    closing = asyncio.ensure_future(app.close())
    while not closing.done():
        house.clock.advance(0.25)
        await breathe()


async def test_a28_057_it_runs_here_without_any_worker(house: House) -> None:
    app = house.app()
    handle = await task(app, "add").options(inline=True).enqueue(1, b=2)
    assert handle.created
    assert await handle.result(timeout=5) == 3
    record = await handle.status()
    assert (record.state, record.deliveries, record.attempt) == (JobState.SUCCEEDED, 1, 1)
    await close(app, house)


async def test_a_job_may_be_given_to_the_app(house: House) -> None:
    app = house.app()
    handle = await app.enqueue(task(app, "add").job(1), inline=True)
    assert await handle.result(timeout=5) == 1
    await close(app, house)


async def test_other_jobs_stay_in_their_queue(house: House) -> None:
    app = house.app()
    queued = await task(app, "add").enqueue(1)
    await (await task(app, "add").options(inline=True).enqueue(2)).result(timeout=5)
    await house.pass_time(10)
    assert (await queued.status()).state is JobState.QUEUED
    assert house.ran == [("add", 2)]
    await close(app, house)


async def test_what_runs_it_serves_no_task_and_is_one_for_all(house: House) -> None:
    app = house.app()
    add = task(app, "add").options(inline=True)
    await asyncio.gather(*(add.enqueue(number) for number in range(20)))
    (worker,) = await app.workers()
    assert worker.info.tasks == ()
    assert sorted(house.ran) == [("add", number) for number in range(20)]
    await close(app, house)


async def test_a_worker_that_runs_anyway_runs_it_too(house: House) -> None:
    app = house.app()
    async with app.worker(concurrency=1) as worker:
        await task(app, "wait").enqueue()
        await breathe()
        handle = await task(app, "wait").options(inline=True).enqueue()
        await breathe()
        assert len(house.ran) == 2  # beside the slots
        assert [one.info.id for one in await app.workers()] == [worker.id]
        house.door.set()
        assert await handle.result(timeout=5) == 1
    await close(app, house)


async def test_a28_058_from_its_first_retry_on_it_is_queued_work(house: House) -> None:
    app = house.app()
    handle = await task(app, "second_time").options(inline=True).enqueue()
    await house.pass_time(10)
    assert (await handle.status()).state is JobState.QUEUED
    await app.worker().run_until_idle()
    assert await handle.result(timeout=5) == 2
    assert house.ran == [("second_time", 1), ("second_time", 2)]
    await close(app, house)


async def test_it_is_rescued_when_its_process_dies(house: House) -> None:
    first, other = house.app(), house.app()
    handle = await task(first, "wait").options(inline=True).enqueue()
    await house.pass_time(60)
    assert (await handle.status()).state is JobState.RUNNING  # its lease is kept
    for worker in tuple(first._workers):  # the process stands still: nothing of it acts any more
        for loop in worker._loops.values():
            await loop.stop()
    async with other.worker():
        await house.pass_time(35)
        assert house.ran == [("wait", 1), ("wait", 1)]
        house.door.set()
        await breathe()
        assert (await handle.status()).deliveries == 2
        assert (await handle.status()).state is JobState.SUCCEEDED
    await close(other, house)


async def test_a_deadline_and_a_timeout_hold(house: House) -> None:
    app = house.app()
    wait = task(app, "wait")
    timed = await wait.options(inline=True, timeout=5, retry=1).enqueue()
    due = await wait.options(inline=True, deadline=7).enqueue()
    await house.pass_time(8)
    assert [(await each.status()).reason for each in (timed, due)] == ["exhausted", "deadline"]
    late = house.clock.now() - timedelta(seconds=1)
    past = await task(app, "add").options(inline=True, deadline=late).enqueue(5)
    await breathe()
    assert (await past.status()).reason == "deadline"
    assert ("add", 5) not in house.ran
    await close(app, house)


async def test_it_can_be_cancelled(house: House) -> None:
    app = house.app()
    handle = await task(app, "wait").options(inline=True).enqueue()
    await handle.cancel()
    await house.pass_time(2)
    assert (await handle.status()).state is JobState.CANCELLED
    await close(app, house)


async def test_a_plan_is_carried_out_and_its_children_are_queued(house: House) -> None:
    app = house.app()

    @app.task
    async def split(ctx: Context) -> offpath.Plan[Any, Any]:
        return ctx.queue(task(app, "add").job(1), task(app, "add").job(2))

    handle = await split.options(inline=True).enqueue()
    await house.pass_time(3)
    assert house.ran == []
    assert (await app.groups.get(handle.id)).open == 2
    await app.worker().run_until_idle()
    assert await handle in {1, 2}
    await close(app, house)


async def test_children_are_never_inline(house: House) -> None:
    app = house.app()

    @app.task
    async def split(ctx: Context) -> None:
        ctx.enqueue(task(app, "add").options(inline=True).job(1))

    handle = await split.options(retry=1).enqueue()
    await app.worker().run_until_idle()
    with pytest.raises(offpath.JobDead, match="never begins inline"):
        await handle.result(timeout=5)
    await close(app, house)


async def test_a_repeat_gives_the_handle_and_runs_nothing(house: House) -> None:
    app = house.app()
    job = task(app, "add").job(1)
    await (await app.enqueue(job, inline=True)).result(timeout=5)
    again = await app.enqueue(job, inline=True)
    assert (again.id, again.created) == (job.id, False)
    queued = task(app, "add").job(2)
    await app.enqueue(queued)
    handle = await app.enqueue(queued, inline=True)
    await breathe()
    assert (await handle.status()).state is JobState.QUEUED
    assert house.ran == [("add", 1)]
    await close(app, house)


async def test_one_that_attaches_gives_the_handle_of_the_holder(house: House) -> None:
    app = house.app()
    holder = await task(app, "add").options(unique="k").enqueue(1)
    handle = await task(app, "add").options(unique="k", inline=True).enqueue(1)
    assert (handle.id, handle.created) == (holder.id, False)
    assert house.ran == []
    await close(app, house)


async def test_a28_067_a_batch_task_runs_for_one(house: House) -> None:
    app = house.app()

    @app.batch_task(size=10, max_wait=600)
    async def double(numbers: list[int]) -> list[int]:
        return [2 * number for number in numbers]

    handle = await double.options(inline=True).enqueue(21)
    assert await handle.result(timeout=5) == 42
    await close(app, house)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"delay": 5}, "due in 5 s"),
        ({"run_at": ManualClock().now()}, "run_at"),
        ({"limit": offpath.Limit(key="api", max_running=1)}, "limit 'api'"),
        ({"within": object()}, "exclude each other"),
    ],
)
async def test_what_cannot_begin_at_once_is_refused(
    house: House, options: dict[str, Any], text: str
) -> None:
    app = house.app()
    with pytest.raises(offpath.InvalidArgument, match=text):
        await task(app, "add").options(inline=True, **options).enqueue(1)
    assert (await app.jobs.find()).items == ()
    await close(app, house)


async def test_several_jobs_and_gates_are_refused(house: House) -> None:
    app = house.app()
    jobs = [task(app, "add").job(number) for number in range(2)]
    held = offpath.gate(on=[jobs[0]], queue=[jobs[1]])
    for wrong in (jobs, held, []):
        with pytest.raises(offpath.InvalidArgument, match="one job"):
            await app.enqueue(wrong, inline=True)  # type: ignore[call-overload]
    await close(app, house)


async def test_a28_060_a_task_of_others_is_refused(house: House) -> None:
    app = house.app()
    foreign = app.by_name("elsewhere", registered=False).options(inline=True)
    with pytest.raises(offpath.UnknownTask, match="elsewhere"):
        await foreign.enqueue(a=1)
    await close(app, house)


async def test_closing_the_app_waits_for_it(house: House) -> None:
    app = house.app()
    handle = await task(app, "wait").options(inline=True).enqueue()
    closing = asyncio.ensure_future(app.close())
    await house.pass_time(5)
    assert not closing.done()
    house.door.set()
    await house.pass_time(1)
    await closing
    (record,) = await house.store.get((handle.id,))
    assert record.state is JobState.SUCCEEDED


async def test_what_outlasts_the_close_is_given_back(house: House) -> None:
    app = house.app()
    handle = await task(app, "wait").options(inline=True).enqueue()
    closing = asyncio.ensure_future(app.close())
    await house.pass_time(35)
    await closing
    (record,) = await house.store.get((handle.id,))
    assert (record.state, record.attempt) == (JobState.QUEUED, 1)


class Cut:
    """Lets the store carry out a start and loses its answer."""

    def __init__(self, app: App, *, after: bool) -> None:
        self.store = app.store()
        self.start, self.after = self.store.start, after
        self.store.start = self.failing  # type: ignore[method-assign,assignment]

    async def failing(self, *args: Any) -> Any:
        self.store.start = self.start  # type: ignore[method-assign]
        if self.after:
            await self.start(*args)
        raise offpath.StoreUnavailable("cut")


@pytest.mark.parametrize("after", [True, False])
async def test_when_the_answer_is_lost_the_job_runs_all_the_same(house: House, after: bool) -> None:
    app = house.app()
    job = task(app, "add").job(7)
    await app.open()
    Cut(app, after=after)
    with pytest.raises(offpath.StoreUnavailable):
        await app.enqueue(job, inline=True)
    handle = await app.enqueue(job, inline=True)  # as the docstring says: simply repeat it
    assert handle.created is not after
    await house.pass_time(65)
    assert await handle.result(timeout=5) == 7
    assert house.ran == [("add", 7)]
    await close(app, house)


async def test_a_lease_that_was_lost_meanwhile_is_taken_anew(house: House) -> None:
    app = house.app()
    await (await task(app, "add").options(inline=True).enqueue(1)).result(timeout=5)
    house.clock.advance(3_600)  # the loop was blocked: no heartbeat in between
    handle = await task(app, "add").options(inline=True).enqueue(2)
    assert await handle.result(timeout=5) == 2
    await close(app, house)


async def test_it_works_in_a_file(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/work.db")

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    async with app:
        handle = await add.options(inline=True).enqueue(1, 2)
        assert await handle.result(timeout=10) == 3
        queued = await add.enqueue(3, 4)
    async with app:
        assert (await queued.status()).state is JobState.QUEUED
        again = await add.options(inline=True).enqueue(1, 5)
        assert await again.result(timeout=10) == 6


async def test_what_begins_inside_of_a_handler_is_not_named_after_it(house: House) -> None:
    app = house.app()
    made: list[str] = []

    @app.task
    async def inner() -> None:
        made.append(app.tasks["add"].job(1).id)

    @app.task
    async def outer(ctx: Context) -> None:
        handle = await app.enqueue(inner.job(), inline=True)
        await handle.result()
        made.append(app.tasks["add"].job(1).id)
        if ctx.attempt == 1:
            raise OSError("not yet")

    async with app:
        await outer.enqueue()
        await app.worker().run_until_idle()
        house.clock.advance(5)
        await app.worker().run_until_idle()
    first, named, second, again = made
    assert named == again
    assert len({first, second, named}) == 3

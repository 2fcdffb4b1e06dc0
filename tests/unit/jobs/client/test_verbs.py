"""From the decorator to the result, and everything that can be asked of jobs."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from offpath import (
    Abort,
    App,
    Context,
    InvalidArgument,
    JobCancelled,
    JobDead,
    JobNotFound,
    JobState,
    Options,
    Progress,
    Redrive,
    UniqueConflict,
    UnknownTask,
    WaitTimeout,
)
from offpath.errors import IdConflict
from offpath.model.job import DeadReason
from offpath.runtime.clock import ManualClock
from offpath.sweeps.redrive import RedriveDead


async def test_a_job_runs_without_any_configuration(app: App) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    handle = await add.enqueue(2, b=3)
    assert await handle.result(timeout=10) == 5
    assert (await handle.status()).state is JobState.SUCCEEDED


async def test_sync_functions_and_contexts_run_too(app: App) -> None:
    @app.task
    def where(ctx: Context, word: str) -> list[str]:
        return [word, ctx.id, threading.current_thread().name]

    handle = await where.enqueue("here")
    word, job_id, thread = await handle.result(timeout=10)
    assert (word, job_id) == ("here", handle.id)
    assert thread != threading.current_thread().name


async def test_unsent_jobs_are_sent_together(app: App) -> None:
    @app.task
    async def double(n: int) -> int:
        return n * 2

    jobs = [double.job(n) for n in range(50)]
    handles = await app.enqueue(jobs)
    assert [handle.id for handle in handles] == [job.id for job in jobs]
    results = [await handle.result(timeout=10) for handle in handles]
    assert results == [n * 2 for n in range(50)]
    single = await app.enqueue(double.job(4))
    assert await single.result(timeout=10) == 8
    assert await app.enqueue([]) == []


async def test_by_name(app: App) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    handle = await app.enqueue_by_name("add", a=10, b=1)
    assert await handle.result(timeout=10) == 11
    with pytest.raises(UnknownTask, match="add"):
        await app.enqueue_by_name("ad", a=1, b=2)
    later = await app.enqueue_by_name("add", Options(delay=60), a=1, b=2)
    assert (await later.status()).state is JobState.QUEUED


async def test_a_task_of_another_service_by_name(still: App) -> None:
    foreign = still.by_name("elsewhere", Options(queue="theirs"), registered=False)
    handle = await foreign.enqueue(a=1, text="é")
    record = await handle.status()
    assert (record.task, record.queue, record.input) == (
        "elsewhere",
        "theirs",
        '{"a":1,"text":"é"}',
    )
    with pytest.raises(InvalidArgument, match="keyword"):
        foreign.job(1)


async def test_a_dead_job_raises_with_its_error(app: App) -> None:
    @app.task(retry=1)
    async def fail() -> None:
        raise ValueError("no such customer")

    with pytest.raises(JobDead, match="ValueError: no such customer") as caught:
        await (await fail.enqueue()).result(timeout=10)
    assert caught.value.reason is DeadReason.EXHAUSTED
    assert caught.value.failure is not None
    assert caught.value.failure.type == "ValueError"


async def test_abort_is_dead_now(app: App) -> None:
    @app.task(retry=5)
    async def fail() -> None:
        raise Abort("enough")

    with pytest.raises(JobDead, match="enough") as caught:
        await (await fail.enqueue()).result(timeout=10)
    assert caught.value.reason is DeadReason.ABORTED


async def test_a_cancelled_job_raises(still: App) -> None:
    @still.task
    async def never() -> None: ...

    handle = await never.enqueue()
    assert await handle.cancel() is True
    assert await handle.cancel() is False
    with pytest.raises(JobCancelled):
        await handle.result(timeout=1)


async def test_progress(app: App) -> None:
    @app.task
    async def slow(ctx: Context) -> None:
        await ctx.progress(3, 10, "third")

    handle = await slow.enqueue()
    await handle.result(timeout=10)
    progress = await handle.progress()
    assert isinstance(progress, Progress)
    assert (progress.done, progress.total, progress.note) == (3, 10, "third")


async def test_waiting_ends_with_its_timeout() -> None:
    app = App(auto_start=False)

    @app.task
    async def never() -> None: ...

    async with app:
        handle = await never.enqueue()
        with pytest.raises(WaitTimeout):
            await handle.result(timeout=0.01)
        with pytest.raises(TimeoutError):
            await handle.result(timeout=timedelta(0))
        with pytest.raises(InvalidArgument):
            await handle.result(timeout=-1)
        assert (await handle.status()).state is JobState.QUEUED


async def test_no_such_job_is_a_definite_answer(still: App) -> None:
    @still.task
    async def never() -> None: ...

    gone = never.handle("00000000-0000-7000-8000-000000000000")
    for call in (gone.result, gone.status, gone.progress):
        with pytest.raises(JobNotFound):
            await call()
    assert await gone.cancel() is False


async def test_sending_a_job_twice_is_harmless(still: App) -> None:
    @still.task
    async def once(n: int) -> None: ...

    job = once.job(1)
    first, second = await still.enqueue(job), await still.enqueue(job)
    assert (first.created, second.created) == (True, False)
    assert await still.jobs.count() == 1
    with pytest.raises(IdConflict):
        await once.options(id=job.id).enqueue(2)


async def test_unique_jobs(still: App) -> None:
    @still.task(unique=lambda user: f"user-{user}")
    async def sync(user: int) -> None: ...

    first, second = await sync.enqueue(7), await sync.enqueue(7)
    assert (second.id, second.created) == (first.id, False)
    with pytest.raises(UniqueConflict):
        await sync.options(unique="user-7").enqueue(8)


async def test_jobs_are_found_counted_and_acted_on(still: App) -> None:
    @still.task
    async def a(n: int) -> None: ...

    @still.task(queue="other", tags=["x"])
    async def b(n: int) -> None: ...

    await still.enqueue([a.job(n) for n in range(5)] + [b.job(n) for n in range(3)])
    assert await still.jobs.count() == 8
    assert await still.jobs.count(task=a) == 5
    assert await still.jobs.count(task=["a", b], state="queued") == 8
    assert await still.jobs.count(tags=["x"]) == 3
    page = await still.jobs.find(limit=3, queue="default", newest=False)
    rest = await still.jobs.find(limit=3, queue="default", newest=False, after=page.next)
    found = [record.id for record in (*page.items, *rest.items)]
    assert found == sorted(found)
    assert len(set(found)) == 5
    assert len([record async for record in still.jobs.each(task="b")]) == 3
    cancelled = await still.jobs.cancel(task="b")
    assert {each.state for each in cancelled} == {JobState.CANCELLED}
    back = await still.jobs.redrive(cancelled[0].id)
    assert [each.state for each in back] == [JobState.QUEUED]
    assert await still.jobs.count(state=JobState.CANCELLED) == 2
    assert len(await still.jobs.delete(state="cancelled")) == 2
    assert (await still.jobs.get(found[0])).task == "a"


async def test_nothing_is_chosen_by_accident(still: App) -> None:
    for act in (still.jobs.cancel, still.jobs.redrive, still.jobs.delete, still.dead.redrive):
        with pytest.raises(InvalidArgument, match="ids or a filter"):
            await act()
    with pytest.raises(InvalidArgument, match="chosen by 'tsak'"):
        await still.jobs.cancel(tsak="a")  # type: ignore[call-arg]
    with pytest.raises(InvalidArgument):
        await still.jobs.count(state="asleep")
    with pytest.raises(InvalidArgument):
        await still.jobs.find(limit=0)
    with pytest.raises(InvalidArgument):
        await still.jobs.get("7")


async def dead_jobs(app: App, count: int) -> list[str]:
    @app.task(retry=1)
    async def fail(n: int) -> None:
        raise ValueError(str(n))

    handles = await app.enqueue([fail.job(n) for n in range(count)])
    await app.worker().run_until_idle()
    return [handle.id for handle in handles]


async def test_dead_letters_are_listed_and_shown(still: App) -> None:
    ids = await dead_jobs(still, 3)
    page = await still.dead.list(limit=2)
    assert [record.id for record in page.items] == [ids[2], ids[1]]
    assert await still.jobs.count(state="dead", error_type="ValueError") == 3
    shown = await still.dead.show(ids[0])
    assert [failure.message for failure in shown.failures] == ["0"]
    await still.dead.redrive(ids[0])
    with pytest.raises(JobNotFound, match="not dead"):
        await still.dead.show(ids[0])


async def test_redrive_puts_them_back_as_fresh_at_a_rate(still: App) -> None:
    ids = await dead_jobs(still, 3)
    changed = await still.dead.redrive(task="fail", per_second=0.5)
    assert [each.id for each in changed] == ids
    due = [(await still.jobs.get(each)).run_at for each in ids]
    assert [(moment - due[0]).total_seconds() for moment in due] == [0, 2, 4]
    record = await still.jobs.get(ids[0])
    assert (record.attempt, record.redrives, len(record.failures)) == (1, 1, 1)


async def test_redrive_and_discard_can_be_limited(still: App) -> None:
    ids = await dead_jobs(still, 4)
    assert [each.id for each in await still.dead.redrive(everything=True, limit=1)] == ids[:1]
    assert [each.id for each in await still.dead.discard(limit=2, everything=True)] == ids[1:3]
    assert await still.dead.discard(ids[0]) == []
    with pytest.raises(InvalidArgument):
        await still.dead.redrive(ids[3], per_second=0)


async def test_idle_workers_redrive_within_the_cap() -> None:
    clock = ManualClock()
    app = App(auto_start=False, clock=clock, redrive=Redrive(cap=2, base=10, factor=2))
    async with app:
        (job_id,) = await dead_jobs(app, 1)
        worker = app.worker()
        assert worker is not None
        for pause in (10, 20):
            clock.advance(pause - 1)
            assert await idle_step(app) == 0
            clock.advance(1)
            assert await idle_step(app) == 1
            await app.worker().run_until_idle()
        clock.advance(1e6)
        assert await idle_step(app) == 0
        record = await app.jobs.get(job_id)
        assert (record.state, record.redrives) == (JobState.DEAD, 2)


async def idle_step(app: App) -> int:
    return (await RedriveDead(app.store, app._redrive).move(100)).total


async def test_letters_that_are_not_due_hide_nothing() -> None:
    clock = ManualClock()
    app = App(auto_start=False, clock=clock, redrive=Redrive(batch=2, base=100))
    async with app:
        await dead_jobs(app, 5)
        dead = RedriveDead(app.store, app._redrive)
        assert (await dead.move(100)).total == 0
        clock.advance(100)
        assert [(await dead.move(100)).total for _ in range(4)] == [2, 2, 1, 0]

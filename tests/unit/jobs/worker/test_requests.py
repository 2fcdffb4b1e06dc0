"""What operators ask of a worker: it is quiet, goes on, stops, and tells where it is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

import offpath
from offpath.jobs.worker.app_worker import AppWorker
from offpath.jobs.worker.dump import dump
from offpath.model.lease import LONGEST_ANSWER, WorkerAsk, WorkerDesk, WorkerRequest
from offpath.model.tally import Turn, Verdict

SECRET = "hunter2"
PATIENCE = 10.0


@pytest.fixture
async def app() -> AsyncIterator[offpath.App]:
    """An app in memory with a task, and no worker yet."""
    async with offpath.App(auto_start=False) as made:
        yield made


async def ask(app: offpath.App, worker: AppWorker, request: WorkerRequest) -> WorkerDesk:
    """Ask, and wait until the worker has answered."""
    one = WorkerAsk(id=app.new_id(), request=request)
    assert await app.store().ask_worker(worker.id, one)
    return await answered(app, worker, one.id)


async def answered(app: offpath.App, worker: AppWorker, ask_id: str) -> WorkerDesk:
    """Wait until the worker has answered this request."""
    async with asyncio.timeout(PATIENCE):
        while True:
            desk = await app.store().worker_desk(worker.id)
            if desk is not None and desk.answer is not None and desk.answer.id == ask_id:
                return desk
            await asyncio.sleep(0)


async def test_a_quiet_worker_takes_nothing_until_it_resumes(app: offpath.App) -> None:
    ran: list[int] = []

    @app.task
    async def note(n: int) -> None:
        ran.append(n)

    async with app.worker() as worker:
        await (await note.enqueue(1)).result(timeout=PATIENCE)
        await ask(app, worker, WorkerRequest.QUIET)
        assert worker.report().quiet
        later = await note.enqueue(2)
        for _ in range(50):
            await asyncio.sleep(0)
        await worker._engine.heartbeat.beat()  # a renewal does not open it again
        assert ran == [1]
        assert worker.alive
        # it does as it was told, which is no fault of its loop
        assert await worker._engine.claimer.step() == Turn(verdict=Verdict.EMPTY)
        await ask(app, worker, WorkerRequest.RESUME)
        await later.result(timeout=PATIENCE)
        assert (ran, worker.report().quiet) == ([1, 2], False)


async def test_a_worker_stops_when_it_is_asked_to_and_lets_its_jobs_end(app: offpath.App) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def long() -> str:
        began.set()
        await go_on.wait()
        return "done"

    worker = app.worker()
    running = asyncio.create_task(worker.run())
    job = await long.enqueue()
    await asyncio.wait_for(began.wait(), PATIENCE)
    await ask(app, worker, WorkerRequest.STOP)
    go_on.set()
    stopped = await asyncio.wait_for(running, PATIENCE)
    assert stopped.drained
    assert await job.result(timeout=PATIENCE) == "done"


async def test_a_dump_tells_where_a_handler_is_and_no_value(app: offpath.App) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def waits_here(password: str) -> None:
        began.set()
        await go_on.wait()

    async with app.worker() as worker:
        job = await waits_here.enqueue(SECRET)
        await asyncio.wait_for(began.wait(), PATIENCE)
        desk = await ask(app, worker, WorkerRequest.DUMP)
        go_on.set()
    assert desk.answer is not None
    text = desk.answer.text
    assert f"{job.id} waits_here attempt 1 running" in text
    assert "in waits_here" in text
    assert "thread MainThread" in text
    assert SECRET not in text


def test_a_dump_is_bounded() -> None:
    ready, end = threading.Barrier(251), threading.Event()

    def deep(left: int) -> None:
        if left:
            deep(left - 1)
        else:
            ready.wait()
            end.wait()

    threads = [threading.Thread(target=deep, args=(60,), daemon=True) for _ in range(250)]
    for one in threads:
        one.start()
    ready.wait()
    text = dump([], [])
    end.set()
    assert len(text) == LONGEST_ANSWER
    assert text.endswith("longer than an answer may be")


async def test_an_answer_that_could_not_be_written_is_tried_again(
    app: offpath.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with app.worker() as worker:
        store = app.store()
        real, failed = store.answer_worker, asyncio.Event()

        async def away(*_: object) -> bool:
            failed.set()
            raise offpath.StoreUnavailable("away for a moment")

        monkeypatch.setattr(store, "answer_worker", away)
        one = WorkerAsk(id=app.new_id(), request=WorkerRequest.DUMP)
        await store.ask_worker(worker.id, one)
        await asyncio.wait_for(failed.wait(), PATIENCE)
        monkeypatch.setattr(store, "answer_worker", real)
        await worker._engine.heartbeat.beat()
        desk = await answered(app, worker, one.id)
        assert desk.asked == ()

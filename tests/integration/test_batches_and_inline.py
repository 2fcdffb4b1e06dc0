"""Batch tasks and jobs that begin inline, over stores that processes share."""

from __future__ import annotations

import asyncio

import pytest

import offpath

COUNT = 2_000


@pytest.mark.timeout(120)
async def test_many_jobs_are_run_in_calls_and_each_ends_once(url: str) -> None:
    calls: list[int] = []
    app = offpath.App(url, retry=offpath.RetryOptions(attempts=3, base=0.01, jitter=0.0))
    failed: set[int] = set()

    @app.batch_task(size=50, max_wait=0.05)
    async def double(numbers: list[int]) -> list[int | Exception]:
        calls.append(len(numbers))
        await asyncio.sleep(0)
        return [outcome(number) for number in numbers]

    def outcome(number: int) -> int | Exception:
        if number % 100 == 0 and number not in failed:
            failed.add(number)
            return OSError("once")
        return 2 * number

    async with app, app.worker(concurrency=4):
        handles = await app.enqueue([double.job(number) for number in range(COUNT)])
        results = await asyncio.gather(*(handle.result(timeout=60) for handle in handles))
        assert results == [2 * number for number in range(COUNT)]
        records = [await handle.status() for handle in handles[:101]]
    assert {record.attempt for record in records} == {1, 2}
    assert max(calls) == 50
    assert sum(calls) == COUNT + COUNT // 100


@pytest.mark.timeout(60)
async def test_a_job_begins_inline_and_goes_on_elsewhere(url: str) -> None:
    ran: list[str] = []

    def service(name: str) -> offpath.App:
        app = offpath.App(url, retry=offpath.RetryOptions(attempts=3, base=0.01, jitter=0.0))

        @app.task
        async def work(ctx: offpath.Context) -> str:
            ran.append(name)
            if ctx.attempt == 1:
                raise OSError("not yet")
            return name

        return app

    async with service("front") as front:
        handle = await front.tasks["work"].options(inline=True).enqueue()
        async with service("back") as back, back.worker():
            assert await handle.result(timeout=30) == "back"
        [*workers] = [one for one in await front.workers() if one.gone_at is None]
        assert [one.info.tasks for one in workers] == [()]
    assert ran == ["front", "back"]


@pytest.mark.timeout(60)
async def test_a_worker_that_declines_leaves_its_jobs_to_another(url: str) -> None:
    def service(*wanted: str) -> offpath.App:
        app = offpath.App(url)
        app.configure_workers(accept=lambda offer: offer.task in wanted)

        @app.task
        async def red() -> str:
            return wanted[0]

        @app.task
        async def blue() -> str:
            return wanted[0]

        return app

    first, second = service("red"), service("blue")
    async with first, second, first.worker(), second.worker():
        tasks = [first.tasks["red"], first.tasks["blue"]]
        handles = [await task.enqueue() for _ in range(10) for task in tasks]
        results = await asyncio.gather(*(handle.result(timeout=30) for handle in handles))
    assert results == ["red", "blue"] * 10

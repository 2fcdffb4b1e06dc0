"""Handlers that wait for other jobs: they give their slots back meanwhile, so those jobs begin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from offpath import App, JobDead
from offpath.errors import WaitRefused
from offpath.jobs.worker import hand
from tests.sqlite_files import migrated_url

pytestmark = pytest.mark.needs("workflows")

PATIENCE = 20.0


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of each kind."""
    if request.param == "postgres":
        return str(request.getfixturevalue("swept_postgres"))
    return "memory://" if request.param == "memory" else migrated_url(tmp_path / "jobs.db")


@asynccontextmanager
async def running(
    app: App, concurrency: int = 1, queues: Mapping[str, int | None] | None = None
) -> AsyncIterator[None]:
    await app.migrate()
    worker = app.worker(concurrency=concurrency, poll_interval=0.1, queues=queues or {})
    async with app, worker:
        yield


async def test_children_run_while_their_parents_wait_in_every_slot(url: str) -> None:
    app = App(url, auto_start=False)

    @app.task
    async def leaf(number: int) -> int:
        return number

    @app.task
    async def middle(number: int) -> int:
        first, second = await leaf.enqueue(number), await leaf.enqueue(number)
        return sum(await asyncio.gather(first.result(), second.result()))

    @app.task
    async def top(number: int) -> int:
        return await (await middle.enqueue(number)).result() + 1

    async with running(app):
        handles = [await top.enqueue(number) for number in range(4)]
        results = [await handle.result(timeout=PATIENCE) for handle in handles]
        assert results == [1, 3, 5, 7]


async def test_a_wait_for_a_group_gives_the_slot_back_too(url: str) -> None:
    app = App(url, auto_start=False)

    @app.task
    async def child() -> int:
        return 4

    @app.task
    async def parent() -> int:
        return await (await child.enqueue()).group()

    async with running(app):
        assert await (await parent.enqueue()).result(timeout=PATIENCE) == 4


async def test_sync_handlers_that_wait_leave_room_and_threads_for_others(url: str) -> None:
    app = App(url, auto_start=False)

    @app.task
    def leaf() -> int:
        return 1

    @app.task
    def middle() -> int:
        return app.blocking.enqueue(leaf.job()).result() + 1

    @app.task
    def top() -> int:
        return app.blocking.enqueue(middle.job()).result() + 1

    async with running(app):
        handles = [await top.enqueue() for _ in range(3)]
        assert [await handle.result(timeout=PATIENCE) for handle in handles] == [3, 3, 3]


async def test_a_batch_handler_that_waits_gives_its_slot_back(url: str) -> None:
    app = App(url, auto_start=False)

    @app.task
    async def child(number: int) -> int:
        return number * 10

    @app.batch_task(size=2, max_wait=0.05)
    async def parents(numbers: list[int]) -> list[int]:
        handles = [await child.enqueue(number) for number in numbers]
        return [await handle.result() for handle in handles]

    async with running(app):
        handles = [await parents.enqueue(number) for number in range(3)]
        assert [await handle.result(timeout=PATIENCE) for handle in handles] == [0, 10, 20]


async def test_a_task_may_wait_for_itself(url: str) -> None:
    app = App(url, auto_start=False)

    @app.task
    async def down(number: int) -> int:
        if number == 0:
            return 0
        return await (await down.enqueue(number - 1)).result() + 1

    async with running(app):
        assert await (await down.enqueue(6)).result(timeout=PATIENCE) == 6


async def test_a_wait_that_no_slot_could_end_is_refused(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand, "DEEPEST", 2)
    app = App(url, auto_start=False)

    @app.task(retry=1)
    async def down(number: int) -> int:
        return 0 if number == 0 else await (await down.enqueue(number - 1)).result()

    async with running(app):
        with pytest.raises(JobDead):
            await (await down.enqueue(3)).result(timeout=PATIENCE)
        dead = (await app.dead.list(newest=True)).items
        assert [job.failures[-1].type.rpartition(".")[2] for job in dead] == [
            WaitRefused.__name__,
            JobDead.__name__,
            JobDead.__name__,
        ]
        assert "3 handlers of that task wait here" in dead[0].failures[-1].message


@pytest.mark.parametrize("limited", ["task", "queue"])
async def test_a_wait_behind_its_own_limit_is_refused(url: str, limited: str) -> None:
    app = App(url, auto_start=False)
    limit = 1 if limited == "task" else None

    @app.task(queue="other" if limited == "task" else "default", concurrency=limit)
    async def again(deeper: bool) -> int:
        return await (await again.enqueue(False)).result() if deeper else 1

    async with running(app, concurrency=4, queues={"default": 1, "other": None}):
        handle = await again.options(retry=1).enqueue(True)
        with pytest.raises(JobDead, match="WaitRefused"):
            await handle.result(timeout=PATIENCE)


async def test_a_worker_that_stops_does_not_wait_for_waits_without_end(url: str) -> None:
    app = App(url, auto_start=False)
    began = asyncio.Event()

    @app.task
    async def parent() -> None:
        child = await app.enqueue_by_name("elsewhere")
        began.set()
        await child.result()

    @app.task(queue="nobody")
    async def elsewhere() -> None: ...

    await app.migrate()
    async with app:
        worker = app.worker(queues=["default"], concurrency=1, drain_timeout=0.1)
        async with worker:
            handle = await parent.enqueue()
            await asyncio.wait_for(began.wait(), PATIENCE)
        assert (await handle.status()).state == "queued"

"""The blocking client: the same verbs without an event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from offpath import App, InvalidArgument, JobState
from offpath.errors import AppClosed, CapabilityMissing
from offpath.jobs.client.core import core_of


def test_the_blocking_client_needs_no_loop() -> None:
    app = App()

    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    with app.blocking as client:
        handle = client.enqueue(add.job(1, 2))
        assert handle.result(timeout=10) == 3
        assert handle.status().state is JobState.SUCCEEDED
        assert handle.created
        assert handle.progress() is None
        assert handle.cancel() is False
        several = client.enqueue([add.job(n, n) for n in range(3)])
        assert [each.result(timeout=10) for each in several] == [0, 2, 4]
        assert client.enqueue_by_name("add", a=2, b=2).result(timeout=10) == 4
        assert client.jobs.count(state="succeeded") == 5
        assert len(client.jobs.find(limit=2).items) == 2
        assert client.jobs.get(handle.id).task == "add"
        assert client.dead.list().items == ()
        assert client.migrate() == []
        assert client.backlog() == []
        assert len(client.workers()) == 1
        assert client.enqueue([]) == []
    threads = [thread.name for thread in threading.enumerate()]
    assert not any("blocking" in name for name in threads)


async def test_the_blocking_client_refuses_to_stop_a_loop(still: App) -> None:
    with pytest.raises(InvalidArgument, match="await"):
        still.blocking.jobs.count()


async def test_the_blocking_client_works_from_threads_of_an_open_app(still: App) -> None:
    @still.task
    async def never(n: int) -> None: ...

    await still.open()
    ids = await asyncio.gather(
        *(
            asyncio.to_thread(lambda n=n: still.blocking.enqueue(never.job(n)).id)  # type: ignore[misc]
            for n in range(10)
        )
    )
    assert len(set(ids)) == await still.jobs.count() == 10
    await asyncio.to_thread(still.blocking.close)
    assert await still.jobs.count() == 10


def test_the_blocking_client_refuses_a_loop_that_stands_still() -> None:
    app = App(auto_start=False)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(app.open())
    with pytest.raises(AppClosed, match="not running"):
        app.blocking.jobs.count()
    loop.run_until_complete(app.close())
    loop.close()


def test_an_app_open_in_blocking_use_is_refused_elsewhere() -> None:
    app = App(auto_start=False)
    with app.blocking, pytest.raises(AppClosed, match="another event loop"):
        asyncio.run(app.jobs.count())


def test_blocking_within_needs_no_opening() -> None:
    app = App()

    @app.task
    async def never() -> None: ...

    with pytest.raises(CapabilityMissing):
        app.blocking.enqueue(never.job(), within=object())
    assert core_of(app).loop() is None

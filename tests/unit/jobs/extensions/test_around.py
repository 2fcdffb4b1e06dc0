"""``around=``: the user's own code around a handler; what it raises counts as the handler's."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any

import pytest

import offpath
from offpath.errors import TaskError
from offpath.extensions import Extension, Running
from offpath.runtime.clock import ManualClock
from offpath.testing import drain

TENANT: ContextVar[str] = ContextVar("TENANT", default="none")
NOTES: list[Any] = []


@pytest.fixture(autouse=True)
def _notes() -> None:
    NOTES.clear()


@contextmanager
def tenant(run: Running) -> Iterator[None]:
    token = TENANT.set(run.task)
    NOTES.append(("in", threading.current_thread().name.startswith("offpath-handler")))
    try:
        yield
    except BaseException as error:
        NOTES.append(type(error).__name__)
        raise
    finally:
        TENANT.reset(token)


@asynccontextmanager
async def session(run: Running) -> AsyncIterator[None]:
    NOTES.append(f"session of {run.task}")
    yield
    NOTES.append("session left")


@contextmanager
def busy(run: Running) -> Iterator[None]:
    if run.attempt:
        raise offpath.Snooze(30)
    yield


@contextmanager
def forbidden(run: Running) -> Iterator[None]:
    if run.attempt:
        raise offpath.Abort("not for this tenant")
    yield


@contextmanager
def forgiving(run: Running) -> Iterator[None]:
    try:
        yield
    except KeyError:
        NOTES.append("forgiven")


def made(**settings: Any) -> offpath.App:
    return offpath.App(auto_start=False, clock=ManualClock(), **settings)


async def test_an_apps_around_is_outside_of_the_tasks_own_for_async_handlers() -> None:
    async with made(around=[tenant]) as app:

        @app.task(around=session)
        async def work() -> str:
            return TENANT.get()

        handle = await work.enqueue()
        await drain(app)
        assert await handle.result() == "work"
    assert NOTES == [("in", False), "session of work", "session left"]


async def test_a_sync_handler_is_surrounded_in_its_thread() -> None:
    async with made(around=tenant) as app:

        @app.task
        def work() -> str:
            return TENANT.get()

        handle = await work.enqueue()
        await drain(app)
        assert await handle.result() == "work"
    assert NOTES == [("in", True)]


@pytest.mark.parametrize("sync", [False, True])
async def test_a_batch_is_surrounded_once(sync: bool) -> None:
    async def many(items: list[int]) -> list[str]:
        return [TENANT.get() for _ in items]

    def many_sync(items: list[int]) -> list[str]:
        return [TENANT.get() for _ in items]

    async with made(around=[tenant]) as app:
        task = app.batch_task(size=3, name="many")(many_sync if sync else many)
        handles = [await task.enqueue(n) for n in range(3)]
        await drain(app)
        assert [await one.result() for one in handles] == ["many"] * 3
    assert [("in", sync)] == NOTES


@pytest.mark.parametrize(
    ("around", "state"), [(busy, offpath.JobState.QUEUED), (forbidden, offpath.JobState.DEAD)]
)
@pytest.mark.parametrize("kind", ["async", "sync", "batch"])
async def test_snooze_and_abort_of_an_around_are_the_handlers(
    around: Any, state: offpath.JobState, kind: str
) -> None:
    called: list[int] = []
    async with made(around=around) as app:
        task: Any
        if kind == "batch":
            task = app.batch_task(size=2)(_many(called))
        else:
            task = app.task(_one_async(called) if kind == "async" else _one(called))
        handle = await task.enqueue(1)
        await drain(app)
        job = await app.jobs.get(handle.id)
    assert job.state is state
    assert called == []


def _many(called: list[int]) -> Any:
    async def many(items: list[int]) -> list[None]:
        called.extend(items)
        return [None for _ in items]

    return many


def _one(called: list[int]) -> Any:
    def one(n: int) -> None:
        called.append(n)

    return one


def _one_async(called: list[int]) -> Any:
    async def one(n: int) -> None:
        called.append(n)

    return one


async def test_an_error_of_an_around_goes_through_the_tasks_classifier() -> None:
    seen: list[BaseException] = []

    @contextmanager
    def broken(run: Running) -> Iterator[None]:
        yield
        raise LookupError("no row")

    def classify(error: BaseException, info: offpath.FailureInfo) -> Any:
        seen.append(error)
        return offpath.ABORT

    async with made(around=broken) as app:
        handle = await app.task(on_failure=classify)(_one_async([])).enqueue(1)
        await drain(app)
        job = await app.jobs.get(handle.id)
    assert [type(one) for one in seen] == [LookupError]
    assert job.state is offpath.JobState.DEAD


async def test_an_around_sees_what_the_handler_raised_and_may_take_it() -> None:
    async with made(around=[forgiving, tenant]) as app:

        @app.task
        async def work() -> None:
            raise KeyError("gone")

        handle = await work.enqueue()
        await drain(app)
        await handle.result()
    assert NOTES == [("in", False), "KeyError", "forgiven"]


async def test_extensions_are_outside_of_arounds() -> None:
    class Outer(Extension):
        @contextmanager
        def running(self, run: Running, /) -> Iterator[None]:
            NOTES.append("extension")
            yield
            NOTES.append("extension left")

    async with made(around=session, extensions=[Outer()]) as app:
        await app.task(_one_async([])).enqueue(1)
        await drain(app)
    assert NOTES == ["extension", "session of one", "session left", "extension left"]


class Async:
    """A context for coroutines only."""

    def __init__(self, run: Running) -> None: ...

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *_: object) -> None: ...


def annotated(run: Running) -> AbstractAsyncContextManager[None]:
    return session(run)


def unannotated(run):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201 - what the test is about
    return session(run)


@pytest.mark.parametrize("around", [session, Async, annotated])
def test_an_async_around_of_a_sync_handler_is_refused_where_it_is_defined(around: Any) -> None:
    with pytest.raises(TaskError, match="is async, but the handler is sync"):
        made().task(around=[around])(_one([]))
    with pytest.raises(TaskError, match="is async, but the handler is sync"):
        made(around=around).task(_one([]))


async def test_one_that_does_not_tell_that_it_is_async_fails_the_attempt() -> None:
    async with made(around=unannotated, retry=1) as app:
        handle = await app.task(_one([])).enqueue(1)
        await drain(app)
        job = await app.jobs.get(handle.id)
    assert job.failure is not None
    assert "must return a plain context manager" in job.failure.message


def generator(run: Running) -> Iterator[None]:
    yield


async def coroutine(run: Running) -> None: ...


@pytest.mark.parametrize("around", [generator, coroutine, 3, [3], "tenant"])
def test_what_gives_no_context_is_refused_where_it_is_defined(around: Any) -> None:
    with pytest.raises(TaskError, match="around"):
        made(around=around)
    with pytest.raises(TaskError, match="around"):
        made().task(around=around)(_one_async([]))


async def test_a_call_in_a_test_passes_no_around() -> None:
    app = made(around=forbidden)
    called: list[int] = []
    await app.task(_one_async(called))(1)
    assert called == [1]

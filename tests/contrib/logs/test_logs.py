"""The job on what handlers log: threads, tasks, batches, nested calls, and nothing left behind."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
import structlog
from structlog.contextvars import bind_contextvars, clear_contextvars, get_contextvars

import offpath
from offpath.contrib.logging import JobLogFilter, JobLogging
from offpath.contrib.structlog import BindJob, add_job
from offpath.testing import drain


class Kept(logging.Handler):
    """Keeps records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Any] = []
        self.addFilter(JobLogFilter())

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.records.append(record)


@pytest.fixture
def log() -> Any:
    """A logger that knows nothing of jobs."""
    logger, handler = logging.getLogger("shop"), Kept()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield logger, handler.records
    logger.removeHandler(handler)


async def test_every_record_of_a_handler_has_its_job_and_no_other(log: Any) -> None:
    logger, records = log
    async with offpath.App("memory://", extensions=[JobLogging()], auto_start=False) as app:

        @app.task(queue="mail")
        async def in_task(number: int) -> None:
            await asyncio.sleep(0)
            logger.info("%d", number)

        @app.task
        def in_thread(number: int) -> None:
            logger.info("%d", number)

        ids = {}
        for number in range(50):
            task = in_task if number % 2 else in_thread
            task_ = task.options(headers={"correlation-id": f"c{number}"})
            ids[str(number)] = (await task_.enqueue(number)).id
        await drain(app)
        logger.info("outside")
    *inside, outside = records
    assert {one.getMessage(): one.job_id for one in inside} == ids
    assert {one.getMessage(): one.correlation_id for one in inside}["7"] == "c7"
    assert {(one.task, one.queue, one.attempt) for one in inside} == {
        ("in_task", "mail", 1),
        ("in_thread", "default", 1),
    }
    assert outside.job_id is None


async def test_a_field_that_a_record_has_stays(log: Any) -> None:
    logger, records = log
    async with offpath.App("memory://", extensions=[JobLogging()], auto_start=False) as app:

        @app.task
        async def work() -> None:
            logger.info("said", extra={"task": "mine"})

        await work.enqueue()
        await drain(app)
    assert records[0].task == "mine"
    assert records[0].job_id


async def test_the_trace_is_on_a_record_where_a_span_is_current(log: Any) -> None:
    from tests.contrib.opentelemetry.rig import Recorder

    logger, records = log
    recorder = Recorder()
    extensions = [recorder.extension(), JobLogging()]
    async with offpath.App("memory://", extensions=extensions, auto_start=False) as app:

        @app.task
        async def work() -> None:
            logger.info("said")

        await work.enqueue()
        await drain(app)
    ran = recorder.named("run work").context
    assert records[0].trace_id == f"{ran.trace_id:032x}"
    assert records[0].span_id == f"{ran.span_id:016x}"


async def test_the_processor_of_structlog_adds_the_job_and_replaces_nothing() -> None:
    said: list[dict[str, Any]] = []

    def keep(_: object, __: str, event: Any) -> Any:
        said.append(dict(event))
        raise structlog.DropEvent

    logger = structlog.wrap_logger(None, processors=[add_job, keep])
    async with offpath.App("memory://", extensions=[JobLogging()], auto_start=False) as app:

        @app.task
        def work() -> None:
            logger.info("said", queue="mine")

        handle = await work.enqueue()
        await drain(app)
    logger.info("outside")
    assert said[0]["job_id"] == handle.id
    assert (said[0]["task"], said[0]["queue"]) == ("work", "mine")
    assert "correlation_id" not in said[0]
    assert said[1] == {"event": "outside"}


async def test_what_is_bound_is_the_jobs_own_and_what_the_application_bound_stays() -> None:
    seen: dict[str, dict[str, Any]] = {}
    clear_contextvars()
    bind_contextvars(service="shop", task="outer")
    try:
        async with offpath.App("memory://", extensions=[BindJob()], auto_start=False) as app:

            @app.task
            def work(name: str) -> None:
                bind_contextvars(own=name)
                seen[name] = get_contextvars()

            @app.task
            async def outer() -> None:
                work("direct")  # a call like any other: it is in the job that calls it
                seen["outer"] = get_contextvars()

            a, o = await work.enqueue("a"), await outer.enqueue()
            await drain(app)
        assert get_contextvars() == {"service": "shop", "task": "outer"}
    finally:
        clear_contextvars()
    assert seen["a"] == {"task": "work", "job_id": a.id, "own": "a"}
    assert seen["direct"]["job_id"] == o.id
    assert seen["outer"]["task"] == "outer"

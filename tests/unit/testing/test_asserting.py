"""Looking at what was enqueued, and failing with a text that helps and tells no secret."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from offpath import App, Context, InvalidArgument, JobState, Options
from offpath.errors import InvalidInput
from offpath.testing import (
    ManualClock,
    MemorySwap,
    assert_enqueued,
    drain,
    enqueued,
    refute_enqueued,
)  # fmt: skip

Memory = MemorySwap[ManualClock]


@dataclass
class Mail:
    to: str
    api_token: str = "t0ps3cret"


@pytest.fixture
def send(app: App, memory: Memory) -> Any:
    @app.task
    async def send(ctx: Context, mail: Mail, *, urgent: bool = False) -> None: ...

    @app.task
    async def other(password: str = "hunter2hunter2") -> None: ...

    return send


async def test_it_gives_the_jobs_it_found(app: App, send: Any) -> None:
    first = await send.enqueue(Mail("ann"))
    second = await send.enqueue(Mail("bob"), urgent=True)
    assert [one.id for one in await assert_enqueued(app, send)] == [first.id, second.id]
    assert [one.id for one in await enqueued(app)] == [first.id, second.id]
    assert [one.id for one in await assert_enqueued(app, "send", count=2)] == [first.id, second.id]
    (found,) = await assert_enqueued(app, send.job(Mail("bob"), urgent=True), count=1)
    assert found.id == second.id
    (found,) = await assert_enqueued(app, send, inputs={"mail": Mail("ann"), "urgent": False})
    assert found.id == first.id


async def test_the_filters_are_those_of_the_app(app: App, send: Any) -> None:
    await send.options(queue="mail", tags=["a", "b"]).enqueue(Mail("ann"))
    await send.enqueue(Mail("bob"))
    await assert_enqueued(app, send, queue="mail", tags=["a"], count=1)
    await assert_enqueued(app, send, state=JobState.QUEUED, count=2)
    with pytest.raises(AssertionError, match="queue='bulk'"):
        await assert_enqueued(app, send, queue="bulk")


async def test_a_job_that_is_there_is_refuted_by_what_it_is(app: App, send: Any) -> None:
    await refute_enqueued(app, send)
    await send.options(queue="mail").enqueue(Mail("ann"))
    await refute_enqueued(app, send.job(Mail("bob")))
    await refute_enqueued(app, send, queue="bulk")
    await refute_enqueued(app, send, inputs={"urgent": True})
    for wanted in (send, send.job(Mail("ann"))):
        with pytest.raises(AssertionError, match=r"expected 0 job\(s\) of send"):
            await refute_enqueued(app, wanted, queue="mail")


async def test_none_at_all_can_be_asserted(app: App, send: Any) -> None:
    await assert_enqueued(app, send, count=0)
    await send.enqueue(Mail("ann"))
    with pytest.raises(AssertionError, match=r"expected 0 job\(s\) of send, found 1"):
        await assert_enqueued(app, send, count=0)


async def test_what_has_run_was_enqueued(app: App, send: Any) -> None:
    await send.enqueue(Mail("ann"))
    await drain(app)
    await assert_enqueued(app, send, count=1)
    await assert_enqueued(app, send, state="queued", count=0)


async def test_the_failure_shows_what_is_there(app: App, send: Any) -> None:
    await send.options(queue="mail", tags=["vip"]).enqueue(Mail("ann"))
    await app.enqueue_by_name("other", Options(priority=3))
    with pytest.raises(AssertionError) as caught:
        await assert_enqueued(app, send.job(Mail("bob")))
    text = str(caught.value)
    assert "at least one job of send, with the same arguments as the job given, found 0" in text
    assert "send: queued in 'mail', due 2026-01-01" in text
    assert "tags vip" in text
    assert "ann" in text
    assert text.index("send: queued") < text.index("other: queued")


async def test_the_failure_tells_no_secret(app: App, send: Any) -> None:
    await send.enqueue(Mail("ann"))
    await app.tasks["other"].enqueue()
    for wanted, inputs in ((send, {"mail": Mail("x")}), ("other", {"password": "s3cr3t-s3cr3t"})):
        with pytest.raises(AssertionError) as caught:
            await assert_enqueued(app, wanted, inputs=inputs)
        for secret in ("t0ps3cret", "hunter2", "s3cr3t"):
            assert secret not in str(caught.value)
        assert "***" in str(caught.value)


async def test_the_failure_is_of_a_readable_length(app: App, send: Any) -> None:
    await app.enqueue([send.job(Mail("x" * 5_000)) for _ in range(100)])
    with pytest.raises(AssertionError) as caught:
        await assert_enqueued(app, send, count=1)
    assert "and 80 more" in str(caught.value)
    assert len(str(caught.value)) < 20_000


async def test_an_empty_store_is_said_to_be_empty(app: App, send: Any) -> None:
    with pytest.raises(AssertionError, match="Nothing was enqueued at all"):
        await assert_enqueued(app, send)


async def test_arguments_that_no_longer_fit_do_not_hide_the_failure(app: App, send: Any) -> None:
    await app.by_name("gone", registered=False).enqueue(a=1)
    await send.enqueue(Mail("ann"))
    del app.tasks._tasks["send"]

    @app.task(name="send")
    async def newer(number: int) -> None: ...

    with pytest.raises(AssertionError, match="do not fit the task as it is now"):
        await assert_enqueued(app, "send", queue="none")
    with pytest.raises(AssertionError, match="not registered here"):
        await assert_enqueued(app, "gone", queue="none")


async def test_questions_that_make_no_sense_are_refused(app: App, send: Any) -> None:
    with pytest.raises(InvalidArgument, match="second argument"):
        await assert_enqueued(app, send, task="other")
    with pytest.raises(InvalidArgument, match="not registered"):
        await assert_enqueued(app, "unknown", inputs={"a": 1})
    with pytest.raises(InvalidArgument, match=r"task\.job"):
        await assert_enqueued(app, send.fn)
    with pytest.raises(InvalidInput):
        await assert_enqueued(app, send.job("no mail"))

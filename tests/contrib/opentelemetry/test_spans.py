"""Spans of what is enqueued, run and delivered: their parents, links, status and attributes."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind, StatusCode

import offpath
from offpath import Abort, Snooze
from offpath.batch_tasks import BatchContext
from offpath.errors import InvalidArgument, TaskError
from offpath.model.headers import decoded_headers
from offpath.runtime.catalogue import CATALOGUE, MetricKind
from offpath.runtime.clock import ManualClock
from offpath.testing import drain
from tests.contrib.opentelemetry.rig import Recorder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from offpath.extensions import Extension


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def made(recorder: Recorder, **options: Any) -> offpath.App:
    extension = recorder.extension(**options)
    return offpath.App(
        "memory://", extensions=[extension], auto_start=False, clock=ManualClock(), retry=1
    )


async def test_an_attempt_is_a_trace_of_its_own_that_is_linked_to_the_enqueue(
    recorder: Recorder,
) -> None:
    async with made(recorder) as app:

        @app.task
        async def work() -> None: ...

        await work.enqueue()
        await drain(app)
    sent, ran = recorder.named("enqueue work"), recorder.named("run work")
    assert (sent.kind, ran.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert ran.parent is None
    assert ran.context.trace_id != sent.context.trace_id
    assert [link.context.span_id for link in ran.links] == [sent.context.span_id]
    assert ran.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("parent", [True, ["work"]])
async def test_it_is_a_child_of_the_enqueue_where_that_is_asked_for(
    recorder: Recorder, parent: Any
) -> None:
    async with made(recorder, parent=parent) as app:

        @app.task
        async def work() -> None: ...

        await work.enqueue()
        await drain(app)
    sent, ran = recorder.named("enqueue work"), recorder.named("run work")
    assert ran.parent is not None
    assert ran.parent.span_id == sent.context.span_id
    assert ran.links == ()


async def test_a_task_says_itself_that_it_is_a_child_or_linked(recorder: Recorder) -> None:
    async with made(recorder, parent=["linked"]) as app:

        @app.task(trace="parent")
        async def child() -> None: ...

        @app.task(trace="link")
        async def linked() -> None: ...

        await child.enqueue()
        await linked.enqueue()
        await drain(app)
    sent, ran = recorder.named("enqueue child"), recorder.named("run child")
    assert ran.parent is not None
    assert ran.parent.span_id == sent.context.span_id
    assert recorder.named("run linked").parent is None

    with pytest.raises(TaskError, match='trace is "link" or "parent", not \'child\''):

        @app.task(trace="child")  # type: ignore[call-overload] # which is the point
        async def wrong() -> None: ...


def test_one_name_of_a_task_or_of_baggage_is_not_a_list(recorder: Recorder) -> None:
    with pytest.raises(InvalidArgument, match="parent"):
        recorder.extension(parent="work")
    with pytest.raises(InvalidArgument, match="baggage"):
        recorder.extension(baggage="tenant")


@pytest.mark.parametrize("create_spans", [True, False])
async def test_of_many_jobs_each_is_created_and_the_commit_links_to_them(
    recorder: Recorder, create_spans: bool
) -> None:
    async with made(recorder, create_spans=create_spans) as app:

        @app.task
        async def work(number: int) -> None: ...

        handles = await app.enqueue([work.job(number) for number in range(3)])
        headers = [decoded_headers((await app.jobs.get(one.id)).headers) for one in handles]
    sent = recorder.named("enqueue work")
    created = [one for one in recorder.ended() if one.name == "create work"]
    assert sent.kind is SpanKind.CLIENT
    assert (sent.attributes or {})["messaging.batch.message_count"] == 3
    assert len(created) == (3 if create_spans else 0)
    assert {link.context.span_id for link in sent.links} == {one.context.span_id for one in created}
    told = [f"{one.context.span_id:016x}" for one in created or [sent] * 3]
    assert [one["traceparent"].split("-")[2] for one in headers] == told


def fails() -> None:
    raise ValueError("secret")


def aborts() -> None:
    raise Abort("no")


def snoozes() -> None:
    raise Snooze(60)


@pytest.mark.parametrize(
    ("handler", "outcome", "status"),
    [
        (fails, "dead", StatusCode.ERROR),
        (aborts, "dead", StatusCode.ERROR),
        (snoozes, "snoozed", StatusCode.UNSET),
    ],
)
async def test_the_status_is_that_of_the_verdict(
    recorder: Recorder, handler: Any, outcome: str, status: StatusCode
) -> None:
    async with made(recorder) as app:
        await app.task(name="work")(handler).enqueue()
        await drain(app)
    ran = recorder.named("run work")
    assert (ran.attributes or {})["offpath.outcome"] == outcome
    assert ran.status.status_code is status
    events = [event.name for event in ran.events]
    assert events == (["exception"] if status is StatusCode.ERROR else [])


async def test_each_repeated_attempt_has_a_span_linked_to_the_same_enqueue(
    recorder: Recorder,
) -> None:
    async with made(recorder) as app:

        @app.task(retry=2)
        def work() -> None:
            raise OSError

        await work.enqueue()
        await drain(app)
        assert isinstance(app.clock, ManualClock)
        app.clock.advance(3600)
        await drain(app)
    runs = [one for one in recorder.ended() if one.name == "run work"]
    sent = recorder.named("enqueue work")
    assert [(one.attributes or {})["offpath.outcome"] for one in runs] == ["retry", "dead"]
    assert {link.context.span_id for one in runs for link in one.links} == {sent.context.span_id}


async def test_a_batch_is_one_span_with_links_to_all_its_jobs(recorder: Recorder) -> None:
    async with made(recorder) as app:

        @app.batch_task(size=5)
        async def work(ctx: BatchContext, numbers: list[int]) -> list[None]:
            return [None for _ in numbers]

        sent = [await work.enqueue(number) for number in range(3)]
        await drain(app)
    ran = recorder.named("run work")
    assert len(sent) == len(ran.links) == 3
    assert (ran.attributes or {})["messaging.batch.message_count"] == 3


async def test_what_a_handler_makes_is_a_child_of_its_attempt_and_so_is_a_step(
    recorder: Recorder,
) -> None:
    async with made(recorder) as app:

        @app.task
        async def child(how: str) -> None: ...

        @app.task
        async def parent(ctx: offpath.Context) -> Any:
            async def look() -> int:
                return 1

            await ctx.step("look", look)
            await child.enqueue("sent")
            ctx.publish("told")
            return ctx.queue(child.job("planned"))

        await parent.enqueue()
        await drain(app)
    run = recorder.named("run parent").context.span_id
    inside = [one for one in recorder.ended() if one.parent is not None]
    assert {one.name for one in inside if one.parent and one.parent.span_id == run} == {
        *("step look", "enqueue child", "create child", "create told", "enqueue"),
    }


async def test_no_span_and_no_baggage_leaks_into_another_job_of_a_thread_or_task(
    recorder: Recorder,
) -> None:
    """200 jobs at once: each handler sees the span of its own attempt, and nobody else's."""
    seen: dict[int, str] = {}
    lock = threading.Lock()

    def note(number: int) -> None:
        span = trace.get_current_span()
        with lock:
            seen[number] = str((span.attributes or {})["messaging.message.id"])  # type: ignore[attr-defined]

    async with made(recorder, baggage=["tenant"]) as app:

        @app.task
        async def in_task(number: int) -> None:
            await asyncio.sleep(0)
            assert baggage.get_baggage("tenant") == f"t{number}"
            assert baggage.get_baggage("other") is None
            note(number)

        @app.task
        def in_thread(number: int) -> None:
            assert baggage.get_baggage("tenant") == f"t{number}"
            note(number)

        ids = {}
        for number in range(200):
            token = context.attach(
                baggage.set_baggage("tenant", f"t{number}", baggage.set_baggage("other", "o"))
            )
            task = in_task if number % 2 else in_thread
            ids[number] = (await task.enqueue(number)).id
            context.detach(token)
        await drain(app)
        assert trace.get_current_span() is trace.INVALID_SPAN
        assert await app.jobs.count(state="dead") == 0
    assert seen == ids


async def test_an_inbox_message_is_linked_to_its_sender_and_what_it_makes_is_its_child(
    recorder: Recorder,
) -> None:
    sender = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with made(recorder) as app:

        @app.task
        async def child() -> None: ...

        @app.inbox("shop")
        async def take(
            message: offpath.events.InboxMessage, ctx: offpath.events.InboxContext
        ) -> None:
            ctx.enqueue(child.job())

        await app.accept("shop", "1", {}, headers={"traceparent": sender})
        await app.drain("shop").run_once()
    applied, made_ = recorder.named("apply shop"), recorder.named("enqueue child")
    assert [f"{link.context.span_id:016x}" for link in applied.links] == ["b7ad6b7169203331"]
    assert made_.parent is not None
    assert made_.parent.span_id == applied.context.span_id


async def test_no_argument_result_tag_or_key_is_on_a_span(recorder: Recorder) -> None:
    async with made(recorder) as app:

        @app.task(tags=["hidden-tag"], unique=offpath.Unique(key="hidden-key"))
        async def work(text: str) -> str:
            return "hidden-result"

        await work.enqueue("hidden-argument")
        await app.publish("topic", {"a": "hidden-payload"}, key="hidden-message-key")
        await drain(app)
    assert "hidden" not in "".join(one.to_json() for one in recorder.ended())


async def test_every_metric_of_the_catalogue_is_an_instrument(recorder: Recorder) -> None:
    created: list[str] = []

    class Provider:
        def get_meter(self, *_: object, **__: object) -> Any:
            return self

        def __getattr__(self, name: str) -> Any:
            def create(instrument: str, *_: object, **__: object) -> None:
                created.append(instrument)

            return create

    from offpath.contrib.opentelemetry.meters import Meters

    Meters(Provider())  # type: ignore[arg-type]
    assert len(created) == len(set(created))
    parts = sum(2 if one.kind is MetricKind.SUMMARY else 1 for one in CATALOGUE.values())
    assert len(created) == parts + 4


async def test_metrics_count_what_was_sent_and_run(recorder: Recorder) -> None:
    async with made(recorder) as app:

        @app.task(queue="mail")
        async def work() -> None: ...

        await app.enqueue([work.job(), work.job()])
        await drain(app)
        points = recorder.points()
    assert [value for _, value in points["messaging.client.sent.messages"]] == [2]
    assert [value for _, value in points["messaging.client.consumed.messages"]] == [2]
    assert [value for _, value in points["messaging.process.duration"]] == [2]
    labels = {"task": "work", "queue": "mail"}
    assert (labels, 2) in points["offpath.jobs_succeeded"]
    assert (labels, 2) in points["offpath.jobs_queued"]
    assert recorder.points().get("offpath.jobs_queued") is None, "a closed app is read no more"


async def test_without_a_provider_nothing_is_recorded_and_jobs_run() -> None:
    from offpath.contrib.opentelemetry import OpenTelemetry

    extension = OpenTelemetry()
    async with offpath.App("memory://", extensions=[extension], auto_start=False) as app:

        @app.task
        async def work() -> int:
            return 1

        handle = await work.enqueue()
        await drain(app)
        assert await handle.result() == 1
        assert (await app.jobs.get(handle.id)).headers is None
    assert not isinstance(trace.get_tracer_provider(), TracerProvider)


async def test_without_a_provider_a_job_costs_what_it_costs_without_the_extension() -> None:
    from offpath.contrib.opentelemetry import OpenTelemetry

    extension = OpenTelemetry()
    assert not extension.active()
    plain, with_it = await calls_of_a_job(()), await calls_of_a_job((extension,))
    assert with_it <= plain * 1.01, f"{with_it} calls a job, {plain} without it"


async def test_a_provider_that_comes_later_is_seen_by_the_next_opening(
    monkeypatch: pytest.MonkeyPatch, recorder: Recorder
) -> None:
    from offpath.contrib.opentelemetry import OpenTelemetry

    extension = OpenTelemetry(metrics=False)
    app = offpath.App("memory://", extensions=[extension], auto_start=False)

    @app.task
    async def work() -> None: ...

    async with app:
        await work.enqueue()
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", recorder.tracers)
        await work.enqueue()
    assert recorder.ended() == []
    async with app:
        await work.enqueue()
    assert [one.name for one in recorder.ended()] == ["enqueue work"]


async def calls_of_a_job(extensions: Sequence[Extension]) -> float:
    """The calls of Python functions from the enqueue of a job to its end, of fifty."""
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    async with offpath.App("memory://", extensions=extensions, auto_start=False) as app:

        @app.task
        async def work(number: int) -> int:
            return number

        for attempt in range(2):  # the first makes what is made once
            sys.setprofile(count if attempt else None)
            for number in range(50):
                await work.enqueue(number)
            await drain(app)
            sys.setprofile(None)
    return calls / 50

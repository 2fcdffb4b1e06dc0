"""The answers of type checkers about the blocking client."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, assert_type

import offpath
from offpath.batch_tasks import BatchContext
from offpath import App, BlockingHandle, JobRecord
from offpath.model.job import ChangedJob, Page, Progress
from offpath.model.lease import WorkerRecord
from offpath.model.schedule import Occurrence, ScheduleRecord

app = App()


@app.task
async def add(a: int, b: int = 0) -> int:
    return a + b


@app.batch_task(size=5)
def lengths(ctx: BatchContext, texts: list[str]) -> list[int]:
    return [len(text) for text in texts]


def beginning_at_once() -> None:
    client = app.blocking
    assert_type(client.enqueue(add.job(1), inline=True), BlockingHandle[int, int])
    assert_type(client.enqueue(lengths.job("a"), inline=True).result(timeout=5), int)
    assert_type(client.enqueue([add.job(1)]), list[BlockingHandle[int, int]])
    client.enqueue([add.job(1)], inline=True)  # type: ignore[call-overload]
    gate = offpath.gate(on=[add.job(1)], queue=[add.job(2)])
    assert_type(client.enqueue(gate), BlockingHandle[Any, int])
    client.enqueue(gate, inline=True)  # type: ignore[call-overload]


def schedules() -> None:
    schedules = app.blocking.schedules
    assert_type(schedules.create("x", add.job(1), cron="@daily", zone="UTC"), ScheduleRecord)
    assert_type(schedules.change("x", every=timedelta(minutes=5)), ScheduleRecord)
    assert_type(schedules.list(), list[ScheduleRecord])
    assert_type(schedules.get("x"), ScheduleRecord)
    assert_type(schedules.next("x", count=3), list[datetime])
    assert_type(schedules.trigger("x"), str)
    assert_type(schedules.history("x"), list[Occurrence])
    schedules.pause("x")
    schedules.resume("x")
    schedules.delete("x")
    schedules.create("x", add.job(1), crons="@daily")  # type: ignore[call-arg]
    schedules.create("x", add, every=5)  # type: ignore[arg-type]


def jobs() -> None:
    client = app.blocking
    assert_type(client.jobs.get("x"), JobRecord)
    assert_type(client.dead.show("x"), JobRecord)


def twins() -> None:
    """The parameters and the value are those of the async verb, awaited."""
    client = app.blocking
    assert_type(client.jobs.find(limit=3, state="dead"), Page)
    assert_type(client.jobs.count(task=add), int)
    assert_type(client.jobs.cancel("x", queue="mail"), list[ChangedJob])
    assert_type(client.dead.redrive(per_second=2.0, everything=True), list[ChangedJob])
    assert_type(client.groups.members("x", limit=3), Page)
    assert_type(client.queues.unknown("mail"), str | None)
    assert_type(client.limits.cool_down("key", timedelta(minutes=1)), int)
    assert_type(client.workers(), list[WorkerRecord])
    assert_type(client.signal("x", "paid", {"cents": 5}, keep=60, most_unread=5), bool)
    client.jobs.get()  # type: ignore[call-arg]
    client.jobs.get(5)  # type: ignore[arg-type]
    client.jobs.find(limit="3")  # type: ignore[arg-type]
    client.jobs.find(stat="dead")  # type: ignore[call-arg]
    client.limits.pause("key", datetime.max)  # type: ignore[call-arg]
    client.signal("x", "paid", most=5)  # type: ignore[call-arg]


def handles(handle: BlockingHandle[str, bytes]) -> None:
    assert_type(handle.result(timeout=5), str)
    assert_type(handle.group(allow_failed=True), bytes)
    assert_type(handle.status(), JobRecord)
    assert_type(handle.progress(), Progress | None)
    assert_type(handle.cancel(), bool)
    assert_type(handle.cancel_group(), int)
    handle.result(5)  # type: ignore[call-arg]

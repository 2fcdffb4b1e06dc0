"""What type checkers say of the blocking client."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, assert_type

import offpath
from offpath.batch_tasks import BatchContext
from offpath import App, BlockingHandle, JobRecord
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

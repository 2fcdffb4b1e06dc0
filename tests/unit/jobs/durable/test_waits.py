"""Sleeps and waits: they end the attempt, cost nothing meanwhile, and go on at the same line."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from msgspec import Struct

from offpath.errors import SignalError, SignalTimeout
from offpath.jobs.handler.context import Context
from offpath.model.job import DeadReason, JobRecord, JobState
from offpath.model.wait import NewSignal
from offpath.runtime.codec import JsonCodec
from offpath.runtime.ids import new_id
from offpath.store.protocol import JobRedrive
from tests.unit.jobs.worker.rig import Rig, at, breathe, until

DAY = 86_400.0


async def signal(
    rig: Rig, target: str, event: str, payload: object = None, *, known_as: str | None = None
) -> bool:
    text = JsonCodec().encode(payload)
    return await rig.store.send_signal(
        NewSignal(id=known_as or new_id(), target=target, event=event, payload=text, keep=30 * DAY)
    )


def shown(record: JobRecord) -> tuple[JobState, str | None, int]:
    return record.state, record.reason, record.attempt


async def test_a_sleep_ends_the_attempt_and_goes_on_at_the_same_line(rig: Rig) -> None:
    lines: list[str] = []

    async def nap(ctx: Context) -> str:
        try:
            await ctx.step("before", lines.append, "before")
            await ctx.sleep(timedelta(hours=1))
            await ctx.step("after", lines.append, "after")
        except Exception:
            lines.append("caught")
        return "awake"

    rig.task(nap)
    job = await rig.enqueue("nap")
    await rig.run()
    record = await rig.record(job)
    assert shown(record) == (JobState.QUEUED, "sleeping", 1)
    assert record.run_at == at(rig.clock, 3600)
    rig.clock.advance(3599)
    await rig.run()
    assert await rig.state(job) is JobState.QUEUED
    rig.clock.advance(1)
    await rig.run()
    record = await rig.record(job)
    assert (record.state, record.result, record.attempt) == (JobState.SUCCEEDED, '"awake"', 1)
    assert lines == ["before", "after"]
    assert record.failures == ()


async def test_a_sleep_counts_from_its_first_call(rig: Rig) -> None:
    async def nap(ctx: Context) -> None:
        await ctx.sleep(100)
        if ctx.attempt == 1:
            raise ValueError("after the sleep")
        await ctx.sleep(50, name="second")

    rig.task(nap)
    job = await rig.enqueue("nap", base=1.0)
    await rig.run()
    rig.clock.advance(100)
    await rig.run()  # fails after the sleep
    rig.clock.advance(1)
    await rig.run()  # passes it at once
    assert (await rig.record(job)).run_at == at(rig.clock, 50)
    rig.clock.advance(50)
    await rig.run()
    assert await rig.state(job) is JobState.SUCCEEDED


async def test_a_time_that_has_passed_does_not_end_the_attempt(rig: Rig) -> None:
    async def late(ctx: Context) -> int:
        await ctx.sleep_until(ctx.now() - timedelta(days=1))
        await ctx.sleep(0)
        return ctx.deliveries

    rig.task(late)
    job = await rig.enqueue("late")
    await rig.run()
    assert (await rig.record(job)).result == "1"


async def test_a_sleep_beyond_the_deadline_is_dead_at_once(rig: Rig) -> None:
    async def nap(ctx: Context) -> None:
        await ctx.sleep(100)

    rig.task(nap)
    job = await rig.enqueue("nap", deadline_in=50.0)
    await rig.run()
    assert shown(await rig.record(job)) == (JobState.DEAD, DeadReason.DEADLINE.value, 1)


async def test_an_approval_that_takes_a_week_holds_nothing(rig: Rig) -> None:
    class Answer(Struct):
        by: str
        yes: bool

    async def approve(ctx: Context) -> str:
        answer = await ctx.wait_for("answer", type=Answer, timeout=30 * DAY)
        return answer.by if answer.yes else "refused"

    rig.task(approve)
    job = await rig.enqueue("approve")
    await rig.run()
    assert shown(await rig.record(job)) == (JobState.BLOCKED, "signal", 1)
    for _ in range(7):  # a new worker every day: it survives deploys, and nobody takes it
        rig.clock.advance(DAY)
        await rig.run()
    assert (await rig.record(job)).deliveries == 1
    assert await signal(rig, job, "answer", {"by": "Ann", "yes": True})
    await rig.run()
    record = await rig.record(job)
    assert (record.result, record.attempt, record.deliveries) == ('"Ann"', 1, 2)


async def test_a_waiting_job_gives_its_slot_back(rig: Rig) -> None:
    async def wait(ctx: Context) -> None:
        await ctx.wait_for("go")

    rig.task(wait)
    for _ in range(3):
        await rig.enqueue("wait")
    worker = await rig.started(concurrency=1)
    await rig.pass_time(1)
    assert worker.active() == []
    assert worker.counts.waiting == 3


async def test_an_early_signal_is_kept_and_taken_at_once(rig: Rig) -> None:
    async def wait(ctx: Context) -> int:
        return int(await ctx.wait_for("go")) + ctx.deliveries

    rig.task(wait)
    new = rig.new("wait")
    await signal(rig, new.id, "go", 10)
    job = await rig.enqueue("wait", id=new.id)
    await rig.run()
    assert (await rig.record(job)).result == "11"


async def test_two_signals_are_taken_by_two_waits_in_order(rig: Rig) -> None:
    async def wait(ctx: Context) -> list[str]:
        first = await ctx.wait_for("go")
        if ctx.attempt == 1:
            raise ValueError("between the two")
        return [first, await ctx.wait_for("go")]

    rig.task(wait)
    job = await rig.enqueue("wait")
    await signal(rig, job, "go", "one")
    await rig.run()
    rig.clock.advance(10)
    await rig.run()
    assert await rig.state(job) is JobState.BLOCKED
    await signal(rig, job, "go", "two")
    await signal(rig, job, "go", "three")
    await rig.run()
    assert (await rig.record(job)).result == '["one","two"]'


async def test_a_wait_for_a_key_takes_what_is_sent_to_the_key(rig: Rig) -> None:
    async def wait(ctx: Context) -> object:
        return await ctx.wait_for("paid", key="order-7")

    rig.task(wait)
    job = await rig.enqueue("wait")
    await rig.run()
    await signal(rig, job, "paid", "to the job")
    await rig.run()
    assert await rig.state(job) is JobState.BLOCKED
    await signal(rig, "order-7", "paid", "to the key")
    await rig.run()
    assert (await rig.record(job)).result == '"to the key"'


async def test_a_wait_that_timed_out_stays_so(rig: Rig) -> None:
    async def wait(ctx: Context) -> str:
        try:
            await ctx.wait_for("go", timeout=60)
        except SignalTimeout as late:
            if ctx.attempt == 1:
                raise ValueError("again") from late
            return "late"
        return "in time"

    rig.task(wait)
    job = await rig.enqueue("wait")
    await rig.run()
    rig.clock.advance(59)
    await rig.run()
    assert await rig.state(job) is JobState.BLOCKED
    rig.clock.advance(1)
    await rig.run()
    assert (await rig.record(job)).attempt == 2
    await signal(rig, job, "go")  # too late: this wait is over for good
    rig.clock.advance(10)
    await rig.run()
    assert (await rig.record(job)).result == '"late"'


async def test_a_wait_without_time_only_looks(rig: Rig) -> None:
    async def look(ctx: Context) -> str:
        try:
            return str(await ctx.wait_for("go", timeout=0))
        except SignalTimeout:
            return "nothing"

    rig.task(look)
    job = await rig.enqueue("look")
    await rig.run()
    assert (await rig.record(job)).result == '"nothing"'


async def _waits_for_a_number(ctx: Context) -> int:
    return await ctx.wait_for("go", type=int)


async def test_a_payload_that_does_not_fit_is_dead_at_once_with_what_is_wrong(rig: Rig) -> None:
    rig.task(_waits_for_a_number)
    job = await rig.enqueue("_waits_for_a_number", attempts=5)
    await signal(rig, job, "go", "seven")
    await rig.run()
    record = await rig.record(job)
    assert (record.state, record.reason, record.attempt) == (JobState.DEAD, "bad_input", 1)
    assert record.failure is not None
    assert record.failure.type == "SignalError"
    assert "signal 'go'" in record.failure.message


async def test_a_right_one_that_came_since_ends_the_wait_of_a_redriven_job(rig: Rig) -> None:
    rig.task(_waits_for_a_number)
    job = await rig.enqueue("_waits_for_a_number")
    await signal(rig, job, "go", "seven")
    await rig.run()
    await signal(rig, job, "go", 7)
    await rig.store.redrive([JobRedrive(id=job)])
    await rig.run()
    assert (await rig.record(job)).result == "7"
    assert await rig.store.steps(job) == {"~wait go#1": '"seven"', "~wait2 go#1": "7"}


async def test_a_payload_that_did_not_fit_is_read_by_a_task_that_can(rig: Rig) -> None:
    kind: list[type] = [int]

    async def wait(ctx: Context) -> object:
        return await ctx.wait_for("go", type=kind[0])

    rig.task(wait)
    job = await rig.enqueue("wait")
    await signal(rig, job, "go", "seven")
    await rig.run()
    assert await rig.state(job) is JobState.DEAD
    kind[0] = str
    await rig.store.redrive([JobRedrive(id=job)])
    await rig.run()
    assert (await rig.record(job)).result == '"seven"'


async def test_a_handler_may_heed_what_does_not_fit_and_wait_again(rig: Rig) -> None:
    async def wait(ctx: Context) -> str:
        try:
            return f"at once {await ctx.wait_for('go', type=int)}"
        except SignalError:
            return f"later {await ctx.wait_for('again', type=int)}"

    rig.task(wait)
    job = await rig.enqueue("wait")
    await signal(rig, job, "go", "seven")
    await rig.run()
    assert await rig.state(job) is JobState.BLOCKED
    await signal(rig, job, "again", 7)
    await rig.run()
    assert (await rig.record(job)).result == '"later 7"'


async def test_a_sync_handler_sleeps_and_waits(rig: Rig) -> None:
    lines: list[str] = []

    def work(ctx: Context) -> object:
        try:
            ctx.blocking(ctx.step("once", lines.append, "once"))
            ctx.blocking(ctx.sleep(60))
            return ctx.blocking(ctx.wait_for("go"))
        except Exception:
            return "caught"

    rig.task(work)
    job = await rig.enqueue("work")
    await rig.run()
    rig.clock.advance(60)
    await rig.run()
    assert await rig.state(job) is JobState.BLOCKED
    await signal(rig, job, "go", 7)
    await rig.run()
    assert ((await rig.record(job)).result, lines) == ("7", ["once"])


async def test_a_sleep_lets_the_steps_beside_it_be_recorded(rig: Rig) -> None:
    done: list[str] = []
    go_on = asyncio.Event()

    async def slow() -> None:
        await go_on.wait()
        done.append("slow")

    async def work(ctx: Context) -> None:
        await asyncio.gather(ctx.step("slow", slow), ctx.sleep(60))

    rig.task(work)
    job = await rig.enqueue("work")
    worker = await rig.started()
    await breathe(100)
    assert await rig.state(job) is JobState.RUNNING
    go_on.set()
    await until(lambda: worker.counts.snoozed == 1)
    await rig.pass_time(61, step=1)
    assert await rig.state(job) is JobState.SUCCEEDED
    assert done == ["slow"]


async def test_a_task_group_that_waits_is_no_failure(rig: Rig) -> None:
    async def work(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.sleep(60))
            group.create_task(ctx.wait_for("go"))

    rig.task(work)
    job = await rig.enqueue("work")
    await rig.run()
    assert shown(await rig.record(job)) == (JobState.QUEUED, "sleeping", 1)
    rig.clock.advance(60)
    await rig.run()
    await signal(rig, job, "go")
    await rig.run()
    assert await rig.state(job) is JobState.SUCCEEDED


async def test_what_fails_beside_a_wait_has_failed(rig: Rig) -> None:
    async def broken() -> None:
        raise ValueError("broken")

    async def work(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(broken())
            group.create_task(ctx.sleep(60))

    rig.task(work)
    job = await rig.enqueue("work")
    await rig.run()
    assert len((await rig.record(job)).failures) == 1


@pytest.mark.parametrize("how", ["bare", "gather"])
async def test_a_handler_that_holds_a_suspension_up_waits_all_the_same(rig: Rig, how: str) -> None:
    async def work(ctx: Context) -> str:
        if how == "gather":
            await asyncio.gather(ctx.sleep(60), return_exceptions=True)
            return "past it"
        try:
            await ctx.sleep(60)
        except BaseException:
            return "past it"
        return "slept"

    rig.task(work)
    job = await rig.enqueue("work")
    await rig.run()
    assert shown(await rig.record(job)) == (JobState.QUEUED, "sleeping", 1)
    rig.clock.advance(60)
    await rig.run()
    assert (await rig.record(job)).result == ('"past it"' if how == "gather" else '"slept"')


async def test_nothing_joined_before_a_wait_is_enqueued_twice(rig: Rig) -> None:
    ran: list[str] = []

    async def child() -> None:
        ran.append("child")

    async def parent(ctx: Context) -> None:
        ctx.enqueue(rig.job("child"))
        await ctx.sleep(60)

    rig.task(child)
    rig.task(parent)
    await rig.enqueue("parent")
    await rig.run()
    assert ran == []
    rig.clock.advance(60)
    await rig.run()
    assert ran == ["child"]


async def test_a_cancelled_wait_ends_at_once(rig: Rig) -> None:
    async def wait(ctx: Context) -> None:
        await ctx.wait_for("go")

    rig.task(wait)
    job = await rig.enqueue("wait")
    await rig.run()
    await rig.store.cancel([job])
    assert await rig.state(job) is JobState.CANCELLED


async def test_a_waiting_job_whose_deadline_passes_is_dead(rig: Rig) -> None:
    async def wait(ctx: Context) -> None:
        await ctx.wait_for("go")

    rig.task(wait)
    job = await rig.enqueue("wait", deadline_in=60.0)
    await rig.run()
    rig.clock.advance(61)
    await rig.run()
    assert shown(await rig.record(job)) == (JobState.DEAD, DeadReason.DEADLINE.value, 1)

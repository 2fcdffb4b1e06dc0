"""Edge cases A.28 1-14, by number: what a handler returns, and what its group's value becomes."""

from __future__ import annotations

import operator
from typing import Any

import pytest

import offpath
from offpath import Context, JobDead, JobState, Plan, gate
from offpath.model.job import DeadReason
from tests.unit.edge_cases.bench import Bench


async def test_a28_002_a_value_is_result_and_group_value(bench: Bench) -> None:
    @bench.app.task
    async def add(ctx: Context, a: int, b: int) -> Plan[int, int]:
        return ctx.result(a + b)

    @bench.app.task
    async def plain(a: int, b: int) -> int:
        return a + b

    handle, other = await add.enqueue(1, 2), await plain.enqueue(4, 5)
    await bench.run()
    assert (await handle.result(), await handle) == (3, 3)
    assert (await other.result(), await other) == (9, 9)


async def test_a28_003_a_final_value_stays(bench: Bench) -> None:
    @bench.app.task
    async def child() -> int:
        return 10

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, dict[str, Any] | int]:
        made = child.job()
        return ctx.queue(made, ctx.result({"done": True, "cid": made.id}, final=True))

    handle = await root.enqueue()
    await bench.run()
    (member,) = (await bench.app.groups.members(handle.id, states=["succeeded"])).items[:1]
    assert await handle == {"done": True, "cid": member.id}
    assert (await handle.status()).result is None


async def test_a28_004_void_leaves_give_nothing_and_run_first(bench: Bench) -> None:
    ran: list[str] = []

    @bench.app.task
    async def leaf(name: str) -> None:
        ran.append(name)

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, str]:
        return ctx.queue(leaf.job("a"), leaf.job("b"), ctx.result("root-done"))

    handle = await root.enqueue()
    await bench.run()
    assert (await handle, sorted(ran)) == ("root-done", ["a", "b"])


async def test_a28_005_a_delegating_job_has_no_result(bench: Bench) -> None:
    @bench.app.task
    async def leaf(n: int) -> int:
        return n

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, int]:
        return ctx.queue(leaf.job(1), leaf.job(2))

    handle = await root.enqueue()
    await bench.run()
    assert await handle.result() is None  # type: ignore[func-returns-value]
    assert await handle in {1, 2}


async def test_a28_006_a_void_handler_gives_nothing(bench: Bench) -> None:
    @bench.app.task
    async def nothing() -> None:
        return None

    handle = await nothing.enqueue()
    await bench.run()
    assert await handle is None  # type: ignore[func-returns-value]


async def test_a28_007_next_runs_after(bench: Bench) -> None:
    ran: list[str] = []

    @bench.app.task
    async def leaf(name: str) -> None:
        ran.append(name)

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, None]:
        first, second, third = leaf.job("a"), leaf.job("b"), leaf.job("c")
        return ctx.queue(first, priority=-5).next(second, priority=9).next(third, priority=99)

    await root.enqueue()
    await bench.run()
    assert ran == ["a", "b", "c"]


async def test_a28_008_append_adds_up(bench: Bench) -> None:
    @bench.app.task
    async def one(ctx: Context, n: int) -> Plan[int, int]:
        return ctx.result(n, append=operator.add)

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, int]:
        return ctx.queue(*(one.job(n) for n in (1, 2, 3)))

    handle = await root.enqueue()
    await bench.run()
    assert await handle == 6


async def test_a29_s1_a_hundred_children_add_up(bench: Bench) -> None:
    @bench.app.task
    def one(ctx: Context, n: int) -> Plan[int, int]:
        return ctx.result(1, append=operator.add)

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, int]:
        return ctx.queue(*(one.job(n) for n in range(100)))

    handle = await root.enqueue()
    await bench.run()
    assert await handle == 100


async def test_a28_009_010_parent_and_dependents(bench: Bench) -> None:
    seen: dict[str, tuple[str | None, tuple[str, ...]]] = {}

    @bench.app.task
    async def leaf(ctx: Context, name: str) -> None:
        seen[name] = (ctx.parent, ctx.dependents)

    ids: list[str] = []

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, None]:
        a = leaf.job("a")
        ids.append(a.id)
        return ctx.queue(a).next(leaf.job("b"))

    handle = await root.enqueue()
    await bench.run()
    assert seen == {"a": (handle.id, ()), "b": (handle.id, (ids[0],))}


async def test_a28_011_s19_a_plan_that_is_not_returned_is_dead_at_once(bench: Bench) -> None:
    calls: list[int] = []

    async def handler(ctx: Context) -> int:
        calls.append(1)
        ctx.queue(leaf.job())
        return 5

    @bench.app.task
    async def leaf() -> None:
        calls.append(100)

    strict = bench.app.task(name="strict", retry=5)(handler)
    loose = bench.app.task(name="loose", strict=False)(handler)
    first, second = await strict.enqueue(), await loose.enqueue()
    await bench.run()
    with pytest.raises(JobDead, match="not returned") as failed:
        await first.result()
    assert failed.value.reason is DeadReason.INVALID_PLAN
    assert failed.value.failure is not None
    assert failed.value.failure.type == "PlanError"
    assert await second.result() == 5
    assert calls == [1, 1], "no retry, and the detached plan never runs"


async def test_strictness_is_the_apps_unless_the_task_says_otherwise() -> None:
    app = offpath.App(auto_start=False, strict=False)

    async def handler(ctx: Context) -> None:
        ctx.result(5)

    loose = app.task(name="loose")(handler)
    strict = app.task(name="strict", strict=True)(handler)
    async with app:
        handles = [await loose.enqueue(), await strict.enqueue()]
        await app.worker().run_until_idle()
        states = [(await handle.status()).state for handle in handles]
    assert states == [JobState.SUCCEEDED, JobState.DEAD]


async def test_a28_012_an_empty_queue_settles_and_next_fires_at_once(bench: Bench) -> None:
    ran: list[tuple[str, ...]] = []

    @bench.app.task
    async def leaf(ctx: Context) -> None:
        ran.append(ctx.dependents)

    @bench.app.task
    async def empty(ctx: Context) -> Plan[None, None]:
        return ctx.queue()

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, None]:
        return ctx.queue().next(leaf.job())

    first, second = await empty.enqueue(), await root.enqueue()
    await bench.run()
    assert await first is None  # type: ignore[func-returns-value]
    assert await second is None  # type: ignore[func-returns-value]
    assert ran == [()]


async def test_a28_013_a_plain_value_is_a_result(bench: Bench) -> None:
    @bench.app.task
    async def handler(ctx: Context) -> int:
        return 42

    handle = await handler.enqueue()
    await bench.run()
    assert (await handle.result(), await handle) == (42, 42)


async def test_a28_014_the_same_job_sent_twice_runs_once(bench: Bench) -> None:
    ran: list[int] = []

    @bench.app.task
    async def leaf() -> None:
        ran.append(1)

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, None]:
        job = leaf.job()
        return ctx.queue(job, job)

    await root.enqueue()
    await bench.run()
    assert ran == [1]


async def test_w3_w4_a_parent_that_runs_again_names_the_same_children(bench: Bench) -> None:
    ids: list[list[str]] = []
    ran: list[int] = []

    @bench.app.task
    async def leaf(n: int) -> None:
        ran.append(n)

    @bench.app.task(retry=2)
    async def root(ctx: Context) -> Plan[None, None]:
        jobs = [leaf.job(n) for n in (1, 2, 2, 3)]
        ids.append([job.id for job in jobs])
        if ctx.attempt == 1:
            raise RuntimeError("again")
        ctx.enqueue(jobs[3])
        return ctx.queue(*jobs[:3])

    await root.enqueue()
    await bench.run_after(0)
    await bench.run_after(60)
    assert len(ids) == 2
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 4
    assert sorted(ran) == [1, 2, 2, 3], "two that look the same are two"


async def _in_three_runs(bench: Bench) -> None:
    for _ in range(3):
        await bench.run()
        bench.clock.advance(60)


@pytest.mark.parametrize("ending", [offpath.Snooze(1), RuntimeError("again")])
@pytest.mark.parametrize("how", ["task", "app", "several", "batch"])
async def test_what_a_run_sends_is_not_taken_for_what_an_earlier_run_sent(
    bench: Bench, ending: Exception, how: str
) -> None:
    ran: list[int] = []
    sent: list[tuple[str, str]] = []

    @bench.app.task
    async def leaf() -> None:
        ran.append(1)

    @bench.app.task(retry=3)
    async def root(ctx: Context) -> None:
        job = leaf.job()
        match how:
            case "task":
                await leaf.enqueue()
            case "app":
                handle = await bench.app.enqueue(job)
                again = await bench.app.enqueue(job)
                assert not again.created
                sent.append((job.id, handle.id))
            case "several":
                handle, _ = await bench.app.enqueue([job, gate([job], queue=[other.job()])])
                sent.append((job.id, handle.id))
            case _:
                async with bench.app.batch() as batch:
                    batch.enqueue(job)
                sent.append((job.id, batch.handles[0].id))
        if ctx.deliveries < 3:
            raise ending

    @bench.app.task
    async def other() -> None:
        ran.append(10)

    await root.enqueue()
    await _in_three_runs(bench)
    assert sum(ran) == (33 if how == "several" else 3)
    assert all(job == handle for job, handle in sent)


async def test_a_plan_keeps_a_job_like_one_that_an_earlier_run_has_sent(bench: Bench) -> None:
    ran: list[str] = []

    @bench.app.task
    async def leaf() -> None:
        ran.append("leaf")

    @bench.app.task
    async def last(ctx: Context) -> None:
        ran.append(f"last of {len(ctx.dependents)}")

    async def send() -> None:
        await bench.app.enqueue(leaf.job())

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, None]:
        await ctx.step("send", send)
        await ctx.sleep(1)
        child = leaf.job()
        ctx.enqueue(leaf.job())
        return ctx.queue(child, gate([child], queue=[last.job()]))

    handle = await root.enqueue()
    await _in_three_runs(bench)
    assert ran == ["leaf", "leaf", "leaf", "last of 1"]
    members = (await bench.app.groups.members(handle.id)).items
    assert len(members) == 4, "the one that was sent by itself is not a member"


async def test_a_job_with_an_id_of_its_own_is_queued_once_however_often_a_run_snoozes(
    bench: Bench,
) -> None:
    ran: list[int] = []
    job_id = bench.app.new_id()

    @bench.app.task
    async def leaf() -> None:
        ran.append(1)

    @bench.app.task
    async def root(ctx: Context) -> None:
        ctx.enqueue(leaf.options(id=job_id).job())
        if ctx.deliveries < 3:
            raise offpath.Snooze(1)

    await root.enqueue()
    await _in_three_runs(bench)
    assert ran == [1]
    assert (await bench.record(job_id)).state is JobState.SUCCEEDED


async def test_plans_that_are_nested_without_end_are_an_error_of_the_program(bench: Bench) -> None:
    @bench.app.task
    async def leaf(n: int) -> None: ...

    @bench.app.task(retry=5)
    async def deep(ctx: Context) -> Plan[None, None]:
        plan = ctx.queue(leaf.job(0))
        for n in range(1, 3_000):
            plan = ctx.queue(leaf.job(n), plan)
        return plan

    @bench.app.task(retry=5)
    async def circle(ctx: Context) -> Plan[None, None]:
        plan = ctx.queue(leaf.job(0))
        return plan.next(plan)

    handles = [await deep.enqueue(), await circle.enqueue()]
    await bench.run()
    for handle, said in zip(handles, ("too deeply", "in this plan twice"), strict=True):
        with pytest.raises(JobDead, match=said) as failed:
            await handle.result()
        assert failed.value.reason is DeadReason.INVALID_PLAN


async def test_a_job_that_snoozes_queues_anew_each_time(bench: Bench) -> None:
    ran: list[int] = []

    @bench.app.task
    async def poll() -> None:
        ran.append(1)

    @bench.app.task
    async def root(ctx: Context) -> None:
        ctx.enqueue(poll.job())
        if ctx.deliveries < 3:
            raise offpath.Snooze(1)

    await root.enqueue()
    await bench.run()
    await bench.run_after(1)
    await bench.run_after(1)
    assert len(ran) == 3


async def test_what_is_built_outside_of_a_handler_has_new_ids(bench: Bench) -> None:
    @bench.app.task
    async def leaf() -> None: ...

    assert leaf.job().id != leaf.job().id


async def test_two_steps_that_send_the_same_send_it_twice(bench: Bench) -> None:
    ran: list[int] = []

    @bench.app.task
    async def remind() -> None:
        ran.append(1)

    @bench.app.task
    async def root(ctx: Context) -> None:
        async def by_task() -> None:
            await remind.enqueue()

        async def by_app() -> None:
            await bench.app.enqueue(remind.job())

        await ctx.step("first", by_task)
        await ctx.step("second", by_app)
        await ctx.sleep(1)
        await ctx.step("third", by_task)
        await ctx.step("fourth", by_app)

    await root.enqueue()
    await _in_three_runs(bench)
    assert len(ran) == 4

"""Groups as their users see them: awaited, failed, cancelled, told of when nobody waited."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable
from decimal import Decimal

import pytest

import offpath
from offpath import App, Context, Group, GroupFailed, JobNotFound, JobState, Plan, WaitTimeout
from offpath.errors import GroupValueError
from offpath.jobs.client.waiters import Waiters
from offpath.model.event import EventKind
from offpath.runtime.clock import ManualClock
from offpath.runtime.ids import new_id
from tests.unit.edge_cases.bench import Bench


async def test_a_group_with_a_dead_member_raises_with_value_and_members(bench: Bench) -> None:
    @bench.app.task(retry=1)
    async def bad() -> int:
        raise RuntimeError("no")

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, int]:
        return ctx.queue(bad.job(), ctx.result(7))

    handle = await root.enqueue()
    await bench.run()
    with pytest.raises(GroupFailed, match=handle.id) as failed:
        await handle
    assert "(bad) is dead (exhausted): RuntimeError: no; handle.group(" in str(failed.value)
    assert "as it is without theirs: it need not be what the group was to give" in str(failed.value)
    assert (failed.value.id, failed.value.value) == (handle.id, 7)
    assert [(one.task, one.state) for one in failed.value.members] == [("bad", JobState.DEAD)]
    assert await handle.group(allow_failed=True) == 7


@pytest.mark.parametrize("chain", [1, 105], ids=["a_join", "more_than_are_read"])
async def test_what_failed_by_itself_comes_before_what_died_of_it(bench: Bench, chain: int) -> None:
    @bench.app.task(retry=1)
    async def bad() -> int:
        raise ValueError("the cause")

    @bench.app.task
    async def join() -> int:
        return 1

    *joins, last = sorted(new_id() for _ in range(chain + 1))  # the cause is listed last
    first = bad.options(id=last).job()
    gates = [offpath.gate(on=[first], queue=[join.options(id=each).job()]) for each in joins]

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, int]:
        return ctx.queue(*gates, first)

    handle = await root.enqueue()
    await bench.run()
    with pytest.raises(GroupFailed) as failed:
        await handle
    assert "(bad) is dead (exhausted): ValueError: the cause; handle" in str(failed.value)
    tasks = [one.task for one in failed.value.members]
    assert tasks == ["bad", *["join"] * min(chain, 99)]


async def test_what_somebody_cancelled_comes_before_what_died_of_it(bench: Bench) -> None:
    @bench.app.task
    async def one(n: int) -> int:
        return n

    held, late = sorted((new_id(), new_id()))
    watched = one.options(delay=60, id=late).job(1)

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, int]:
        return ctx.queue(offpath.gate(on=[watched], queue=[one.options(id=held).job(2)]), watched)

    handle = await root.enqueue()
    await bench.run()
    await bench.app.jobs.cancel(watched.id)
    with pytest.raises(GroupFailed, match="was cancelled; handle") as failed:
        await handle
    states = [member.state for member in failed.value.members]
    assert states == [JobState.CANCELLED, JobState.DEAD]


async def test_a_lone_dead_job_is_a_failed_group(bench: Bench) -> None:
    @bench.app.task(retry=1)
    async def bad() -> int:
        raise RuntimeError("no")

    handle = await bad.enqueue()
    await bench.run()
    with pytest.raises(GroupFailed) as failed:
        await handle
    assert [one.id for one in failed.value.members] == [handle.id]
    assert await handle.group(allow_failed=True) is None


async def test_waits_for_groups_time_out_and_leave_nothing_behind(bench: Bench) -> None:
    @bench.app.task
    async def later() -> int:
        return 1

    handle = await later.options(delay=60).enqueue()
    with pytest.raises(WaitTimeout):
        await handle.group(timeout=0)
    waits = [asyncio.ensure_future(handle.group(timeout=5)) for _ in range(3)]
    cancelled = asyncio.ensure_future(handle.group())
    await _until(lambda: len(_waiters(bench.app)) == 1)
    for _ in range(20):
        await asyncio.sleep(0)
    cancelled.cancel()
    bench.clock.advance(5)
    results = await asyncio.gather(*waits, cancelled, return_exceptions=True)
    assert [type(one) for one in results] == [WaitTimeout] * 3 + [asyncio.CancelledError]
    await _until(lambda: _waiters(bench.app).idle)
    assert len(_waiters(bench.app)) == 0


async def test_a_wait_ends_with_the_last_descendant(bench: Bench) -> None:
    @bench.app.task
    async def leaf() -> str:
        return "leaf"

    @bench.app.task
    async def middle(ctx: Context) -> Plan[None, str]:
        return ctx.queue(leaf.options(delay=60).job())

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, str]:
        return ctx.queue(middle.job())

    handle = await root.enqueue()
    wait = asyncio.ensure_future(handle.group())
    await bench.run()
    assert not wait.done()
    await bench.run_after(60)
    assert await asyncio.wait_for(wait, 10) == "leaf"


async def test_a_group_that_is_gone_is_not_found(bench: Bench) -> None:
    @bench.app.task
    async def leaf() -> int:
        return 1

    with pytest.raises(JobNotFound):
        await leaf.handle(new_id())
    with pytest.raises(JobNotFound):
        await bench.app.groups.get(new_id())
    handle = await leaf.enqueue()
    await bench.run()
    await bench.app.jobs.delete(handle.id)
    with pytest.raises(JobNotFound):
        await handle


async def test_a_member_found_again_gives_the_groups_value(bench: Bench) -> None:
    ids: list[str] = []

    @bench.app.task
    async def leaf() -> int:
        return 1

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, int]:
        child = leaf.job()
        ids.append(child.id)
        return ctx.queue(child, ctx.result(9, final=True))

    await root.enqueue()
    await bench.run()
    handle = leaf.handle(ids[0])
    assert (await handle.result(), await handle) == (1, 9)


async def test_rich_values_come_back_and_add_up(bench: Bench) -> None:
    @bench.app.task
    async def pay(ctx: Context, amount: str) -> Plan[Decimal, Decimal]:
        return ctx.result(Decimal(amount), append=operator.add)

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, Decimal]:
        return ctx.queue(pay.job("0.10"), pay.job("0.20"))

    handle = await root.enqueue()
    await bench.run()
    assert await handle == Decimal("0.30")


async def test_a_fold_that_raises_is_the_groups_fault_and_no_members(bench: Bench) -> None:
    def wrong(so_far: int, new: int) -> int:
        raise ValueError("card 4111")

    @bench.app.task(retry=1)
    async def one(ctx: Context, n: int) -> Plan[int, int]:
        return ctx.result(n, append=wrong)

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, int]:
        return ctx.queue(one.job(1), one.job(2), one.job(3))

    handle = await root.enqueue()
    await bench.run()
    with pytest.raises(GroupValueError, match="append= raised ValueError") as refusal:
        await handle
    assert "4111" not in str(refusal.value)
    members = (await bench.app.groups.members(handle.id)).items
    assert {one.state for one in members} == {JobState.SUCCEEDED}


async def test_a_value_that_grows_too_large_kills_nobody() -> None:
    """Two hundred parts of 8 KB are more than a value may have: their work is done all the same."""
    app = App(auto_start=False)

    @app.task(retry=1)
    async def part(ctx: Context) -> Plan[list[str], list[str]]:
        return ctx.result(["x" * 8_000], append=operator.add)

    @app.task
    async def root(ctx: Context) -> Plan[None, list[str]]:
        return ctx.queue(*(part.job() for _ in range(200)))

    async with app:
        handle = await root.enqueue()
        async with app.worker() as worker:
            await worker.run_until_idle()
        assert await app.jobs.count(state=JobState.DEAD) == 0
        with pytest.raises(GroupValueError, match="max_result_bytes is 1048576"):
            await handle


async def test_nested_plans_are_flattened_and_their_values_count(bench: Bench) -> None:
    seen: list[tuple[str, ...]] = []

    @bench.app.task
    async def leaf(ctx: Context, name: str) -> None:
        if name == "last":
            seen.append(ctx.dependents)

    expected: list[str] = []

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, str]:
        a, b, c = leaf.job("a"), leaf.job("b"), leaf.job("c")
        expected.extend((a.id, b.id, c.id))
        inner = ctx.queue(b).next(c)
        return ctx.queue(a, ctx.queue(inner, ctx.result("inner"))).next(leaf.job("last"))

    handle = await root.enqueue()
    await bench.run()
    assert await handle == "inner"
    assert seen == [tuple(expected)]


async def test_next_after_a_result_follows_the_job(bench: Bench) -> None:
    seen: list[tuple[str, ...]] = []

    @bench.app.task
    async def leaf(ctx: Context) -> str:
        seen.append(ctx.dependents)
        return "leaf"

    @bench.app.task
    async def root(ctx: Context) -> Plan[int, int | str]:
        return ctx.result(5).next(leaf.job())

    handle = await root.enqueue()
    await bench.run()
    assert (await handle.result(), await handle) == (5, "leaf")
    assert seen == [(handle.id,)]


async def test_fail_fast_cancels_the_rest(bench: Bench) -> None:
    @bench.app.task(retry=1)
    async def bad() -> int:
        raise RuntimeError("no")

    @bench.app.task
    async def other() -> int:
        return 1

    @bench.app.task(group_policy="fail_fast")
    async def root(ctx: Context) -> Plan[None, int]:
        return ctx.queue(bad.job(), other.options(delay=3_600).job())

    handle = await root.enqueue()
    await bench.run()
    await bench.app.store().close_groups(limit=10)
    with pytest.raises(GroupFailed) as failed:
        await handle.group(timeout=0)
    assert {one.state for one in failed.value.members} == {JobState.DEAD, JobState.CANCELLED}


async def test_a_group_can_be_cancelled_and_looked_at(bench: Bench) -> None:
    @bench.app.task
    async def leaf(n: int) -> int:
        return n

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, int]:
        jobs = [leaf.options(delay=60).job(n) for n in range(3)]
        return ctx.queue(*jobs, ctx.result(4))

    handle = await root.enqueue()
    await bench.run()
    group = await bench.app.groups.get(handle.id)
    assert (group.open, group.failed, group.value, group.done) == (3, 0, 4, False)
    assert await handle.cancel_group() == 3
    assert await bench.app.groups.cancel(handle.id) == []
    assert len((await bench.app.groups.members(handle.id, states=["cancelled"])).items) == 3
    assert (await bench.app.groups.get(handle.id)).done
    lone = await leaf.options(delay=60).enqueue(1)
    assert await lone.cancel_group() == 1


def test_the_blocking_side_has_it_too() -> None:
    app = App(auto_start=True)

    @app.task
    async def leaf(n: int) -> int:
        return n

    @app.task
    async def root(ctx: Context) -> Plan[None, int]:
        return ctx.queue(leaf.job(1)).next(leaf.job(2))

    with app.blocking:
        step = leaf.job(5)
        handle = app.blocking.enqueue(root.job())
        assert handle.group(timeout=10) == 2
        assert app.blocking.enqueue([step])[0].group(timeout=10) == 5
        gated = app.blocking.enqueue(offpath.gate(on=[step], queue=[leaf.job(6)]))
        assert gated.group(timeout=10) == 6
        assert gated.cancel_group() == 0
        assert app.blocking.groups.get(handle.id).value == 2
        assert len(app.blocking.groups.members(handle.id).items) == 3
        assert app.blocking.groups.cancel(handle.id) == []


async def test_a_batch_takes_gates(bench: Bench) -> None:
    @bench.app.task
    async def leaf(n: int) -> int:
        return n

    step = leaf.job(1)
    async with bench.app.batch() as batch:
        batch.enqueue(step)
        batch.enqueue(offpath.gate(on=[step], queue=[leaf.job(2), leaf.job(3)]))
        batch.enqueue(leaf.job(4))
    await bench.run()
    first, gated, last = batch.handles
    assert (await first, await last) == (1, 4)
    assert await gated in {2, 3}
    assert (await bench.app.groups.get(gated.id)).open == 0
    assert len((await bench.app.groups.members(gated.id)).items) == 2


async def test_a28_179_the_orphan_hook_is_called_for_groups_that_nobody_awaits() -> None:
    orphans: list[Group] = []
    clock = ManualClock()
    app = App(auto_start=False, clock=clock, on_orphan_group=orphans.append)

    @app.task
    async def leaf(n: int) -> int:
        return n

    async with app:
        lost, awaited = await leaf.enqueue(1), await leaf.enqueue(2)
        wait = asyncio.ensure_future(awaited.group())
        await _until(lambda: len(_waiters(app)) == 1)
        await app.worker().run_until_idle()
        assert await wait == 2
        clock.advance(0.2)
        await _until(lambda: bool(orphans))
        clock.advance(1)
    assert [(one.id, one.value, one.done) for one in orphans] == [(lost.id, 1, True)]


async def test_an_orphan_hook_that_raises_is_reported_and_each_group_is_told_once() -> None:
    told: list[str] = []
    errors: list[str] = []

    def hook(group: Group) -> None:
        told.append(group.id)
        raise RuntimeError("no")

    def on_error(error: BaseException, phase: str) -> None:
        errors.append(phase)

    app = App(auto_start=False, on_orphan_group=hook, on_error=on_error)

    @app.task
    async def leaf() -> None: ...

    @app.task
    async def root(ctx: Context) -> Plan[None, None]:
        return ctx.queue(leaf.job(), leaf.job())

    async with app:
        handle = await root.enqueue()
        await app.worker().run_until_idle()
    assert told == [handle.id]
    assert errors == ["orphan_group"]


def test_an_orphan_hook_is_told_in_each_loop_in_which_the_app_is_opened() -> None:
    told: list[str] = []
    errors: list[str] = []
    app = App(
        auto_start=False,
        on_orphan_group=lambda group: told.append(group.id),
        on_error=lambda error, phase: errors.append(f"{phase}: {error}"),
    )

    @app.task
    async def leaf() -> None:
        """End."""

    async def opened() -> str:
        async with app:
            handle = await leaf.enqueue()
            await app.worker().run_until_idle()
            return handle.id

    ids = [asyncio.run(opened()), asyncio.run(opened())]
    assert (errors, told) == ([], ids)


async def test_the_end_of_a_group_is_told_with_its_value(bench: Bench) -> None:
    @bench.app.task
    async def one(ctx: Context, n: int) -> Plan[int, int]:
        return ctx.result(n, append=operator.add)

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, int]:
        return ctx.queue(one.job(1), one.job(2))

    @bench.app.task
    async def lone() -> str:
        return "alone"

    handle, other = await root.enqueue(), await lone.enqueue()
    await bench.run()
    await bench.app.close()
    done = {one.group_id: one.result for one in bench.events if one.kind is EventKind.GROUP_DONE}
    assert done == {handle.id: "3", other.id: '"alone"'}


def _waiters(app: App) -> Waiters:
    session = app._lifecycle.session
    assert session is not None
    return session.waiters


async def _until(holds: Callable[[], bool]) -> None:
    for _ in range(100_000):
        if holds():
            return
        await asyncio.sleep(0)
    pytest.fail("it does not come to that")


async def test_a_hook_that_hangs_does_not_keep_the_app_from_closing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a group's end, or of any event: it is cancelled and reported."""
    monkeypatch.setattr("offpath.app.CLOSE_PATIENCE", 0.05)
    told: list[str] = []
    phases: list[str] = []

    async def hangs(_: object) -> None:
        told.append("called")
        await asyncio.Event().wait()

    app = App(
        auto_start=False,
        on_orphan_group=hangs,
        on_event=hangs,
        on_error=lambda error, phase: phases.append(f"{phase} {type(error).__name__}"),
    )

    @app.task
    async def leaf() -> None:
        """End."""

    async with asyncio.timeout(5):
        async with app:
            await app.enqueue(leaf.job())
            await app.worker().run_until_idle()
    assert told
    assert sorted(phases) == ["hook HookHung", "orphan_group HookHung"]

"""Promise 4, "Always ends": whatever becomes of a member, its group, the gates on it and those who
wait for it come to an end, once. Whole workflows, run by a worker, on every backend."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import pytest

import offpath
from offpath import App, Context, Gate, GroupFailed, Job, JobEvent, JobState, Limit, Plan
from offpath.model.event import EventKind
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import fresh_id, join, take_one

pytestmark = pytest.mark.needs("workflows")

LONG = 31.0
"""Seconds in which the lease of a lost worker, and every time limit here, is over."""


class World:
    """An app on one store, its members, and what was told of them."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.done: Counter[str] = Counter()
        self.ran: Counter[str] = Counter()
        self.app = App(store=store, clock=clock, auto_start=False, on_event=self._told)
        self._define()

    def _told(self, event: JobEvent) -> None:
        if event.kind is EventKind.GROUP_DONE:
            self.done[event.group_id] += 1

    def _define(self) -> None:
        task: Any = self.app.task

        @task(name="leaf")
        async def leaf(name: str) -> str:
            self.ran[name] += 1
            return name

        @task(name="aborts")
        async def aborts() -> None:
            raise offpath.Abort("no")

        @task(name="raises", retry=2)
        async def raises() -> None:
            raise RuntimeError("no")

        @task(name="wrong", retry=5)
        async def wrong() -> int:
            return "no number"  # type: ignore[return-value]

        @task(name="unreturned")
        async def unreturned(ctx: Context) -> None:
            ctx.queue(leaf.job("never"))

        @task(name="unfoldable")
        async def unfoldable(ctx: Context) -> Plan[int, int]:
            return ctx.result(1, append=operator.sub)

        @task(name="waits")
        async def waits(ctx: Context, seconds: float | None = None) -> None:
            await ctx.wait_for("nothing that comes", timeout=seconds)

        @task(name="sleeps")
        async def sleeps(ctx: Context) -> None:
            await ctx.sleep(3600)

    def job(self, task: str, *arguments: Any, **options: Any) -> Job[Any, Any]:
        made: Job[Any, Any] = self.app.tasks[task].options(**options).job(*arguments)
        return made

    async def run(self) -> None:
        """All that a fleet would do now."""
        await self.app.store().rescue(limit=100, max_deliveries=1)
        await self.app.worker().run_until_idle()

    def booked(self) -> Counter[str]:
        """For each state: what entered it less what left it, by the metrics."""
        rows: Counter[str] = Counter()
        for one in self.app.metrics.list("offpath_job_moves_total"):
            rows[one.labels["entered"]] += int(one.value)
            rows[one.labels["left"]] -= int(one.value)
        del rows["none"]
        return +rows

    async def live(self) -> None:
        for _ in range(4):
            self.clock.advance(LONG)
            await self.run()


class Course(NamedTuple):
    """The life of a member: how it is made, what then happens to it, and how it ends by that."""

    make: Callable[[World], Job[Any, Any] | Gate[Any]]
    end: JobState
    reason: str | None = None
    happens: Callable[[World, str], Awaitable[object]] | None = None


async def _cancel(world: World, member: str) -> None:
    assert await world.app.jobs.cancel(member)


async def _cancel_blocked(world: World, member: str) -> None:
    await world.run()
    assert (await world.app.jobs.get(member)).state is JobState.BLOCKED
    await _cancel(world, member)


async def _lose(world: World, member: str) -> None:
    await join(world.store, "ghost")
    record = await world.app.jobs.get(member)
    assert (await take_one(world.app.store(), "ghost", record.task)).id == member


async def _lose_cancelled(world: World, member: str) -> None:
    await _lose(world, member)
    await _cancel(world, member)


async def _close_key(world: World, _member: str) -> None:
    await world.app.limits.pause("api")


async def _pause_queue(world: World, _member: str) -> None:
    await world.app.queues.pause("paused")


def _plain(task: str, *arguments: Any, **options: Any) -> Callable[[World], Job[Any, Any]]:
    return lambda world: world.job(task, *arguments, **options)


def _foreign(
    task: str, deadline: float | None = None, **arguments: Any
) -> Callable[[World], Job[Any, Any]]:
    elsewhere = App(auto_start=False)  # another service, which cannot check the arguments
    named = elsewhere.by_name(task, registered=False)
    return lambda _: named.options(deadline=deadline).job(**arguments)


def _gated(world: World) -> Gate[Any]:
    return offpath.gate(on=[fresh_id()], queue=[world.job("leaf", "held")], timeout=20)


DEAD, CANCELLED = JobState.DEAD, JobState.CANCELLED
COURSES = {
    "succeeds": Course(_plain("leaf", "member"), JobState.SUCCEEDED),
    "aborts": Course(_plain("aborts"), DEAD, "aborted"),
    "uses up its attempts": Course(_plain("raises"), DEAD, "exhausted"),
    "gives no result that fits": Course(_plain("wrong"), DEAD, "unsettleable"),
    "returns no plan": Course(_plain("unreturned"), DEAD, "invalid_plan"),
    "cannot be folded": Course(_plain("unfoldable", priority=-1), JobState.SUCCEEDED),
    "cannot be read": Course(_foreign("leaf", nobody=17), DEAD, "bad_input"),
    "waits for too long": Course(_plain("waits", 20.0, retry=1), DEAD, "exhausted"),
    "is late": Course(_plain("leaf", "late", delay=25, deadline=20), DEAD, "deadline"),
    "is late while it waits": Course(_plain("waits", deadline=20), DEAD, "deadline"),
    "would sleep past its deadline": Course(_plain("sleeps", deadline=20), DEAD, "deadline"),
    "is late while a limit holds it": Course(
        _plain("leaf", "held", limit=Limit(key="api", max_running=1), deadline=20),
        DEAD, "deadline", _close_key,
    ),
    "waits at a gate in vain": Course(_gated, DEAD, "gate_timeout"),
    "loses its workers": Course(_plain("leaf", "x", priority=1), DEAD, "worker_lost", _lose),
    "is cancelled in the queue": Course(_plain("leaf", "x"), CANCELLED, None, _cancel),
    "is cancelled while it waits": Course(_plain("waits"), CANCELLED, None, _cancel_blocked),
    "is cancelled and lost": Course(
        _plain("leaf", "x", priority=1), CANCELLED, None, _lose_cancelled
    ),
    "is late in a queue that is paused": Course(
        _plain("leaf", "x", queue="paused", deadline=20), DEAD, "deadline", _pause_queue
    ),
    "is late, of a task nobody knows": Course(_foreign("nobody.knows", 20), DEAD, "deadline"),
    "is of a task nobody knows, and cancelled": Course(
        _foreign("nobody.knows"), CANCELLED, None, _cancel
    ),
}  # fmt: skip


class Ids(NamedTuple):
    """The jobs of one workflow."""

    member: str
    beside: str
    after_all: str
    after_success: str


def _define_root(world: World, course: Course, made: list[Ids]) -> Job[Any, Any]:
    @world.app.task(name="root")
    async def root(ctx: Context) -> Plan[None, str]:
        item = course.make(world)
        member = item.jobs[0] if isinstance(item, Gate) else item
        beside = world.job("leaf", "beside")
        after_all = world.job("leaf", "after all")
        after_success = world.job("leaf", "after success")
        made.append(Ids(member.id, beside.id, after_all.id, after_success.id))
        on = [member, beside]
        return ctx.queue(
            item,
            beside,
            offpath.gate(on=on, queue=[after_all], when=offpath.all_settled),
            offpath.gate(on=on, queue=[after_success]),
        )

    return root.job()


@pytest.fixture
async def world(store: Store, clock: ManualClock) -> AsyncIterator[World]:
    made = World(store, clock)
    async with made.app:
        yield made


@pytest.mark.parametrize("name", COURSES)
async def test_always_ends(world: World, name: str) -> None:
    course, made = COURSES[name], list[Ids]()
    handle = await world.app.enqueue(_define_root(world, course, made))
    await world.app.worker().run_until_idle(limit=1)
    (ids,) = made
    if course.happens is not None:
        await course.happens(world, ids.member)
    await world.live()

    records = {one.id: one for one in await world.store.get(ids)}
    assert records[ids.member].state is course.end
    assert course.reason in {None, records[ids.member].reason}
    fails = course.end is not JobState.SUCCEEDED
    assert (world.ran["beside"], world.ran["after all"]) == (1, 1)
    assert world.ran["after success"] == (0 if fails else 1)
    assert records[ids.after_success].reason == ("unsatisfiable" if fails else None)
    if fails:
        with pytest.raises(GroupFailed) as failed:
            await handle.group(timeout=0)
        assert {one.id for one in failed.value.members} == {ids.member, ids.after_success}
    assert await handle.group(timeout=0, allow_failed=True) is not None
    group = await world.app.groups.get(handle.id)
    assert (group.open, group.failed, group.done) == (0, 2 if fails else 0, True)
    assert world.done == {handle.id: 1}
    everything = await world.store.get([handle.id, *ids])
    assert world.booked() == Counter(one.state.value for one in everything)


async def test_a_dead_member_that_is_deleted_is_missed_by_nobody(world: World) -> None:
    made: list[Ids] = []
    course = Course(_plain("aborts", priority=1), DEAD)
    handle = await world.app.enqueue(_define_root(world, course, made))
    await world.app.worker().run_until_idle(limit=2)
    (ids,) = made
    assert (await world.app.groups.get(handle.id)).open == 2
    await world.app.jobs.delete(ids.member)
    assert await world.store.get([ids.member]) == []
    await world.live()
    assert (world.ran["after all"], world.ran["after success"]) == (1, 0)
    group = await world.app.groups.get(handle.id)
    assert (group.open, group.failed, group.done) == (0, 2, True)
    assert world.done == {handle.id: 1}


async def test_a_chain_that_is_cancelled_at_its_first_step_ends_whole(world: World) -> None:
    """Case C4: each condition over a group with such a chain comes to its end."""
    chain = [world.job("leaf", f"step {number}") for number in range(3)]
    others = [world.job("leaf", f"other {number}") for number in range(4)]
    conditions = [offpath.all_succeeded, offpath.all_settled, offpath.any_succeeded]
    behind = [world.job("leaf", when.of.value + str(when.need)) for when in conditions]

    @world.app.task(name="root")
    async def root(ctx: Context) -> Plan[None, str]:
        steps = ctx.queue(chain[0]).next(chain[1]).next(chain[2])
        on = [*others, chain[2]]
        gates = [
            offpath.gate(on=on, queue=[job], when=when)
            for job, when in zip(behind, conditions, strict=True)
        ]
        return ctx.queue(steps, *others, *gates)

    handle = await root.enqueue()
    await world.app.worker().run_until_idle(limit=1)
    assert await world.app.jobs.cancel(chain[0].id)
    await world.live()
    with pytest.raises(GroupFailed) as failed:
        await handle.group(timeout=0)
    states = {one.id: one.state for one in failed.value.members}
    assert states == {
        chain[0].id: JobState.CANCELLED,
        chain[1].id: JobState.DEAD,
        chain[2].id: JobState.DEAD,
        behind[0].id: JobState.DEAD,
    }
    ends = [(await world.app.jobs.get(job.id)).state for job in behind[1:]]
    assert ends == [JobState.SUCCEEDED] * 2
    assert (await world.app.groups.get(handle.id)).open == 0
    assert world.done == {handle.id: 1}

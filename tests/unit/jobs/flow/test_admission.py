"""Limits in workers: who starts when, and that nothing is hidden or starved by them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from offpath.errors import CoolDown, StoreUnavailable
from offpath.jobs.worker.admission import REMEMBERED
from offpath.model.job import JobState
from offpath.model.limit import Algorithm, LimitSpec, RateSpec
from tests.unit.jobs.worker.rig import Rig, breathe

KEY = "api"


class Floor:
    """Handlers that run until they are let go, and how many of each key do."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.started: list[str] = []
        self.running = Counter[str]()
        self.peak = Counter[str]()

    def handler(self, name: str) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            self.started.append(name)
            self.running[name] += 1
            self.peak[name] = max(self.peak[name], self.running[name])
            try:
                await self.gate.wait()
            finally:
                self.running[name] -= 1

        run.__name__ = name
        return run


def at_most(count: int | None = None, *, key: str = KEY, rate: RateSpec | None = None) -> LimitSpec:
    return LimitSpec(key=key, max_running=count, rate=rate)


async def test_no_more_than_max_running_of_a_key_start(rig: Rig) -> None:
    floor = Floor()
    rig.task(floor.handler("one"))
    jobs = [await rig.enqueue("one", limit=at_most(3)) for _ in range(10)]
    workers = [await rig.started(), await rig.started()]
    assert floor.running["one"] == 3
    floor.gate.set()
    await rig.pass_time(3)
    assert {await rig.state(job) for job in jobs} == {JobState.SUCCEEDED}
    assert floor.peak["one"] == 3
    assert all(loop.healthy for worker in workers for loop in worker.health() if loop.critical)


async def test_a_slot_of_a_key_is_used_again_without_waiting_for_the_timer(rig: Rig) -> None:
    ran = 0

    async def one() -> None:
        nonlocal ran
        ran += 1

    rig.task(one)
    for _ in range(50):
        await rig.enqueue("one", limit=at_most(1))
    await rig.started(poll_interval=1_000.0)
    await breathe(2_000)
    assert ran == 50


async def test_announced_work_is_admitted_without_waiting_for_the_timer(rig: Rig) -> None:
    ran = 0

    async def one() -> None:
        nonlocal ran
        ran += 1

    rig.task(one)
    await rig.started(poll_interval=1_000.0)
    await rig.pass_time(0.5)
    for number in range(1, 4):
        await rig.enqueue("one", limit=at_most(1))
        await breathe()
        assert ran == number


async def test_without_limits_admission_costs_a_few_probes(rig: Rig) -> None:
    async def one() -> None: ...

    rig.task(one)
    await rig.started()
    rig.faulty.calls.clear()
    for _ in range(1_000):
        await rig.enqueue("one")
        rig.clock.advance(0.01)
        await breathe(3)
    assert rig.faulty.calls.count("admit") <= 50


async def test_a28_087_a_saturated_key_hides_nothing_behind_it(rig: Rig) -> None:
    floor = Floor()
    rig.task(floor.handler("limited"))
    rig.task(floor.handler("free"))
    for _ in range(600):
        await rig.enqueue("limited", priority=10, limit=at_most(1))
    await rig.enqueue("free")
    await rig.started(concurrency=2)
    assert sorted(floor.started) == ["free", "limited"]


async def test_a28_099_keys_are_admitted_on_their_own(rig: Rig) -> None:
    floor = Floor()
    rig.task(floor.handler("x"))
    rig.task(floor.handler("a"))
    for name in ("x", "a", "a"):
        await rig.enqueue(name, limit=at_most(1, key=name))
    await rig.started()
    assert sorted(floor.started) == ["a", "x"]


async def test_within_a_key_priority_then_due_time_decide(rig: Rig) -> None:
    order: list[str] = []

    async def one(name: str) -> None:
        order.append(name)

    rig.task(one)
    for name, priority in (("low", 0), ("high", 5), ("mid", 3), ("low2", 0)):
        await rig.enqueue("one", f'{{"name": "{name}"}}', priority=priority, limit=at_most(1))
        rig.clock.advance(0.01)
    await rig.run()
    assert order == ["high", "mid", "low", "low2"]


async def test_a28_096_to_098_a_rate_lets_in_so_many_and_the_next_as_time_passes(rig: Rig) -> None:
    started: list[float] = []

    async def one() -> None:
        started.append(rig.clock.monotonic())

    rig.task(one)
    rate = RateSpec(count=2, per=1.0, algorithm=Algorithm.FIXED_WINDOW)
    for _ in range(5):
        await rig.enqueue("one", limit=at_most(rate=rate))
    await rig.started(poll_interval=1_000.0)
    begin = rig.clock.monotonic()
    assert len(started) == 2
    await rig.pass_time(0.9, step=0.1)
    assert len(started) == 2
    await rig.pass_time(0.2, step=0.1)
    assert len(started) == 4
    await rig.pass_time(1.2, step=0.1)
    assert [round(at - begin, 1) for at in started] == [0, 0, 1, 1, 2]


async def test_a_rate_lets_the_next_in_to_the_moment(rig: Rig) -> None:
    started: list[float] = []

    async def one() -> None:
        started.append(rig.clock.monotonic())

    rig.task(one)
    rate = RateSpec(count=5, per=1.0)
    for _ in range(20):
        await rig.enqueue("one", limit=at_most(rate=rate))
    await rig.started(poll_interval=1_000.0)
    begin = rig.clock.monotonic()
    await rig.pass_time(3.2, step=0.05)
    late = [at - begin - 0.2 * number for number, at in enumerate(started[5:], 1)]
    assert len(started) == 20
    assert all(-0.001 <= each <= 0.101 for each in late), late


async def test_a28_102_max_running_and_rate_both_hold(rig: Rig) -> None:
    floor = Floor()
    rig.task(floor.handler("one"))
    for _ in range(10):
        await rig.enqueue("one", limit=at_most(1, rate=RateSpec(count=5, per=1.0)))
    await rig.started()
    await rig.pass_time(5)
    assert floor.peak["one"] == 1


async def test_a28_112_a_store_that_fails_loses_nothing(rig: Rig) -> None:
    floor = Floor()
    rig.task(floor.handler("one"))
    await rig.started(poll_interval=1_000.0)
    rig.faulty.fail("admit", StoreUnavailable("away"), times=5)
    await rig.enqueue("one", limit=at_most(1))
    await rig.pass_time(1)
    assert "admission" in rig.phases()
    await rig.pass_time(20)
    assert floor.started == ["one"]


async def test_a_cool_down_starts_nothing_of_its_key_on_any_worker(rig: Rig) -> None:
    calls: list[tuple[float, str]] = []

    async def limited(ctx: Any) -> None:
        calls.append((rig.clock.monotonic(), ctx.id))
        if len(calls) == 1:
            raise CoolDown(30, reason="429")

    async def free() -> None:
        calls.append((rig.clock.monotonic(), "free"))

    rig.task(limited)
    rig.task(free)
    jobs = [await rig.enqueue("limited", limit=at_most(1)) for _ in range(3)]
    await rig.started(poll_interval=1_000.0)
    await rig.started(poll_interval=1_000.0)
    begin = calls[0][0]
    await rig.enqueue("free")
    await rig.pass_time(29, step=0.5)
    assert [name for _, name in calls] == [jobs[0], "free"]
    await rig.pass_time(3, step=0.5)
    assert {await rig.state(job) for job in jobs} == {JobState.SUCCEEDED}
    assert all(at - begin >= 30 for at, name in calls[2:] if name != "free")
    assert (await rig.record(jobs[0])).attempt == 1


async def test_a_classifier_may_answer_with_a_cool_down(rig: Rig) -> None:
    class TooManyRequests(Exception):
        retry_after = 10.0

    calls = 0

    async def limited() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise TooManyRequests

    rig.task(limited, on_failure=lambda error, _info: CoolDown(error.retry_after))
    jobs = [await rig.enqueue("limited", limit=at_most(1)) for _ in range(2)]
    await rig.started(poll_interval=1_000.0)
    (limit,) = await rig.memory.limits(keys=(KEY,))
    assert limit.closed_until == rig.clock.now() + timedelta(seconds=10)
    await rig.pass_time(9)
    assert calls == 1
    await rig.pass_time(3)
    assert {await rig.state(job) for job in jobs} == {JobState.SUCCEEDED}


async def test_a_handler_may_cool_its_key_down_and_go_on(rig: Rig) -> None:
    answers: list[bool] = []

    async def limited(ctx: Any) -> None:
        answers.append(await ctx.cool_down(timedelta(seconds=10)))

    async def free(ctx: Any) -> None:
        answers.append(await ctx.cool_down(10))

    rig.task(limited)
    rig.task(free)
    jobs = [await rig.enqueue("limited", limit=at_most(1)) for _ in range(2)]
    await rig.started(poll_interval=1_000.0)
    assert (await rig.state(jobs[0]), answers) == (JobState.SUCCEEDED, [True])
    await rig.pass_time(9)
    assert len(answers) == 1
    await rig.pass_time(2)
    await rig.enqueue("free")
    await rig.pass_time(1)
    assert answers == [True, True, False]


async def test_a_cool_down_without_a_limit_is_a_snooze(rig: Rig) -> None:
    calls = 0

    async def plain() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise CoolDown(5)

    rig.task(plain)
    job = await rig.enqueue("plain")
    await rig.started()
    assert await rig.state(job) is JobState.QUEUED
    await rig.pass_time(6)
    assert (await rig.state(job), calls) == (JobState.SUCCEEDED, 2)
    assert await rig.memory.limits() == []


async def test_a_retry_gives_its_room_to_others_meanwhile(rig: Rig) -> None:
    order: list[str] = []

    async def one(name: str) -> None:
        order.append(name)
        if name == "bad" and order.count("bad") == 1:
            raise ValueError

    rig.task(one)
    for name in ("bad", "good"):
        await rig.enqueue("one", f'{{"name": "{name}"}}', base=10.0, limit=at_most(1))
        rig.clock.advance(0.01)
    await rig.started()
    assert order == ["bad", "good"]
    await rig.pass_time(12)
    assert order == ["bad", "good", "bad"]


async def test_the_jobs_of_a_dead_worker_give_their_room_back(rig: Rig) -> None:
    floor = Floor()
    rig.task(floor.handler("one"))
    for _ in range(4):
        await rig.enqueue("one", limit=at_most(2))
    lost = await rig.started()
    assert floor.running["one"] == 2
    await rig.memory.deregister(lost.id)
    await rig.memory.rescue(limit=10, max_deliveries=1)
    (limit,) = await rig.memory.limits()
    assert limit.running == 0
    other = await rig.started()
    await rig.pass_time(2)
    assert len(other.active()) == 2


async def test_limits_are_forgotten_as_in_use_when_none_was_seen_for_a_while(rig: Rig) -> None:
    async def one() -> None: ...

    rig.task(one)
    admission = (await rig.started())._engine.admission
    known = [admission.used]
    await rig.enqueue("one", limit=at_most(1))
    await rig.pass_time(1)
    known.append(admission.used)
    await rig.pass_time(REMEMBERED + 1)
    known.append(admission.used)
    assert known == [False, True, False]


async def test_run_until_idle_admits_what_is_held(rig: Rig) -> None:
    async def one() -> None: ...

    rig.task(one)
    jobs = [await rig.enqueue("one", limit=at_most(1)) for _ in range(20)]
    await rig.run()
    assert {await rig.state(job) for job in jobs} == {JobState.SUCCEEDED}


@pytest.mark.parametrize("paused", ["key", "queue"])
async def test_a_paused_key_or_queue_starts_nothing_until_it_is_resumed(
    rig: Rig, paused: str
) -> None:
    ran: list[str] = []

    async def one() -> None:
        ran.append("one")

    rig.task(one)
    if paused == "key":
        await rig.store.close_limit(KEY)
    else:
        await rig.store.pause_queue("default")
    await rig.started()
    await rig.enqueue("one", limit=at_most(1))
    await rig.pass_time(20)
    assert ran == []
    if paused == "key":
        assert await rig.store.open_limit(KEY)
    else:
        assert await rig.store.resume_queue("default")
    await rig.pass_time(2)
    assert ran == ["one"]


async def test_a_paused_queue_holds_no_room_of_its_key(rig: Rig) -> None:
    floor = Floor()
    rig.task(floor.handler("one"))
    await rig.store.pause_queue("closed")
    for queue in ("closed", "closed", "open"):
        await rig.enqueue("one", queue=queue, limit=at_most(1))
    await rig.started()
    await rig.pass_time(2)
    assert floor.running["one"] == 1

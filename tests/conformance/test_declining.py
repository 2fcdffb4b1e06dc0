"""Jobs that one worker declines: another one has them at once, and the first does not come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from offpath import App, Limit
from offpath.jobs.worker.acceptance import QUIET
from offpath.model.job import JobState
from offpath.model.lease import LeaseRequest, Order
from offpath.model.settlement import Released
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import (
    TASK,
    add,
    end,
    enqueue,
    fresh_id,
    join,
    record,
    take,
    take_one,
)
from tests.conformance.workflow_builders import ids_of, limited

ORDERS = tuple(Order)


# -- the lease -------------------------------------------------------------------------------------


async def lease(store: Store, limit: int, *declined: str, **fields: Any) -> tuple[list[str], bool]:
    """Lease so many, these passed over: their ids, and whether there are more."""
    tasks = fields.pop("tasks", (TASK,))
    request = LeaseRequest(
        worker=fields.pop("worker", "w1"),
        limit=limit,
        tasks=dict.fromkeys(tasks, limit),
        declined=declined,
        **fields,
    )
    leased = await store.lease(request)
    return ids_of(leased.jobs), leased.more


@pytest.mark.parametrize("order", ORDERS)
async def test_declined_jobs_are_passed_over(store: Store, order: Order) -> None:
    await join(store, "w1", "w2")
    ids = [await add(store, fair_key="k") for _ in range(6)]
    got, _ = await lease(store, 2, ids[0], ids[1], ids[3], order=order)
    assert got == [ids[2], ids[4]]
    got, _ = await lease(store, 10, ids[0], ids[1], ids[3], order=order)
    assert got == [ids[5]]
    assert await lease(store, 10, ids[0], ids[1], ids[3], order=order) == ([], False)
    got, _ = await lease(store, 10, order=order, worker="w2")
    assert got == [ids[0], ids[1], ids[3]]


@pytest.mark.parametrize("order", ORDERS)
async def test_many_declined_jobs_at_the_head_hide_nothing(store: Store, order: Order) -> None:
    await join(store)
    head = [await add(store, priority=9) for _ in range(60)]
    wanted = await add(store)
    assert (await lease(store, 1, *head, order=order))[0] == [wanted]


async def test_declined_jobs_of_several_queues_and_tasks(store: Store) -> None:
    await join(store, "w1", "w2")
    left = [await add(store, task, queue=queue) for task in "ab" for queue in ("x", "y")]
    wanted = [await add(store, task, queue=queue) for task in "ab" for queue in ("x", "y")]
    rooms = {"x": 10, "y": 1}
    got, more = await lease(store, 10, *left, tasks=("a", "b"), queue_rooms=rooms)
    assert sorted(got) == sorted([wanted[0], wanted[2], min(wanted[1], wanted[3])])
    got, more = await lease(store, 10, *left, tasks=("a", "b"))
    assert (got, more) == ([max(wanted[1], wanted[3])], False)
    got, _ = await lease(store, 10, tasks=("a", "b"), worker="w2")
    assert sorted(got) == sorted(left)


async def test_ids_that_are_not_ready_do_no_harm(store: Store, clock: ManualClock) -> None:
    await join(store, "w1", "w2")
    ended = await add(store)
    await end(store, await take_one(store, "w2"), Released())
    scheduled = await add(store, delay=60)
    wanted = await add(store)
    declined = (ended, scheduled, fresh_id())
    assert await lease(store, 10, *declined) == ([wanted], False)
    clock.advance(61)
    assert await lease(store, 10, *declined) == ([], False)
    await join(store, "w2")
    assert sorted((await lease(store, 10, worker="w2"))[0]) == sorted([ended, scheduled])


async def test_given_back_it_says_why_and_keeps_its_place(store: Store) -> None:
    await join(store, "w1", "w2")
    first = await add(store)
    await add(store)
    job = await take_one(store)
    assert job.id == first
    await end(store, job, Released(reason="declined"))
    given_back = await record(store, first)
    assert (given_back.state, given_back.reason) == (JobState.QUEUED, "declined")
    assert (given_back.attempt, given_back.losses) == (1, 0)
    assert ids_of(await take(store, "w2", limit=1)) == [first]
    assert (await record(store, first)).reason is None


# -- workers ---------------------------------------------------------------------------------------


def service(store: Store, clock: ManualClock, ran: list[tuple[str, int]], name: str) -> App:
    app = App(store=store, clock=clock, auto_start=False)

    @app.task(limit=Limit(key="key", max_running=1))
    async def limited_one(number: int) -> None:
        ran.append((name, number))

    @app.task
    async def one(number: int) -> None:
        ran.append((name, number))

    return app


def numbered(*wanted: int) -> Callable[[Any], bool]:
    return lambda offer: offer.arguments()[0][0] in wanted


async def until(true: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not await true():  # noqa: ASYNC110 - several loops lead to it, none tells
            await asyncio.sleep(0)


@pytest.mark.parametrize("task", ["one", "limited_one"])
async def test_what_one_worker_declines_another_has_at_once(
    rivals: tuple[Store, ...], clock: ManualClock, task: str
) -> None:
    """No time passes here at all."""
    ran: list[tuple[str, int]] = []
    first, second, *_ = (
        service(store, clock, ran, name) for store, name in zip(rivals, "abcd", strict=True)
    )
    async with first, second:
        job = await first.tasks[task].enqueue(number=7)
        async with first.worker(accept=numbered(1)):
            await until(lambda: declined(first, job.id))
            async with second.worker(accept=numbered(7)):
                await until(lambda: succeeded(first, job.id))
    assert ran == [("b", 7)]


async def declined(app: App, job_id: str) -> bool:
    """True if it was leased once and given back."""
    found = await app.jobs.get(job_id)
    return (found.state, found.deliveries) == (JobState.QUEUED, 1)


async def succeeded(app: App, job_id: str) -> bool:
    return (await app.jobs.get(job_id)).state is JobState.SUCCEEDED


async def test_a_worker_that_declines_does_not_come_back_for_a_while(
    store: Store, clock: ManualClock
) -> None:
    app = service(store, clock, [], "a")
    async with app, app.worker(accept=numbered(), lease_seconds=10 * QUIET):
        job = await app.tasks["one"].enqueue(number=7)
        await until(lambda: declined(app, job.id))
        for _ in range(int(QUIET) - 1):
            clock.advance(1)
            await some_turns(app)
        assert await declined(app, job.id)
        clock.advance(2)

        async def again() -> bool:
            clock.advance(0.1)  # it may have asked just before
            return await offered_again(app, job.id)

        await until(again)


async def some_turns(app: App) -> None:
    """Let the worker ask, as it does whenever time has passed."""
    for _ in range(5):
        await app.store().ping()


async def offered_again(app: App, job_id: str) -> bool:
    return (await app.jobs.get(job_id)).deliveries == 2


async def test_where_nobody_accepts_a_limited_job_the_next_of_its_key_go(
    store: Store, clock: ManualClock
) -> None:
    ran: list[tuple[str, int]] = []
    app = service(store, clock, ran, "a")
    async with app:
        task = app.tasks["limited_one"]
        job, *_ = [await task.enqueue(number=n) for n in (1, 2, 3)]
        async with app.worker(accept=numbered(2, 3), lease_seconds=600):
            await until(lambda: declined(app, job.id))
            assert ran == []
            clock.advance(6)  # nobody took it for 5 s

            async def both() -> bool:
                clock.advance(0.01)
                return len(ran) == 2

            await until(both)
    assert sorted(ran) == [("a", 2), ("a", 3)]


async def test_limited_jobs_keep_their_room_when_given_back(store: Store) -> None:
    await join(store)
    await enqueue(store, limited("api", 1), limited("api", 1))
    await store.admit(limit=10)
    job = await take_one(store)
    await end(store, job, Released(reason="declined"))
    await store.admit(limit=10)
    (key,) = await store.limits()
    assert (key.admitted, key.running, key.held) == (1, 0, 1)

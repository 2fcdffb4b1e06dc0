"""A paused queue hands out nothing, hides nothing, and keeps what it has."""

from __future__ import annotations

from datetime import timedelta

from offpath.model.effects import Effects
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import START, add, ask, enqueue, join, start, succeed, take
from tests.conformance.workflow_builders import (
    fates,
    gate_on,
    hold_one,
    ids_of,
    limited,
    settle_with,
    waiting,
)


async def test_a_paused_queue_hands_out_nothing(store: Store) -> None:
    await join(store)
    held = await add(store, queue="q", priority=9)
    free = await add(store, queue="r")
    await store.pause_queue("q")
    assert ids_of(await take(store)) == [free]
    assert await take(store, queues=("q",)) == ()
    assert await store.resume_queue("q")
    assert ids_of(await take(store)) == [held]


async def test_pausing_and_resuming_may_be_repeated(store: Store) -> None:
    await store.pause_queue("q")
    await store.pause_queue("q")
    assert await store.resume_queue("q")
    assert not await store.resume_queue("q")
    assert not await store.resume_queue("never")


async def test_a_pause_ends_by_itself(store: Store, clock: ManualClock) -> None:
    await join(store)
    job = await add(store, queue="q")
    await store.pause_queue("q", until=START + timedelta(seconds=10))
    assert await take(store) == ()
    clock.advance(9)
    assert await take(store) == ()
    clock.advance(1.5)
    assert ids_of(await take(store)) == [job]
    assert not await store.resume_queue("q")


async def test_the_last_pause_holds(store: Store, clock: ManualClock) -> None:
    await join(store)
    await add(store, queue="q")
    await store.pause_queue("q", until=START + timedelta(seconds=10))
    await store.pause_queue("q")
    clock.advance(11)
    assert await take(store) == ()
    await store.pause_queue("q", until=START + timedelta(seconds=12))
    clock.advance(2)
    assert len(await take(store)) == 1


async def test_running_jobs_of_a_paused_queue_go_on(store: Store) -> None:
    job = await start(store, queue="q")
    await store.pause_queue("q")
    assert (await succeed(store, job)).group_done


async def test_a_flood_in_a_paused_queue_hides_nobody(store: Store) -> None:
    await join(store)
    for _ in range(300):
        await add(store, queue="q", priority=9)
    await store.pause_queue("q")
    free = await add(store)
    got = await ask(store, limit=5)
    assert ids_of(got.jobs) == [free]
    assert not got.more


async def test_limited_jobs_of_a_paused_queue_are_passed_over(store: Store) -> None:
    await join(store)
    paused, free = limited(queue="q", priority=9), limited(queue="r")
    await enqueue(store, paused, free)
    await store.pause_queue("q")
    assert (await store.admit(limit=10)).jobs == 1
    assert await fates(store, paused.id) == [("blocked", "limit")]
    (job,) = await take(store)
    assert job.id == free.id
    await succeed(store, job)
    assert (await store.admit(limit=10)).jobs == 0
    await store.resume_queue("q")
    assert (await store.admit(limit=10)).jobs == 1


async def test_queues_are_counted(store: Store) -> None:
    first = await start(store, queue="a")
    await hold_one(store, gate_on(first.id), queue="a")
    await add(store, queue="a")
    await add(store, queue="a", delay=60)
    await add(store, queue="b", delay=60)
    await enqueue(store, limited(queue="b"))
    await store.pause_queue("c")
    found = {
        each.name: (each.blocked, each.scheduled, each.ready, each.running)
        for each in await store.queues()
    }
    assert found == {"a": (1, 1, 1, 1), "b": (1, 1, 0, 0), "c": (0, 0, 0, 0)}
    assert [each.name for each in await store.queues()] == ["a", "b", "c"]


async def test_what_a_queue_has_is_counted_up_to_a_limit(store: Store) -> None:
    for number in range(4):
        await add(store, queue="a")
        await add(store, queue="a", delay=60 + number)
    await add(store, queue="b", delay=60)
    found = {each.name: (each.scheduled, each.ready) for each in await store.queues(most=2)}
    assert found == {"a": (2, 2), "b": (1, 0)}


async def test_pauses_are_shown_while_they_hold(store: Store, clock: ManualClock) -> None:
    until = START + timedelta(seconds=10)
    await store.pause_queue("a")
    await store.pause_queue("b", until=until)
    shown = {each.name: (each.paused, each.paused_until) for each in await store.queues()}
    assert shown == {"a": (True, None), "b": (False, until)}
    clock.advance(11)
    assert [each.name for each in await store.queues()] == ["a"]


async def test_a_queue_whose_jobs_have_ended_is_not_listed(store: Store) -> None:
    await succeed(store, await start(store, queue="a"))
    waiter = await start(store, queue="b")
    await settle_with(store, waiter, Effects(), waiting())
    assert [(each.name, each.blocked) for each in await store.queues()] == [("b", 1)]

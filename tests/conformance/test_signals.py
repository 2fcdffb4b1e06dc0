"""Signals: kept until taken, one for one job, none lost between a wait and a send."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from offpath.errors import LeaseLost, SignalsFull
from offpath.model.effects import Effects
from offpath.model.job import JobFilter
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import (
    START,
    add,
    die,
    exists,
    fresh_id,
    join,
    new_job,
    record,
    start,
    succeed,
    take,
    take_one,
)
from tests.conformance.workflow_builders import (
    fates,
    settle_with,
    signal,
    sleeper,
    taken,
    waiting,
)

pytestmark = pytest.mark.needs("workflows")


async def test_a_job_waits_until_the_signal_comes(store: Store) -> None:
    await join(store)
    job_id = await sleeper(store)
    assert await fates(store, job_id) == [("blocked", "signal")]
    assert await take(store) == ()
    assert await store.send_signal(signal('"go"'))
    again = await take_one(store)
    assert (again.id, again.attempt, again.deliveries) == (job_id, 1, 2)
    assert await taken(store, again) == '"go"'
    assert await store.steps(job_id) == {"wait": '"go"'}


async def test_a_job_says_for_what_it_waits_while_it_does(store: Store) -> None:
    await join(store)
    job_id = await sleeper(store)
    sent = signal('"go"')
    waits = await record(store, job_id)
    assert (waits.wait_target, waits.wait_event) == (sent.target, sent.event)
    (listed,) = (await store.find(JobFilter(ids=(job_id,)), limit=1, after=None)).items
    assert (listed.wait_target, listed.wait_event) == (sent.target, sent.event)
    await store.send_signal(sent)
    woken = await record(store, job_id)
    assert (woken.wait_target, woken.wait_event) == (None, None)
    await store.cancel([job_id])
    ended = await record(store, job_id)
    assert (ended.wait_target, ended.wait_event) == (None, None)


async def test_a_cancelled_wait_is_none(store: Store) -> None:
    await join(store)
    job_id = await sleeper(store)
    await store.cancel([job_id])
    ended = await record(store, job_id)
    assert (ended.state, ended.wait_target, ended.wait_event) == ("cancelled", None, None)


async def test_a_signal_that_came_early_is_kept(store: Store) -> None:
    await join(store)
    await store.send_signal(signal('"early"'))
    job_id = await sleeper(store)
    assert await fates(store, job_id) == [("queued", None)]
    assert await taken(store, await take_one(store)) == '"early"'


async def test_a_running_job_takes_what_is_there_without_waiting(store: Store) -> None:
    job = await start(store)
    assert await taken(store, job) is None
    assert await store.steps(job.id) == {}
    await store.send_signal(signal('"now"'))
    assert await taken(store, job) == '"now"'


async def test_the_oldest_is_taken_first(store: Store, clock: ManualClock) -> None:
    job = await start(store)
    for payload in ("1", "2", "3"):
        await store.send_signal(signal(payload))
        clock.advance(0.5)
    assert [await taken(store, job, f"w{n}") for n in range(4)] == ["1", "2", "3", None]


async def test_a_recorded_step_takes_nothing(store: Store) -> None:
    job = await start(store)
    await store.send_signal(signal("1"))
    await store.send_signal(signal("2"))
    assert await taken(store, job) == "1"
    assert await taken(store, job) == "1"
    assert await taken(store, job, "other") == "2"


@pytest.mark.parametrize("field", ["target", "event"])
async def test_only_what_fits_wakes_and_is_taken(store: Store, field: str) -> None:
    await join(store)
    job_id = await sleeper(store)
    other = replace(signal(), **{field: "another"})
    await store.send_signal(other)
    assert await fates(store, job_id) == [("blocked", "signal")]
    job = await start(store)
    assert await taken(store, job) is None


async def test_one_signal_wakes_one_job_the_longest_waiting(
    store: Store, clock: ManualClock
) -> None:
    await join(store, lease=600)
    ids = []
    for _ in range(3):
        ids.append(await sleeper(store))
        clock.advance(1)
    await store.send_signal(signal("1"))
    assert [job.id for job in await take(store)] == ids[:1]
    await store.send_signal(signal("2"))
    await store.send_signal(signal("3"))
    assert sorted(job.id for job in await take(store)) == ids[1:]


async def test_sending_again_changes_nothing(store: Store) -> None:
    job = await start(store)
    once = signal("1")
    assert await store.send_signal(once)
    assert not await store.send_signal(once)
    assert await taken(store, job, "a") == "1"
    assert not await store.send_signal(once)
    assert await taken(store, job, "b") is None


async def test_sending_again_wakes_nobody_else(store: Store) -> None:
    await join(store)
    first, second = await sleeper(store), await sleeper(store)
    once = signal("1")
    await store.send_signal(once)
    await store.send_signal(once)
    assert await fates(store, first, second) == [("queued", None), ("blocked", "signal")]


async def test_a_signal_is_not_kept_for_ever(store: Store, clock: ManualClock) -> None:
    job = await start(store)
    await store.send_signal(signal(keep=10))
    clock.advance(11)
    assert await taken(store, job) is None
    await join(store)
    sleeping = await sleeper(store)
    assert await fates(store, sleeping) == [("blocked", "signal")]


async def test_one_whose_time_is_over_is_removed(store: Store, clock: ManualClock) -> None:
    once = signal(keep=10)
    await store.send_signal(once)
    clock.advance(11)
    await store.expire_blocked(limit=10)
    assert await store.send_signal(once)


@pytest.mark.parametrize("how", ["succeeds", "dies", "is cancelled", "is lost"])
async def test_a_signal_that_is_left_wakes_the_next(
    store: Store, clock: ManualClock, how: str
) -> None:
    await join(store, lease=600)
    first, second, third = [await sleeper(store) for _ in range(3)]
    await store.send_signal(signal("1"))
    if how == "is cancelled":
        await store.cancel([first])
    elif how == "is lost":
        await join(store, "w2")
        await take_one(store, "w2")
        clock.advance(31)
        await store.rescue(limit=10, max_deliveries=1)
    else:
        await (succeed if how == "succeeds" else die)(store, await take_one(store))
    await store.expire_blocked(limit=10)
    assert await fates(store, second, third) == [("queued", None), ("blocked", "signal")]
    job = await take_one(store)
    assert (job.id, await taken(store, job)) == (second, "1")
    await succeed(store, job)
    await store.expire_blocked(limit=10)
    assert await fates(store, third) == [("blocked", "signal")]


async def test_who_took_its_signal_wakes_nobody_else_by_its_end(store: Store) -> None:
    await join(store)
    first, second, third = [await sleeper(store) for _ in range(3)]
    for _ in range(2):
        await store.send_signal(signal())
    held = {job.id: job for job in await take(store)}
    assert held.keys() == {first, second}
    await taken(store, held[first])
    await succeed(store, held[first])
    await store.expire_blocked(limit=10)
    assert await fates(store, third) == [("blocked", "signal")]


async def test_a_wait_ends_with_its_time(store: Store, clock: ManualClock) -> None:
    await join(store)
    job_id = await sleeper(store, 10.0)
    clock.advance(9)
    assert await store.expire_blocked(limit=10) == []
    clock.advance(2)
    (changed,) = await store.expire_blocked(limit=10)
    assert (changed.id, changed.was.value, changed.state.value) == (job_id, "blocked", "queued")
    assert not changed.group_done
    again = await take_one(store)
    assert (again.id, again.attempt) == (job_id, 1)
    assert again.run_at == START + timedelta(seconds=11)
    assert await taken(store, again) is None


async def test_a_wait_without_a_time_outlives_everything(store: Store, clock: ManualClock) -> None:
    await join(store)
    job_id = await sleeper(store)
    clock.advance(10_000_000)
    assert await store.expire_blocked(limit=10) == []
    assert await fates(store, job_id) == [("blocked", "signal")]


async def test_a_deadline_passes_while_waiting(store: Store, clock: ManualClock) -> None:
    await join(store)
    job_id = await sleeper(store, 5.0, deadline_in=8)
    late = await sleeper(store, 50.0, deadline_in=8)
    clock.advance(6)
    assert [each.id for each in await store.expire_blocked(limit=10)] == [job_id]
    clock.advance(3)
    ended = {each.id: each.group_done for each in await store.expire_blocked(limit=10)}
    assert ended == {job_id: True, late: True}
    assert await fates(store, job_id, late) == [("dead", "deadline")] * 2
    assert (await record(store, late)).failure is not None


async def test_a_wait_that_is_over_is_not_ended_again(store: Store, clock: ManualClock) -> None:
    await join(store)
    job_id = await sleeper(store, 10.0)
    await store.send_signal(signal())
    clock.advance(20)
    assert await store.expire_blocked(limit=10) == []
    await join(store)
    assert (await take_one(store)).id == job_id


async def test_it_may_wait_again(store: Store, clock: ManualClock) -> None:
    await join(store)
    job_id = await sleeper(store, 10.0)
    clock.advance(11)
    await store.expire_blocked(limit=10)
    await join(store)
    await settle_with(store, await take_one(store), Effects(), waiting(10.0))
    assert await fates(store, job_id) == [("blocked", "signal")]
    clock.advance(5)
    assert await store.expire_blocked(limit=10) == []
    await store.send_signal(signal("1"))
    assert await taken(store, await take_one(store)) == "1"


async def test_effects_of_a_waiting_attempt_are_carried_out(store: Store) -> None:
    job = await start(store)
    child = new_job("other", parent=job.id)
    await settle_with(store, job, Effects(jobs=(child,)), waiting())
    assert await exists(store, child.id)


async def test_a_cancel_ends_a_wait(store: Store) -> None:
    await join(store)
    job_id = await sleeper(store)
    (changed,) = await store.cancel([job_id])
    assert (changed.state.value, changed.group_done) == ("cancelled", True)
    await store.send_signal(signal("1"))
    assert await fates(store, job_id) == [("cancelled", "cancelled")]
    assert await taken(store, await start(store)) == "1"


async def test_a_cancel_that_came_before_the_wait_ends_it(store: Store) -> None:
    job = await start(store)
    await store.cancel([job.id])
    answer = await settle_with(store, job, Effects(), waiting())
    assert answer.state is not None
    assert answer.state.value == "cancelled"


async def test_a_lost_lease_takes_nothing(store: Store, clock: ManualClock) -> None:
    job = await start(store)
    await store.send_signal(signal("1"))
    clock.advance(31)
    await store.rescue(limit=10, max_deliveries=5)
    with pytest.raises(LeaseLost):
        await taken(store, job)
    await join(store)
    assert await taken(store, await take_one(store)) == "1"


async def test_no_signal_is_lost_between_waits_and_sends(rivals: tuple[Store, ...]) -> None:
    store = rivals[0]
    await join(store)
    for n in range(5):
        ids = [await add(store) for _ in range(8)]
        jobs = await take(store)
        outcome = waiting(target=f"t{n}")
        await asyncio.gather(
            *(settle_with(rivals[at % 4], job, Effects(), outcome) for at, job in enumerate(jobs)),
            *(rivals[at % 4].send_signal(signal(str(at), target=f"t{n}")) for at in range(8)),
        )
        got = []
        while awake := await take(store):
            for job in awake:
                payload = await store.take_signal(job, target=f"t{n}", event="paid", step="w")
                got.append(payload)
                await succeed(store, job)
        assert sorted(got, key=str) == [str(at) for at in range(8)]
        assert await fates(store, *ids) == [("succeeded", None)] * 8


async def test_a_signal_is_taken_once_by_many(rivals: tuple[Store, ...]) -> None:
    store = rivals[0]
    await join(store)
    for _ in range(10):
        await add(store)
    jobs = await take(store)
    for n in range(4):
        await store.send_signal(signal(str(n)))
    got = await asyncio.gather(*(taken(rivals[n % 4], job) for n, job in enumerate(jobs)))
    assert sorted(each for each in got if each is not None) == ["0", "1", "2", "3"]


async def test_a_target_has_no_more_unread_signals_than_it_may_have(
    store: Store, clock: ManualClock
) -> None:
    one = replace(signal('"1"'), most=3, keep=60.0)
    two, three = (replace(one, id=fresh_id(), event=event) for event in ("other", one.event))
    assert [await store.send_signal(each) for each in (one, two, three)] == [True] * 3
    four = replace(one, id=fresh_id(), payload='"4"', keep=600.0)
    with pytest.raises(SignalsFull, match=r"3 signals that no job has taken.*most_unread") as said:
        await store.send_signal(four)
    assert said.value.code == "signals_full"
    assert not await store.send_signal(two)  # it was kept: a repeat is none too many
    assert await store.send_signal(replace(four, id=fresh_id(), target="another"))
    assert await store.send_signal(replace(four, id=fresh_id(), most=4))
    clock.advance(61)
    assert await store.send_signal(four)  # the time of three is over


async def test_what_is_taken_makes_room(store: Store) -> None:
    await join(store)
    await sleeper(store)
    one = replace(signal('"1"'), most=1)
    assert await store.send_signal(one)
    woken = await take_one(store)
    two = replace(one, id=fresh_id())
    with pytest.raises(SignalsFull):
        await store.send_signal(two)
    assert await taken(store, woken) == '"1"'
    assert await store.send_signal(two)
    assert not await store.send_signal(one)


async def test_the_last_place_is_found_once(store: Store) -> None:
    signals = [replace(signal(event=f"e{n % 3}"), id=fresh_id(), most=5) for n in range(12)]
    answers = await asyncio.gather(*map(store.send_signal, signals), return_exceptions=True)
    assert sum(answer is True for answer in answers) == 5
    assert sum(isinstance(answer, SignalsFull) for answer in answers) == 7

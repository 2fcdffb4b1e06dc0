"""Steps are recorded once, and outlive the attempt that took them."""

from __future__ import annotations

import asyncio

import pytest

from offpath.errors import LeaseLost
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.builders import (
    add,
    die,
    end,
    fresh_id,
    join,
    outcomes,
    start,
    succeed,
    take_one,
)

pytestmark = pytest.mark.needs("workflows")


async def test_a_step_is_recorded_once(store: Store) -> None:
    job = await start(store)
    assert await store.put_step(job, "charge", '"first"') == '"first"'
    assert await store.put_step(job, "charge", '"second"') == '"first"'
    assert await store.steps(job.id) == {"charge": '"first"'}


async def test_a_step_without_a_result_is_recorded_too(store: Store) -> None:
    job = await start(store)
    assert await store.put_step(job, "quiet", None) is None
    assert await store.put_step(job, "quiet", "1") is None
    assert await store.steps(job.id) == {"quiet": None}


async def test_steps_belong_to_one_job(store: Store) -> None:
    first = await start(store)
    await store.put_step(first, "a", "1")
    second = await start(store)
    assert await store.put_step(second, "a", "2") == "2"
    await store.put_step(second, "b", "3")
    assert await store.steps(first.id) == {"a": "1"}
    assert await store.steps(second.id) == {"a": "2", "b": "3"}
    assert await store.steps(fresh_id()) == {}


@pytest.mark.parametrize("name", ["retry", "snoozed", "released"])
async def test_the_next_attempt_finds_what_the_one_before_had_done(
    store: Store, clock: ManualClock, name: str
) -> None:
    job = await start(store)
    await store.put_step(job, "a", "1")
    await end(store, job, outcomes()[name])
    clock.advance(6)
    again = await take_one(store)
    assert await store.steps(again.id) == {"a": "1"}
    assert await store.put_step(again, "a", "2") == "1"


async def test_a_rescued_job_finds_them(store: Store, clock: ManualClock) -> None:
    job = await start(store)
    await store.put_step(job, "a", "1")
    clock.advance(31)
    await store.rescue(limit=10, max_deliveries=5)
    with pytest.raises(LeaseLost):
        await store.put_step(job, "b", "2")
    await join(store, "w2")
    await take_one(store, "w2")
    assert await store.steps(job.id) == {"a": "1"}


@pytest.mark.parametrize("how", ["ended", "other worker"])
async def test_a_lost_lease_records_nothing(store: Store, how: str) -> None:
    job = await start(store)
    if how == "ended":
        await succeed(store, job)
    else:
        await end(store, job, outcomes()["released"])
        await join(store, "w2")
        await take_one(store, "w2")
    with pytest.raises(LeaseLost):
        await store.put_step(job, "a", "1")
    assert await store.steps(job.id) == {}


async def test_a_redriven_job_keeps_them(store: Store) -> None:
    job = await start(store)
    await store.put_step(job, "a", "1")
    await die(store, job)
    await store.redrive([JobRedrive(id=job.id)])
    assert await store.steps(job.id) == {"a": "1"}


@pytest.mark.parametrize("how", ["delete", "prune"])
async def test_they_go_with_the_job(store: Store, clock: ManualClock, how: str) -> None:
    job = await start(store)
    await store.put_step(job, "a", "1")
    await succeed(store, job, keep=5)
    if how == "delete":
        await store.delete([job.id])
    else:
        clock.advance(6)
        await store.prune(limit=10)
    assert await store.steps(job.id) == {}
    await add(store, id=job.id)
    assert await store.steps(job.id) == {}


async def test_many_steps_at_once_are_all_kept(rivals: tuple[Store, ...]) -> None:
    store = rivals[0]
    job = await start(store)
    await asyncio.gather(*(rivals[n % 4].put_step(job, f"s{n % 20}", str(n)) for n in range(40)))
    steps = await store.steps(job.id)
    assert steps.keys() == {f"s{n}" for n in range(20)}
    assert all(int(value or "") % 20 == int(name[1:]) for name, value in steps.items())

"""Workers' reports on themselves, and what is still known of those that are gone."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from offpath.model.lease import WorkerRecord
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import START, add, join, start, succeed, take, worker_info

REPORT = '{"loops":{"relay":"cl\'ean"},"note":"日本 😀"}'


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


async def beat(store: Store, worker: str = "w1", report: str | None = None) -> bool:
    answer = await store.extend(worker_info(worker), lease_seconds=30, held=[], report=report)
    return answer.alive


async def one(store: Store, worker: str = "w1") -> WorkerRecord:
    (found,) = [each for each in await store.workers() if each.info.id == worker]
    return found


async def test_a_worker_has_said_nothing_at_first(store: Store) -> None:
    await join(store)
    listed = await one(store)
    assert (listed.report, listed.gone_at) == (None, None)


async def test_the_last_report_is_shown(store: Store) -> None:
    await join(store, "w1", "w2")
    assert await beat(store, report="{}")
    assert await beat(store, report=REPORT)
    assert (await one(store)).report == REPORT
    assert (await one(store, "w2")).report is None


async def test_a_heartbeat_without_a_report_leaves_the_last(store: Store) -> None:
    await join(store)
    await beat(store, report=REPORT)
    assert await beat(store)
    assert (await one(store)).report == REPORT


async def test_a_heartbeat_that_registers_anew_brings_its_report(store: Store) -> None:
    assert not await beat(store, report=REPORT)
    assert (await one(store)).report == REPORT


async def test_a_worker_that_stopped_is_kept_as_gone(store: Store, clock: ManualClock) -> None:
    await join(store, "w1", "w2")
    await beat(store, report=REPORT)
    clock.advance(9)
    await store.deregister("w1")
    gone = await one(store)
    assert (gone.gone_at, gone.report, gone.running) == (at(9), REPORT, 0)
    assert gone.info == worker_info("w1")
    assert (await one(store, "w2")).gone_at is None


async def test_stopping_twice_is_stopping_once(store: Store, clock: ManualClock) -> None:
    await join(store)
    await store.deregister("w1")
    clock.advance(5)
    await store.deregister("w1")
    assert (await one(store)).gone_at == START
    await store.deregister("never seen")
    assert len(await store.workers()) == 1


async def test_one_that_is_late_is_not_gone(store: Store, clock: ManualClock) -> None:
    await join(store)
    clock.advance(40)
    listed = await one(store)
    assert (listed.late, listed.gone_at) == (True, None)


@pytest.mark.parametrize("holding", [True, False])
async def test_one_that_was_found_dead_is_gone(
    store: Store, clock: ManualClock, holding: bool
) -> None:
    if holding:
        await start(store)
    else:
        await join(store)
    clock.advance(40)
    rescued = await store.rescue(limit=10, max_deliveries=3)
    assert len(rescued) == holding
    assert (await one(store)).gone_at == at(40)
    clock.advance(5)
    await store.rescue(limit=10, max_deliveries=3)
    assert (await one(store)).gone_at == at(40)


async def test_one_that_still_holds_something_is_not_gone(store: Store, clock: ManualClock) -> None:
    await join(store)
    for _ in range(3):
        await add(store)
    await take(store)
    clock.advance(40)
    assert len(await store.rescue(limit=2, max_deliveries=3)) == 2
    assert (await one(store)).gone_at is None
    await store.rescue(limit=2, max_deliveries=3)
    assert (await one(store)).gone_at == at(40)


async def test_the_gone_are_removed_after_an_hour(store: Store, clock: ManualClock) -> None:
    await join(store, "w1", "w2")
    await store.deregister("w1")
    clock.advance(3_599)
    await beat(store, "w2")
    await store.prune(limit=10)
    assert len(await store.workers()) == 2
    clock.advance(2)
    await store.prune(limit=10)
    assert [each.info.id for each in await store.workers()] == ["w2"]


async def test_the_late_are_not_pruned(store: Store, clock: ManualClock) -> None:
    await start(store)
    clock.advance(90_000)
    await store.prune(limit=10)
    assert (await one(store)).running == 1
    assert len(await store.rescue(limit=10, max_deliveries=3)) == 1


@pytest.mark.parametrize("way", ["register", "heartbeat"])
async def test_one_that_comes_back_is_not_gone(store: Store, way: str) -> None:
    await join(store)
    await store.deregister("w1")
    if way == "register":
        await join(store)
    else:
        assert not await beat(store)
    assert (await one(store)).gone_at is None
    job_id = await add(store)
    (job,) = await take(store)
    assert job.id == job_id
    await succeed(store, job)


async def test_one_that_is_gone_gets_nothing(store: Store) -> None:
    await join(store)
    await add(store)
    await store.deregister("w1")
    assert await take(store) == ()


async def test_what_the_gone_held_is_rescued_at_once(store: Store, clock: ManualClock) -> None:
    job = await start(store)
    clock.advance(2)
    await store.deregister("w1")
    (rescued,) = await store.rescue(limit=10, max_deliveries=3)
    assert rescued.job.id == job.id
    assert (await one(store)).gone_at is not None

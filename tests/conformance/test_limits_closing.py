"""Keys that are closed, until a time or until they are opened, and keys that cool down."""

from __future__ import annotations

from datetime import timedelta

import pytest

from offpath.model.effects import Effects
from offpath.model.job import JobState
from offpath.model.settlement import Released, Snoozed
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import (
    START,
    end,
    join,
    start,
    succeed,
    take,
    take_one,
)
from tests.conformance.workflow_builders import (
    fates,
    hold_limited,
    ids_of,
    limit_of,
    reason_of,
    settle_with,
)

pytestmark = pytest.mark.needs("limits")


async def test_a_closed_key_admits_nothing(store: Store) -> None:
    await join(store)
    ids = await hold_limited(store, 3, 3)
    await store.admit(limit=1)
    assert await store.close_limit("api") == 1
    assert (await store.admit(limit=10)).jobs == 0
    assert await take(store) == ()
    assert await fates(store, *ids) == [("blocked", "limit")] * 3
    known = await limit_of(store)
    assert (known.paused, known.admitted, known.held) == (True, 0, 3)
    assert await store.open_limit("api")
    assert not await store.open_limit("api")
    assert (await store.admit(limit=10)).jobs == 3
    assert not (await limit_of(store)).paused


async def test_running_jobs_of_a_closed_key_go_on(store: Store) -> None:
    await join(store)
    await hold_limited(store, 2, 2)
    await store.admit(limit=10)
    job = await take_one(store)
    assert await store.close_limit("api") == 1
    assert (await limit_of(store)).running == 1
    await succeed(store, job)
    assert await take(store) == ()


@pytest.mark.parametrize("how", ["until", "seconds"])
async def test_a_key_cools_down(store: Store, clock: ManualClock, how: str) -> None:
    await hold_limited(store, 1)
    if how == "until":
        await store.close_limit("api", until=START + timedelta(seconds=10))
    else:
        await store.close_limit("api", seconds=10)
    admitted = await store.admit(limit=10)
    assert admitted.jobs == 0
    assert admitted.next_in == pytest.approx(10, abs=0.01)
    assert (await limit_of(store)).closed_until == START + timedelta(seconds=10)
    clock.advance(9)
    assert (await store.admit(limit=10)).jobs == 0
    clock.advance(1.5)
    assert (await store.admit(limit=10)).jobs == 1


async def test_an_earlier_end_shortens_nothing(store: Store, clock: ManualClock) -> None:
    await hold_limited(store, 1)
    await store.close_limit("api", seconds=20)
    await store.close_limit("api", seconds=5)
    clock.advance(10)
    assert (await store.admit(limit=10)).jobs == 0
    await store.close_limit("api")
    await store.close_limit("api", seconds=1)
    clock.advance(30)
    assert (await store.admit(limit=10)).jobs == 0


async def test_a_key_may_be_closed_before_it_is_known(store: Store) -> None:
    assert await store.close_limit("new") == 0
    await hold_limited(store, 1, key="new")
    assert (await store.admit(limit=10)).jobs == 0
    assert not await store.open_limit("unknown")


async def test_a_snooze_may_cool_its_key_down(store: Store, clock: ManualClock) -> None:
    await join(store)
    ids = await hold_limited(store, 4, 3)
    await store.admit(limit=10)
    first, second = await take(store, limit=2)
    await settle_with(store, first, Effects(), Snoozed(delay=5, cool_down=10))
    await store.admit(limit=10)
    assert await take(store) == ()
    assert await reason_of(store, ids[2]) == "limit"
    await succeed(store, second)
    await store.admit(limit=10)
    assert await take(store) == ()
    clock.advance(11)
    await join(store)
    await take(store)  # promotes the snoozed one
    await store.admit(limit=10)
    assert sorted(ids_of(await take(store))) == sorted([ids[0], *ids[2:]])


async def test_a_cool_down_without_a_limit_is_a_snooze(store: Store) -> None:
    job = await start(store)
    answer = await settle_with(store, job, Effects(), Snoozed(delay=5, cool_down=10))
    assert answer.run_at == START + timedelta(seconds=5)
    assert await store.limits() == []


async def test_what_is_given_back_to_a_closed_key_is_held(store: Store, clock: ManualClock) -> None:
    await join(store)
    ids = await hold_limited(store, 2)
    await store.admit(limit=10)
    job = await take_one(store)
    await store.close_limit("api", seconds=60)
    settled = await end(store, job, Released())
    assert settled.state is JobState.BLOCKED
    assert await take(store) == ()
    assert (await limit_of(store, "api")).held == 2
    clock.advance(61)
    await join(store)
    await store.admit(limit=10)
    assert ids_of(await take(store)) == ids[:1]


async def test_what_is_rescued_for_a_closed_key_is_held(store: Store, clock: ManualClock) -> None:
    await join(store, lease=30)
    ids = await hold_limited(store, 2)
    await store.admit(limit=10)
    await take_one(store)
    await store.close_limit("api")
    clock.advance(31)
    (rescued,) = await store.rescue(limit=10, max_deliveries=3)
    assert rescued.state is JobState.BLOCKED
    await join(store)
    assert await take(store) == ()
    await store.open_limit("api")
    await store.admit(limit=10)
    assert ids_of(await take(store)) == ids[:1]


async def test_a_rescued_job_keeps_its_turn_however_long_it_ran(
    store: Store, clock: ManualClock
) -> None:
    await join(store, lease=30)
    ids = await hold_limited(store, 2)
    await store.admit(limit=10)
    await take_one(store)
    clock.advance(31)
    await store.rescue(limit=10, max_deliveries=3)
    await store.admit(limit=10)
    await join(store)
    assert ids_of(await take(store)) == ids[:1]
    assert (await limit_of(store, "api")).running == 1


async def test_a_job_that_died_with_its_worker_holds_no_room(
    store: Store, clock: ManualClock
) -> None:
    await join(store, lease=30)
    ids = await hold_limited(store, 2)
    await store.admit(limit=10)
    await take_one(store)
    clock.advance(31)
    await store.rescue(limit=10, max_deliveries=1)
    await store.admit(limit=10)
    await join(store)
    assert ids_of(await take(store)) == ids[1:]

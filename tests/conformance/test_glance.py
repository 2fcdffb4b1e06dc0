"""A glance names each pass that would find something; where it can tell, it names no other."""

from __future__ import annotations

from datetime import timedelta

import pytest

from offpath.model.glance import AHEAD, EVERYTHING, Concern
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.builders import add, die, enqueue, join, start, succeed, take, worker_info
from tests.conformance.schedule_builders import NIGHTLY, plan
from tests.conformance.workflow_builders import limited, sleeper

DEATHS, WAITS, LIMITS, WORK, SCHEDULES = Concern
UPKEEP = (DEATHS, WAITS, LIMITS)

Named = frozenset[Concern]


@pytest.fixture
async def quiet(store: Store) -> Store:
    """A store with a live worker that has nothing to do."""
    await join(store, lease=30)
    return store


async def tells(store: Store) -> bool:
    """True if the store can tell at a glance."""
    return await store.glance() != EVERYTHING


async def found(store: Store) -> Named:
    """The passes that found something just now."""
    gone = await store.notice_deaths() + [
        one.job.id for one in await store.rescue(limit=10, max_deliveries=3)
    ]
    over = [*await store.expire_blocked(limit=10), *await store.close_groups(limit=10)]
    undone = await store.undoing(limit=10)
    let_in = (await store.admit(limit=10)).jobs
    parts = (gone, over or undone, let_in)
    return frozenset(concern for concern, part in zip(UPKEEP, parts, strict=True) if part)


async def test_nothing_is_named_while_all_is_well(quiet: Store) -> None:
    if not await tells(quiet):
        pytest.skip("this backend names all passes")
    await start(quiet, task="runs")
    await succeed(quiet, await start(quiet))
    await die(quiet, await start(quiet))
    assert await quiet.glance() == frozenset()
    await add(quiet, delay=60)
    await add(quiet, deadline_in=60.0)
    assert await quiet.glance() <= {WORK}
    assert await found(quiet) == frozenset()


async def test_a_late_worker_is_named_with_and_without_jobs(
    quiet: Store, clock: ManualClock
) -> None:
    await start(quiet)
    clock.advance(31)
    await join(quiet, "w2", lease=600)
    assert DEATHS in await quiet.glance()
    assert DEATHS in await found(quiet)
    await join(quiet, "w3", lease=5)
    clock.advance(6)
    assert DEATHS in await quiet.glance()
    await found(quiet)
    if await tells(quiet):
        assert DEATHS not in await quiet.glance()


async def test_jobs_of_a_worker_that_has_left_are_named(quiet: Store, clock: ManualClock) -> None:
    await start(quiet)
    await join(quiet, "w2", lease=600)
    await quiet.deregister("w1")
    assert DEATHS in await quiet.glance()
    assert await found(quiet) == {DEATHS}


async def test_a_death_that_can_be_seen_is_named_until_it_is_noted(
    quiet: Store, backend: Backend, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not quiet.capabilities.presence:
        pytest.skip("a worker's death cannot be seen early here")
    if not await tells(quiet):
        pytest.skip("this backend names all passes")
    backend.trust_at_once(monkeypatch)
    doomed = backend.store(clock)
    await doomed.open()
    assert await doomed.register(worker_info("doomed"), lease_seconds=600)
    assert DEATHS not in await quiet.glance()
    await doomed.close()
    looks = 0
    while DEATHS not in await found(quiet):
        assert DEATHS in await quiet.glance()
        clock.advance(1.5)
        looks += 1
        assert looks < 3
    assert DEATHS not in await quiet.glance()


async def test_what_is_over_is_named(quiet: Store, clock: ManualClock) -> None:
    await sleeper(quiet, patience=5)
    await add(quiet, deadline_in=5.0, delay=60)
    clock.advance(6)
    assert WAITS in await quiet.glance()
    assert WAITS in await found(quiet)


@pytest.mark.needs("limits")
async def test_room_under_a_limit_is_named(quiet: Store, clock: ManualClock) -> None:
    await enqueue(quiet, *(limited(max_running=1) for _ in range(5)))
    for _ in range(3):
        named = await quiet.glance()
        assert await found(quiet) <= named
        [job] = await take(quiet, limit=10)
        await quiet.close_limit("api", seconds=5)
        assert LIMITS in await quiet.glance()  # time alone lets something in
        await succeed(quiet, job)
        clock.advance(6)


async def test_work_is_named_before_it_is_due_and_until_it_was_taken(
    quiet: Store, clock: ManualClock
) -> None:
    if not await tells(quiet):
        pytest.skip("this backend names all passes")
    await add(quiet, delay=60)
    clock.advance(60 - AHEAD)
    await join(quiet, lease=30)
    assert WORK in await quiet.glance()
    clock.advance(AHEAD)
    assert WORK in await quiet.glance()
    [job] = await take(quiet)
    assert WORK not in await quiet.glance()
    assert WORK in await quiet.glance(work=False)
    await succeed(quiet, job)
    await add(quiet)
    assert WORK in await quiet.glance()


@pytest.mark.needs("schedules")
async def test_a_schedule_is_named_before_it_is_due_and_not_while_it_is_paused(
    quiet: Store, clock: ManualClock
) -> None:
    if not await tells(quiet):
        pytest.skip("this backend names all passes")
    await plan(quiet, next_at=clock.now() + timedelta(seconds=60))
    assert SCHEDULES not in await quiet.glance()
    clock.advance(60 - AHEAD)
    await join(quiet, lease=30)
    assert SCHEDULES in await quiet.glance()
    await quiet.pause_schedule(NIGHTLY, paused=True)
    assert SCHEDULES not in await quiet.glance()

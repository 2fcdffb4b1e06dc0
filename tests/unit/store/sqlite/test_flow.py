"""Limits, pauses and orders in a SQLite file: what is exact, and what it costs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from offpath.errors import InvalidArgument, LeaseLost
from offpath.model.job import JobState, LeasedJob
from offpath.model.lease import LeaseRequest, Order
from offpath.model.limit import Admitted, LimitRecord, LimitSpec, RateSpec
from offpath.model.settlement import Released, Retry, Settlement, Snoozed
from offpath.runtime.clock import ManualClock
from offpath.store.sqlite import SqliteStore
from offpath.store.sqlite.session import SQL
from tests.conformance.builders import (
    LEASE,
    START,
    TASK,
    add,
    end,
    enqueue,
    failure,
    join,
    new_job,
    record,
    succeed,
    take,
    take_one,
)

KEY = LimitSpec(key="api", max_running=2)


async def key(store: SqliteStore, name: str = "api") -> LimitRecord:
    (found,) = await store.limits(keys=[name])
    return found


async def lease(store: SqliteStore, limit: int = 100, **fields: Any) -> list[LeasedJob]:
    fields.setdefault("tasks", {TASK: limit})
    answer = await store.lease(LeaseRequest(worker="w1", limit=limit, **fields))
    return list(answer.jobs)


async def test_a_limited_job_is_held_until_it_is_admitted(store: SqliteStore) -> None:
    await join(store)
    ids = [await add(store, limit=KEY) for _ in range(3)]
    assert [(await record(store, each)).reason for each in ids] == ["limit"] * 3
    assert await take(store) == ()
    assert (await store.admit(limit=10)).jobs == 2
    found = await key(store)
    assert (found.admitted, found.running, found.held) == (2, 0, 1)
    assert [job.id for job in await take(store)] == ids[:2]
    assert (await key(store)).running == 2
    assert (await store.admit(limit=10)).jobs == 0


async def test_a_settlement_hands_its_room_on(store: SqliteStore) -> None:
    await join(store)
    ids = [await add(store, limit=KEY) for _ in range(3)]
    await store.admit(limit=10)
    first, _ = await take(store)
    assert first.limit_key == "api"
    await succeed(store, first)
    assert [job.id for job in await take(store)] == ids[2:]
    assert (await key(store)).admitted == 2


@pytest.mark.parametrize("delay", [0.0, 60.0])
async def test_a_retry_gives_its_room_back_and_a_release_keeps_it(
    store: SqliteStore, clock: ManualClock, delay: float
) -> None:
    await join(store)
    one = LimitSpec(key="api", max_running=1)
    await add(store, limit=one)
    better = await add(store, limit=one, priority=-1)
    await store.admit(limit=10)
    job = await take_one(store)
    await end(store, job, Released())
    assert (await key(store)).admitted == 1
    job = await take_one(store)
    await end(store, job, Retry(delay=delay, failure=failure()))
    assert (await key(store)).admitted == 1
    if delay:
        (other,) = await take(store)
        assert other.id == better
        clock.advance(delay)
        await join(store)
        assert await take(store) == ()
        assert (await record(store, job.id)).reason == "limit"
        assert (await key(store)).admitted == 1


async def test_a_cool_down_holds_the_ready_ones_again(
    store: SqliteStore, clock: ManualClock
) -> None:
    await join(store)
    for _ in range(3):
        await add(store, limit=KEY)
    await store.admit(limit=10)
    job = await take_one(store)
    await end(store, job, Snoozed(delay=0.0, cool_down=20.0))
    found = await key(store)
    assert (found.admitted, found.held) == (0, 3)
    assert found.closed_until == START + timedelta(seconds=20)
    answer = await store.admit(limit=10)
    assert (answer.jobs, answer.next_in) == (0, 20.0)
    clock.advance(20)
    assert (await store.admit(limit=10)).jobs == 2


async def test_an_earlier_end_never_shortens_a_later_one(store: SqliteStore) -> None:
    await store.close_limit("api", seconds=60)
    await store.close_limit("api", seconds=5)
    assert (await key(store)).closed_until == START + timedelta(seconds=60)
    await store.close_limit("api")
    assert (await key(store)).paused
    assert await store.open_limit("api")
    assert not await store.open_limit("api")


async def test_rescue_keeps_the_room_of_a_job_that_runs_again(
    store: SqliteStore, clock: ManualClock
) -> None:
    await join(store)
    for _ in range(3):
        await add(store, limit=KEY)
    await store.admit(limit=10)
    await take(store)
    clock.advance(LEASE + 1)
    assert len(await store.rescue(limit=10, max_deliveries=5)) == 2
    found = await key(store)
    assert (found.admitted, found.running) == (2, 0)


@pytest.mark.parametrize("how", ["released", "rescued"])
@pytest.mark.parametrize("pausing", [True, False])
async def test_a_job_that_is_given_back_to_a_closed_key_is_held_again(
    store: SqliteStore, clock: ManualClock, how: str, pausing: bool
) -> None:
    await join(store)
    late, other = [await add(store, limit=KEY, deadline_in=90.0) for _ in range(2)]
    await store.admit(limit=10)
    job, _ = await take(store)
    await store.close_limit("api", seconds=None if pausing else 60)
    if how == "released":
        (answer,) = await store.settle([Settlement(job=job, outcome=Released())])
        assert answer.state is JobState.BLOCKED
        assert (await key(store)).admitted == 1
    else:
        clock.advance(LEASE + 1)
        rescued = await store.rescue(limit=10, max_deliveries=5)
        assert [each.state for each in rescued] == [JobState.BLOCKED] * 2
        assert (await key(store)).admitted == 0
    assert (await record(store, late)).reason == "limit"
    await join(store)
    assert await take(store) == ()
    await store.open_limit("api")
    await store.admit(limit=10)
    assert late in {each.id for each in await take(store)}
    await store.close_limit("api")
    clock.advance(90 + LEASE)
    await store.rescue(limit=10, max_deliveries=5)
    assert {each.id for each in await store.expire_blocked(limit=10)} == {late, other}


async def test_cancelling_dying_and_redriving_move_the_count(
    store: SqliteStore, clock: ManualClock
) -> None:
    await join(store)
    ids = [await add(store, limit=KEY) for _ in range(2)]
    await store.admit(limit=10)
    await take(store)
    await store.cancel(ids[:1])
    clock.advance(LEASE + 1)
    await store.rescue(limit=10, max_deliveries=1)
    assert (await key(store)).admitted == 0
    from offpath.store.protocol import JobRedrive

    await store.redrive([JobRedrive(id=each) for each in ids])
    assert [(await record(store, each)).reason for each in ids] == ["limit"] * 2
    assert (await key(store)).admitted == 0


async def test_a_worker_of_the_version_before_cannot_pass_a_limit(
    store: SqliteStore, path: Path, clock: ManualClock
) -> None:
    """It knows nothing of limits and makes what is due ready."""
    job = await add(store, limit=LimitSpec(key="api", max_running=0), delay=5.0)
    with closing(sqlite3.connect(path)) as old:
        old.execute("update offpath_job set state = 'ready' where state = 'scheduled'")
        old.commit()
    found = await record(store, job)
    assert (found.state, found.reason) == (JobState.BLOCKED, "limit")
    assert (await key(store)).admitted == 0


async def test_a_rate_lets_in_what_it_allows(store: SqliteStore, clock: ManualClock) -> None:
    rate = LimitSpec(key="api", rate=RateSpec(count=2, per=10.0))
    for _ in range(5):
        await add(store, limit=rate)
    answer = await store.admit(limit=10)
    assert answer.jobs == 2
    assert answer.next_in == pytest.approx(5.0)
    clock.advance(5)
    assert (await store.admit(limit=10)).jobs == 1
    assert (await store.admit(limit=10)).jobs == 0


async def test_jobs_that_nobody_takes_make_way(store: SqliteStore, clock: ManualClock) -> None:
    await join(store)
    one = LimitSpec(key="api", max_running=1)
    stuck = await add(store, "nobody.knows", limit=one, priority=9)
    wanted = await add(store, limit=one)
    await store.admit(limit=10)
    clock.advance(4)
    await store.admit(limit=10)
    assert await take(store) == ()
    clock.advance(1)
    await store.admit(limit=10)
    (job,) = await take(store)
    assert job.id == wanted
    later = await add(store, limit=one)
    await succeed(store, job)
    assert (await record(store, stuck)).state is JobState.QUEUED
    assert (await record(store, later)).state is JobState.BLOCKED


async def test_a_count_that_is_too_high_is_set_right(store: SqliteStore, path: Path) -> None:
    await add(store, limit=KEY)
    with closing(sqlite3.connect(path)) as other:
        other.execute("update offpath_limit set admitted = 2")
        other.commit()
    assert (await store.admit(limit=10)).jobs == 1
    assert (await key(store)).admitted == 1


async def test_a_pass_that_finds_every_key_full_is_one_read(store: SqliteStore) -> None:
    """Most passes do: a settlement has admitted whoever could go."""
    await join(store)
    for name in ("a", "b"):
        for _ in range(3):
            await add(store, limit=LimitSpec(key=name, max_running=1))
    assert (await store.admit(limit=10)).jobs == 2
    seen: list[str] = []
    store._before_statement = seen.append
    assert await store.admit(limit=10) == Admitted(jobs=0)
    assert seen == ["admission_idle"]
    await take(store)
    seen.clear()
    assert await store.admit(limit=10) == Admitted(jobs=0)
    assert seen == ["admission_idle"]


async def test_each_key_gets_its_turn(store: SqliteStore) -> None:
    for name in ("a", "b", "c"):
        for _ in range(3):
            await add(store, limit=LimitSpec(key=name, max_running=9))
    for _ in range(3):
        assert (await store.admit(limit=1)).more
    assert [each.admitted for each in await store.limits()] == [1, 1, 1]


async def test_a_paused_queue_hides_nothing(store: SqliteStore) -> None:
    await join(store)
    one = LimitSpec(key="api", max_running=1)
    await add(store, queue="slow", limit=one, priority=9)
    await add(store, queue="slow")
    other = await add(store, limit=one)
    await store.pause_queue("slow")
    assert (await store.admit(limit=10)).jobs == 1
    assert [job.id for job in await take(store)] == [other]
    found = {each.name: each for each in await store.queues()}
    assert (found["slow"].paused, found["slow"].blocked, found["slow"].ready) == (True, 1, 1)
    assert found["default"].running == 1
    assert await store.resume_queue("slow")
    assert not await store.resume_queue("slow")
    assert len(await take(store)) == 1


async def test_keys_that_nothing_needs_are_forgotten(
    store: SqliteStore, clock: ManualClock
) -> None:
    await join(store)
    await add(store, limit=LimitSpec(key="used"))
    await store.close_limit("paused")
    await store.close_limit("gone", seconds=1)
    clock.advance(3_601)
    await store.prune(limit=10)
    assert [each.key for each in await store.limits()] == ["paused", "used"]


async def test_a_flood_on_one_queue_does_not_starve_another(store: SqliteStore) -> None:
    await join(store)
    for _ in range(6):
        await add(store, queue="flood", priority=9)
    for _ in range(4):
        await add(store, queue="quiet")
    taken = await lease(store, 4)
    assert sorted(job.queue for job in taken) == ["flood", "flood", "quiet", "quiet"]
    taken = await lease(store, 2, served={"quiet": 0, "flood": 5})
    assert [job.queue for job in taken] == ["quiet", "quiet"]


async def test_a_queue_without_room_is_passed_over(store: SqliteStore) -> None:
    await join(store)
    for queue in ("a", "b"):
        for _ in range(3):
            await add(store, queue=queue)
    taken = await lease(store, 10, queue_rooms={"a": 1, "b": 0})
    assert [job.queue for job in taken] == ["a"]


async def test_by_age_priority_does_not_matter(store: SqliteStore) -> None:
    await join(store)
    ids = [await add(store, priority=n, fair_key=f"k{n % 2}") for n in range(6)]
    taken = await lease(store, 4, order=Order.AGE)
    assert [job.id for job in taken] == ids[:4]


async def test_the_key_with_the_fewest_running_goes_first(store: SqliteStore) -> None:
    await join(store)
    await enqueue(store, *(new_job(fair_key="big", priority=5) for _ in range(40)))
    small = [await add(store, fair_key="small") for _ in range(2)]
    nobody = [await add(store) for _ in range(2)]
    taken = [job.id for job in await lease(store, 6, order=Order.BALANCED)]
    assert set(small) | set(nobody) < set(taken)
    assert len(await lease(store, 30, order=Order.BALANCED)) == 30


async def test_a_job_can_begin_where_it_is_enqueued(store: SqliteStore) -> None:
    job = new_job()
    with pytest.raises(LeaseLost):
        await store.start(job, "w1")
    assert await store.get([job.id]) == []
    await join(store)
    started = await store.start(job, "w1")
    assert started is not None
    assert (started.worker, started.deliveries) == ("w1", 1)
    assert await store.start(job, "w1") is None
    with pytest.raises(InvalidArgument):
        await store.start(new_job(limit=KEY), "w1")
    await succeed(store, started)


HOT = (
    "make_limits",
    "make_lines",
    "make_parts",
    "part_rooms",
    "lines_of",
    "recount_shared",
    "admission_idle",
    "held_keys",
    "held_rooms",
    "pick_held",
    "held_last",
    "admit_jobs",
    "save_limits",
    "untaken_jobs",
    "hold_untaken",
    "hold_closed",
    "recount_limits",
    "running_by_limit",
    "some_limits",
    "closed_limits",
    "idle_limits",
    "queues",
    "lane_best",
    "turn_keys",
    "turn_first",
    "turn_best",
    "lane_oldest",
    "running_by_fair_key",
    "share_of_nobody",
    "take_chosen",
    "start_lease",
)
"""Statements of flow control that must enter the tables by an index."""


@pytest.mark.parametrize("name", HOT)
async def test_no_statement_of_flow_control_walks_the_jobs(
    store: SqliteStore, path: Path, name: str
) -> None:
    await enqueue(store, *(new_job(f"task{n % 5}", limit=KEY) for n in range(200)))
    statement = SQL[name]
    values = dict.fromkeys(statement.parameters, 1)
    with closing(sqlite3.connect(path)) as connection:
        plan = connection.execute(f"explain query plan {statement.named}", values).fetchall()
    walks = [
        line[3]
        for line in plan
        if line[3].startswith(("SCAN offpath_", "SCAN job", "SCAN each", "SCAN best"))
        and "offpath_job_" not in line[3]
        and "offpath_queue_pause" not in line[3]
    ]
    assert walks == []

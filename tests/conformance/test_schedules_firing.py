"""Firing: each occurrence once, whoever tries, together with its job and the next time."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from offpath.errors import IdConflict, StoreRejected, UniqueConflict
from offpath.model.job import JobState, UniquePolicy
from offpath.model.schedule import (
    Firing,
    FiringStatus,
    OccurrenceOutcome,
    Overlap,
    ScheduleRecord,
)
from offpath.runtime.clock import ManualClock
from offpath.store.hints import Hint
from offpath.store.protocol import Store
from tests.conformance.builders import START, enqueue, new_job, uid, unique
from tests.conformance.schedule_builders import (
    NIGHTLY,
    at,
    by_hand,
    fired,
    firing,
    known,
    missed,
    plan,
    schedule,
)

FIRED, SKIPPED, HELD, STALE = (
    FiringStatus.FIRED,
    FiringStatus.SKIPPED,
    FiringStatus.HELD,
    FiringStatus.STALE,
)


async def test_a_firing_writes_the_job_its_row_and_the_next_time(
    store: Store, clock: ManualClock
) -> None:
    before = await plan(store)
    clock.advance(4)
    assert await store.fire(firing(before)) is FIRED
    assert await known(store) == replace(
        before, next_at=at(60), last_at=START, last_job=uid(1), last_open=True
    )
    assert await store.occurrences(NIGHTLY) == [replace(fired(START, 1), made_at=at(4))]
    assert await store.states([uid(1)]) == {uid(1): JobState.QUEUED}


async def test_those_who_wait_for_work_are_told(store: Store) -> None:
    heard: list[Hint] = []
    store.listen(heard.append)
    await store.fire(firing(await plan(store)))
    assert Hint.WORK in heard
    heard.clear()
    await store.trigger_schedule(NIGHTLY, new_job(id=uid(2)), by_hand(at(1), 2))
    assert Hint.WORK in heard


async def test_a_repeat_is_stale(store: Store) -> None:
    first = firing(await plan(store))
    assert await store.fire(first) is FIRED
    after = await known(store), await store.occurrences(NIGHTLY)
    assert await store.fire(first) is STALE
    assert (await known(store), await store.occurrences(NIGHTLY)) == after


@pytest.mark.parametrize("change", ["put", "pause", "delete", "move"])
async def test_what_was_changed_meanwhile_does_not_fire(store: Store, change: str) -> None:
    planned = firing(await plan(store))
    if change == "put":
        await store.put_schedule(schedule(grace=1), next_at=START)
    elif change == "pause":
        await store.pause_schedule(NIGHTLY, paused=True)
    elif change == "delete":
        await store.delete_schedule(NIGHTLY)
    else:
        await store.pause_schedule(NIGHTLY, paused=False, next_at=at(1))
    before = await store.schedules()
    assert await store.fire(planned) is STALE
    assert await store.schedules() == before
    assert await store.states([uid(1)]) == {}
    assert await store.occurrences(NIGHTLY) == []


async def test_a_schedule_can_come_to_its_end(store: Store) -> None:
    assert await store.fire(firing(await plan(store), next_at=None)) is FIRED
    assert (await known(store)).next_at is None
    assert await store.due_schedules(limit=1) == ([], None)


async def test_missed_ones_are_recorded_without_a_job(store: Store) -> None:
    record = await plan(store)
    rows = (missed(START), missed(at(60)), fired(at(120), 1))
    assert await store.fire(firing(record, occurrences=rows, next_at=at(180))) is FIRED
    outcomes = [(row.at, row.outcome, row.job) for row in await store.occurrences(NIGHTLY)]
    assert outcomes == [
        (at(120), OccurrenceOutcome.FIRED, uid(1)),
        (at(60), OccurrenceOutcome.MISSED, None),
        (START, OccurrenceOutcome.MISSED, None),
    ]
    after = await known(store)
    assert (after.last_at, after.last_job, after.next_at) == (at(120), uid(1), at(180))


async def test_only_missed_ones_leave_the_last_job(store: Store) -> None:
    await store.fire(firing(await plan(store)))
    record = await known(store)
    assert await store.fire(firing(record, occurrences=(missed(at(60)),), jobs=())) is FIRED
    after = await known(store)
    assert (after.last_at, after.last_job, after.next_at) == (at(60), uid(1), at(120))


async def test_a_settled_occurrence_is_not_made_again(store: Store) -> None:
    """Its time comes again when an operator moves the next one back."""
    await store.fire(firing(await plan(store)))
    before = await store.occurrences(NIGHTLY)
    await store.pause_schedule(NIGHTLY, paused=False, next_at=START)
    assert await store.fire(firing(await known(store), 2)) is FIRED
    assert await store.occurrences(NIGHTLY) == before
    assert await store.states([uid(2)]) == {}
    assert (await known(store)).next_at == at(60)


async def test_skip_passes_over_while_the_last_job_is_open(store: Store) -> None:
    await store.fire(firing(await plan(store)))
    rows = (fired(at(60), 2), missed(at(61)))
    status = await store.fire(firing(await known(store), 2, occurrences=rows, overlap=Overlap.SKIP))
    assert status is SKIPPED
    outcomes = [(row.outcome, row.job) for row in await store.occurrences(NIGHTLY)]
    assert outcomes[:2] == [(OccurrenceOutcome.MISSED, None), (OccurrenceOutcome.SKIPPED, None)]
    after = await known(store)
    assert (after.next_at, after.last_at, after.last_job) == (at(120), at(61), uid(1))
    assert await store.states([uid(2)]) == {}


async def test_queue_writes_nothing_while_the_last_job_is_open(store: Store) -> None:
    await store.fire(firing(await plan(store)))
    before = await known(store), await store.occurrences(NIGHTLY)
    assert await store.fire(firing(before[0], 2, overlap=Overlap.QUEUE)) is HELD
    assert (await known(store), await store.occurrences(NIGHTLY)) == before
    assert await store.states([uid(2)]) == {}


async def test_allow_fires_while_the_last_job_is_open(store: Store) -> None:
    await store.fire(firing(await plan(store)))
    assert await store.fire(firing(await known(store), 2)) is FIRED
    assert (await known(store)).last_job == uid(2)


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE])
@pytest.mark.parametrize("gone", [False, True])
async def test_a_last_job_that_ended_or_is_gone_is_in_nobodys_way(
    store: Store, overlap: Overlap, gone: bool
) -> None:
    await store.fire(firing(await plan(store)))
    assert (await known(store)).last_open
    await store.cancel([uid(1)])
    if gone:
        await store.delete([uid(1)])
    assert not (await known(store)).last_open
    assert await store.fire(firing(await known(store), 2, overlap=overlap)) is FIRED
    assert (await known(store)).last_job == uid(2)


async def test_an_attached_occurrence_has_the_holders_id(store: Store) -> None:
    await enqueue(store, new_job(id=uid(9), unique=unique("k")))
    job = new_job(id=uid(1), unique=unique("k"))
    assert await store.fire(firing(await plan(store), job=job)) is FIRED
    (row,) = await store.occurrences(NIGHTLY)
    assert (row.job, (await known(store)).last_job) == (uid(9), uid(9))
    assert await store.states([uid(1)]) == {}


async def test_a_refused_job_leaves_the_occurrence_due(store: Store) -> None:
    claim = unique("k", policy=UniquePolicy.REFUSE)
    await enqueue(store, new_job(id=uid(9), unique=claim))
    record = await plan(store)
    rows = fired(START, 2), fired(at(1), 1)
    jobs = new_job(id=uid(2)), new_job(id=uid(1), unique=claim)
    with pytest.raises(UniqueConflict):
        await store.fire(firing(record, occurrences=rows, jobs=jobs))
    with pytest.raises(UniqueConflict):
        await store.trigger_schedule(NIGHTLY, jobs[1], by_hand(at(1), 1))
    assert await known(store) == record
    assert await store.occurrences(NIGHTLY) == []
    assert await store.states([uid(1), uid(2)]) == {}
    await store.cancel([uid(9)])
    assert await store.fire(firing(record, job=jobs[1])) is FIRED


async def test_an_id_of_something_else_is_refused(store: Store) -> None:
    await enqueue(store, new_job("other.task", id=uid(1)))
    record = await plan(store)
    with pytest.raises(IdConflict):
        await store.fire(firing(record))
    assert await known(store) == record


async def test_a_job_that_was_not_given_is_refused(store: Store) -> None:
    record = await plan(store)
    with pytest.raises(StoreRejected, match="not given"):
        await store.fire(firing(record, jobs=()))
    assert await known(store) == record
    assert await store.occurrences(NIGHTLY) == []


async def test_an_hour_that_comes_twice_is_two_occurrences(
    store: Store, clock: ManualClock
) -> None:
    """Half past two in Berlin, on the night on which summer time ends."""
    first = replace_zone(fold=0)
    second = replace_zone(fold=1)
    record = await plan(store, next_at=first)
    one = firing(record, occurrences=(fired(first, 1),), next_at=second)
    assert await store.fire(replace(one, expected=first)) is FIRED
    record = await known(store)
    assert record.next_at == second.astimezone(START.tzinfo)
    two = firing(record, 2, occurrences=(fired(second, 2),), next_at=None)
    assert await store.fire(replace(two, expected=second)) is FIRED
    rows = await store.occurrences(NIGHTLY)
    assert [row.job for row in rows] == [uid(2), uid(1)]
    assert rows[0].at - rows[1].at == timedelta(hours=1)


def replace_zone(*, fold: int) -> datetime:
    """02:30 on 25 October 2026 in Berlin, before or after the clocks went back."""
    return datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=fold)


async def test_of_those_who_fire_it_at_once_one_does(rivals: tuple[Store, ...]) -> None:
    planned = firing(await plan(rivals[0]))
    statuses = await asyncio.gather(*(rival.fire(planned) for rival in rivals for _ in range(3)))
    assert Counter(statuses) == {FIRED: 1, STALE: 11}
    assert len(await rivals[0].occurrences(NIGHTLY)) == 1


@pytest.mark.parametrize("seed", range(3))
async def test_many_who_tick_fire_each_occurrence_once(
    rivals: tuple[Store, ...], clock: ManualClock, seed: int
) -> None:
    """Every worker plans from what it read, at any moment, while others change and trigger."""
    chance = random.Random(seed)
    names = ("a", "b", "c")
    for name in names:
        await plan(rivals[0], name)
    clock.advance(3600)
    made: Counter[tuple[str, datetime]] = Counter()

    async def tick(store: Store) -> None:
        for _ in range(12):
            due, _ = await store.due_schedules(limit=3)
            chance.shuffle(due)
            for record in due:
                for _ in range(chance.randrange(4)):
                    await asyncio.sleep(0)
                if await store.fire(_next(record)) is FIRED:
                    assert record.next_at is not None
                    made[record.schedule.name, record.next_at] += 1

    await asyncio.gather(*(tick(rival) for rival in rivals))
    assert set(made.values()) == {1}
    for name in names:
        rows = await rivals[0].occurrences(name, limit=1000)
        times = [START + timedelta(seconds=60 * n) for n in range(len(rows))]
        assert [row.at for row in reversed(rows)] == times
        assert {(name, row.at) for row in rows} == {key for key in made if key[0] == name}
        assert len({row.job for row in rows}) == len(rows) >= 12
        assert (await known(rivals[0], name)).next_at == at(60 * len(rows))
    jobs = [row.job for name in names for row in await rivals[0].occurrences(name, limit=1000)]
    assert len(await rivals[0].states([job for job in jobs if job])) == len(jobs)


def _next(record: ScheduleRecord) -> Firing:
    """A firing as a worker plans it: the job's id follows from the schedule and the time."""
    assert record.next_at is not None
    minute = int((record.next_at - START).total_seconds()) // 60
    number = 1000 * ord(record.schedule.name) + minute
    return firing(record, number)

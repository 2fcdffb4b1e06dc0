"""Schedules: put by name, listed, paused, deleted; which of them are due; their history."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from offpath.model.job import JobState
from offpath.model.schedule import FiringStatus, OccurrenceOutcome
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import START, new_job, uid, unique
from tests.conformance.schedule_builders import (
    CRON,
    NIGHTLY,
    at,
    by_hand,
    firing,
    known,
    plan,
    schedule,
)

TICK = timedelta(microseconds=1)


async def test_a_schedule_is_kept_as_it_was_put(store: Store, clock: ManualClock) -> None:
    clock.advance(3)
    template = new_job(
        id="", input='{"ä":"😀 \'x\'"}', tags=("a",), unique=unique("k"), deadline_in=1.5
    )
    put = schedule("ä 'quoted' 😀", template=template, grace=0.25)
    next_at = at(100) + TICK
    made = await store.put_schedule(put, next_at=next_at)
    assert (made.schedule, made.next_at, made.paused, made.version) == (put, next_at, False, 1)
    assert (made.created_at, made.updated_at) == (at(3), at(3))
    assert (made.last_at, made.last_job, made.last_open) == (None, None, False)
    assert await store.schedules() == [made]


async def test_an_equal_definition_changes_nothing(store: Store, clock: ManualClock) -> None:
    made = await plan(store)
    clock.advance(9)
    other_id = schedule(template=replace(schedule().template, id=uid(77)))
    assert await store.put_schedule(schedule(), next_at=at(500)) == made
    assert await store.put_schedule(other_id, next_at=at(500)) == made


async def test_a_changed_one_keeps_its_pause_and_its_past(store: Store, clock: ManualClock) -> None:
    await store.fire(firing(await plan(store)))
    await store.pause_schedule(NIGHTLY, paused=True)
    before = await known(store)
    clock.advance(9)
    changed = await store.put_schedule(schedule(grace=5), next_at=at(700))
    assert changed == replace(
        before, schedule=schedule(grace=5), next_at=at(700), version=2, updated_at=at(9)
    )
    assert (changed.paused, changed.last_at, changed.last_job) == (True, START, uid(1))
    assert len(await store.occurrences(NIGHTLY)) == 1


@pytest.mark.parametrize("origin", ["code", "api"])
async def test_what_is_due_stays_due_when_other_things_are_changed(
    store: Store, clock: ManualClock, origin: str
) -> None:
    """A release that changes the job, with no worker meanwhile, loses no occurrence."""
    await plan(store, next_at=at(10), origin=origin)
    clock.advance(9.5)
    early = await store.put_schedule(schedule(grace=5, origin=origin), next_at=at(20))
    assert early.next_at == at(20)
    clock.advance(10.5)
    due = await store.put_schedule(schedule(grace=6, origin=origin), next_at=at(30))
    assert (due.next_at, due.version) == (at(20), 3)
    timing = replace(CRON, expression="0 4 * * *")
    other = await store.put_schedule(schedule(timing=timing, origin=origin), next_at=at(40))
    assert other.next_at == at(40)


@pytest.mark.parametrize("origin", ["code", "api"])
async def test_what_is_due_when_the_times_change_is_recorded_as_skipped(
    store: Store, clock: ManualClock, origin: str
) -> None:
    await store.fire(firing(await plan(store, origin=origin), next_at=at(10)))
    clock.advance(10)
    later = schedule(timing=replace(CRON, expression="0 4 * * *"), origin=origin)
    changed = await store.put_schedule(later, next_at=at(20))
    assert (changed.next_at, changed.last_at, changed.last_job) == (at(20), at(10), uid(1))
    assert changed == await known(store)
    last, first = await store.occurrences(NIGHTLY)
    assert (last.at, last.outcome, last.job) == (at(10), OccurrenceOutcome.SKIPPED, None)
    assert (last.made_at, first.job) == (at(10), uid(1))
    assert await store.put_schedule(later, next_at=at(30)) == changed, "once, and no more"
    assert len(await store.occurrences(NIGHTLY)) == 2


@pytest.mark.parametrize("case", ["not due yet", "paused", "triggered at that moment"])
async def test_a_change_of_times_records_nothing_that_was_not_due(
    store: Store, clock: ManualClock, case: str
) -> None:
    await plan(store, next_at=at(10))
    if case == "triggered at that moment":
        await store.trigger_schedule(NIGHTLY, new_job(id=uid(7)), by_hand(at(10), 7))
    if case == "paused":
        await store.pause_schedule(NIGHTLY, paused=True)
    before = await store.occurrences(NIGHTLY)
    clock.advance(9 if case == "not due yet" else 12)
    timing = replace(CRON, expression="0 4 * * *")
    changed = await store.put_schedule(schedule(timing=timing), next_at=at(40))
    assert changed.next_at == at(40)
    assert await store.occurrences(NIGHTLY) == before


async def test_a_firing_and_a_change_of_times_at_once_settle_an_occurrence_once(
    rivals: tuple[Store, ...],
) -> None:
    one, *others = rivals
    record = await plan(one)
    later = schedule(timing=replace(CRON, expression="0 4 * * *"))
    puts = [other.put_schedule(later, next_at=at(600)) for other in others]
    status, *_ = await asyncio.gather(one.fire(firing(record, next_at=at(600))), *puts)
    (occurrence,) = await one.occurrences(NIGHTLY)
    made = status is FiringStatus.FIRED
    outcome = OccurrenceOutcome.FIRED if made else OccurrenceOutcome.SKIPPED
    assert (occurrence.at, occurrence.outcome) == (START, outcome)
    assert len(await one.get([uid(1)])) == (1 if made else 0)
    assert (await known(one)).next_at == at(600)


async def test_code_does_not_replace_what_was_made_by_hand(store: Store) -> None:
    await plan(store, next_at=at(600))
    mine = await store.put_schedule(schedule(origin="api", grace=5), next_at=at(700))
    assert mine.version == 2
    assert await store.put_schedule(schedule(grace=9), next_at=at(800)) == mine
    again = await store.put_schedule(schedule(origin="api", grace=9), next_at=at(900))
    assert (again.version, again.next_at, again.schedule.grace) == (3, at(900), 9)


async def test_those_who_put_it_at_once_make_one(rivals: tuple[Store, ...]) -> None:
    answers = await asyncio.gather(*(plan(rival) for rival in rivals for _ in range(3)))
    assert {answer.version for answer in answers} == {1}
    assert len(await rivals[0].schedules()) == 1


async def test_they_are_listed_by_name(store: Store) -> None:
    for name in ("b", "c", "a"):
        await plan(store, name)
    assert [each.schedule.name for each in await store.schedules()] == ["a", "b", "c"]
    some = await store.schedules(["c", "nobody", "a"])
    assert [each.schedule.name for each in some] == ["a", "c"]
    assert await store.schedules(["nobody"]) == []


async def test_due_ones_come_longest_due_first(store: Store, clock: ManualClock) -> None:
    assert await store.due_schedules(limit=10) == ([], None)
    await plan(store, "a", next_at=at(10))
    await plan(store, "b", next_at=at(5))
    await plan(store, "later", next_at=at(10.5))
    await plan(store, "never", next_at=None)
    await plan(store, "paused", next_at=at(1))
    await store.pause_schedule("paused", paused=True)
    assert await store.due_schedules(limit=10) == ([], 5.0)
    clock.advance(10)
    due, wait = await store.due_schedules(limit=10)
    assert ([each.schedule.name for each in due], wait) == (["b", "a"], 0.5)
    due, wait = await store.due_schedules(limit=1)
    assert ([each.schedule.name for each in due], wait) == (["b"], 0.5)


async def test_due_is_exact_to_the_microsecond(store: Store, clock: ManualClock) -> None:
    next_at = at(1) + TICK
    await plan(store, next_at=next_at)
    clock.set(at(1))
    assert await store.due_schedules(limit=1) == ([], 0.000001)
    clock.set(next_at)
    (due,), wait = await store.due_schedules(limit=1)
    assert (due.next_at, wait) == (next_at, None)
    early = replace(firing(due), expected=next_at - TICK)
    assert await store.fire(early) is FiringStatus.STALE
    assert await store.fire(firing(due)) is FiringStatus.FIRED


async def test_a_pause_holds_until_it_is_resumed(store: Store, clock: ManualClock) -> None:
    await plan(store)
    assert await store.pause_schedule(NIGHTLY, paused=True, next_at=at(99))
    assert (await known(store)).next_at == START
    assert await store.due_schedules(limit=1) == ([], None)
    clock.advance(1)
    assert await store.pause_schedule(NIGHTLY, paused=False)
    resumed = await known(store)
    assert (resumed.paused, resumed.next_at, resumed.updated_at) == (False, START, at(1))
    assert await store.pause_schedule(NIGHTLY, paused=False, next_at=at(50))
    assert (await known(store)).next_at == at(50)
    assert not await store.pause_schedule("nobody", paused=True)


async def test_deleting_takes_the_history_and_leaves_the_jobs(store: Store) -> None:
    await store.fire(firing(await plan(store)))
    await store.fire(firing(await plan(store, "other"), 2))
    assert await store.delete_schedule(NIGHTLY)
    assert not await store.delete_schedule(NIGHTLY)
    assert await store.occurrences(NIGHTLY) == []
    assert await store.states([uid(1)]) == {uid(1): JobState.QUEUED}
    assert len(await store.occurrences("other")) == 1
    afresh = await plan(store)
    assert (afresh.version, afresh.last_at, afresh.last_job) == (1, None, None)


async def test_a_trigger_makes_a_job_out_of_turn(store: Store, clock: ManualClock) -> None:
    before = await plan(store, next_at=at(60))
    clock.advance(2)
    for _ in range(2):
        assert await store.trigger_schedule(NIGHTLY, new_job(id=uid(1)), by_hand(at(2), 1))
    (row,) = await store.occurrences(NIGHTLY)
    assert (row.outcome, row.job, row.made_at) == (OccurrenceOutcome.TRIGGERED, uid(1), at(2))
    assert await store.states([uid(1)]) == {uid(1): JobState.QUEUED}
    assert await known(store) == before
    assert not await store.trigger_schedule("nobody", new_job(id=uid(2)), by_hand(at(2), 2))
    assert await store.states([uid(2)]) == {}


async def test_the_history_is_read_from_its_end(store: Store) -> None:
    await plan(store)
    for number in range(1, 6):
        await store.fire(firing(await known(store), number))
    rows = await store.occurrences(NIGHTLY)
    assert [row.job for row in rows] == [uid(n) for n in (5, 4, 3, 2, 1)]
    assert [row.job for row in await store.occurrences(NIGHTLY, limit=2)] == [uid(5), uid(4)]
    page = await store.occurrences(NIGHTLY, limit=2, before=rows[1].at)
    assert [row.job for row in page] == [uid(3), uid(2)]
    assert await store.occurrences("nobody") == []


async def test_old_history_is_removed(store: Store, clock: ManualClock) -> None:
    await plan(store)
    for number in range(1, 5):
        await store.fire(firing(await known(store), number))
        clock.advance(10)
    assert await store.prune_occurrences(before=at(30), limit=2) == 2
    assert [row.job for row in await store.occurrences(NIGHTLY)] == [uid(4), uid(3)]
    assert await store.prune_occurrences(before=at(30), limit=9) == 1
    assert await store.prune_occurrences(before=at(30), limit=9) == 0
    assert [row.job for row in await store.occurrences(NIGHTLY)] == [uid(4)]


async def test_what_a_job_is_given_is_not_shown(store: Store) -> None:
    made = await plan(store)
    assert "secret" in made.schedule.template.input
    assert "secret" not in repr(await store.schedules())
    assert "secret" not in repr(firing(made, job=made.schedule.template))

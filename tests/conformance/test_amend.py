"""Jobs that wait get other terms: priority, queue, run time, deadline."""

from __future__ import annotations

from datetime import timedelta

import pytest

from offpath.model.amendment import Amendment
from offpath.model.changes import ChangedJob
from offpath.model.job import DeadReason, JobFilter, JobState
from offpath.model.settlement import Snoozed
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.builders import (
    START,
    TASK,
    add,
    ask,
    end,
    enqueue,
    fresh_id,
    join,
    new_job,
    outcomes,
    record,
    start,
    succeed,
    take,
    take_one,
    unique,
)
from tests.conformance.workflow_builders import gate_on, hold_one, limited, signal, sleeper

SOON = START + timedelta(seconds=60)
LATER = START + timedelta(seconds=600)


async def test_a_job_takes_its_new_place_in_line(store: Store) -> None:
    await join(store)
    first, second = await add(store), await add(store)

    (changed,) = await store.amend([second], Amendment(priority=7))

    queued = JobState.QUEUED
    assert changed == ChangedJob(
        id=second, task=TASK, queue="default", group_id=second, was=queued, state=queued
    )
    assert (await record(store, second)).priority == 7
    assert [job.id for job in await take(store)] == [second, first]


async def test_a_job_waits_in_another_queue(store: Store) -> None:
    await join(store)
    job_id = await add(store, queue="fast")

    (changed,) = await store.amend([job_id], Amendment(queue="slow"))

    assert (changed.was_in, changed.queue) == ("fast", "slow")
    assert await take(store, queues=("fast",)) == ()
    assert [job.id for job in await take(store, queues=("slow",))] == [job_id]
    (again,) = await store.amend([await add(store, queue="fast")], Amendment(queue="fast"))
    assert (again.was_in, again.queue) == (None, "fast")


async def test_a_job_is_put_off_and_called_back(store: Store, clock: ManualClock) -> None:
    await join(store)
    job_id = await add(store)
    await store.amend([job_id], Amendment(run_at=SOON))
    assert (await record(store, job_id)).run_at == SOON
    waiting = await ask(store)
    assert waiting.jobs == ()
    assert waiting.due_in == pytest.approx(60)

    await store.amend([job_id], Amendment(run_at=START))
    assert [job.id for job in await take(store)] == [job_id]


async def test_a_retry_that_waits_is_called_with_its_attempt(store: Store) -> None:
    job = await start(store)
    await end(store, job, outcomes()["retry"])
    await store.amend([job.id], Amendment(run_at=START, priority=-3))
    again = await take_one(store)
    assert (again.id, again.attempt, again.priority) == (job.id, 2, -3)


async def test_a_snooze_ends_with_a_new_run_time_alone(store: Store) -> None:
    job = await start(store)
    await end(store, job, Snoozed(delay=5.0, reason="quota"))
    reason = (await record(store, job.id)).reason
    assert reason is not None
    await store.amend([job.id], Amendment(priority=2))
    assert (await record(store, job.id)).reason == reason
    await store.amend([job.id], Amendment(run_at=START))
    assert (await record(store, job.id)).reason is None


async def test_a_new_deadline_is_what_it_dies_of(store: Store, clock: ManualClock) -> None:
    job_id = await add(store, delay=9_000, deadline_in=9_999)
    await store.amend([job_id], Amendment(deadline=SOON))
    assert (await record(store, job_id)).deadline == SOON
    clock.advance(59)
    assert await store.expire_blocked(limit=10) == []
    clock.advance(2)
    (died,) = await store.expire_blocked(limit=10)
    assert (died.id, died.reason) == (job_id, DeadReason.DEADLINE)


async def test_a_later_deadline_saves_it(store: Store, clock: ManualClock) -> None:
    job_id = await add(store, delay=9_000, deadline_in=60)
    await store.amend([job_id], Amendment(deadline=LATER))
    clock.advance(61)
    assert await store.expire_blocked(limit=10) == []
    assert (await record(store, job_id)).state is JobState.QUEUED


async def test_a_redrive_gives_it_its_own_deadline_again(store: Store) -> None:
    job_id = await add(store, deadline_in=60)
    await store.amend([job_id], Amendment(deadline=LATER))
    await store.cancel([job_id])
    await store.redrive([JobRedrive(id=job_id)])
    assert (await record(store, job_id)).deadline == SOON


async def test_everything_at_once_and_twice(store: Store) -> None:
    job_id = await add(store)
    amendment = Amendment(priority=1, queue="slow", run_at=SOON, deadline=LATER)
    (first,) = await store.amend([job_id, fresh_id(), "none"], amendment)
    before = await record(store, job_id)
    told = (before.priority, before.queue, before.run_at, before.deadline)
    assert told == (1, "slow", SOON, LATER)
    (second,) = await store.amend([job_id, job_id], amendment)
    assert (first.was_in, second.was_in) == ("default", None)
    assert await record(store, job_id) == before


async def test_jobs_that_run_or_have_ended_are_left_alone(store: Store) -> None:
    running = await start(store)
    ended = await start(store)
    await succeed(store, ended)
    cancelled = await add(store)
    await store.cancel([cancelled])
    before = [await record(store, each) for each in (running.id, ended.id, cancelled)]
    assert await store.amend([one.id for one in before], Amendment(priority=9)) == []
    assert [await record(store, one.id) for one in before] == before


async def test_counts_follow_it_to_its_queue(store: Store) -> None:
    ids = [await add(store, queue="fast") for _ in range(3)]
    await store.amend(ids[:2], Amendment(queue="slow"))
    counts = {one.queue: one.count for one in await store.count(JobFilter())}
    assert counts == {"fast": 1, "slow": 2}
    assert {one.name: one.ready for one in await store.queues()} == counts


@pytest.mark.needs("unique")
async def test_it_keeps_its_unique_key(store: Store) -> None:
    job_id = await add(store, unique=unique("k"))
    await store.amend([job_id], Amendment(queue="slow", run_at=LATER))
    (answer,) = await enqueue(store, new_job(unique=unique("k")))
    assert (answer.job_id, answer.created) == (job_id, False)


# -- jobs that are blocked ---------------------------------------------------------------------


@pytest.mark.needs("limits")
async def test_a_held_job_comes_before_others_of_its_key(store: Store) -> None:
    await join(store)
    jobs = [limited("api", 1) for _ in range(3)]
    await enqueue(store, *jobs)
    await store.admit(limit=10)
    held = [one.id for one in jobs if (await record(store, one.id)).state is JobState.BLOCKED]
    assert len(held) == 2

    await store.amend([held[1]], Amendment(priority=5))

    await succeed(store, await take_one(store, task=jobs[0].task))
    await store.admit(limit=10)
    assert (await take_one(store, task=jobs[0].task)).id == held[1]


@pytest.mark.needs("limits")
async def test_a_held_job_dies_of_its_new_deadline(store: Store, clock: ManualClock) -> None:
    jobs = [limited("api", 1) for _ in range(2)]
    await enqueue(store, *jobs)
    await store.admit(limit=10)
    (held,) = [one.id for one in jobs if (await record(store, one.id)).state is JobState.BLOCKED]
    (changed,) = await store.amend([held], Amendment(deadline=SOON))
    assert (changed.was, changed.state) == (JobState.BLOCKED, JobState.BLOCKED)
    clock.advance(61)
    (died,) = await store.expire_blocked(limit=10)
    assert (died.id, died.reason) == (held, DeadReason.DEADLINE)


@pytest.mark.needs("limits")
async def test_what_is_called_early_waits_for_room(store: Store) -> None:
    await join(store)
    first, second = limited("api", 1), limited("api", 1, delay=600)
    await enqueue(store, first, second)
    await store.admit(limit=10)
    await store.amend([second.id], Amendment(run_at=START))
    await store.admit(limit=10)
    assert [job.id for job in await take(store, tasks={first.task: 9})] == [first.id]
    assert (await record(store, second.id)).state is JobState.BLOCKED


@pytest.mark.needs("limits")
async def test_what_is_put_off_leaves_its_room(store: Store) -> None:
    await join(store)
    first, second = limited("api", 1), limited("api", 1)
    await enqueue(store, first, second)
    await store.admit(limit=10)
    (ready,) = [
        one for one in (first, second) if (await record(store, one.id)).state is JobState.QUEUED
    ]
    await store.amend([ready.id], Amendment(run_at=LATER))
    await store.admit(limit=10)
    (other,) = {first.id, second.id} - {ready.id}
    assert [job.id for job in await take(store, tasks={first.task: 9})] == [other]


@pytest.mark.needs("workflows")
async def test_a_job_at_a_gate_dies_of_whichever_comes_first(
    store: Store, clock: ManualClock
) -> None:
    watched = await add(store, delay=9_000)
    early = await hold_one(store, gate_on(watched, timeout=300))
    late = await hold_one(store, gate_on(watched, timeout=300))
    for job_id, deadline in ((early, SOON), (late, LATER)):
        assert await store.amend([job_id], Amendment(deadline=deadline, priority=3))
    assert await store.amend([early], Amendment(queue="slow")) == []
    clock.advance(61)
    assert [(one.id, one.reason) for one in await store.expire_blocked(limit=10)] == [
        (early, DeadReason.DEADLINE)
    ]
    clock.advance(240)
    assert late in {one.id for one in await store.expire_blocked(limit=10)}


@pytest.mark.needs("workflows")
async def test_a_job_that_waits_for_a_signal_keeps_its_wait(
    store: Store, clock: ManualClock
) -> None:
    await join(store)
    job_id = await sleeper(store)
    assert await store.amend([job_id], Amendment(deadline=SOON)) == []
    (changed,) = await store.amend([job_id], Amendment(priority=4))
    assert changed.state is JobState.BLOCKED
    assert await store.send_signal(signal())
    again = await take_one(store)
    assert (again.id, again.priority) == (job_id, 4)

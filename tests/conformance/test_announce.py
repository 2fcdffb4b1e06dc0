"""Every change of an announced job's state is one message, written in the same transaction."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import pytest

from offpath.model.announce import BITS, DETAILS, STREAM, announced, sequence
from offpath.model.effects import Effects
from offpath.model.job import DeadReason, JobRecord, JobState, LeasedJob, UniquePolicy
from offpath.model.message import Box, MessageFilter, MessageState
from offpath.model.settlement import (
    Cancelled,
    Dead,
    Released,
    Retry,
    Settlement,
    SettleStatus,
    Snoozed,
    Succeeded,
)
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.backends import Backend
from tests.conformance.builders import (
    TASK,
    die,
    end,
    enqueue,
    failure,
    fresh_id,
    join,
    new_job,
    record,
    settle,
    start,
    succeed,
    take,
    take_one,
    unique,
)
from tests.conformance.message_builders import (
    announcements,
    end_message,
    find_all,
    hand,
    hand_one,
    ids,
    put,
)

ALL = announced(BITS)
QUEUED, RUNNING = JobState.QUEUED, JobState.RUNNING
SUCCEEDED, DEAD, CANCELLED = JobState.SUCCEEDED, JobState.DEAD, JobState.CANCELLED
Made = tuple[str, Callable[[], Awaitable[Any]]]
"""The job's id, and the call that changes it."""
Scene = Callable[[Store, ManualClock, int], Awaitable[Made]]

# -- every way from one state to another -----------------------------------------------------------


async def _enqueue(store: Store, clock: ManualClock, bits: int) -> Made:
    job = new_job(announce=bits, queue="q")
    return job.id, lambda: enqueue(store, job)


async def _schedule(store: Store, clock: ManualClock, bits: int) -> Made:
    job = new_job(announce=bits, delay=60)
    return job.id, lambda: enqueue(store, job)


async def _follow(store: Store, clock: ManualClock, bits: int) -> Made:
    parent, child = await start(store), new_job("child", announce=bits)
    return child.id, lambda: end(store, parent, Succeeded(), effects=[child])


async def _follow_a_message(store: Store, clock: ManualClock, bits: int) -> Made:
    await put(store)
    held, job = await hand_one(store), new_job(announce=bits)
    return job.id, lambda: end_message(store, held, effects=Effects(jobs=(job,)))


async def _lease(store: Store, clock: ManualClock, bits: int) -> Made:
    job = new_job(announce=bits)
    await enqueue(store, job)
    await join(store)
    return job.id, lambda: take(store)


async def _lease_what_was_scheduled(store: Store, clock: ManualClock, bits: int) -> Made:
    job = new_job(announce=bits, delay=5)
    await enqueue(store, job)
    await join(store)
    clock.advance(6)
    return job.id, lambda: take(store)


def _settling(outcome: Any) -> Scene:
    async def scene(store: Store, clock: ManualClock, bits: int) -> Made:
        job = await start(store, announce=bits)
        return job.id, lambda: end(store, job, outcome, keep=60)

    return scene


async def _die(store: Store, clock: ManualClock, bits: int) -> Made:
    job = await start(store, announce=bits)
    return job.id, lambda: die(store, job)


async def _overdue(store: Store, clock: ManualClock, bits: int) -> Made:
    job = new_job(announce=bits, deadline_in=5)
    await enqueue(store, job)
    clock.advance(6)
    return job.id, lambda: store.expire_blocked(limit=10)


async def _end_cancelled(store: Store, clock: ManualClock, bits: int) -> Made:
    job = await start(store, announce=bits)
    await store.cancel([job.id])
    return job.id, lambda: succeed(store, job)


async def _cancel_waiting(store: Store, clock: ManualClock, bits: int) -> Made:
    job = new_job(announce=bits)
    await enqueue(store, job)
    return job.id, lambda: store.cancel([job.id])


async def _cancel_scheduled(store: Store, clock: ManualClock, bits: int) -> Made:
    job = new_job(announce=bits, delay=60)
    await enqueue(store, job)
    return job.id, lambda: store.cancel([job.id])


def _rescuing(most: int, *, asked: bool = False) -> Scene:
    async def scene(store: Store, clock: ManualClock, bits: int) -> Made:
        job = await start(store, announce=bits)
        if asked:
            await store.cancel([job.id])
        clock.advance(31)
        return job.id, lambda: store.rescue(limit=5, max_deliveries=most)

    return scene


async def _redrive_dead(store: Store, clock: ManualClock, bits: int) -> Made:
    job = await start(store, announce=bits)
    await die(store, job)
    return job.id, lambda: store.redrive([JobRedrive(id=job.id)])


async def _redrive_cancelled_later(store: Store, clock: ManualClock, bits: int) -> Made:
    job_id, cancel = await _cancel_waiting(store, clock, bits)
    await cancel()
    return job_id, lambda: store.redrive([JobRedrive(id=job_id, delay=30)])


CHANGES: dict[str, tuple[Scene, JobState | None, JobState]] = {
    "enqueue": (_enqueue, None, QUEUED),
    "schedule": (_schedule, None, QUEUED),
    "follow a job": (_follow, None, QUEUED),
    "follow a message": (_follow_a_message, None, QUEUED),
    "lease": (_lease, QUEUED, RUNNING),
    "lease what was scheduled": (_lease_what_was_scheduled, QUEUED, RUNNING),
    "succeed": (_settling(Succeeded(result='{"é":1}')), RUNNING, SUCCEEDED),
    "succeed with nothing": (_settling(Succeeded()), RUNNING, SUCCEEDED),
    "retry": (_settling(Retry(delay=9, failure=failure())), RUNNING, QUEUED),
    "retry at once": (_settling(Retry(delay=0, failure=failure())), RUNNING, QUEUED),
    "snooze": (_settling(Snoozed(delay=9, reason="limit")), RUNNING, QUEUED),
    "die": (_die, RUNNING, DEAD),
    "end cancelled": (_settling(Cancelled(failure=failure())), RUNNING, CANCELLED),
    "end as asked": (_end_cancelled, RUNNING, CANCELLED),
    "release": (_settling(Released()), RUNNING, QUEUED),
    "cancel waiting": (_cancel_waiting, QUEUED, CANCELLED),
    "cancel scheduled": (_cancel_scheduled, QUEUED, CANCELLED),
    "be given up": (_overdue, QUEUED, DEAD),
    "rescue": (_rescuing(9), RUNNING, QUEUED),
    "rescue for the last time": (_rescuing(1), RUNNING, DEAD),
    "rescue as asked": (_rescuing(9, asked=True), RUNNING, CANCELLED),
    "redrive dead": (_redrive_dead, DEAD, QUEUED),
    "redrive cancelled": (_redrive_cancelled_later, CANCELLED, QUEUED),
}


def told(job: JobRecord, previous: JobState | None, *, details: bool) -> dict[str, Any]:
    """The message's contents, but for the time."""
    said: dict[str, Any] = {
        "job": job.id,
        "task": job.task,
        "queue": job.queue,
        "previous": previous,
        "state": job.state,
        "attempt": job.attempt,
        "sequence": sequence(job.state, job.deliveries, job.redrives),
        "reason": job.reason,
    }
    if details:
        said["result"] = job.result
        said["error"] = job.failure.type if job.failure else None
    return said


def check_growth(messages: list[dict[str, Any]]) -> None:
    """The numbers of each job only grow."""
    for job in {each["job"] for each in messages}:
        numbers = [each["sequence"] for each in messages if each["job"] == job]
        assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("bits", [ALL, ALL | DETAILS], ids=["plain", "details"])
@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_is_told_in_one_message(
    store: Store, clock: ManualClock, name: str, bits: int
) -> None:
    scene, previous, state = CHANGES[name]
    job_id, change = await scene(store, clock, bits)
    before = await announcements(store)
    clock.advance(0.25)
    await change()
    found = await announcements(store)
    assert found[: len(before)] == before
    (said,) = found[len(before) :]
    assert datetime.fromisoformat(said.pop("at")) == clock.now()
    job = await record(store, job_id)
    assert job.state is state
    assert said == told(job, previous, details=bool(bits & DETAILS))
    check_growth(await announcements(store))


@pytest.mark.parametrize("asked", [*BITS, None])
@pytest.mark.parametrize("name", CHANGES)
async def test_only_changes_that_were_asked_for_are_told(
    store: Store, clock: ManualClock, name: str, asked: JobState | None
) -> None:
    scene, _, state = CHANGES[name]
    bits = announced([asked] if asked else [])
    job_id, change = await scene(store, clock, bits)
    before = await announcements(store)
    await change()
    found = (await announcements(store))[len(before) :]
    assert [(each["job"], each["state"]) for each in found] == [(job_id, state)] * (asked is state)


async def test_details_alone_tell_nothing(store: Store) -> None:
    await succeed(store, await start(store, announce=DETAILS))
    assert await announcements(store) == []


# -- what is not a change
# -----------------------------------------------------------------------------


async def _cancel_running(store: Store, clock: ManualClock) -> None:
    job = await start(store, announce=ALL)
    assert len(await announcements(store)) == 2
    await store.cancel([job.id])


async def _repeat(store: Store, clock: ManualClock) -> None:
    job = new_job(announce=ALL)
    await enqueue(store, job)
    await enqueue(store, job)


async def _attach(store: Store, clock: ManualClock) -> None:
    for _ in range(2):
        await enqueue(store, new_job(announce=ALL, unique=unique("k")))


async def _replace(store: Store, clock: ManualClock) -> None:
    for text in ("1", "2"):
        claim = unique("k", policy=UniquePolicy.REPLACE)
        await enqueue(store, new_job(announce=ALL, unique=claim, input=text, delay=60))


async def _redrive_waiting(store: Store, clock: ManualClock) -> None:
    job = new_job(announce=ALL, delay=60)
    await enqueue(store, job)
    await store.redrive([JobRedrive(id=job.id)])


async def _promote(store: Store, clock: ManualClock) -> None:
    await enqueue(store, new_job("later", announce=ALL, delay=5))
    await join(store)
    clock.advance(9)
    await take(store, tasks={"later": 0, TASK: 5})


async def _progress(store: Store, clock: ManualClock) -> None:
    job = await start(store, announce=ALL)
    await store.progress(job, "{}")


async def _prune(store: Store, clock: ManualClock) -> None:
    job = new_job(announce=ALL)
    await enqueue(store, job)
    await store.cancel([job.id], keep=1)
    clock.advance(2)
    assert (await store.prune(limit=5)).total == 1


async def _delete(store: Store, clock: ManualClock) -> None:
    job = new_job(announce=ALL)
    await enqueue(store, job)
    await store.cancel([job.id])
    assert len(await store.delete([job.id])) == 1


async def _lose(store: Store, clock: ManualClock) -> None:
    job = await start(store, announce=ALL)
    await store.cancel([job.id])
    clock.advance(31)
    await store.rescue(limit=5, max_deliveries=5)
    assert (await settle(store, job, Succeeded())).status is SettleStatus.LEASE_LOST


SILENT: dict[str, tuple[Callable[[Store, ManualClock], Awaitable[None]], list[JobState]]] = {
    "cancelling what runs": (_cancel_running, [QUEUED, RUNNING]),
    "a repeat": (_repeat, [QUEUED]),
    "attaching": (_attach, [QUEUED]),
    "replacing": (_replace, [QUEUED]),
    "redriving what waits": (_redrive_waiting, [QUEUED]),
    "promoting": (_promote, [QUEUED]),
    "progress": (_progress, [QUEUED, RUNNING]),
    "pruning": (_prune, [QUEUED, CANCELLED]),
    "deleting": (_delete, [QUEUED, CANCELLED]),
    "a lost lease": (_lose, [QUEUED, RUNNING, CANCELLED]),
}


@pytest.mark.parametrize("name", SILENT)
async def test_what_changes_no_state_is_not_told(
    store: Store, clock: ManualClock, name: str
) -> None:
    act, states = SILENT[name]
    await act(store, clock)
    assert [each["state"] for each in await announcements(store)] == states


async def test_a_refused_commit_tells_nothing(store: Store) -> None:
    await enqueue(store, new_job(unique=unique("k")))
    refused = new_job(announce=ALL, unique=unique("k", policy=UniquePolicy.REFUSE))
    with pytest.raises(Exception, match="k"):
        await enqueue(store, new_job(announce=ALL), refused)
    assert await announcements(store) == []


async def test_a_refused_settlement_tells_nothing_and_the_others_are_told(store: Store) -> None:
    await enqueue(store, new_job("held", unique=unique("k")))
    refused = new_job("new", announce=ALL, unique=unique("k", policy=UniquePolicy.REFUSE))
    jobs = [await start(store, announce=announced([SUCCEEDED])) for _ in range(3)]
    answers = await store.settle(
        [
            Settlement(
                job=job, outcome=Succeeded(), effects=Effects(jobs=(refused,) if n == 1 else ())
            )
            for n, job in enumerate(jobs)
        ]
    )
    assert answers[1].status is SettleStatus.REFUSED
    assert [each["job"] for each in await announcements(store)] == [jobs[0].id, jobs[2].id]


# -- the message itself ----------------------------------------------------------------------------


async def test_the_message_is_one_of_the_outbox(store: Store, clock: ManualClock) -> None:
    job = new_job(announce=ALL, delay=500)
    clock.advance(2)
    await enqueue(store, job)
    (kept,) = await find_all(store)
    assert (kept.box, kept.stream, kept.topic, kept.key) == (Box.OUT, STREAM, "job.queued", job.id)
    assert (kept.state, kept.created_at, kept.due_at) == (
        MessageState.PENDING,
        clock.now(),
        clock.now(),
    )
    assert (kept.attempt, kept.deliveries, kept.held) == (1, 0, False)
    assert set(json.loads(kept.headers)) == set()
    assert ids(await hand(store, STREAM, ordered=True)) == [kept.id]


async def test_every_message_has_an_id_of_its_own(store: Store) -> None:
    jobs = [new_job(announce=ALL) for _ in range(50)]
    await enqueue(store, *jobs)
    await join(store)
    held = await take(store)
    await store.settle([Settlement(job=job, outcome=Succeeded()) for job in held])
    found = await find_all(store)
    assert len({each.id for each in found} | {job.id for job in jobs}) == 200
    for job in jobs:
        mine = [each.topic for each in found if each.key == job.id]
        assert mine == ["job.queued", "job.running", "job.succeeded"]


async def test_an_announcement_is_not_answered_among_the_messages(store: Store) -> None:
    jobs = [new_job(announce=ALL) for _ in range(3)]
    answers = await enqueue(store, *jobs)
    assert [answer.id for answer in answers] == [job.id for job in jobs]


async def test_texts_of_every_kind_are_told_equal(store: Store) -> None:
    name = 'it\'s "quoted" \\ 100%s 日本語 😀 \n\t'
    await join(store)
    job = new_job(name, queue=name, announce=ALL | DETAILS)
    await enqueue(store, job)
    held = await take_one(store, task=name)
    await end(store, held, Retry(delay=0, failure=failure(type=name)))
    held = await take_one(store, task=name)
    await end(store, held, Succeeded(result=json.dumps(name)))
    found = await announcements(store)
    assert {(each["task"], each["queue"]) for each in found} == {(name, name)}
    assert found[2]["error"] == name
    assert json.loads(found[-1]["result"]) == name


async def test_the_numbers_of_a_long_life_only_grow(store: Store, clock: ManualClock) -> None:
    job = new_job(announce=ALL)
    await enqueue(store, job)
    await join(store)
    expected = [QUEUED]

    async def run(outcome: Any, state: JobState) -> LeasedJob:
        clock.advance(1)
        held = await take_one(store)
        await end(store, held, outcome)
        expected.extend([RUNNING, state])
        return held

    for _ in range(2):
        await run(Retry(delay=0, failure=failure()), QUEUED)
        await run(Snoozed(), QUEUED)
        await run(Released(), QUEUED)
        await run(outcome=_dead(), state=DEAD)
        await store.redrive([JobRedrive(id=job.id)])
        await store.cancel([job.id])
        await store.redrive([JobRedrive(id=job.id)])
        expected.extend([QUEUED, CANCELLED, QUEUED])
    await run(Succeeded(), SUCCEEDED)
    found = await announcements(store)
    assert [each["state"] for each in found] == expected
    assert [each["previous"] for each in found] == [None, *expected[:-1]]
    check_growth(found)


def _dead() -> Any:
    return Dead(reason=DeadReason.EXHAUSTED, failure=failure())


async def test_a_rolled_back_transaction_tells_nothing(store: Store, caller: Backend) -> None:
    job = new_job(announce=ALL)
    with caller.transaction() as connection:
        store.commit_within_blocking(connection, Effects(jobs=(job,)))
    async with caller.async_transaction() as connection:
        await store.commit_within(connection, Effects(jobs=(job,)))
    assert await announcements(store) == []
    with caller.transaction() as connection:
        store.commit_within_blocking(connection, Effects(jobs=(job,)))
        connection.commit()
    (said,) = await announcements(store)
    assert (said["job"], said["previous"], said["state"]) == (job.id, None, QUEUED)


async def test_an_announcement_is_found_by_its_job(store: Store) -> None:
    job = await start(store, announce=ALL)
    await start(store, task="other", announce=ALL)
    found = await find_all(store, MessageFilter(keys=(job.id, fresh_id())))
    assert [each.topic for each in found] == ["job.queued", "job.running"]

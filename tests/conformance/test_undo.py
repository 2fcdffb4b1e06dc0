"""Compensation: what undoes a job's steps is kept until it has succeeded or was undone, once."""

from __future__ import annotations

import asyncio

import pytest

from offpath.errors import IdConflict, InvalidArgument, LeaseLost
from offpath.jobs.handler.durable.undo import recorded
from offpath.model.effects import Effects
from offpath.model.group import Contribution
from offpath.model.job import JobFilter, JobState
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from offpath.sweeps.groups import CheckGroups
from tests.conformance.builders import (
    add,
    die,
    end,
    exists,
    join,
    new_job,
    outcomes,
    start,
    succeed,
    take_one,
)

pytestmark = pytest.mark.needs("workflows")


async def _failed(store: Store, *undo: str) -> str:
    """A dead job that had recorded these; its id."""
    job = await start(store)
    for name in undo:
        await store.put_undo(job, name, f'"undo {name}"')
    await die(store, job)
    return job.id


async def test_a_dead_job_is_undone_in_the_order_of_first_calls(store: Store) -> None:
    job = await start(store)
    for name in ("b", "a", "c", "b"):
        await store.put_undo(job, name, f'"{name}{name}"')
    await store.put_undo(job, "a", '"another"')
    assert await store.undoing(limit=10) == []
    await die(store, job)
    (undoing,) = await store.undoing(limit=10)
    assert (undoing.id, undoing.group_id) == (job.id, job.id)
    assert undoing.undo == ('"bb"', '"aa"', '"cc"')


@pytest.mark.parametrize("how", ["cancelled", "cancel asked for", "cancel waiting", "lost"])
async def test_every_end_without_success_is_undone(
    store: Store, clock: ManualClock, how: str
) -> None:
    job = await start(store)
    await store.put_undo(job, "a", "1")
    if how == "cancelled":
        await end(store, job, outcomes()["cancelled"])
    elif how == "cancel asked for":
        await store.cancel([job.id])
        await succeed(store, job)
    elif how == "cancel waiting":
        await end(store, job, outcomes()["retry"])
        await store.cancel([job.id])
    else:
        clock.advance(31)
        await store.rescue(limit=10, max_deliveries=1)
    assert [each.id for each in await store.undoing(limit=10)] == [job.id]


async def test_a_success_has_nothing_to_undo(store: Store) -> None:
    job = await start(store)
    await store.put_undo(job, "a", "1")
    await succeed(store, job)
    assert await store.undoing(limit=10) == []
    assert not await store.compensate(job.id, Effects(jobs=(new_job(),)))


@pytest.mark.parametrize("name", ["retry", "snoozed", "released"])
async def test_they_outlive_an_attempt(store: Store, clock: ManualClock, name: str) -> None:
    job = await start(store)
    await store.put_undo(job, "a", "1")
    await end(store, job, outcomes()[name])
    assert await store.undoing(limit=10) == []
    clock.advance(6)
    again = await take_one(store)
    await store.put_undo(again, "a", "2")
    await store.put_undo(again, "b", "3")
    await die(store, again)
    (undoing,) = await store.undoing(limit=10)
    assert undoing.undo == ("1", "3")


async def test_undoing_is_bounded(store: Store) -> None:
    ids = {await _failed(store, "a") for _ in range(3)}
    assert len(await store.undoing(limit=2)) == 2
    assert {each.id for each in await store.undoing(limit=10)} == ids


async def test_undoing_goes_on_after_an_id(store: Store) -> None:
    ids = sorted([await _failed(store, "a") for _ in range(5)])
    pages = [await store.undoing(limit=2, after=after) for after in (None, ids[1], ids[3], ids[4])]
    assert [[each.id for each in page] for page in pages] == [ids[:2], ids[2:4], ids[4:], []]


async def test_records_that_nobody_can_read_hide_none_behind_them(store: Store) -> None:
    """Of a newer version, for instance: those are told each time, and the others are undone."""
    unreadable = [await _failed(store, "a") for _ in range(5)]
    readable = [await start(store) for _ in range(3)]
    for number, job in enumerate(readable):
        await store.put_undo(job, "a", recorded(new_job(task=f"undo {number}")))
        await die(store, job)
    assert max(unreadable) < min(job.id for job in readable)
    told: list[BaseException] = []
    check = CheckGroups(
        lambda: store,
        keep_dead=None,
        keep_cancelled=None,
        report=lambda error, _: told.append(error),
    )
    first, second, third = [await check.move(2) for _ in range(3)]
    assert (first.counts, first.more) == ({"undone": 2, "failed": 5}, True)
    assert (second.counts, second.more) == ({"undone": 1, "failed": 5}, False)
    assert (third.counts, third.more) == ({"failed": 5}, False)
    assert len(told) == 5, "each once"
    queued = await store.find(JobFilter(states=(JobState.QUEUED,)))
    assert {one.task for one in queued.items} == {"undo 0", "undo 1", "undo 2"}


async def test_compensation_commits_once(store: Store) -> None:
    job_id = await _failed(store, "a")
    first, second = new_job(group_id=job_id), new_job(group_id=job_id)
    assert await store.compensate(job_id, Effects(jobs=(first,)))
    assert not await store.compensate(job_id, Effects(jobs=(second,)))
    assert await exists(store, first.id)
    assert not await exists(store, second.id)
    assert await store.undoing(limit=10) == []


async def test_compensation_forgets_the_steps_too(store: Store) -> None:
    job = await start(store)
    await store.put_step(job, "a", "1")
    await store.put_undo(job, "a", "2")
    await die(store, job)
    assert await store.compensate(job.id, Effects())
    assert await store.steps(job.id) == {}


async def test_nothing_to_undo_is_not_compensated(store: Store) -> None:
    job = await start(store)
    await store.put_step(job, "a", "1")
    await die(store, job)
    assert not await store.compensate(job.id, Effects(jobs=(new_job(),)))
    assert await store.steps(job.id) == {"a": "1"}


async def test_a_job_that_was_put_back_is_not_undone(store: Store) -> None:
    job_id = await _failed(store, "a")
    await store.redrive([JobRedrive(id=job_id)])
    undo = new_job()
    assert await store.undoing(limit=10) == []
    assert not await store.compensate(job_id, Effects(jobs=(undo,)))
    assert not await exists(store, undo.id)
    await die(store, await take_one(store))
    assert await store.compensate(job_id, Effects(jobs=(undo,)))


async def test_effects_that_are_refused_leave_everything(store: Store) -> None:
    job_id = await _failed(store, "a")
    taken = await add(store)
    with pytest.raises(IdConflict):
        await store.compensate(job_id, Effects(jobs=(new_job(id=taken, input='{"x":1}'),)))
    with pytest.raises(InvalidArgument):
        await store.compensate(job_id, Effects(contributions=(Contribution(payload="1"),)))
    assert [each.id for each in await store.undoing(limit=10)] == [job_id]


async def test_a_lost_lease_records_nothing_to_undo(store: Store, clock: ManualClock) -> None:
    job = await start(store)
    clock.advance(31)
    await store.rescue(limit=10, max_deliveries=5)
    with pytest.raises(LeaseLost):
        await store.put_undo(job, "a", "1")
    await store.cancel([job.id])
    assert await store.undoing(limit=10) == []


async def test_undo_records_go_with_the_job(store: Store) -> None:
    job_id = await _failed(store, "a")
    assert await store.compensate(job_id, Effects())
    await store.delete([job_id])
    await join(store)
    await add(store, id=job_id)
    await die(store, await take_one(store))
    assert await store.undoing(limit=10) == []


@pytest.mark.parametrize("state", ["dead", "cancelled"])
@pytest.mark.parametrize("how", ["deleted", "pruned"])
async def test_a_job_is_not_removed_before_it_is_undone(
    store: Store, clock: ManualClock, how: str, state: str
) -> None:
    """Else a quick hand, or a short retention, would leave done what is to be undone."""
    job = await start(store)
    other = await add(store)
    await store.put_undo(job, "a", "1")
    await end(store, job, outcomes()[state], keep=5)
    await end(store, await take_one(store), outcomes()[state], keep=10)

    async def removed() -> int:
        if how == "deleted":
            return len(await store.delete([job.id, other]))
        return (await store.prune(limit=1)).jobs

    clock.advance(11)
    assert await removed() == 1
    assert not await exists(store, other)
    assert await removed() == 0
    (undoing,) = await store.undoing(limit=10)
    assert undoing.id == job.id
    assert await store.compensate(job.id, Effects())
    assert await removed() == 1
    assert not await exists(store, job.id)


async def test_of_many_that_compensate_at_once_one_does(rivals: tuple[Store, ...]) -> None:
    store = rivals[0]
    for _ in range(5):
        job_id = await _failed(store, "a")
        undo = [new_job(delay=60) for _ in range(8)]
        done = await asyncio.gather(
            *(rivals[n % 4].compensate(job_id, Effects(jobs=(job,))) for n, job in enumerate(undo))
        )
        assert sum(done) == 1
        assert len(await store.get([job.id for job in undo])) == 1

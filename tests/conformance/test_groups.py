"""Groups: their end is reported exactly once, whatever the last member came to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from offpath.model.effects import Effects
from offpath.model.group import GroupPolicy
from offpath.model.job import JobState, LeasedJob
from offpath.model.settlement import Settlement, Snoozed, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.builders import (
    add,
    die,
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
    uid,
    unique,
)
from tests.conformance.workflow_builders import group_of

# Every way for a job to end; each answers whether its group was done by it.
End = Callable[[Store, ManualClock, LeasedJob], Awaitable[bool]]


async def _success(store: Store, clock: ManualClock, job: LeasedJob) -> bool:
    return (await succeed(store, job)).group_done


async def _death(store: Store, clock: ManualClock, job: LeasedJob) -> bool:
    return (await die(store, job)).group_done


async def _own_cancel(store: Store, clock: ManualClock, job: LeasedJob) -> bool:
    return (await end(store, job, outcomes()["cancelled"])).group_done


async def _asked_cancel(store: Store, clock: ManualClock, job: LeasedJob) -> bool:
    (changed,) = await store.cancel([job.id])
    assert not changed.group_done
    return (await end(store, job, outcomes()["retry"])).group_done


async def _cancel_while_waiting(store: Store, clock: ManualClock, job: LeasedJob) -> bool:
    assert not (await end(store, job, outcomes()["retry"])).group_done
    (changed,) = await store.cancel([job.id])
    assert await store.cancel([job.id]) == []
    return changed.group_done


async def _rescued_to_dead(store: Store, clock: ManualClock, job: LeasedJob) -> bool:
    clock.advance(31)
    (rescued,) = await store.rescue(limit=10, max_deliveries=1)
    assert rescued.state is JobState.DEAD
    return rescued.group_done


async def _rescued_to_cancelled(store: Store, clock: ManualClock, job: LeasedJob) -> bool:
    await store.cancel([job.id])
    clock.advance(31)
    (rescued,) = await store.rescue(limit=10, max_deliveries=9)
    assert rescued.state is JobState.CANCELLED
    return rescued.group_done


ENDS: dict[str, End] = {
    "success": _success,
    "death": _death,
    "own cancel": _own_cancel,
    "asked cancel": _asked_cancel,
    "cancel while waiting": _cancel_while_waiting,
    "rescued to dead": _rescued_to_dead,
    "rescued to cancelled": _rescued_to_cancelled,
}


@pytest.mark.parametrize("how", ENDS)
async def test_a_lone_job_is_its_own_group(store: Store, clock: ManualClock, how: str) -> None:
    job = await start(store)
    assert job.group_id == job.id
    assert await ENDS[how](store, clock, job)


@pytest.mark.parametrize("how", ENDS)
async def test_the_last_child_ends_the_group(store: Store, clock: ManualClock, how: str) -> None:
    root = await start(store)
    children = [new_job(parent=root.id) for _ in range(2)]
    assert not (await end(store, root, Succeeded(), effects=children)).group_done
    first = await take_one(store)
    assert not (await succeed(store, first)).group_done
    last = await take_one(store)
    assert await ENDS[how](store, clock, last)


@pytest.mark.parametrize("how", ENDS)
async def test_a_middle_child_does_not(store: Store, clock: ManualClock, how: str) -> None:
    root = await start(store)
    children = [new_job(parent=root.id) for _ in range(2)]
    await end(store, root, Succeeded(), effects=children)
    first = await take_one(store)
    assert not await ENDS[how](store, clock, first)
    await join(store, "w2")
    last = await take_one(store, "w2")
    assert last.id == children[1].id
    assert (await succeed(store, last)).group_done


@pytest.mark.parametrize("how", ENDS)
async def test_a_root_that_outlives_its_children_ends_the_group(
    store: Store, clock: ManualClock, how: str
) -> None:
    root = await start(store)
    child = new_job(parent=root.id, priority=1)
    assert not (await end(store, root, Snoozed(), effects=[child])).group_done
    assert not (await succeed(store, await take_one(store))).group_done
    again = await take_one(store)
    assert again.id == root.id
    assert await ENDS[how](store, clock, again)


@pytest.mark.parametrize("name", ["retry", "snoozed", "released"])
async def test_an_attempt_that_does_not_end_the_job_ends_no_group(store: Store, name: str) -> None:
    root = await start(store)
    assert not (await end(store, root, outcomes()[name])).group_done


async def test_a_tree_ends_with_its_last_leaf(store: Store) -> None:
    root = await start(store)
    await end(store, root, Succeeded(), effects=[new_job(parent=root.id) for _ in range(3)])
    done: list[bool] = []
    depth = {root.id: 0}
    while jobs := await take(store, limit=1):
        (job,) = jobs
        assert job.group_id == root.id
        assert job.parent is not None
        depth[job.id] = depth[job.parent] + 1
        more = [new_job(parent=job.id) for _ in range(2)] if depth[job.id] < 3 else []
        done.append((await end(store, job, Succeeded(), effects=more)).group_done)
    assert len(done) == 3 + 6 + 12
    assert done == [False] * 20 + [True]


async def test_a_child_queued_again_is_counted_once(store: Store) -> None:
    root = await start(store)
    child = new_job(parent=root.id, delay=60)
    await end(store, root, Snoozed(), effects=[child])
    await end(store, await take_one(store), Snoozed(), effects=[child])
    assert not (await succeed(store, await take_one(store))).group_done
    (changed,) = await store.cancel([child.id])
    assert changed.group_done


async def test_a_child_that_attaches_elsewhere_is_not_counted(store: Store) -> None:
    holder = await add(store, "other", unique=unique("k"))
    root = await start(store)
    child = new_job("other", parent=root.id, unique=unique("k"))
    answer = await end(store, root, Succeeded(), effects=[child])
    assert answer.enqueued[0].job_id == holder
    assert answer.group_done
    assert (await record(store, holder)).group_id == holder


async def test_a_refused_settlement_counts_nothing(store: Store) -> None:
    taken = await add(store, "other")
    root = await start(store)
    child = new_job(parent=root.id)
    bad = Effects(jobs=(child, new_job(id=taken, input='{"x":1}')))
    (answer,) = await store.settle([Settlement(job=root, outcome=Succeeded(), effects=bad)])
    assert not answer.group_done
    assert (await succeed(store, root)).group_done


@pytest.mark.parametrize("how", ["success", "death", "own cancel"])
async def test_members_that_end_in_one_batch_report_it_once(store: Store, how: str) -> None:
    outcome = {"success": "succeeded", "death": "dead", "own cancel": "cancelled"}[how]
    root = await start(store)
    await end(store, root, Succeeded(), effects=[new_job(parent=root.id) for _ in range(10)])
    alone = [new_job() for _ in range(3)]
    await enqueue(store, *alone)
    jobs = await take(store)
    answers = await store.settle([Settlement(job=job, outcome=outcomes()[outcome]) for job in jobs])
    done = [job.group_id for job, one in zip(jobs, answers, strict=True) if one.group_done]
    assert sorted(done) == sorted([root.id, *(job.id for job in alone)])


async def test_children_of_a_batch_keep_the_group_open(store: Store) -> None:
    """One member ends, another queues more: the group goes on."""
    root = await start(store)
    await end(store, root, Succeeded(), effects=[new_job(parent=root.id) for _ in range(2)])
    first, second = await take(store)
    more = new_job(parent=second.id)
    answers = await store.settle(
        [
            Settlement(job=first, outcome=Succeeded()),
            Settlement(job=second, outcome=Succeeded(), effects=Effects(jobs=(more,))),
        ]
    )
    assert [one.group_done for one in answers] == [False, False]
    assert (await succeed(store, await take_one(store))).group_done


async def test_members_that_are_cancelled_in_one_call_report_it_once(store: Store) -> None:
    root = await start(store)
    children = [new_job(parent=root.id) for _ in range(10)]
    await end(store, root, Succeeded(), effects=children)
    changed = await store.cancel([child.id for child in children])
    assert sum(one.group_done for one in changed) == 1
    assert {one.group_id for one in changed} == {root.id}


async def test_members_that_are_rescued_to_death_in_one_call_report_it_once(
    store: Store, clock: ManualClock
) -> None:
    root = await start(store)
    await end(store, root, Succeeded(), effects=[new_job(parent=root.id) for _ in range(10)])
    assert len(await take(store)) == 10
    clock.advance(31)
    rescued = await store.rescue(limit=100, max_deliveries=1)
    assert len(rescued) == 10
    assert sum(one.group_done for one in rescued) == 1


async def test_deleting_ended_members_changes_no_count(store: Store) -> None:
    root = await start(store)
    children = [new_job(parent=root.id) for _ in range(2)]
    await end(store, root, Succeeded(), effects=children)
    await succeed(store, await take_one(store))
    deleted = await store.delete([root.id, children[0].id])
    assert [one.group_done for one in deleted] == [False, False]
    assert (await succeed(store, await take_one(store))).group_done


async def test_pruning_ended_members_changes_no_count(store: Store, clock: ManualClock) -> None:
    root = await start(store)
    child = new_job(parent=root.id, delay=100)
    await end(store, root, Succeeded(), effects=[child], keep=1)
    clock.advance(2)
    assert (await store.prune(limit=10)).total == 1
    clock.advance(100)
    await join(store)
    assert (await succeed(store, await take_one(store))).group_done


@pytest.mark.parametrize("how", ["dead", "cancelled"])
@pytest.mark.parametrize("removed", ["deleted", "pruned"])
@pytest.mark.parametrize("which", ["root", "member"])
async def test_what_failed_and_is_gone_has_failed(
    store: Store, clock: ManualClock, which: str, removed: str, how: str
) -> None:
    """Whoever looks at the group later is not told that all went well."""
    await join(store)
    root = new_job()
    members = [new_job(group_id=root.id), new_job(group_id=root.id, delay=100)]
    await enqueue(store, root, *members)
    failing = root.id if which == "root" else members[0].id
    for job in await take(store):
        fails = job.id == failing
        await end(store, job, outcomes()[how if fails else "succeeded"], keep=1 if fails else None)
    if removed == "deleted":
        await store.delete([failing])
    else:
        clock.advance(2)
        assert (await store.prune(limit=10)).total == 1
    assert not await store.get([failing])
    assert (await group_of(store, root.id)).failed == 1
    await store.cancel([members[1].id])
    assert (await group_of(store, root.id)).failed == 2
    await store.redrive([JobRedrive(id=members[1].id)])
    assert (await group_of(store, root.id)).failed == 1


async def test_a_fail_fast_root_that_comes_after_a_failure_that_is_gone_closes_its_group(
    store: Store,
) -> None:
    await join(store)
    root = new_job(group_policy=GroupPolicy.FAIL_FAST)
    member, waits = new_job(group_id=root.id), new_job(group_id=root.id, delay=100)
    await enqueue(store, member, waits)
    await die(store, await take_one(store))
    await store.delete([member.id])
    await enqueue(store, root)
    assert (await group_of(store, root.id)).closing


async def test_a_group_that_jobs_name_themselves(store: Store) -> None:
    group = fresh_id()
    jobs = [new_job(group_id=group) for _ in range(2)]
    await enqueue(store, *jobs)
    await enqueue(store, new_job(group_id=group), new_job())
    await join(store)
    leased = [job for job in await take(store) if job.group_id == group]
    assert len(leased) == 3
    done = [(await succeed(store, job)).group_done for job in leased]
    assert done == [False, False, True]


async def test_a_group_that_is_named_after_a_member_of_another_goes_with_its_own_jobs(
    store: Store,
) -> None:
    root, member, other = new_job(), new_job(), new_job()
    await enqueue(store, root, new_job(id=member.id, group_id=root.id))
    await enqueue(store, new_job(id=other.id, group_id=member.id))
    await join(store)
    for job in await take(store):
        await succeed(store, job)
    await store.delete([other.id])
    assert await store.groups([member.id]) == []
    await store.delete([root.id, member.id])
    assert await store.groups([root.id, member.id]) == []


async def test_a_commit_can_join_an_open_group(store: Store) -> None:
    root = await add(store, delay=60)
    member = await add(store, group_id=root)
    await join(store)
    assert (await record(store, member)).group_id == root
    assert not (await succeed(store, await take_one(store))).group_done
    (changed,) = await store.cancel([root])
    assert changed.group_done


async def test_a_redriven_member_opens_its_group_again(store: Store) -> None:
    root = await start(store)
    child = new_job(parent=root.id)
    await end(store, root, Snoozed(delay=60), effects=[child])
    await die(store, await take_one(store))
    await store.redrive([JobRedrive(id=child.id)])
    (changed,) = await store.cancel([root.id])
    assert not changed.group_done
    assert (await succeed(store, await take_one(store))).group_done


@pytest.mark.parametrize("shape", ["lone", "member"])
async def test_the_end_of_a_group_is_told_once_also_after_a_redrive(
    store: Store, shape: str
) -> None:
    job = await start(store)
    if shape == "member":
        await end(store, job, Succeeded(), effects=[new_job(parent=job.id)])
        job = await take_one(store)
    assert (await die(store, job)).group_done
    (changed,) = await store.redrive([JobRedrive(id=job.id)])
    assert not changed.group_done
    assert not (await succeed(store, await take_one(store))).group_done


@pytest.mark.parametrize("company", [False, True])
async def test_the_end_of_a_group_is_told_once_also_when_it_is_joined_afterwards(
    store: Store, *, company: bool
) -> None:
    root = await start(store)
    if company:
        await succeed(store, root, effects=[new_job(parent=root.id)])
        assert (await succeed(store, await take_one(store))).group_done
    else:
        assert (await succeed(store, root)).group_done
    for _ in range(2):
        await enqueue(store, new_job(group_id=root.id))
        await store.expire_blocked(limit=10)
        assert (await group_of(store, root.id)).open == 1
        assert not (await succeed(store, await take_one(store))).group_done


async def test_a_group_that_ends_everywhere_at_once_ends_once(rivals: tuple[Store, ...]) -> None:
    """Cases C4, C6: settle, cancel and more children, on four connections."""
    store = rivals[0]
    for _ in range(3):
        root = await start(store)
        children = [new_job(parent=root.id) for _ in range(40)]
        await end(store, root, Succeeded(), effects=children)
        leased = await take(store, limit=30)
        waiting = [child.id for child in children[30:]]

        async def finish(n: int, job: LeasedJob) -> bool:
            return (await (die if n % 3 else succeed)(rivals[n % 4], job)).group_done

        async def stop(n: int, job_id: str) -> bool:
            return any(one.group_done for one in await rivals[n % 4].cancel([job_id]))

        done = await asyncio.gather(
            *(finish(n, job) for n, job in enumerate(leased)),
            *(stop(n, job_id) for n, job_id in enumerate(waiting)),
        )
        assert sum(done) == 1


async def test_roots_that_get_children_at_once(rivals: tuple[Store, ...]) -> None:
    store = rivals[0]
    root = new_job(id=uid(1), delay=600)
    await enqueue(store, root)
    members = [new_job(group_id=root.id) for _ in range(20)]
    await asyncio.gather(*(enqueue(rivals[n % 4], job) for n, job in enumerate(members)))
    done = await asyncio.gather(
        *(rivals[n % 4].cancel([job.id]) for n, job in enumerate([root, *members]))
    )
    assert sum(one.group_done for batch in done for one in batch) == 1

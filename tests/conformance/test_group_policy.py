"""The fate of a group when one member fails, and when somebody cancels it whole."""

from __future__ import annotations

import pytest

from offpath.model.effects import Effects
from offpath.model.group import GroupPolicy
from offpath.model.job import JobState
from offpath.model.settlement import Succeeded
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
)
from tests.conformance.workflow_builders import family, group_of

FAST = GroupPolicy.FAIL_FAST


@pytest.mark.parametrize("policy", list(GroupPolicy))
async def test_a_group_has_the_policy_of_its_root(store: Store, policy: GroupPolicy) -> None:
    root = await add(store, group_policy=policy)
    assert (await group_of(store, root)).policy is policy
    await add(store, group_id=root)
    assert (await group_of(store, root)).policy is policy


async def test_the_policy_of_a_member_means_nothing(store: Store) -> None:
    root = await add(store)
    await add(store, group_id=root, group_policy=FAST)
    assert (await group_of(store, root)).policy is GroupPolicy.SETTLE_ALL


async def test_a_root_that_comes_later_brings_its_policy_and_is_counted(store: Store) -> None:
    root = fresh_id()
    await add(store, group_id=root)
    assert (await group_of(store, root)).open == 1
    await add(store, id=root, group_policy=FAST)
    group = await group_of(store, root)
    assert (group.open, group.policy) == (2, FAST)


async def test_by_default_the_others_run_on(store: Store) -> None:
    await join(store)
    root, members = await family(store, 3)
    assert not (await die(store, members[0])).closing
    assert await store.close_groups(limit=10) == []
    group = await group_of(store, root)
    assert (group.open, group.failed, group.closing) == (2, 1, False)


@pytest.mark.parametrize("how", ["dead", "cancelled"])
async def test_one_that_fails_closes_a_fail_fast_group(store: Store, how: str) -> None:
    await join(store)
    root, (first, second, third) = await family(store, 3, group_policy=FAST)
    waiting = await add(store, group_id=root, delay=60)
    assert not (await succeed(store, first)).closing
    answer = await end(store, second, outcomes()[how])
    assert (answer.closing, answer.group_done) == (True, False)
    assert (await group_of(store, root)).closing

    changed = {each.id: each for each in await store.close_groups(limit=10, keep=60)}
    assert changed.keys() == {third.id, waiting}
    assert changed[waiting].state is JobState.CANCELLED
    assert changed[third.id].state is JobState.RUNNING
    assert (await record(store, waiting)).expires_at is not None
    assert (await store.signals("w1", [third])).cancelled == (third.id,)
    assert await store.close_groups(limit=10) == []
    last = await succeed(store, third)
    assert (last.state, last.group_done, last.closing) == (JobState.CANCELLED, True, True)
    group = await group_of(store, root)
    assert (group.open, group.failed) == (0, 3)


async def test_a_waiting_member_that_is_cancelled_closes_it_too(store: Store) -> None:
    root = await add(store, group_policy=FAST, delay=60)
    member = await add(store, group_id=root, delay=60)
    await store.cancel([member])
    assert (await group_of(store, root)).closing
    assert [each.id for each in await store.close_groups(limit=10)] == [root]


async def test_a_lost_member_closes_it_too(store: Store, clock: ManualClock) -> None:
    await join(store)
    root, _ = await family(store, 1, group_policy=FAST)
    waiting = await add(store, group_id=root, delay=600)
    clock.advance(31)
    await store.rescue(limit=10, max_deliveries=1)
    assert [each.id for each in await store.close_groups(limit=10)] == [waiting]


async def test_a_lone_root_that_dies_closes_nothing(store: Store) -> None:
    root = await start(store, group_policy=FAST)
    assert (await die(store, root)).group_done
    assert await store.close_groups(limit=10) == []


async def test_what_joins_a_closing_group_is_cancelled(store: Store) -> None:
    await join(store)
    root, (first, second) = await family(store, 2, group_policy=FAST)
    await die(store, first)
    await store.close_groups(limit=10)
    late = await add(store, group_id=root)
    assert [each.id for each in await store.close_groups(limit=10)] == [late]
    assert (await end(store, second, Succeeded(result="1"))).group_done


async def test_closing_is_bounded_and_goes_on(store: Store) -> None:
    await join(store)
    root, (first,) = await family(store, 1, group_policy=FAST)
    await enqueue(store, *(new_job(group_id=root, delay=60) for _ in range(5)))
    await die(store, first)
    counts = [len(await store.close_groups(limit=2)) for _ in range(4)]
    assert counts == [2, 2, 1, 0]
    group = await group_of(store, root)
    assert (group.open, group.failed) == (0, 6)


async def test_the_last_one_that_closing_cancels_ends_the_group(store: Store) -> None:
    await join(store)
    root, (first,) = await family(store, 1, group_policy=FAST)
    await enqueue(store, *(new_job(group_id=root, delay=60) for _ in range(3)))
    await die(store, first)
    changed = await store.close_groups(limit=10)
    assert [each.group_id for each in changed] == [root] * 3
    assert sum(each.group_done for each in changed) == 1


async def test_a_group_is_cancelled_whole(store: Store) -> None:
    await join(store)
    root, (first, second) = await family(store, 2)
    waiting = await add(store, group_id=root, delay=60)
    stranger = await add(store, delay=60)
    await succeed(store, first)
    changed = {each.id: each.state for each in await store.cancel_groups([root], limit=10)}
    assert changed == {second.id: JobState.RUNNING, waiting: JobState.CANCELLED}
    assert (await group_of(store, root)).closing
    assert await store.cancel_groups([root], limit=10) == []
    assert (await end(store, second, outcomes()["retry"])).group_done
    assert (await record(store, stranger)).state is JobState.QUEUED


async def test_a_lone_job_is_cancelled_as_its_group(store: Store) -> None:
    job = await add(store)
    (changed,) = await store.cancel_groups([job], limit=10)
    assert (changed.id, changed.state, changed.group_done) == (job, JobState.CANCELLED, True)
    late = await add(store, group_id=job)
    assert [each.id for each in await store.close_groups(limit=10)] == [late]


async def test_cancelling_groups_is_bounded_and_repeated(store: Store) -> None:
    roots = [await add(store, delay=60) for _ in range(2)]
    for root in roots:
        await enqueue(store, *(new_job(group_id=root, delay=60) for _ in range(2)))
    counts = [len(await store.cancel_groups(roots, limit=4)) for _ in range(3)]
    assert counts == [4, 2, 0]


async def test_what_cancelling_left_is_closed_later(store: Store) -> None:
    root = await add(store, delay=60)
    await enqueue(store, *(new_job(group_id=root, delay=60) for _ in range(4)))
    assert len(await store.cancel_groups([root], limit=2)) == 2
    assert len(await store.close_groups(limit=10)) == 3


async def test_unknown_groups_are_not_cancelled(store: Store) -> None:
    unknown = fresh_id()
    assert await store.cancel_groups([unknown], limit=10) == []
    await add(store, id=unknown, delay=60)
    assert not (await group_of(store, unknown)).closing


async def test_a_redrive_takes_the_failure_back_and_ends_the_closing(store: Store) -> None:
    await join(store)
    root, (first, second) = await family(store, 2, group_policy=FAST)
    await die(store, first)
    await store.redrive([JobRedrive(id=first.id)])
    group = await group_of(store, root)
    assert (group.open, group.failed, group.closing) == (2, 0, False)
    assert await store.close_groups(limit=10) == []
    (again,) = await take(store)
    assert again.id == first.id
    assert (await die(store, again)).closing
    assert [each.id for each in await store.close_groups(limit=10)] == [second.id]


async def test_groups_are_closed_also_where_members_came_with_the_root(store: Store) -> None:
    await join(store)
    root = new_job(group_policy=FAST)
    members = [new_job(group_id=root.id, delay=60) for _ in range(2)]
    await store.commit(Effects(jobs=(*members, root)))
    (held,) = await take(store)
    assert (await die(store, held)).closing
    assert {each.id for each in await store.close_groups(limit=10)} == {job.id for job in members}

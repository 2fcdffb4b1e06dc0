"""The value of a group: the last contribution wins, a final one locks, folds are exact."""

from __future__ import annotations

import asyncio

import pytest

from offpath.errors import InvalidArgument
from offpath.model.effects import Effects
from offpath.model.group import Contribution
from offpath.model.settlement import Settlement, SettleStatus, Snoozed, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import (
    add,
    die,
    end,
    enqueue,
    fresh_id,
    join,
    new_job,
    outcomes,
    start,
    succeed,
    take,
    take_one,
)
from tests.conformance.workflow_builders import adding, family, gives, group_of, settle_with


async def test_a_lone_jobs_value_is_its_result(store: Store) -> None:
    job = await start(store)
    before = await group_of(store, job.id)
    assert (before.open, before.failed, before.result, before.done) == (1, 0, None, False)
    await end(store, job, Succeeded(result="7"))
    after = await group_of(store, job.id)
    assert (after.open, after.failed, after.result, after.done) == (0, 0, "7", True)
    assert not after.final


async def test_unknown_groups_are_absent(store: Store) -> None:
    job = await add(store)
    assert [each.id for each in await store.groups([fresh_id(), job, job])] == [job]
    assert await store.groups([]) == []


async def test_members_are_counted_as_they_come_and_end(store: Store) -> None:
    await join(store)
    root, members = await family(store, 3)
    assert (await group_of(store, root)).open == 3
    await succeed(store, members[0])
    await die(store, members[1])
    group = await group_of(store, root)
    assert (group.open, group.failed) == (1, 1)
    await store.cancel([members[2].id])
    assert (await group_of(store, root)).open == 1
    await end(store, members[2], outcomes()["cancelled"])
    group = await group_of(store, root)
    assert (group.open, group.failed, group.done) == (0, 2, True)


async def test_the_group_of_a_member_is_not_a_group_of_its_own(store: Store) -> None:
    await join(store)
    root, members = await family(store, 1)
    assert [each.id for each in await store.groups([members[0].id, root])] == [root]


async def test_the_last_one_to_finish_wins(store: Store) -> None:
    await join(store)
    root, members = await family(store, 3)
    for n, job in enumerate(members):
        await end(store, job, Succeeded(result=str(n)))
    assert (await group_of(store, root)).result == "2"


async def test_in_one_batch_the_last_one_wins(store: Store) -> None:
    await join(store)
    root, members = await family(store, 3)
    await store.settle(
        [
            Settlement(job=job, outcome=Succeeded(result=str(n)))
            for n, job in enumerate(reversed(members))
        ]
    )
    assert (await group_of(store, root)).result == "2"


async def test_a_result_that_does_not_contribute_changes_nothing(store: Store) -> None:
    await join(store)
    root, (first, second) = await family(store, 2)
    await end(store, first, Succeeded(result="1"))
    await end(store, second, Succeeded(result="2", contributes=False))
    assert (await group_of(store, root)).result == "1"


async def test_no_result_contributes_nothing(store: Store) -> None:
    await join(store)
    root, (first, second) = await family(store, 2)
    await end(store, first, Succeeded(result="1"))
    await end(store, second, Succeeded())
    assert (await group_of(store, root)).result == "1"


async def test_a_root_that_had_ended_alone_has_given_its_result(store: Store) -> None:
    root = await start(store)
    await end(store, root, Succeeded(result="1"))
    member = await add(store, group_id=root.id)
    group = await group_of(store, root.id)
    assert (group.open, group.result) == (1, "1")
    await end(store, await take_one(store), Succeeded(result="2"))
    assert (await group_of(store, root.id)).result == "2"
    assert member != root.id


async def test_the_result_of_a_root_with_children_counts_like_any_other(store: Store) -> None:
    root = await start(store)
    await end(store, root, Succeeded(result="1"), effects=[new_job(parent=root.id)])
    assert (await group_of(store, root.id)).result == "1"
    await end(store, await take_one(store), Succeeded(result="2"))
    assert (await group_of(store, root.id)).result == "2"


async def test_a_final_contribution_locks(store: Store) -> None:
    await join(store)
    root, (first, second, third) = await family(store, 3)
    await settle_with(store, first, gives("1", final=True))
    await settle_with(store, second, gives("2", final=True))
    await end(store, third, Succeeded(result="3"))
    group = await group_of(store, root)
    assert (group.result, group.final) == ("1", True)


async def test_a_fold_behind_a_final_one_is_not_called(store: Store) -> None:
    await join(store)
    _, (first, second) = await family(store, 2)
    await settle_with(store, first, gives("1", final=True))

    def never(so_far: str | None, new: str) -> str:
        raise AssertionError

    await settle_with(store, second, gives("2", fold=never))


async def test_a_fold_gets_the_value_so_far(store: Store) -> None:
    await join(store)
    root, (first, second, third) = await family(store, 3)
    await settle_with(store, first, gives("3", fold=adding))
    await settle_with(store, second, gives("4", fold=adding))
    assert (await group_of(store, root)).result == "7"
    await settle_with(store, third, gives("5", final=True, fold=adding))
    group = await group_of(store, root)
    assert (group.result, group.final) == ("12", True)


async def test_several_contributions_of_one_job_are_taken_in_order(store: Store) -> None:
    await join(store)
    root, (job,) = await family(store, 1)
    both = Effects(
        contributions=(
            Contribution(payload="9"),
            Contribution(payload="1", fold=adding),
            Contribution(payload="1", fold=adding),
        )
    )
    await settle_with(store, job, both)
    assert (await group_of(store, root)).result == "11"


async def test_a_lone_job_can_fold_and_lock(store: Store) -> None:
    job = await start(store)
    await settle_with(store, job, gives("4", final=True, fold=adding))
    group = await group_of(store, job.id)
    assert (group.open, group.result, group.final, group.done) == (0, "4", True, True)


async def test_folds_of_one_batch_are_all_counted(store: Store) -> None:
    await join(store)
    root, members = await family(store, 50)
    await store.settle(
        [
            Settlement(
                job=job, outcome=Succeeded(contributes=False), effects=gives("1", fold=adding)
            )
            for job in members
        ]
    )
    assert (await group_of(store, root)).result == "50"


async def test_folds_are_exact_when_all_end_at_once(rivals: tuple[Store, ...]) -> None:
    store = rivals[0]
    await join(store)
    for _ in range(3):
        root, members = await family(store, 100)
        answers = await asyncio.gather(
            *(
                settle_with(rivals[n % 4], job, gives("1", fold=adding))
                for n, job in enumerate(members)
            )
        )
        group = await group_of(store, root)
        assert (group.result, group.open, group.failed) == ("100", 0, 0)
        assert sum(answer.group_done for answer in answers) == 1


async def test_of_final_ones_at_once_one_wins(rivals: tuple[Store, ...]) -> None:
    store = rivals[0]
    await join(store)
    root, members = await family(store, 40)
    await asyncio.gather(
        *(
            settle_with(rivals[n % 4], job, gives(str(n), final=True))
            for n, job in enumerate(members)
        )
    )
    first = await group_of(store, root)
    assert first.final
    assert first.result in {str(n) for n in range(40)}


async def test_a_fold_that_raises_refuses_its_settlement_alone(store: Store) -> None:
    await join(store)
    root, (first, second) = await family(store, 2)

    def broken(so_far: str | None, new: str) -> str:
        raise ValueError(new)

    effects = Effects(
        jobs=(new_job(),), contributions=(Contribution(payload="secret", fold=broken),)
    )
    refused, applied = await store.settle(
        [
            Settlement(job=first, outcome=Succeeded(contributes=False), effects=effects),
            Settlement(job=second, outcome=Succeeded(result="2")),
        ]
    )
    assert refused.status is SettleStatus.REFUSED
    assert "secret" not in str(refused.error)
    assert applied.status is SettleStatus.APPLIED
    group = await group_of(store, root)
    assert (group.open, group.result) == (1, "2")
    assert await take(store) == ()
    await end(store, first, Succeeded(result="1"))
    assert (await group_of(store, root)).result == "1"


@pytest.mark.parametrize("place", range(5))
async def test_a_fold_that_raises_over_what_others_gave_refuses_nobody_else(
    store: Store, place: int
) -> None:
    """By itself it could be stored: there is no value yet that it would be called with."""
    await join(store)
    root, jobs = await family(store, 5)

    def first_only(so_far: str | None, new: str) -> str:
        if so_far is None:
            return new
        raise ValueError(new)

    answers = await store.settle(
        [
            Settlement(
                job=job,
                outcome=Succeeded(contributes=False),
                effects=gives("1", fold=first_only if n == place else adding),
            )
            for n, job in enumerate(jobs)
        ]
    )
    refused = [n for n, one in enumerate(answers) if one.status is SettleStatus.REFUSED]
    assert refused == ([place] if place else [])
    group = await group_of(store, root)
    assert (group.open, group.result) == (len(refused), str(5 - len(refused)))


async def test_a_snoozed_attempt_contributes(store: Store) -> None:
    await join(store)
    root, (job,) = await family(store, 1)
    await settle_with(store, job, gives("1", fold=adding), Snoozed())
    await settle_with(store, await take_one(store), gives("1", fold=adding))
    assert (await group_of(store, root)).result == "2"


@pytest.mark.parametrize("name", ["retry", "dead", "cancelled", "released"])
async def test_what_a_failed_attempt_gave_is_dropped(store: Store, name: str) -> None:
    await join(store)
    root, (job,) = await family(store, 1)
    await settle_with(store, job, gives("1"), outcomes()[name])
    assert (await group_of(store, root)).result is None


async def test_what_a_job_gives_after_its_cancel_is_dropped(store: Store) -> None:
    await join(store)
    root, (job,) = await family(store, 1)
    await store.cancel([job.id])
    await settle_with(store, job, gives("1"), Succeeded(result="2"))
    group = await group_of(store, root)
    assert (group.result, group.failed) == (None, 1)


async def test_nobody_outside_contributes(store: Store) -> None:
    job = new_job()
    with pytest.raises(InvalidArgument, match="contribut"):
        await store.commit(
            Effects(jobs=(job,), contributions=(Contribution(payload="1", final=True),))
        )
    assert await store.get([job.id]) == []


async def test_a_lost_lease_contributes_nothing(store: Store, clock: ManualClock) -> None:
    await join(store)
    root, (job,) = await family(store, 1)
    clock.advance(31)
    await store.rescue(limit=10, max_deliveries=5)
    (answer,) = await store.settle(
        [Settlement(job=job, outcome=Succeeded(result="1"), effects=gives("2", fold=adding))]
    )
    assert answer.status is SettleStatus.LEASE_LOST
    assert (await group_of(store, root)).result is None


async def test_a_group_is_there_as_long_as_one_of_its_jobs(store: Store) -> None:
    root = await start(store)
    child = new_job(parent=root.id)
    await end(store, root, Succeeded(result="1"), effects=[child])
    await end(store, await take_one(store), Succeeded(result="2"))
    await store.delete([root.id])
    group = await group_of(store, root.id)
    assert (group.open, group.result) == (0, "2")
    await store.delete([child.id])
    assert await store.groups([root.id]) == []


async def test_a_pruned_group_is_gone_too(store: Store, clock: ManualClock) -> None:
    root = await start(store)
    await end(store, root, Succeeded(result="1"), effects=[new_job(parent=root.id)], keep=1)
    await end(store, await take_one(store), Succeeded(result="2"), keep=10)
    clock.advance(5)
    await store.prune(limit=10)
    assert (await group_of(store, root.id)).result == "2"
    clock.advance(10)
    await store.prune(limit=10)
    assert await store.groups([root.id]) == []
    await enqueue(store, new_job(id=root.id))
    assert (await group_of(store, root.id)).result is None

"""Gates: what they wait for, when they fire, and what becomes of the jobs that they hold."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from offpath.errors import GateError
from offpath.model.effects import Effects
from offpath.model.gate import Counting, GateState
from offpath.model.settlement import Settlement, Snoozed, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import (
    START,
    TASK,
    add,
    die,
    end,
    enqueue,
    exists,
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
from tests.conformance.workflow_builders import (
    LATER,
    fates,
    gate_of,
    gate_on,
    hold,
    hold_one,
    settle_with,
)

pytestmark = pytest.mark.needs("workflows")

SETTLED = Counting.SETTLED


async def running(store: Store, count: int) -> list[str]:
    """So many running jobs of w1; their ids."""
    await join(store)
    return [await add(store) for _ in range(count)]


async def test_a_gated_job_waits(store: Store) -> None:
    (first,) = await running(store, 1)
    gate = gate_on(first)
    waiting = await hold_one(store, gate)
    assert await fates(store, waiting) == [("blocked", "gate")]
    assert (await record(store, waiting)).gate == gate.id
    assert await take(store, tasks={LATER: 10}) == ()
    known = await gate_of(store, gate)
    assert (known.state, known.on, known.need, known.of) == (
        GateState.OPEN,
        (first,),
        1,
        Counting.SUCCEEDED,
    )


async def test_it_is_released_when_all_have_succeeded(store: Store) -> None:
    ids = await running(store, 3)
    gate = gate_on(*ids)
    waiting = await hold(store, gate, 2)
    jobs = await take(store)
    for n, job in enumerate(jobs):
        assert (await gate_of(store, gate)).succeeded == n
        assert await take(store, tasks={LATER: 10}) == ()
        await succeed(store, job)
    assert (await gate_of(store, gate)).state is GateState.FIRED
    assert [job.id for job in await take(store, tasks={LATER: 10})] == waiting
    assert (await record(store, waiting[0])).gate is None


async def test_it_fires_with_the_last_of_a_batch(store: Store) -> None:
    ids = await running(store, 20)
    gate = gate_on(*ids)
    waiting = await hold_one(store, gate)
    batch = [Settlement(job=job, outcome=Succeeded()) for job in await take(store)]
    await store.settle(batch)
    assert [job.id for job in await take(store, tasks={LATER: 10})] == [waiting]
    await store.settle(batch)  # a repeat counts nothing
    assert (await gate_of(store, gate)).succeeded == 20


async def test_it_fires_once_when_all_end_at_once(rivals: tuple[Store, ...]) -> None:
    store = rivals[0]
    await join(store)
    for _ in range(3):
        ids = [await add(store) for _ in range(40)]
        gate = gate_on(*ids)
        waiting = await hold(store, gate, 3)
        jobs = await take(store)
        await asyncio.gather(*(succeed(rivals[n % 4], job) for n, job in enumerate(jobs)))
        await store.expire_blocked(limit=100)  # what could not be released at once
        released = await take(store, tasks={LATER: 10})
        assert [job.id for job in released] == waiting
        assert (await gate_of(store, gate)).succeeded == 40
        for job in released:
            await succeed(store, job)


@pytest.mark.parametrize("of", list(Counting))
@pytest.mark.parametrize("need", [1, 2, 3])
async def test_at_least_so_many(store: Store, of: Counting, need: int) -> None:
    ids = await running(store, 3)
    gate = gate_on(*ids, need=need, of=of)
    waiting = await hold_one(store, gate)
    jobs = await take(store)
    for n, job in enumerate(jobs, start=1):
        await succeed(store, job)
        fired = (await gate_of(store, gate)).state is GateState.FIRED
        assert fired == (n >= need)
    assert [job.id for job in await take(store, tasks={LATER: 10})] == [waiting]


async def test_any_that_succeeds_outweighs_those_that_failed(store: Store) -> None:
    ids = await running(store, 3)
    waiting = await hold_one(store, gate_on(*ids, need=1))
    first, second, third = await take(store)
    await die(store, first)
    await die(store, second)
    assert await fates(store, waiting) == [("blocked", "gate")]
    await succeed(store, third)
    assert await fates(store, waiting) == [("queued", None)]


async def test_too_many_failures_end_the_waiting_at_once(store: Store) -> None:
    ids = await running(store, 3)
    gate = gate_on(*ids, need=2)
    waiting = await hold(store, gate, 2)
    first, second, third = await take(store)
    await die(store, first)
    assert await fates(store, *waiting) == [("blocked", "gate")] * 2
    await die(store, second, keep=60)
    assert await fates(store, *waiting) == [("dead", "unsatisfiable")] * 2
    known = await gate_of(store, gate)
    assert (known.state, known.succeeded, known.failed) == (GateState.UNSATISFIABLE, 0, 2)
    dead = await record(store, waiting[0])
    assert dead.failure is not None
    assert dead.finished_at is not None
    await succeed(store, third)  # too late to matter
    assert (await gate_of(store, gate)).state is GateState.UNSATISFIABLE


async def test_all_settled_counts_failures_too(store: Store) -> None:
    ids = await running(store, 3)
    waiting = await hold_one(store, gate_on(*ids, of=SETTLED))
    first, second, third = await take(store)
    await die(store, first)
    await end(store, second, outcomes()["cancelled"])
    await succeed(store, third)
    assert await fates(store, waiting) == [("queued", None)]


async def test_a_gate_on_nothing_fires_as_it_is_made(store: Store) -> None:
    gate = gate_on()
    waiting = await hold_one(store, gate)
    await join(store)
    assert [job.id for job in await take(store, tasks={LATER: 1})] == [waiting]


async def test_what_has_ended_before_counts_at_once(store: Store) -> None:
    first = await start(store)
    await succeed(store, first)
    second = await start(store)
    await die(store, second)
    fired = await hold_one(store, gate_on(first.id))
    hopeless = await hold_one(store, gate_on(first.id, second.id))
    settled = await hold_one(store, gate_on(first.id, second.id, of=SETTLED))
    assert await fates(store, fired, hopeless, settled) == [
        ("queued", None),
        ("dead", "unsatisfiable"),
        ("queued", None),
    ]


async def test_a_job_may_join_a_gate_that_is_stored(store: Store) -> None:
    (first,) = await running(store, 1)
    gate = gate_on(first)
    early = await hold_one(store, gate)
    late = await add(store, LATER, gate=gate.id)
    assert await fates(store, late) == [("blocked", "gate")]
    await succeed(store, await take_one(store))
    assert [job.id for job in await take(store, tasks={LATER: 5})] == [early, late]
    behind = await add(store, LATER, gate=gate.id)
    assert [job.id for job in await take(store, tasks={LATER: 5})] == [behind]


async def test_jobs_of_one_commit_may_watch_each_other(store: Store) -> None:
    await join(store)
    first, second, third = new_job(), new_job(), new_job()
    after_first, after_second = gate_on(first.id), gate_on(second.id)
    chain = (
        first,
        new_job(id=second.id, gate=after_first.id),
        new_job(id=third.id, gate=after_second.id),
    )
    await store.commit(Effects(jobs=chain, gates=(after_second, after_first)))
    order = []
    for _ in range(3):
        job = await take_one(store)
        order.append(job.id)
        await succeed(store, job)
    assert order == [first.id, second.id, third.id]


async def test_what_follows_a_settled_job_starts_with_its_end(store: Store) -> None:
    job = await start(store)
    gate = gate_on(job.id)
    following = new_job(LATER, gate=gate.id)
    answer = await settle_with(
        store, job, Effects(jobs=(following,), gates=(gate,)), Succeeded(result="1")
    )
    assert not answer.group_done
    (then,) = await take(store, tasks={LATER: 1})
    assert (then.id, then.group_id) == (following.id, job.id)
    assert (await succeed(store, then)).group_done


async def test_a_snoozed_job_may_leave_a_gate_behind(store: Store) -> None:
    job = await start(store)
    gate = gate_on(job.id)
    following = new_job(LATER, gate=gate.id)
    await settle_with(store, job, Effects(jobs=(following,), gates=(gate,)), Snoozed())
    assert await fates(store, following.id) == [("blocked", "gate")]
    await succeed(store, await take_one(store))
    assert await fates(store, following.id) == [("queued", None)]


async def test_a_fan_in_of_children(store: Store) -> None:
    root = await start(store)
    children = [new_job(parent=root.id) for _ in range(5)]
    gate = gate_on(*(job.id for job in children))
    last = new_job(LATER, gate=gate.id, parent=root.id)
    await settle_with(store, root, Effects(jobs=(*children, last), gates=(gate,)))
    done = [(await succeed(store, job)).group_done for job in await take(store)]
    assert done == [False] * 5
    (fan_in,) = await take(store, tasks={LATER: 1})
    assert (await succeed(store, fan_in)).group_done


async def test_a_chain_dies_whole(store: Store) -> None:
    first = await start(store)
    ids = [first.id]
    for _ in range(5):
        ids.append(await hold_one(store, gate_on(ids[-1]), group_id=first.id))
    unharmed = await hold_one(store, gate_on(ids[2], of=SETTLED))
    answer = await die(store, first)
    assert await fates(store, *ids[1:]) == [("dead", "unsatisfiable")] * 5
    assert await fates(store, unharmed) == [("queued", None)]
    assert answer.group_done


async def test_one_job_may_open_many_gates(store: Store) -> None:
    first = await start(store)
    waiting = [await hold_one(store, gate_on(first.id)) for _ in range(10)]
    await succeed(store, first)
    assert sorted(job.id for job in await take(store, tasks={LATER: 20})) == waiting


async def test_an_unknown_job_is_refused(store: Store) -> None:
    gate = gate_on(fresh_id())
    job, other = new_job(LATER, gate=gate.id), new_job()
    with pytest.raises(GateError):
        await store.commit(Effects(jobs=(other, job), gates=(gate,)))
    assert not await exists(store, job.id)
    assert not await exists(store, other.id)
    assert await store.gates([gate.id]) == []


async def test_an_unknown_gate_is_refused(store: Store) -> None:
    with pytest.raises(GateError):
        await enqueue(store, new_job(gate=fresh_id()))


async def test_a_settlement_with_an_impossible_gate_is_refused_alone(store: Store) -> None:
    job = await start(store)
    gate = gate_on(fresh_id())
    bad = Effects(jobs=(new_job(LATER, gate=gate.id),), gates=(gate,))
    (answer,) = await store.settle([Settlement(job=job, outcome=Succeeded(), effects=bad)])
    assert isinstance(answer.error, GateError)
    await succeed(store, job)


async def test_an_unknown_job_may_still_come_where_there_is_a_timeout(store: Store) -> None:
    coming = fresh_id()
    waiting = await hold_one(store, gate_on(coming, timeout=60))
    assert await fates(store, waiting) == [("blocked", "gate")]
    await join(store)
    await add(store, id=coming)
    await succeed(store, await take_one(store))
    assert await fates(store, waiting) == [("queued", None)]


async def test_watching_a_job_that_attached_means_its_holder(store: Store) -> None:
    await join(store)
    holder = await add(store, unique=unique("k"))
    attached = new_job(unique=unique("k"))
    gate = gate_on(attached.id)
    waiting = new_job(LATER, gate=gate.id)
    answers = await store.commit(Effects(jobs=(attached, waiting), gates=(gate,)))
    assert answers[0].job_id == holder
    assert (await gate_of(store, gate)).on == (holder,)
    await succeed(store, await take_one(store))
    assert await fates(store, waiting.id) == [("queued", None)]


async def test_a_job_that_attached_to_one_of_its_own_call_is_watched_as_that(store: Store) -> None:
    await join(store)
    holder, attached = new_job(unique=unique("k")), new_job(unique=unique("k"))
    gate = gate_on(attached.id)
    waiting = new_job(LATER, gate=gate.id)
    answers = await store.commit(Effects(jobs=(holder, attached, waiting), gates=(gate,)))
    assert [one.job_id for one in answers] == [holder.id, holder.id, waiting.id]
    assert (await gate_of(store, gate)).on == (holder.id,)
    await succeed(store, await take_one(store))
    assert await fates(store, waiting.id) == [("queued", None)]


async def test_making_a_gate_again_changes_nothing(store: Store) -> None:
    ids = await running(store, 2)
    gate = gate_on(*ids)
    job = new_job(LATER, gate=gate.id)
    effects = Effects(jobs=(job,), gates=(gate,))
    await store.commit(effects)
    first, second = await take(store)
    await succeed(store, first)
    (again,) = await store.commit(effects)
    assert not again.created
    assert (await gate_of(store, gate)).succeeded == 1
    await succeed(store, second)
    (again,) = await store.commit(effects)
    assert not again.created
    assert await fates(store, job.id) == [("queued", None)]


# -- time ----------------------------------------------------------------------------------------


async def test_delays_count_from_the_release(store: Store, clock: ManualClock) -> None:
    (first,) = await running(store, 1)
    waiting = await hold_one(store, gate_on(first), delay=10, deadline_in=20)
    assert (await record(store, waiting)).deadline is None
    clock.advance(25)
    await join(store)
    await succeed(store, await take_one(store))
    released = await record(store, waiting)
    assert released.run_at == START + timedelta(seconds=35)
    assert released.deadline == START + timedelta(seconds=45)
    assert await take(store, tasks={LATER: 1}) == ()
    clock.advance(10)
    assert len(await take(store, tasks={LATER: 1})) == 1


async def test_moments_stay_as_they_are(store: Store, clock: ManualClock) -> None:
    (first,) = await running(store, 1)
    run_at, deadline = START + timedelta(seconds=10), START + timedelta(seconds=50)
    waiting = await hold_one(store, gate_on(first), run_at=run_at, deadline=deadline)
    clock.advance(25)
    await join(store)
    await succeed(store, await take_one(store))
    released = await record(store, waiting)
    assert (released.run_at, released.deadline) == (run_at, deadline)
    assert len(await take(store, tasks={LATER: 1})) == 1


async def test_a_gate_gives_up_when_its_time_is_over(store: Store, clock: ManualClock) -> None:
    first, second = await running(store, 2)
    gate = gate_on(first, timeout=10)
    waiting = await hold(store, gate, 2)
    patient = await hold_one(store, gate_on(second, timeout=100))
    assert (await gate_of(store, gate)).deadline == START + timedelta(seconds=10)
    clock.advance(9)
    assert await store.expire_blocked(limit=10) == []
    clock.advance(2)
    changed = await store.expire_blocked(limit=10, keep=60)
    assert {each.id for each in changed} == set(waiting)
    assert all(each.group_done for each in changed)
    assert await fates(store, *waiting) == [("dead", "gate_timeout")] * 2
    assert await fates(store, patient) == [("blocked", "gate")]
    assert (await gate_of(store, gate)).state is GateState.TIMED_OUT
    dead = await record(store, waiting[0])
    assert dead.failure is not None
    assert dead.expires_at is not None
    assert await store.expire_blocked(limit=10) == []


async def test_one_that_fired_does_not_time_out(store: Store, clock: ManualClock) -> None:
    (first,) = await running(store, 1)
    gate = gate_on(first, timeout=10)
    waiting = await hold_one(store, gate)
    await succeed(store, await take_one(store))
    clock.advance(20)
    assert await store.expire_blocked(limit=10) == []
    assert await fates(store, waiting) == [("queued", None)]


async def test_a_gate_that_timed_out_counts_no_more(store: Store, clock: ManualClock) -> None:
    (first,) = await running(store, 1)
    gate = gate_on(first, timeout=10)
    waiting = await hold_one(store, gate)
    clock.advance(20)
    await store.expire_blocked(limit=10)
    await join(store)
    await succeed(store, await take_one(store))
    assert await fates(store, waiting) == [("dead", "gate_timeout")]


async def test_expiring_is_bounded_and_goes_on(store: Store, clock: ManualClock) -> None:
    (first,) = await running(store, 1)
    waiting = await hold(store, gate_on(first, timeout=10), 5)
    clock.advance(20)
    counts = [len(await store.expire_blocked(limit=2)) for _ in range(4)]
    assert counts == [2, 2, 1, 0]
    assert await fates(store, *waiting) == [("dead", "gate_timeout")] * 5


async def test_an_absolute_deadline_passes_at_a_gate(store: Store, clock: ManualClock) -> None:
    (first,) = await running(store, 1)
    deadline = START + timedelta(seconds=5)
    waiting = await hold_one(store, gate_on(first, timeout=2), deadline=deadline)
    open_ended = await hold_one(store, gate_on(first), deadline=deadline)
    clock.advance(6)
    assert len(await store.expire_blocked(limit=10)) == 2
    assert await fates(store, waiting, open_ended) == [("dead", "deadline")] * 2


async def test_a_death_by_timeout_goes_on_along_the_chain(store: Store, clock: ManualClock) -> None:
    (first,) = await running(store, 1)
    second = await hold_one(store, gate_on(first, timeout=10))
    third = await hold_one(store, gate_on(second))
    always = await hold_one(store, gate_on(second, of=SETTLED))
    clock.advance(20)
    await store.expire_blocked(limit=10)
    assert await fates(store, third, always) == [("dead", "unsatisfiable"), ("queued", None)]


# -- what is left --------------------------------------------------------------------------------


async def test_a_gate_goes_with_the_last_job_that_it_held(store: Store) -> None:
    (first,) = await running(store, 1)
    gate = gate_on(first)
    waiting = await hold(store, gate, 2)
    await store.cancel(waiting)
    await store.delete(waiting[:1])
    assert (await gate_of(store, gate)).on == (first,)
    await store.delete(waiting[1:])
    assert await store.gates([gate.id]) == []
    assert (await succeed(store, await take_one(store, task=TASK))).group_done


async def test_watched_jobs_may_be_removed_when_they_have_counted(store: Store) -> None:
    ids = await running(store, 2)
    gate = gate_on(*ids)
    waiting = await hold_one(store, gate)
    first, second = await take(store)
    await succeed(store, first)
    await store.delete([first.id])
    await succeed(store, second)
    assert await fates(store, waiting) == [("queued", None)]


async def test_unknown_gates_are_absent(store: Store) -> None:
    assert await store.gates([fresh_id()]) == []
    assert await store.gates([]) == []

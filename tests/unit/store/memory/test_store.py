"""The memory backend's own parts; tests/conformance has what all share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from offpath.errors import CapabilityMissing, StoreRejected
from offpath.model.effects import Effects
from offpath.model.job import DeadReason, JobFilter, JobState, LeasedJob, UniquePolicy
from offpath.model.lease import LeaseRequest
from offpath.model.settlement import (
    Dead,
    Outcome,
    Released,
    Retry,
    Settlement,
    SettleStatus,
    Snoozed,
    Succeeded,
)
from offpath.runtime.clock import ManualClock, SystemClock
from offpath.store.hints import Hint
from offpath.store.memory import MemoryStore
from offpath.store.memory.lease import _PROMOTED_AT_ONCE
from offpath.store.protocol import JobRedrive
from tests.conformance.builders import (
    TASK,
    add,
    ask,
    enqueue,
    failure,
    join,
    new_job,
    start,
    take,
    take_one,
    uid,
    unique,
    worker_info,
)
from tests.unit.store.memory.audit import audit


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock)


async def test_it_lives_by_the_machines_clock_unless_told() -> None:
    assert abs(await MemoryStore().ping() - SystemClock().now()) < timedelta(seconds=10)


async def test_it_joins_no_transaction(store: MemoryStore) -> None:
    effects = Effects(jobs=(new_job(),))
    with pytest.raises(CapabilityMissing, match="sqlite"):
        await store.commit_within(object(), effects)
    with pytest.raises(CapabilityMissing, match="sqlite"):
        store.commit_within_blocking(object(), effects)
    assert await store.count(JobFilter()) == []


async def test_there_is_nothing_to_migrate(store: MemoryStore) -> None:
    assert (await store.migrate(), await store.migrations()) == ([], [])
    assert store.capabilities.self_migrating
    assert await store.notice_deaths() == []


async def test_closing_keeps_what_it_holds(store: MemoryStore) -> None:
    job_id = await add(store)
    await store.close()
    await store.open()
    assert await store.states([job_id]) == {job_id: JobState.QUEUED}


# -- hints -----------------------------------------------------------------------------------------

Act = Callable[[MemoryStore, LeasedJob], Awaitable[object]]


def _settling(outcome: Outcome) -> Act:
    async def act(store: MemoryStore, job: LeasedJob) -> object:
        return await store.settle([Settlement(job=job, outcome=outcome)])

    return act


async def _with_child(store: MemoryStore, job: LeasedJob) -> object:
    effects = Effects(jobs=(new_job(),))
    return await store.settle([Settlement(job=job, outcome=Succeeded(), effects=effects)])


async def _rescue(store: MemoryStore, _: LeasedJob) -> object:
    await store.deregister("w1")
    return await store.rescue(limit=10, max_deliveries=3)


async def _rescue_dead(store: MemoryStore, _: LeasedJob) -> object:
    await store.deregister("w1")
    return await store.rescue(limit=10, max_deliveries=1)


async def _redrive(store: MemoryStore, job: LeasedJob) -> object:
    return await store.redrive([JobRedrive(id=job.id)])


async def _redrive_waiting(store: MemoryStore, _: LeasedJob) -> object:
    (waiting,) = (await store.find(JobFilter(states=(JobState.QUEUED,)))).items
    return await store.redrive([JobRedrive(id=waiting.id)])


async def _cancel_running(store: MemoryStore, job: LeasedJob) -> object:
    return await store.cancel([job.id])


async def _cancel_waiting(store: MemoryStore, _: LeasedJob) -> object:
    (waiting,) = (await store.find(JobFilter(states=(JobState.QUEUED,)))).items
    return await store.cancel([waiting.id])


_DEAD = Dead(reason=DeadReason.EXHAUSTED, failure=failure())


@pytest.mark.parametrize(
    ("act", "hints"),
    [
        (lambda store, _: enqueue(store, new_job()), {Hint.WORK}),
        (lambda store, _: enqueue(store, new_job(delay=9)), {Hint.WORK}),
        (_settling(Succeeded()), {Hint.ENDED}),
        (_settling(_DEAD), {Hint.ENDED}),
        (_settling(Retry(delay=3, failure=failure())), {Hint.WORK}),
        (_settling(Snoozed(delay=3)), {Hint.WORK}),
        (_settling(Released()), {Hint.WORK}),
        (_with_child, {Hint.WORK, Hint.ENDED}),
        (_rescue, {Hint.WORK}),
        (_rescue_dead, {Hint.ENDED}),
        (_redrive, set()),
        (_redrive_waiting, {Hint.WORK}),
        (_cancel_running, {Hint.CANCEL}),
        (_cancel_waiting, {Hint.ENDED}),
        (lambda store, _: store.cancel([uid(1)]), set()),
        (lambda store, _: store.prune(limit=10), set()),
    ],
)
async def test_each_transition_tells_who_should_look(
    store: MemoryStore, act: Act, hints: set[Hint]
) -> None:
    job = await start(store)
    await add(store, delay=100)
    heard: list[Hint] = []
    stop = store.listen(heard.append)

    await act(store, job)
    stop()
    await enqueue(store, new_job())

    assert set(heard) == hints


async def test_a_lost_settlement_tells_nobody(store: MemoryStore) -> None:
    job = await start(store)
    await _settling(Succeeded())(store, job)
    heard: list[Hint] = []
    store.listen(heard.append)
    await _settling(Succeeded())(store, job)
    assert heard == []


async def test_a_listener_sees_the_state_that_it_is_told_about(store: MemoryStore) -> None:
    seen: list[int] = []
    store.listen(lambda _: seen.append(len(store._tables.jobs)))
    await enqueue(store, new_job(), new_job())
    assert seen == [2]


# -- promotion -------------------------------------------------------------------------------------


async def test_promotion_is_bounded_and_says_so(store: MemoryStore, clock: ManualClock) -> None:
    many = _PROMOTED_AT_ONCE + 5
    await join(store)
    await enqueue(store, *(new_job(delay=1) for _ in range(many)))
    clock.advance(1)

    first = await ask(store, limit=many)
    assert (len(first.jobs), first.more) == (_PROMOTED_AT_ONCE, True)
    assert first.due_in == 0.0
    second = await ask(store, limit=many)
    assert (len(second.jobs), second.more, second.due_in) == (5, False, None)


async def test_what_is_due_counts_as_backlog_before_it_is_promoted(
    store: MemoryStore, clock: ManualClock
) -> None:
    await add(store, delay=5)
    await add(store, delay=50)
    clock.advance(6)
    (lane,) = await store.backlog()
    assert (lane.ready, lane.oldest_run_at) == (1, clock.now() - timedelta(seconds=1))


# -- nothing stays behind --------------------------------------------------------------------------


async def _run_all(store: MemoryStore, *, keep: float | None) -> None:
    while jobs := await take(store):
        await store.settle([Settlement(job=job, outcome=Succeeded(), keep=keep) for job in jobs])


async def test_finished_jobs_are_in_no_index_that_the_hot_path_walks(store: MemoryStore) -> None:
    await join(store)
    await enqueue(store, *(new_job(queue=f"q{n % 50}") for n in range(500)))
    await _run_all(store, keep=None)
    tables = store._tables
    assert len(tables.jobs) == 500
    assert list(tables.lanes) == []
    assert tables.held == {}
    assert (tables.keys, len(tables.expiring)) == ({}, 0)
    audit(store)


async def test_a_pruned_store_is_as_empty_as_a_new_one(
    store: MemoryStore, clock: ManualClock
) -> None:
    await join(store, "w1")
    root = new_job(unique=unique("k"), deadline_in=5)
    children = [new_job(group_id=root.id, unique=unique(f"c{n}")) for n in range(30)]
    await enqueue(store, root, *children)
    await store.claim("once", "w1", ttl=10)
    await _run_all(store, keep=5)
    clock.advance(11)

    assert [(await store.prune(limit=20)).total for _ in range(3)] == [20, 11, 0]
    await store.deregister("w1")
    clock.advance(3600)
    assert (await store.prune(limit=20)).total == 0

    tables = store._tables
    assert [tables.jobs, tables.keys, tables.claims, tables.workers, tables.held] == [{}] * 5
    groups = tables.groups
    assert [tables._terms, groups.members, groups.open, groups.rows] == [{}] * 4
    assert dict(tables.tally.items()) == {}
    assert len(tables.expiring) == len(tables.expiring_claims) == 0


async def test_a_claim_that_is_renewed_is_pruned_at_its_new_time(
    store: MemoryStore, clock: ManualClock
) -> None:
    assert await store.claim("name", "a", ttl=5)
    clock.advance(5)
    assert await store.claim("name", "b", ttl=5)
    await store.prune(limit=10)
    assert not await store.claim("name", "a", ttl=5)
    clock.advance(5)
    await store.prune(limit=10)
    assert store._tables.claims == {}
    assert await store.claim("name", "c")
    await store.prune(limit=10)
    assert not await store.claim("name", "a")
    audit(store)


async def test_redriving_for_ever_leaves_no_trace(store: MemoryStore) -> None:
    await add(store, delay=1e6)
    job_id = await add(store)
    for n in range(2_000):
        await store.cancel([job_id], keep=100 + n)
        await store.redrive([JobRedrive(id=job_id, delay=n)])
    audit(store)
    (lane,) = store._tables.lanes
    assert len(lane.scheduled._entries) + len(lane.ready._entries) < 200
    assert len(store._tables.expiring._entries) < 200


# -- atomicity -------------------------------------------------------------------------------------

_NEVER = 1e300


async def test_a_time_that_cannot_be_is_refused_before_anything_changes(
    store: MemoryStore, clock: ManualClock
) -> None:
    job = await start(store)
    other = await add(store)
    before = await store.get([job.id, other])

    with pytest.raises(StoreRejected):
        await enqueue(store, new_job(), new_job(delay=_NEVER))
    with pytest.raises(StoreRejected):
        await enqueue(store, new_job(), new_job(deadline_in=float("nan")))
    with pytest.raises(StoreRejected):
        await enqueue(store, new_job(), new_job(unique=unique("k", period=_NEVER)))
    with pytest.raises(StoreRejected):
        await store.cancel([job.id, other], keep=_NEVER)
    with pytest.raises(StoreRejected):
        await store.redrive([JobRedrive(id=other), JobRedrive(id=job.id, delay=_NEVER)])
    with pytest.raises(StoreRejected):
        await store.register(worker_info("w2"), lease_seconds=_NEVER)
    with pytest.raises(StoreRejected):
        await store.claim("name", "a", ttl=_NEVER)
    clock.advance(60)
    with pytest.raises(StoreRejected):
        await store.rescue(limit=10, max_deliveries=1, keep=_NEVER)

    assert await store.get([job.id, other]) == before
    assert sum(each.count for each in await store.count(JobFilter())) == 2
    assert [each.info.id for each in await store.workers()] == ["w1"]
    assert await store.claim("name", "b")
    audit(store)


@pytest.mark.parametrize(
    "outcome",
    [Retry(delay=_NEVER, failure=failure()), Snoozed(delay=_NEVER), Succeeded()],
)
async def test_a_settlement_with_an_impossible_time_is_refused_alone(
    store: MemoryStore, outcome: Outcome
) -> None:
    await join(store)
    await enqueue(store, new_job(), new_job())
    bad, good = await take(store)
    answers = await store.settle(
        [
            Settlement(job=bad, outcome=outcome, keep=_NEVER),
            Settlement(job=good, outcome=Succeeded()),
        ]
    )
    assert [each.status for each in answers] == [SettleStatus.REFUSED, SettleStatus.APPLIED]
    assert isinstance(answers[0].error, StoreRejected)
    assert (await store.states([bad.id]))[bad.id] is JobState.RUNNING
    audit(store)


async def test_a_job_may_queue_its_successor_under_its_own_key(store: MemoryStore) -> None:
    """A chain: each job of it ends and hands its unique key to the next in one transition."""
    job = await start(store, unique=unique("chain"))
    for _ in range(3):
        nxt = new_job(unique=unique("chain"), input='{"next":1}')
        (answer,) = await store.settle(
            [Settlement(job=job, outcome=Succeeded(), effects=Effects(jobs=(nxt,)))]
        )
        assert [each.created for each in answer.enqueued] == [True]
        assert store._tables.keys == {f"{TASK}:chain": nxt.id}
        job = await take_one(store)
    audit(store)


async def test_a_lane_whose_room_is_used_up_does_not_hide_the_others(store: MemoryStore) -> None:
    await join(store)
    busy = [new_job("busy", priority=9, queue=f"q{n}") for n in range(3)]
    await enqueue(store, *busy, new_job("calm"))
    request = LeaseRequest(worker="w1", limit=10, tasks={"busy": 1, "calm": 5})
    got = await store.lease(request)
    assert [job.task for job in got.jobs] == ["busy", "calm"]
    audit(store)


# -- edges -----------------------------------------------------------------------------------------


async def test_a_lease_is_over_at_its_end(store: MemoryStore, clock: ManualClock) -> None:
    await join(store, lease=10)
    await enqueue(store, new_job(), new_job())
    clock.advance(9.999)
    assert len(await take(store, limit=1)) == 1
    clock.advance(0.001)
    assert await take(store, limit=1) == ()
    assert [each.late for each in await store.workers()] == [True]


async def test_a_key_is_free_at_the_end_of_its_period(
    store: MemoryStore, clock: ManualClock
) -> None:
    claim = unique("k", period=10.0)
    first, second, third = (new_job(unique=claim) for _ in range(3))
    await enqueue(store, first)
    clock.advance(9.999)
    assert [each.job_id for each in await enqueue(store, second)] == [first.id]
    clock.advance(0.001)
    assert [each.job_id for each in await enqueue(store, third)] == [third.id]
    audit(store)


async def test_a_replaced_job_is_redriven_with_the_new_deadline(
    store: MemoryStore, clock: ManualClock
) -> None:
    claim = unique("k", policy=UniquePolicy.REPLACE)
    job_id = await add(store, unique=claim, deadline_in=5)
    (answer,) = await enqueue(store, new_job(unique=claim, deadline_in=70))
    assert (answer.job_id, answer.created) == (job_id, False)
    await store.cancel([job_id])
    clock.advance(100)
    await store.redrive([JobRedrive(id=job_id)])
    (stored,) = await store.get([job_id])
    assert stored.deadline == clock.now() + timedelta(seconds=70)

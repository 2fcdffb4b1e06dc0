"""After any run of calls: what entered a state and did not leave it is what is there."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest

from offpath.model.effects import Effects
from offpath.model.job import JobFilter, JobRecord, JobState, LeasedJob
from offpath.model.settlement import Settlement, SettleStatus
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.builders import ask, enqueue, join, new_job, outcomes, uid

TASKS = {"a": 3, "b": 2}
WORKERS = ("w1", "w2", "w3")


class Ledger:
    """Books every transition that a store reports, and nothing else."""

    def __init__(self) -> None:
        self.entered: Counter[JobState] = Counter()
        self.left: Counter[JobState] = Counter()
        self.groups_done: Counter[str] = Counter()
        self.redriven = 0

    def move(self, was: JobState | None, state: JobState | None) -> None:
        if was is state:
            return
        if was is not None:
            self.left[was] += 1
        if state is not None:
            self.entered[state] += 1

    def rows(self) -> dict[JobState, int]:
        left = {state: self.entered[state] - self.left[state] for state in JobState}
        return {state: count for state, count in left.items() if count}


class Walk:
    """Random calls on one store, each answer booked."""

    def __init__(self, store: Store, clock: ManualClock, seed: int) -> None:
        self.store = store
        self.clock = clock
        self.random = random.Random(seed)
        self.ledger = Ledger()
        self.ids = [uid(n) for n in range(1, 41)]

    async def step(self) -> None:
        often = [self.lease, self.settle] * 2
        rarely = [self.add, self.cancel, self.redrive, self.rescue, self.beat, self.delete]
        call = self.random.choice([*often, *rarely, self.prune])
        await call()

    def some(self, count: int) -> list[str]:
        return self.random.sample(self.ids, count)

    async def add(self) -> None:
        jobs = [
            new_job(
                self.random.choice("ab"),
                id=job_id,
                fingerprint="same",
                delay=self.random.choice([0, 0, 5]),
            )
            for job_id in self.some(3)
        ]
        for answer in await enqueue(self.store, *jobs):
            if answer.created:
                self.ledger.move(None, JobState.QUEUED)

    async def lease(self) -> None:
        worker = self.random.choice(WORKERS)
        for _ in (await ask(self.store, worker, limit=4, tasks=TASKS)).jobs:
            self.ledger.move(JobState.QUEUED, JobState.RUNNING)

    async def settle(self) -> None:
        """Settle some of what runs; half of the effects are new, half exist."""
        running = await self.store.find(JobFilter(states=(JobState.RUNNING,)))
        batch = []
        for job in running.items[:4]:
            outcome = self.random.choice(list(outcomes().values()))
            child = new_job("a", id=self.some(1)[0], fingerprint="same", parent=job.id)
            effects = Effects(jobs=(child,) if self.random.random() < 0.5 else ())
            batch.append(Settlement(job=_leased(job), outcome=outcome, effects=effects, keep=10))
        for answer in await self.store.settle(batch):
            assert answer.status is SettleStatus.APPLIED
            self.ledger.move(JobState.RUNNING, answer.state)
            self._group(
                answer.group_done, next(j.group_id for j in running.items if j.id == answer.id)
            )
            for child_answer in answer.enqueued:
                if child_answer.created:
                    self.ledger.move(None, JobState.QUEUED)

    async def cancel(self) -> None:
        for changed in await self.store.cancel(self.some(3), keep=10):
            self.ledger.move(changed.was, changed.state)
            self._group(changed.group_done, changed.group_id)

    async def redrive(self) -> None:
        for changed in await self.store.redrive([JobRedrive(id=one) for one in self.some(3)]):
            self.ledger.move(changed.was, changed.state)

    async def delete(self) -> None:
        for changed in await self.store.delete(self.some(2)):
            self.ledger.move(changed.was, None)

    async def prune(self) -> None:
        self.clock.advance(self.random.choice([0, 6]))
        before = await census(self.store)
        count = (await self.store.prune(limit=3)).jobs
        after = await census(self.store)
        for state in JobState:
            for _ in range(before.get(state, 0) - after.get(state, 0)):
                assert state.terminal
                self.ledger.move(state, None)
                count -= 1
        assert count == 0

    async def rescue(self) -> None:
        for one in await self.store.rescue(limit=3, max_deliveries=2, keep=10):
            self.ledger.move(JobState.RUNNING, one.state)
            self._group(one.group_done, one.job.group_id)

    async def beat(self) -> None:
        self.clock.advance(self.random.choice([0, 2, 12]))
        await join(self.store, self.random.choice(WORKERS))

    def _group(self, done: bool, group_id: str) -> None:
        if done:
            self.ledger.groups_done[group_id] += 1

    async def finish(self) -> None:
        """Bring every job to an end."""
        while True:
            self.clock.advance(60)
            await join(self.store, "last")
            for changed in await self.store.cancel(self.ids, keep=None):
                self.ledger.move(changed.was, changed.state)
                self._group(changed.group_done, changed.group_id)
            rescued = await self.store.rescue(limit=100, max_deliveries=9)
            for one in rescued:
                self.ledger.move(JobState.RUNNING, one.state)
                self._group(one.group_done, one.job.group_id)
            if not await self.store.count(JobFilter(states=(JobState.QUEUED, JobState.RUNNING))):
                return


def _leased(job: JobRecord) -> LeasedJob:
    assert job.worker is not None
    return LeasedJob(
        id=job.id,
        task=job.task,
        queue=job.queue,
        input=job.input,
        worker=job.worker,
        deliveries=job.deliveries,
        attempt=job.attempt,
        options=job.options,
        group_id=job.group_id,
        priority=job.priority,
        run_at=job.run_at,
        enqueued_at=job.enqueued_at,
    )


async def census(store: Store) -> dict[JobState, int]:
    """The number of rows of each state."""
    counts: Counter[JobState] = Counter()
    for one in await store.count(JobFilter()):
        counts[one.state] += one.count
    return dict(counts)


@pytest.mark.parametrize("seed", range(4))
async def test_entered_less_left_is_what_is_there(
    store: Store, clock: ManualClock, seed: int
) -> None:
    """Cases Q2: no transition passes by without an answer that tells of it."""
    walk = Walk(store, clock, seed)
    await join(store, *WORKERS)
    for _ in range(60):
        await walk.step()
        assert await census(store) == walk.ledger.rows()
    moved = walk.ledger.entered
    assert all(moved[state] for state in (JobState.RUNNING, JobState.CANCELLED, JobState.QUEUED))


@pytest.mark.parametrize("seed", range(4))
async def test_a_group_is_done_exactly_when_its_last_member_ends(
    store: Store, clock: ManualClock, seed: int
) -> None:
    """Open counts equal open members: were one too high, its group would never be done."""
    walk = Walk(store, clock, seed)
    walk.redrive = walk.add  # type: ignore[method-assign]  # a redrive opens a group again
    walk.delete = walk.prune = walk.beat  # type: ignore[method-assign]  # an id may not come back
    await join(store, *WORKERS)
    for _ in range(60):
        await walk.step()
        open_groups, groups = await _groups(store, walk.ids)
        assert set(walk.ledger.groups_done) == groups - open_groups
    await walk.finish()
    open_groups, groups = await _groups(store, walk.ids)
    assert open_groups == set()
    assert set(walk.ledger.groups_done) == groups
    assert set(walk.ledger.groups_done.values()) == {1}


async def _groups(store: Store, ids: list[str]) -> tuple[set[str], set[str]]:
    members: dict[str, list[JobState]] = defaultdict(list)
    for job in await store.get(ids):
        members[job.group_id].append(job.state)
    still_open = {one for one, states in members.items() if not all(s.terminal for s in states)}
    return still_open, set(members)

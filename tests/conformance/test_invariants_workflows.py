"""After any run of calls: groups, gates and limits count what is there, no more and no less."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

import pytest

from offpath.model.effects import Effects
from offpath.model.gate import Counting, GateState, NewGate, verdict
from offpath.model.group import Contribution, GroupPolicy
from offpath.model.job import JobRecord, JobState, LeasedJob, NewJob
from offpath.model.limit import LimitSpec
from offpath.model.settlement import Outcome, Settlement, SettleStatus, Snoozed
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.builders import join, new_job, outcomes, take, uid
from tests.conformance.workflow_builders import adding, signal, waiting

_KEYS = {"a": 1, "b": 3}
"""Keys and their rooms. Jobs of a key have a queue of its name, so that those can be counted."""
_TASKS = {"mail.send": 5}
_WORKERS = ("w1", "w2")
_FAILED = (JobState.DEAD, JobState.CANCELLED)


class Walk:
    """Random calls on one store."""

    def __init__(self, store: Store, clock: ManualClock, seed: int) -> None:
        self.store = store
        self.clock = clock
        self.random = random.Random(seed)
        self.made: list[str] = []
        """Ids of jobs; of some the settlement that carried them was not applied."""
        self.held: list[LeasedJob] = []
        self.gates: list[str] = []
        self.done: Counter[str] = Counter()

    async def step(self) -> None:
        often = [self.lease, self.settle, self.admit, self.add, self.add_gated] * 2
        rarely = [
            self.cancel,
            self.cancel_groups,
            self.close,
            self.redrive,
            self.rescue,
            self.expire,
            self.send,
            self.cool_down,
        ]
        await self.random.choice([*often, *rarely])()

    def job(self, **fields: Any) -> NewJob:
        """A new job: alone, of a group, with a limit."""
        kind = self.random.choice(["plain", "member", "limited", "fast"])
        if kind == "member" and self.made:
            fields.setdefault("group_id", self.random.choice(self.made))
        elif kind == "limited":
            key = self.random.choice(list(_KEYS))
            fields |= {"limit": LimitSpec(key=key, max_running=_KEYS[key]), "queue": key}
        elif kind == "fast":
            fields["group_policy"] = GroupPolicy.FAIL_FAST
        job = new_job(
            id=uid(len(self.made) + 1),
            delay=self.random.choice([0, 0, 0, 5]),
            priority=self.random.choice([0, 0, 3]),
            **fields,
        )
        self.made.append(job.id)
        return job

    def gate(self, *, following: str | None = None) -> NewGate:
        on = {following or self.random.choice(self.made), self.random.choice(self.made)}
        gate = NewGate(
            id=uid(10_000 + len(self.gates)),
            on=tuple(sorted(on)),
            need=self.random.randint(1, len(on)),
            of=self.random.choice(list(Counting)),
            timeout=self.random.choice([20.0, 500.0]),  # some of them will never be stored
        )
        self.gates.append(gate.id)
        return gate

    async def add(self) -> None:
        await self.store.commit(Effects(jobs=tuple(self.job() for _ in range(2))))

    async def add_gated(self) -> None:
        if self.made:
            gate = self.gate()
            await self.store.commit(Effects(jobs=(self.job(gate=gate.id),), gates=(gate,)))

    async def lease(self) -> None:
        worker = self.random.choice(_WORKERS)
        await join(self.store, worker)
        self.held += await take(self.store, worker, limit=4)
        self.held += await take(self.store, worker, limit=2, apart=True)

    async def settle(self) -> None:
        self.random.shuffle(self.held)
        batch = [self.end(self.held.pop()) for _ in range(min(3, len(self.held)))]
        for answer, settlement in zip(await self.store.settle(batch), batch, strict=True):
            assert answer.status is not SettleStatus.REFUSED
            self.told(settlement.job.group_id, answer.group_done)
            for each in answer.along:
                self.told(each.group_id, each.group_done)

    def end(self, job: LeasedJob) -> Settlement:
        kinds: list[Outcome] = [*outcomes().values(), waiting(10.0), waiting()]
        outcome = self.random.choice(kinds)
        if outcome == outcomes()["succeeded"]:
            return Settlement(job=job, outcome=outcome, effects=self.plan(job))
        return Settlement(job=job, outcome=outcome)

    def plan(self, job: LeasedJob) -> Effects:
        gate = self.gate(following=job.id)
        return Effects(
            jobs=(self.job(parent=job.id), self.job(parent=job.id, gate=gate.id)),
            gates=(gate,),
            contributions=(Contribution(payload="1", fold=_counting),),
        )

    async def admit(self) -> None:
        self.clock.advance(self.random.choice([0, 0, 6]))
        await self.store.admit(limit=self.random.randint(1, 10))

    async def cool_down(self) -> None:
        if self.held:
            outcome = Snoozed(delay=1, cool_down=self.random.choice([2, 10]))
            job = self.held.pop()
            (answer,) = await self.store.settle([Settlement(job=job, outcome=outcome)])
            self.told(job.group_id, answer.group_done)

    async def cancel(self) -> None:
        some = self.random.sample(self.made, min(2, len(self.made)))
        for each in await self.store.cancel(some):
            self.told(each.group_id, each.group_done)

    async def cancel_groups(self) -> None:
        some = self.random.sample(self.made, min(1, len(self.made)))
        for each in await self.store.cancel_groups(some, limit=3):
            self.told(each.group_id, each.group_done)

    async def close(self) -> None:
        for each in await self.store.close_groups(limit=5):
            self.told(each.group_id, each.group_done)

    async def redrive(self) -> None:
        some = self.random.sample(self.made, min(3, len(self.made)))
        await self.store.redrive([JobRedrive(id=each) for each in some])

    async def rescue(self) -> None:
        self.clock.advance(self.random.choice([5, 31]))
        for one in await self.store.rescue(limit=5, max_deliveries=2):
            self.told(one.job.group_id, one.group_done)
            for each in one.along:
                self.told(each.group_id, each.group_done)

    async def expire(self) -> None:
        self.clock.advance(self.random.choice([0, 15]))
        for each in await self.store.expire_blocked(limit=5):
            self.told(each.group_id, each.group_done)

    async def send(self) -> None:
        await self.store.send_signal(signal())

    def told(self, group_id: str, done: bool) -> None:
        """Note the end of a group."""
        self.done[group_id] += done

    # -- what must hold ------------------------------------------------------------------------

    async def check(self) -> None:
        jobs = {job.id: job for job in await self.store.get(self.made)}
        await self.check_groups(list(jobs.values()))
        await self.check_gates(jobs)
        await self.check_limits(list(jobs.values()))
        assert max(self.done.values(), default=0) <= 1

    async def check_groups(self, jobs: list[JobRecord]) -> None:
        members: dict[str, list[JobState]] = defaultdict(list)
        for job in jobs:
            members[job.group_id].append(job.state)
        groups = {each.id: each for each in await self.store.groups(self.made)}
        assert groups.keys() == members.keys()
        for group_id, states in members.items():
            group = groups[group_id]
            assert group.open == sum(not state.terminal for state in states)
            assert group.failed == sum(state in _FAILED for state in states)

    async def check_gates(self, jobs: dict[str, JobRecord]) -> None:
        for gate in await self.store.gates(self.gates):
            ends = Counter(jobs[each].state for each in gate.on if each in jobs)
            if gate.state is GateState.OPEN:
                assert gate.succeeded == ends[JobState.SUCCEEDED]
                assert gate.failed == sum(ends[state] for state in _FAILED)
                counts = {"succeeded": gate.succeeded, "failed": gate.failed}
                still = verdict(need=gate.need, of=gate.of, total=len(gate.on), **counts)
                assert still is GateState.OPEN
        known = {gate.id: gate.state for gate in await self.store.gates(self.gates)}
        for job in jobs.values():
            if job.state is JobState.BLOCKED and job.reason == "gate":
                assert known[job.gate or ""] in {GateState.OPEN, GateState.TIMED_OUT}

    async def check_limits(self, jobs: list[JobRecord]) -> None:
        queues = {each.name: each for each in await self.store.queues()}
        for key, room in _KEYS.items():
            own = [job for job in jobs if job.limit_key == key]
            for known in await self.store.limits(keys=[key]):
                queue = queues.get(key)
                inside = 0 if queue is None else queue.ready + queue.running
                held = [job for job in own if job.reason == "limit" and not job.state.terminal]
                assert known.admitted == inside <= room
                assert known.held == len(held)
                assert known.running == sum(job.state is JobState.RUNNING for job in own)


def _counting(so_far: str | None, new: str) -> str:
    """Adds to a number; what else members left behind is not a number to start from."""
    return adding(so_far if (so_far or "").isdigit() else None, new)


@pytest.mark.parametrize("seed", range(6))
async def test_counts_are_those_of_what_is_there(
    store: Store, clock: ManualClock, seed: int
) -> None:
    walk = Walk(store, clock, seed)
    await join(store, *_WORKERS)
    for _ in range(80):
        await walk.step()
        await walk.check()
    assert walk.gates
    assert len(walk.made) > 20


@pytest.mark.parametrize("seed", range(6))
async def test_everything_ends(store: Store, clock: ManualClock, seed: int) -> None:
    """Promise 4: groups, gates and waits come to an end, whatever happened to their members."""
    walk = Walk(store, clock, seed)
    await join(store, *_WORKERS)
    for _ in range(40):
        await walk.step()
    for _ in range(200):
        clock.advance(31)
        await store.rescue(limit=100, max_deliveries=1)
        await store.expire_blocked(limit=100)
        await store.close_groups(limit=100)
        await join(store)
        await take(store, limit=100)  # promotes
        await store.admit(limit=100)
        await take(store, limit=100, apart=True)
        held = [*await store.held("w1"), *await take(store, limit=100)]
        await store.settle([Settlement(job=job, outcome=outcomes()["succeeded"]) for job in held])
        await store.send_signal(signal(id=uid(20_000 + _)))
        states = Counter(job.state for job in await store.get(walk.made))
        if not any(states[state] for state in JobState if not state.terminal):
            break
    groups = await store.groups(walk.made)
    assert all(group.done for group in groups)
    assert all(gate.state is not GateState.OPEN for gate in await store.gates(walk.gates))
    for known in await store.limits():
        assert (known.admitted, known.held) == (0, 0)

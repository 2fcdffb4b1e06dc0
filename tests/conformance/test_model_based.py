"""Random calls, made alike on the memory store and on a second one, must be answered alike.

Memory is the oracle, and is itself held against what its records say: what a lease hands out is
worked out anew from the definition, and a group is done when no member of it is open.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from msgspec.structs import replace

from offpath.errors import OffpathError
from offpath.model.effects import Effects
from offpath.model.job import JobFilter, JobRecord, JobState, LeasedJob, NewJob
from offpath.model.lease import LeaseRequest
from offpath.model.settlement import Outcome, Settlement, SettleStatus, Snoozed, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.memory import MemoryStore
from offpath.store.protocol import JobRedrive, Store
from tests.conformance import model_calls as calls
from tests.conformance.backends import Backend
from tests.conformance.builders import START, worker_info
from tests.conformance.model_announcements import forget_announcements, said_of_jobs
from tests.conformance.model_order import handed_out
from tests.conformance.model_place import EXAMPLES, Place, play
from tests.conformance.model_values import (
    IDS,
    TASKS,
    WORKERS,
    alike,
    delays,
    filters,
    keeps,
    leases,
    new_jobs,
    open_groups,
    outcomes,
    places,
    plain_fields,
    some_places,
    told,
    ttls,
    uniques,
    workers,
)
from tests.unit.store.memory.audit import audit

_ALL = JobFilter()
_MANY, _NUMBERS = 1_000, itertools.count()
_REDRIVABLE = {JobState.DEAD, JobState.CANCELLED}


class Machine(RuleBasedStateMachine):
    """Two stores that are told the same."""

    def __init__(self, runner: asyncio.Runner, clock: ManualClock, place: Place) -> None:
        super().__init__()
        self._number = next(_NUMBERS)
        self._runner = runner
        self._clock = clock
        self._oracle = MemoryStore(clock)
        self._place = place
        self._other = runner.run(place.empty_store())
        self._held: list[LeasedJob] = []
        self._made: list[NewJob] = []
        self._told: set[str] = set()  # groups whose end was reported

    # -- telling both --------------------------------------------------------------------------

    def _both(self, call: Callable[[Store], Awaitable[Any]]) -> Any:
        """Make one call on both stores; the oracle's answer, None when both raised."""
        right, said = self._try(self._oracle, call)
        answer, also = self._try(self._other, call)
        assert also == said, f"the oracle says {said}"
        assert alike(answer) == alike(right)
        return right

    def _try(self, store: Store, call: Callable[[Store], Awaitable[Any]]) -> tuple[Any, Any]:
        async def run() -> Any:
            return await call(store)

        try:
            return self._runner.run(run()), None
        except OffpathError as error:
            return None, told(error)

    def _records(self) -> dict[str, JobRecord]:
        return dict(self._oracle._tables.jobs)

    # -- making values -------------------------------------------------------------------------

    def _id(self, place: int) -> str:
        """The id of a job that was enqueued once, or one that never was."""
        return self._made[-1 - place].id if place < len(self._made) else IDS[-1]

    def _ids(self, places: Iterable[int]) -> list[str]:
        return [self._id(place) for place in places]

    def _job(self, drawn: dict[str, Any]) -> NewJob:
        fields = dict(drawn)
        for name, relative in (("run_at", "run_in"), ("deadline", "deadline_at")):
            if relative in fields:
                fields[name] = self._clock.now() + timedelta(seconds=fields.pop(relative))
        for name in {"parent", "group_id"} & set(fields):
            fields[name] = self._id(fields[name])
        if fields.get("group_id") not in self._records():
            fields["group_id"] = None
        fields["dependents"] = tuple(self._ids(fields.get("dependents", ())))
        again, same = fields.pop("again", None), fields.pop("same", None)
        fields["id"] = IDS[len(self._made) % len(IDS)]
        if again is not None and self._may_come(self._id(again)):
            fields["id"] = self._id(again)
            if same and again < len(self._made):
                before = self._made[-1 - again]
                fields |= {"task": before.task, "input": before.input}
        job = NewJob(fingerprint=fields["task"] + fields["input"], **fields)
        self._made.append(job)
        return job

    def _may_come(self, job_id: str) -> bool:
        """A root comes before its group's members: not again after it was removed."""
        records = self._records()
        return job_id in records or all(job.group_id != job_id for job in records.values())

    def _jobs(self, drawn: Iterable[dict[str, Any]]) -> tuple[NewJob, ...]:
        """Only one that may be refused: which of two is named in the error is left open."""
        jobs: list[NewJob] = []
        critical = False
        for fields in drawn:
            if not critical or not {"unique", "again"} & set(fields):
                jobs.append(self._job(fields))
                critical = critical or bool({"unique", "again"} & set(fields))
        return tuple(jobs)

    def _pick(self, at: int) -> LeasedJob:
        return self._held[-1 - at % len(self._held)]

    # -- rules: new work -----------------------------------------------------------------------

    @initialize(drawn=st.lists(plain_fields, min_size=3, max_size=8))
    def start(self, drawn: list[dict[str, Any]]) -> None:
        self.register(WORKERS[0], 60.0)
        self.enqueue_many(drawn)

    @rule(drawn=st.lists(new_jobs, min_size=1, max_size=4))
    def enqueue(self, drawn: list[dict[str, Any]]) -> None:
        effects = Effects(jobs=self._jobs(drawn))
        self._both(lambda store: store.commit(effects))

    @rule(drawn=st.lists(plain_fields, min_size=3, max_size=8))
    def enqueue_many(self, drawn: list[dict[str, Any]]) -> None:
        effects = Effects(jobs=self._jobs(drawn))
        self._both(lambda store: store.commit(effects))

    @rule(drawn=uniques)
    def enqueue_unique(self, drawn: list[dict[str, Any]]) -> None:
        """Several keys in one call, and one key several times."""
        effects = Effects(jobs=tuple(self._job(fields) for fields in drawn))
        self._both(partial(calls.commit_unnamed, effects=effects))

    @precondition(lambda self: self._held)
    @rule(at=st.integers(0, 9), outcome=st.sampled_from([Succeeded(), Snoozed()]), drawn=uniques)
    def settle_with_unique(self, at: int, outcome: Outcome, drawn: list[dict[str, Any]]) -> None:
        effects = Effects(jobs=tuple(self._job(fields) for fields in drawn))
        batch = [Settlement(job=self._pick(at), outcome=outcome, effects=effects)]
        self._settle(batch, calls.settle_unnamed)

    # -- rules: the rhythm ---------------------------------------------------------------------

    @rule(
        worker=workers,
        limit=st.integers(1, 6),
        tasks=st.dictionaries(st.sampled_from(TASKS), st.integers(0, 4), min_size=1),
        queues=st.sampled_from([(), (), ("q",), ("r", "q"), ("none",)]),
    )
    def lease(
        self, worker: str, limit: int, tasks: dict[str, int], queues: tuple[str, ...]
    ) -> None:
        """Rooms of tasks and shares of queues together leave open which of several goes first."""
        if len(queues) != 1:
            tasks = {task: limit if room else 0 for task, room in tasks.items()}
        self._lease(LeaseRequest(worker=worker, limit=limit, tasks=tasks, queues=queues))

    @rule(worker=workers)
    def lease_much(self, worker: str) -> None:
        self.extend(worker, 60.0, 8)
        self._lease(calls.request_of(worker, 8))

    @rule(worker=workers, limit=st.integers(0, 6), begun=st.booleans())
    def lease_apart(self, worker: str, limit: int, begun: bool) -> None:
        request = replace(calls.request_of(worker, limit), suspects_only=True)
        jobs = self._both(partial(calls.lease_apart, request=request)).jobs
        if begun:
            self._both(lambda store: store.begin(jobs))
        self._held += jobs

    def _lease(self, request: LeaseRequest) -> None:
        right = self._should_lease(request)
        answer = self._both(
            partial(calls.lease, request=request, alive=self._lives(request.worker))
        )
        assert [job.id for job in answer.jobs] == right
        self._held += answer.jobs

    def _lives(self, worker: str) -> bool:
        known = self._oracle._tables.workers.get(worker)
        return known is not None and self._clock.now() < known.expires_at

    def _should_lease(self, request: LeaseRequest) -> list[str]:
        """The jobs of a lease by its definition, worked out by looking at every job."""
        if not self._lives(request.worker):
            return []
        return handed_out(self._oracle._tables, request, self._clock.now())

    @precondition(lambda self: self._held)
    @rule(
        ends=st.lists(
            st.tuples(st.integers(0, 9), outcomes, st.lists(plain_fields, max_size=2), keeps),
            min_size=1,
            max_size=5,
        )
    )
    def settle(self, ends: list[tuple[int, Outcome, list[dict[str, Any]], float | None]]) -> None:
        """A batch. Its effects are new jobs of one id each: they depend on no order in it."""
        taken = set(self._records())
        batch = []
        for at, outcome, drawn, keep in ends:
            jobs = tuple(job for job in self._jobs(drawn) if job.id not in taken)
            taken |= {job.id for job in jobs}
            effects = Effects(jobs=jobs)
            batch.append(
                Settlement(job=self._pick(at), outcome=outcome, effects=effects, keep=keep)
            )
        self._settle(batch)

    @precondition(lambda self: self._held)
    @rule(
        at=st.integers(0, 9),
        outcome=st.one_of(st.just(Succeeded()), st.just(Snoozed()), outcomes),
        drawn=st.lists(new_jobs, min_size=1, max_size=3),
        keep=keeps,
    )
    def settle_with_effects(
        self, at: int, outcome: Outcome, drawn: list[dict[str, Any]], keep: float | None
    ) -> None:
        """One settlement whose effects may meet any job that there is."""
        effects = Effects(jobs=self._jobs(drawn))
        job = self._pick(at)
        self._settle([Settlement(job=job, outcome=outcome, effects=effects, keep=keep)])

    @precondition(lambda self: self._held)
    @rule(drawn=st.lists(outcomes, min_size=1, max_size=4), keep=keeps)
    def settle_all(self, drawn: list[Outcome], keep: float | None) -> None:
        """Everything that was handed out lately, and perhaps lost meanwhile."""
        lately = list({job.id: job for job in self._held}.values())[-8:]
        self._settle(
            [
                Settlement(job=job, outcome=drawn[n % len(drawn)], keep=keep)
                for n, job in enumerate(lately)
            ]
        )

    def _settle(self, batch: list[Settlement], call: calls.Settle = calls.settle) -> None:
        with self._groups_checked() as done:
            for answer in self._both(lambda store: call(store, batch)):
                assert answer.status is SettleStatus.APPLIED or not answer.group_done
                if answer.group_done:
                    done.append(answer.id)

    @precondition(lambda self: self._held)
    @rule(at=st.integers(0, 9), text=st.sampled_from(['{"done":1}', '{"done":2}']))
    def progress(self, at: int, text: str) -> None:
        job = self._pick(at)
        self._both(lambda store: store.progress(job, text))

    # -- rules: operators and upkeep -----------------------------------------------------------

    @rule(chosen=some_places, keep=keeps)
    def cancel(self, chosen: list[int], keep: float | None) -> None:
        self._cancel(self._ids(chosen), keep)

    def _cancel(self, chosen: list[str], keep: float | None) -> None:
        with self._groups_checked() as done:
            changed = self._both(lambda store: store.cancel(chosen, keep=keep))
            done += [each.id for each in changed if each.group_done]

    @rule(chosen=some_places, delay=delays)
    def redrive(self, chosen: list[int], delay: float) -> None:
        self._redrive(set(self._ids(chosen)), delay)

    @rule(delay=delays)
    def redrive_all(self, delay: float) -> None:
        jobs = self._records().values()
        self._redrive({job.id for job in jobs if job.state in _REDRIVABLE}, delay)

    def _redrive(self, chosen: set[str], delay: float) -> None:
        """Jobs with a unique key go one by one: which of two gets it is nowhere promised."""
        keyed = {each for each in chosen if (job := self._records().get(each)) and job.unique_key}
        for together in [chosen - keyed, *({each} for each in sorted(keyed))]:
            redrives = [JobRedrive(id=each, delay=delay) for each in sorted(together)]
            self._both(partial(calls.redrive, redrives=redrives))

    @rule(chosen=some_places)
    def delete(self, chosen: list[int]) -> None:
        self._delete(self._ids(chosen))

    def _delete(self, chosen: list[str]) -> None:
        self._both(lambda store: store.delete(chosen))

    @rule(max_deliveries=st.integers(1, 3), keep=keeps)
    def rescue(self, max_deliveries: int, keep: float | None) -> None:
        call = partial(calls.rescue, max_deliveries=max_deliveries, keep=keep)
        with self._groups_checked() as done:
            done += [each.job.id for each in self._both(call) if each.group_done]

    @precondition(lambda self: self._held)
    @rule(at=st.integers(0, 9), max_deliveries=st.integers(1, 3), keep=keeps)
    def lose_a_worker(self, at: int, max_deliveries: int, keep: float | None) -> None:
        self.deregister(self._pick(at).worker)
        self.rescue(max_deliveries, keep)

    @rule()
    def prune(self) -> None:
        self._both(lambda store: store.prune(limit=_MANY))

    @rule(seconds=st.sampled_from([0.25, 10.0, 10.0, 30.0]))
    def pass_time(self, seconds: float) -> None:
        self._clock.advance(seconds)

    # -- rules: workers and names --------------------------------------------------------------

    @rule(worker=workers, lease_seconds=leases)
    def register(self, worker: str, lease_seconds: float) -> None:
        self._both(partial(calls.register, worker=worker, lease_seconds=lease_seconds))

    @rule(worker=workers, lease_seconds=leases, held=st.integers(0, 8))
    def extend(self, worker: str, lease_seconds: float, held: int) -> None:
        info, jobs = worker_info(worker), self._mine(worker, held)
        self._both(lambda store: store.extend(info, lease_seconds=lease_seconds, held=jobs))

    @rule(worker=workers, held=st.integers(0, 8))
    def signals(self, worker: str, held: int) -> None:
        jobs = self._mine(worker, held)
        self._both(lambda store: store.signals(worker, jobs))

    def _mine(self, worker: str, most: int) -> list[LeasedJob]:
        """The jobs that a worker may believe to hold: each once, as it was last handed to it."""
        last = {job.id: job for job in self._held if job.worker == worker}
        return list(last.values())[:most]

    @rule(worker=workers)
    def deregister(self, worker: str) -> None:
        self._both(lambda store: store.deregister(worker))

    @rule(key=st.sampled_from("ab"), holder=workers, ttl=ttls, renew=st.booleans())
    def claim(self, key: str, holder: str, ttl: float | None, *, renew: bool) -> None:
        name = f"{self._number}:{key}"  # claimed for good: each example needs its own
        self._both(lambda store: store.claim(name, holder, ttl=ttl, renew=renew))

    # -- rules: reading ------------------------------------------------------------------------

    @rule(
        fields=filters,
        limit=st.integers(1, 5),
        after=st.one_of(st.none(), places),
        newest=st.booleans(),
    )
    def find(self, fields: dict[str, Any], limit: int, after: int | None, newest: bool) -> None:
        where = self._filter(fields)
        last = None if after is None else self._id(after)
        self._both(lambda store: store.find(where, limit=limit, after=last, newest=newest))
        self._both(lambda store: store.count(where))

    def _filter(self, fields: dict[str, Any]) -> JobFilter:
        """Times are those of a job that there is, so that the edges are met."""
        fields = dict(fields)
        some = next(iter(self._records().values()), None)
        for name in {"enqueued_after", "finished_before"} & set(fields):
            fields[name] = some.finished_at or some.enqueued_at if some else START
        for name in {"group_id", "parent"} & set(fields):
            fields[name] = self._id(fields[name])
        fields["ids"] = tuple(self._ids(fields.get("ids", ())))
        return JobFilter(**fields)

    @rule()
    def overview(self) -> None:
        self._both(lambda store: store.backlog(limit=_MANY))
        self._both(lambda store: store.count(_ALL))
        self._both(lambda store: store.states(IDS))

    # -- what always holds ---------------------------------------------------------------------

    @contextmanager
    def _groups_checked(self) -> Iterator[list[str]]:
        """A call that ends the last open job of a group says so, once in the group's life."""
        known, done = self._records(), list[str]()
        yield done
        after = self._records()
        groups = [(after.get(each) or known[each]).group_id for each in done]
        closed = open_groups(known) - open_groups(after)
        assert sorted(groups) == sorted(closed - self._told)
        self._told |= closed

    @invariant()
    def the_same_is_kept(self) -> None:
        self._both(lambda store: store.get(IDS))
        self._both(lambda store: store.workers())
        self._both(said_of_jobs)

    @invariant()
    def the_oracle_is_sound(self) -> None:
        self._told &= {job.group_id for job in self._records().values()}
        audit(self._oracle)

    def teardown(self) -> None:
        """Whatever happened, everything can be ended and removed."""
        for worker in WORKERS:
            self.deregister(worker)
        self._cancel(IDS, keep=None)
        self.rescue(max_deliveries=1, keep=None)
        self._delete(IDS)
        self._both(forget_announcements)
        assert self._both(lambda store: store.count(_ALL)) == []
        self._clock.advance(3_601)  # workers that are gone are remembered for an hour
        self.prune()
        assert self._both(lambda store: store.workers()) == []
        self._place.clean = True


# in proportion to the work: an alarm is raised wherever the loop is, in a task of a store too
@pytest.mark.needs("workflows")  # the random calls ask for every part of the contract
@pytest.mark.timeout(300 + 15 * EXAMPLES)
def test_both_stores_answer_alike(backend: Backend, clock: ManualClock) -> None:
    play(Machine, backend, clock)

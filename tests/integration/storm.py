"""Everything that a store can be asked for, at once and in any order."""

from __future__ import annotations

import asyncio
import functools
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg

from offpath.errors import (
    Conflict,
    GateError,
    LeaseLost,
    StoreBusy,
    StoreUnavailable,
)
from offpath.model.effects import Effects
from offpath.model.gate import Counting, NewGate
from offpath.model.group import Contribution, GroupPolicy
from offpath.model.job import (
    DeadReason,
    Failure,
    LeasedJob,
    NewJob,
    UniqueClaim,
    UniquePolicy,
)
from offpath.model.lease import LeaseRequest, Order, WorkerInfo
from offpath.model.limit import LimitSpec, RateSpec
from offpath.model.settlement import (
    Dead,
    Outcome,
    Released,
    Retry,
    Settlement,
    SettleStatus,
    Snoozed,
    Succeeded,
    Waiting,
)
from offpath.model.wait import NewSignal
from offpath.runtime.ids import new_id
from offpath.store.postgres import PostgresStore
from offpath.store.protocol import JobRedrive
from tests.integration.polling import eventually
from tests.integration.storm_audit import AUDIT, KEPT

TASKS = {"storm.a": 20, "storm.b": 3}
QUEUES = ("north", "south")
KEYS = ("one", "two", "three")
TARGETS = ("order-1", "order-2", "order-3")
EXPECTED = (Conflict, GateError, LeaseLost, StoreBusy, StoreUnavailable, psycopg.OperationalError)
"""Errors that a caller has to be ready for while others do everything at once."""

_FAILURE = Failure(kind="error", type="ValueError", message="no")


def adding(so_far: str | None, new: str) -> str:
    """A fold that counts."""
    return str(int(so_far or "0") + int(new))


class Storm:
    """Callers that do everything at once until their time is over."""

    def __init__(self, url: str, seconds: float, seed: int = 0, *, removing: bool = True) -> None:
        self.url = url
        self.removing = removing
        """True if ended jobs are removed while it lasts: then less can be said of what was."""
        self.random = random.Random(seed)
        self.stores = [PostgresStore(url, pool_size=4) for _ in range(4)]
        self.until = time.monotonic() + seconds
        self.ids: list[str] = []
        self.gates: list[str] = []
        self.done: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.errors: list[str] = []

    async def run(self) -> None:
        """Do it all."""
        for store in self.stores:
            await store.open()
        loops = [
            *[self.again(functools.partial(self.work, n)) for n in range(6)],
            *[self.again(self.produce) for _ in range(4)],
            *[self.again(self.sweep) for _ in range(2)],
            *[self.again(self.admit) for _ in range(2)],
            self.again(self.send),
            self.again(self.meddle),
            self.again(self.meddle),
            self.again(self.operate, 0.05),
            self.again(self.write_within),
            self.again(self.kill, 0.3),
        ]
        await asyncio.gather(*loops)

    async def again(self, what: Callable[[], Awaitable[Any]], pause: float = 0.0) -> None:
        """Repeat a call until the time is over."""
        while time.monotonic() < self.until:
            await self.forgiving(what)
            await asyncio.sleep(pause)

    async def forgiving(self, what: Callable[[], Awaitable[Any]]) -> None:
        """Make a call, whatever a caller has to be ready for."""
        try:
            await what()
        except EXPECTED as error:
            self.refusals[type(error).__name__] += 1
            text = str(error)
            if isinstance(error, StoreUnavailable) and "terminating" not in text:
                self.errors.append(text)
        self.calls[getattr(what, "__name__", "work")] += 1

    @property
    def store(self) -> PostgresStore:
        """One of the processes."""
        return self.random.choice(self.stores)

    # -- new work ------------------------------------------------------------------------------

    def job(self, **fields: Any) -> NewJob:
        """A new job of any kind."""
        pick = self.random
        if pick.random() < 0.4:
            key = pick.choice(KEYS)
            rate = RateSpec(count=200, per=1.0) if key == "three" else None
            fields["limit"] = LimitSpec(key=key, max_running=pick.choice([1, 3, 8]), rate=rate)
        if pick.random() < 0.1:
            fields["unique"] = UniqueClaim(
                key=f"storm:{pick.randint(1, 10)}", policy=pick.choice(list(UniquePolicy))
            )
        if pick.random() < 0.2:
            fields["group_policy"] = GroupPolicy.FAIL_FAST
        if pick.random() < 0.1:
            fields["deadline_in"] = pick.choice([0.2, 5.0])
        made = NewJob(
            id=fields.pop("id", None) or new_id(),
            task=pick.choice(list(TASKS)),
            queue=pick.choice(QUEUES),
            input="{}",
            fingerprint="storm",
            delay=pick.choice([0, 0, 0, 0.1]),
            priority=pick.choice([0, 0, 1]),
            fair_key=pick.choice([None, "x", "y"]),
            **fields,
        )
        self.ids.append(made.id)
        return made

    def gate(self, *on: str) -> NewGate:
        """A gate over these, and perhaps over jobs that are there."""
        extra = self.random.sample(self.ids[-200:], min(2, len(self.ids)))
        watched = tuple(sorted({*on, *(one for one in extra if self.random.random() < 0.5)}))
        made = NewGate(
            id=new_id(),
            on=watched,
            need=self.random.randint(min(1, len(watched)), len(watched)),
            of=self.random.choice(list(Counting)),
            timeout=self.random.choice([0.5, 2.0]),
        )
        self.gates.append(made.id)
        return made

    def plan(self, parent: str | None = None) -> Effects:
        """Jobs and gates: of one group, in a chain, over others."""
        pick = self.random
        group = parent
        if parent is None and self.ids and pick.random() < 0.3:
            group = pick.choice(
                self.ids[-50:]
            )  # somebody's root, or a group whose root never comes
        first = self.job(group_id=group, parent=parent)
        jobs, gates = [first], []
        before = first.id
        for _ in range(pick.choice([0, 0, 1, 3])):
            gate = self.gate(before)
            gates.append(gate)
            jobs.append(self.job(group_id=group or first.id, gate=gate.id))
            before = jobs[-1].id
        if self.gates and pick.random() < 0.2:
            jobs.append(self.job(group_id=group or first.id, gate=pick.choice(self.gates[-20:])))
        return Effects(jobs=tuple(jobs), gates=tuple(gates))

    async def produce(self) -> None:
        """Enqueue; sometimes the children before their root."""
        if self.random.random() < 0.1:
            root = new_id()
            await self.store.commit(Effects(jobs=(self.job(group_id=root),)))
            await self.store.commit(Effects(jobs=(self.job(id=root),)))
        else:
            await self.store.commit(self.plan())

    async def write_within(self) -> None:
        """Enqueue in a transaction that stays open for a while, and is rolled back at times."""
        first = self.job()
        gate = NewGate(id=new_id(), on=(first.id,), need=1)
        effects = Effects(jobs=(first, self.job(group_id=first.id, gate=gate.id)), gates=(gate,))
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            await self.store.commit_within(connection, effects)
            await asyncio.sleep(0.2)
            if self.random.random() < 0.3:
                await connection.rollback()

    # -- work ----------------------------------------------------------------------------------

    async def work(self, number: int) -> None:
        """Lease and settle as a worker that is at times lost with what it holds."""
        store, worker = self.stores[number % len(self.stores)], f"w{number}-{new_id()}"
        info = WorkerInfo(
            id=worker, host="h", pid=1, version="1", concurrency=1, tasks=tuple(TASKS)
        )
        await store.register(info, lease_seconds=3.0)
        for _ in range(self.random.randint(1, 8)):
            order = self.random.choice([Order.PRIORITY, Order.PRIORITY, Order.BALANCED, Order.AGE])
            leased = await store.lease(
                LeaseRequest(worker=worker, limit=20, tasks=TASKS, order=order)
            )
            held = list(leased.jobs)
            for job in held[:3]:
                await self.act(store, job)
            self.random.shuffle(held)
            batch = [self.end(job) for job in held]
            for at in range(0, len(batch), 7):
                await self.end_of_all(batch[at : at + 7], store)

    async def act(self, store: PostgresStore, job: LeasedJob) -> None:
        """The acts of a handler on its way."""
        target = self.random.choice(TARGETS)
        await store.put_step(job, "a", "1")
        await store.put_undo(job, "a", "{}")
        await store.take_signal(job, target=target, event="e", step=new_id())

    def end(self, job: LeasedJob) -> Settlement:
        """The end of an attempt."""
        kind = self.random.random()
        effects = Effects()
        outcome: Outcome = Succeeded(contributes=False)
        if kind < 0.2:
            effects = self.plan(job.id if job.group_id == job.id else None)
            effects = Effects(jobs=effects.jobs, gates=effects.gates)
        elif kind < 0.45:
            effects = Effects(contributions=(Contribution(payload="1", fold=adding),))
        elif kind < 0.55:
            outcome = Dead(reason=DeadReason.ABORTED, failure=_FAILURE)
        elif kind < 0.62:
            outcome = Retry(delay=self.random.choice([0, 0.05]), failure=_FAILURE)
        elif kind < 0.66:
            outcome = Snoozed(delay=0.05, cool_down=self.random.choice([None, 0.1]))
        elif kind < 0.74:
            outcome = Waiting(target=self.random.choice(TARGETS), event="e", timeout=1.0)
        elif kind < 0.76:
            outcome = Released()
        return Settlement(job=job, outcome=outcome, effects=effects, keep=self.keep())

    def keep(self) -> float | None:
        """The time for which ended jobs are kept."""
        return self.random.choice([None, None, 0.3]) if self.removing else None

    async def end_of_all(self, batch: list[Settlement], store: PostgresStore) -> None:
        """Settle these."""
        for one, answer in zip(batch, await store.settle(batch), strict=True):
            assert answer.status is not SettleStatus.REFUSED or isinstance(
                answer.error, EXPECTED
            ), answer.error
            self.told(one.job.group_id, answer.group_done)
            for each in answer.along:
                self.told(each.group_id, each.group_done)

    def told(self, group: str, done: bool) -> None:
        """Note the end of a group."""
        self.done[group] += done

    # -- everything else -----------------------------------------------------------------------

    async def sweep(self) -> None:
        """Passes that an engine makes again and again."""
        store = self.store
        for each in await store.expire_blocked(limit=50, keep=self.keep()):
            self.told(each.group_id, each.group_done)
        for each in await store.close_groups(limit=50, keep=self.keep()):
            self.told(each.group_id, each.group_done)
        for one in await store.rescue(limit=50, max_deliveries=3, keep=self.keep()):
            self.told(one.job.group_id, one.group_done)
            for each in one.along:
                self.told(each.group_id, each.group_done)
        await store.prune(limit=50)
        for undoing in await store.undoing(limit=5):
            await store.compensate(undoing.id, Effects(jobs=(self.job(group_id=undoing.group_id),)))

    async def admit(self) -> None:
        """Let in what has room."""
        keys = self.random.choice([(), (), KEYS[:2]])
        await self.store.admit(limit=self.random.choice([5, 100]), keys=keys)

    async def send(self) -> None:
        """Send a signal."""
        await self.store.send_signal(
            NewSignal(
                id=new_id(),
                target=self.random.choice(TARGETS),
                event="e",
                payload="1",
                keep=self.random.choice([0.1, 5.0]),
            )
        )

    async def meddle(self) -> None:
        """Operators' calls on jobs."""
        if not self.ids:
            return
        some = self.random.sample(self.ids[-300:], min(5, len(self.ids)))
        kind = self.random.randint(1, 5)
        if kind == 1:
            for each in await self.store.cancel(some, keep=self.keep()):
                self.told(each.group_id, each.group_done)
        elif kind == 2:
            for each in await self.store.cancel_groups(some[:2], limit=10, keep=self.keep()):
                self.told(each.group_id, each.group_done)
        elif kind in {3, 4}:
            await self.store.redrive([JobRedrive(id=each) for each in some])
        elif self.removing:
            await self.store.delete(some[:2])

    async def operate(self) -> None:
        """Operators' calls on queues and limits."""
        store = self.store
        key, queue = self.random.choice(KEYS), self.random.choice(QUEUES)
        kind = self.random.randint(1, 4)
        if kind == 1:
            await store.close_limit(key, seconds=0.1)
        elif kind == 2:
            await store.open_limit(key)
        elif kind == 3:
            await store.pause_queue(queue)
            await asyncio.sleep(0.05)
            await store.resume_queue(queue)
        else:
            await store.limits()

    async def kill(self) -> None:
        """End one of the server's processes in the middle of whatever it does."""
        async with await psycopg.AsyncConnection.connect(self.url, autocommit=True) as connection:
            await connection.execute(
                """
                select pg_terminate_backend(pid) from pg_stat_activity
                where datname = current_database() and pid <> pg_backend_pid()
                    and xact_start is not null and application_name <> 'storm'
                order by random() limit 1
                """
            )

    # -- the calm behind it --------------------------------------------------------------------

    async def calm(self, within: float = 60.0) -> None:
        """Let everything come to its end."""
        store = self.stores[0]
        for key in KEYS:
            await store.open_limit(key)
        for queue in QUEUES:
            await store.resume_queue(queue)
        info = WorkerInfo(
            id="last", host="h", pid=1, version="1", concurrency=1, tasks=tuple(TASKS)
        )
        end = time.monotonic() + within
        while await self.open_jobs():
            assert time.monotonic() < end, await self.left()
            await store.register(info, lease_seconds=30.0)
            await store.rescue(limit=100, max_deliveries=100)
            for each in await store.expire_blocked(limit=100):
                self.told(each.group_id, each.group_done)
            for each in await store.close_groups(limit=100):
                self.told(each.group_id, each.group_done)
            await store.admit(limit=100)
            leased = await store.lease(
                LeaseRequest(worker="last", limit=100, tasks={"storm.a": 100, "storm.b": 100})
            )
            batch = [
                Settlement(job=job, outcome=Succeeded(contributes=False)) for job in leased.jobs
            ]
            await self.end_of_all(batch, store)
        for _ in range(20):
            await store.expire_blocked(limit=1000)
            await store.admit(limit=100)

    async def open_jobs(self) -> int:
        """The number of those that have not ended."""
        return sum(one[1] for one in await self.left())

    async def left(self) -> list[Any]:
        """The jobs that have not ended."""
        return await self.ask(
            "select state || coalesce(' ' || reason, ''), count(*) from offpath.job"
            " where finished_at is null group by 1"
        )

    async def ask(self, query: str) -> list[Any]:
        """Rows of a query."""
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            return await (await connection.execute(query.encode())).fetchall()

    async def close(self) -> None:
        """Close everything."""
        for store in self.stores:
            await store.close()

    async def deadlocks(self) -> int:
        """The number of deadlocks that the server had to break; asked when nobody is connected."""
        others = (
            "select pid from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
            " and backend_type = 'client backend'"
        )

        async def alone() -> bool:
            return not await self.ask(others)

        await eventually(alone, within=20)
        rows = await self.ask(
            "select deadlocks from pg_stat_database where datname = current_database()"
        )
        found: int = rows[0][0]
        return found

    async def audit(self) -> dict[str, list[Any]]:
        """The rows that are not as they must be."""
        found = {}
        for name, query in AUDIT.items():
            if rows := await self.ask(query):
                found[name] = rows[:10]
        if not self.removing:
            for name, query in KEPT.items():
                if rows := await self.ask(query):
                    found[name] = rows[:10]
            if often := [one for one in self.done.items() if one[1] > 1]:
                found["groups whose end was told more than once"] = often
        return found

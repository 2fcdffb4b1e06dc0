"""The bench on which a test of the contract has its stores, with a clock and ids of its own."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Final, Protocol
from uuid import UUID

from offpath.model.effects import Effects
from offpath.model.job import DeadReason, Failure, JobRecord, LeasedJob, NewJob
from offpath.model.lease import Leased, LeaseRequest, Order, WorkerInfo
from offpath.model.settlement import Dead, Outcome, Settled, Settlement
from offpath.runtime.clock import ManualClock
from offpath.store.capabilities import Profile
from offpath.store.offered import FEATURES
from offpath.store.protocol import Store

START: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
TASK: Final = "kit.task"
LEASE: Final = 30.0


class Makes(Protocol):
    """Whoever makes the stores of a test."""

    async def new_url(self) -> str:
        """The URL of an empty place."""

    def make_store(self, url: str, clock: ManualClock) -> Store:
        """A store on a place, not open yet."""


class Bench:
    """The stores of one test, its clock, and short ways to take a step."""

    def __init__(self, makes: Makes, url: str) -> None:
        self.clock = ManualClock(START)
        self.url = url
        self._makes = makes
        self._open: list[Store] = []
        self._numbers = itertools.count(1)

    async def another(self) -> Store:
        """One more store on the same data, as another process has it."""
        store = self._makes.make_store(self.url, self.clock)
        if not store.capabilities.self_migrating and not self._open:
            await store.migrate()
        await store.open()
        self._open.append(store)
        return store

    async def close(self) -> None:
        """Close every store of the test."""
        while self._open:
            await self._open.pop().close()

    # -- values ----------------------------------------------------------------------------

    def new_id(self) -> str:
        """An id that sorts behind all before."""
        return str(UUID(int=0x0190_0000_0000_7000_8000_0000_0000_0000 + next(self._numbers)))

    def job(self, task: str = TASK, **fields: Any) -> NewJob:  # noqa: ANN401 - fields of a job
        """A new job."""
        given = {"id": self.new_id(), "input": "{}", **fields}
        fingerprint = f"{task}|{given['input']}"
        return NewJob(task=task, **{"fingerprint": fingerprint, **given})

    @staticmethod
    def failure() -> Failure:
        """An attempt that failed."""
        return Failure(kind="error", type="ValueError", message="boom", at=START)

    def dead(self) -> Dead:
        """The end of a job that will not run again."""
        return Dead(reason=DeadReason.EXHAUSTED, failure=self.failure())

    # -- steps -----------------------------------------------------------------------------

    async def add(self, store: Store, **fields: Any) -> str:  # noqa: ANN401 - fields of a job
        """Commit one job; its id."""
        job = self.job(**fields)
        (answer,) = await store.commit(Effects(jobs=(job,)))
        assert answer.created
        return job.id

    async def join(self, store: Store, *workers: str) -> None:
        """Register workers."""
        for worker in workers or ("w1",):
            await store.register(worker_info(worker), lease_seconds=LEASE)

    async def ask(
        self,
        store: Store,
        worker: str = "w1",
        limit: int = 100,
        order: Order = Order.PRIORITY,
    ) -> Leased:
        """Lease jobs of the usual task; the whole answer."""
        request = LeaseRequest(worker=worker, limit=limit, tasks={TASK: limit}, order=order)
        return await store.lease(request)

    async def take(self, store: Store, worker: str = "w1") -> LeasedJob:
        """Lease one job, which must be there."""
        (job,) = (await self.ask(store, worker, 1)).jobs
        return job

    async def start(self, store: Store, **fields: Any) -> LeasedJob:  # noqa: ANN401 - of a job
        """Commit a job and lease it."""
        await self.join(store)
        await self.add(store, **fields)
        return await self.take(store)

    @staticmethod
    async def end(
        store: Store,
        job: LeasedJob,
        outcome: Outcome,
        effects: Effects | None = None,
        keep: float | None = None,
    ) -> Settled:
        """Settle one job."""
        settlement = Settlement(job=job, outcome=outcome, effects=effects or Effects(), keep=keep)
        (answer,) = await store.settle([settlement])
        return answer

    @staticmethod
    async def record(store: Store, job_id: str) -> JobRecord:
        """A job, which must exist."""
        (found,) = await store.get([job_id])
        return found


def worker_info(worker: str) -> WorkerInfo:
    """A worker as it registers."""
    return WorkerInfo(id=worker, host="host", pid=1, version="1.0", concurrency=10, tasks=(TASK,))


Body = Callable[[Any, Bench, Store], Awaitable[None]]


def contract(*needed: Profile, shared: bool = False) -> Callable[[Body], Callable[[Makes], None]]:
    """A test of these profiles; ``shared``: of several stores on the same data. Where a backend
    does not declare it, the test is skipped, and says why.
    """

    def decorate(body: Body) -> Callable[[Makes], None]:
        @wraps(body)
        def test(self: Makes) -> None:
            asyncio.run(_carry_out(self, body, needed, shared=shared))

        del test.__wrapped__  # pytest would look for its arguments
        return test

    return decorate


async def _carry_out(
    makes: Makes, body: Body, needed: tuple[Profile, ...], *, shared: bool
) -> None:
    import pytest  # the kit is for tests: nothing else of offpath needs it

    bench = Bench(makes, await makes.new_url())
    try:
        store = await bench.another()
        mine = store.capabilities
        for profile in needed:
            if profile not in mine.profiles:
                pytest.skip(f"{mine.name} does not declare {profile}: {FEATURES[profile]}")
        if shared and not mine.shared:
            pytest.skip(f"{mine.name} does not declare that several processes share it")
        await body(makes, bench, store)
    finally:
        await bench.close()

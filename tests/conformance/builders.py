"""Short ways to make the values that a store takes, and to take one step with them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from offpath.model.effects import NOTHING, Effects
from offpath.model.job import (
    DeadReason,
    Enqueued,
    Failure,
    JobRecord,
    LeasedJob,
    NewJob,
    UniqueClaim,
)
from offpath.model.lease import Leased, LeaseRequest, WorkerInfo
from offpath.model.settlement import (
    Cancelled,
    Dead,
    Outcome,
    Released,
    Retry,
    Settled,
    Settlement,
    SettleStatus,
    Snoozed,
    Succeeded,
)
from offpath.store.protocol import Store

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
TASK = "mail.send"
LEASE = 30.0

_numbers = itertools.count(0x1000_0000)


def uid(number: int) -> str:
    """The ``number``-th id: ids sort as their numbers do."""
    return str(UUID(int=0x0190_0000_0000_7000_8000_0000_0000_0000 + number))


def fresh_id() -> str:
    """An id that no other call has returned; later ones sort behind earlier ones."""
    return uid(next(_numbers))


def new_job(task: str = TASK, **fields: Any) -> NewJob:
    """A job with an own id and a fingerprint that fits its task and input."""
    text = fields.setdefault("input", "{}")
    fields.setdefault("id", fresh_id())
    fields.setdefault("fingerprint", f"{task}|{text}")
    return NewJob(task=task, **fields)


def unique(key: str, **fields: Any) -> UniqueClaim:
    """A claim of a unique key."""
    return UniqueClaim(key=f"{TASK}:{key}", **fields)


def worker_info(worker: str = "w1", **fields: Any) -> WorkerInfo:
    """A worker as it registers."""
    defaults: dict[str, Any] = {
        "host": "host-a",
        "pid": 4711,
        "version": "1.0",
        "concurrency": 10,
        "tasks": (TASK,),
    }
    return WorkerInfo(id=worker, **{**defaults, **fields})


def failure(message: str = "boom", **fields: Any) -> Failure:
    """An attempt that failed."""
    fields.setdefault("at", START)
    fields.setdefault("kind", "error")
    fields.setdefault("type", "ValueError")
    return Failure(message=message, **fields)


async def enqueue(store: Store, *jobs: NewJob) -> list[Enqueued]:
    """Commit these jobs together."""
    return await store.commit(Effects(jobs=jobs))


async def add(store: Store, task: str = TASK, **fields: Any) -> str:
    """Commit one new job; its id."""
    job = new_job(task, **fields)
    (answer,) = await enqueue(store, job)
    assert answer.created
    return job.id


async def join(store: Store, *workers: str, lease: float = LEASE) -> None:
    """Register workers of these ids."""
    for worker in workers or ("w1",):
        await store.register(worker_info(worker), lease_seconds=lease)


async def ask(
    store: Store,
    worker: str = "w1",
    *,
    limit: int = 100,
    tasks: dict[str, int] | None = None,
    queues: tuple[str, ...] = (),
    apart: bool = False,
) -> Leased:
    """Lease, and the whole answer."""
    wanted = {TASK: limit} if tasks is None else tasks
    request = LeaseRequest(
        worker=worker, limit=limit, tasks=wanted, queues=queues, suspects_only=apart
    )
    return await store.lease(request)


async def take(store: Store, worker: str = "w1", **request: Any) -> tuple[LeasedJob, ...]:
    """Lease, and only the jobs."""
    return (await ask(store, worker, **request)).jobs


async def take_one(store: Store, worker: str = "w1", task: str = TASK) -> LeasedJob:
    """Lease the best job of a task, which must be there."""
    (job,) = await take(store, worker, limit=1, tasks={task: 1})
    return job


async def start(store: Store, worker: str = "w1", **fields: Any) -> LeasedJob:
    """Enqueue a job and lease it, as the only one that is due; registers the worker."""
    await join(store, worker)
    await add(store, **fields)
    return await take_one(store, worker, fields.get("task", TASK))


async def start_some(store: Store, count: int) -> list[LeasedJob]:
    """Enqueue so many jobs and lease them, as the only ones that are due."""
    await join(store)
    await enqueue(store, *(new_job() for _ in range(count)))
    return list(await take(store, limit=count))


async def settle(
    store: Store,
    job: LeasedJob,
    outcome: Outcome,
    *,
    effects: Sequence[NewJob] = (),
    keep: float | None = None,
) -> Settled:
    """Settle one job; its answer."""
    carried = Effects(jobs=tuple(effects)) if effects else NOTHING
    (answer,) = await store.settle(
        [Settlement(job=job, outcome=outcome, effects=carried, keep=keep)]
    )
    assert answer.id == job.id
    return answer


async def end(store: Store, job: LeasedJob, outcome: Outcome, **fields: Any) -> Settled:
    """Settle one job, which must be applied."""
    answer = await settle(store, job, outcome, **fields)
    assert answer.status is SettleStatus.APPLIED, answer
    assert answer.error is None
    return answer


async def succeed(store: Store, job: LeasedJob, **fields: Any) -> Settled:
    """Settle one job as succeeded."""
    return await end(store, job, Succeeded(), **fields)


async def die(store: Store, job: LeasedJob, **fields: Any) -> Settled:
    """Settle one job as dead."""
    outcome = Dead(reason=DeadReason.EXHAUSTED, failure=failure(attempt=job.attempt))
    return await end(store, job, outcome, **fields)


async def record(store: Store, job_id: str) -> JobRecord:
    """The store's record of a job, which must exist."""
    (found,) = await store.get([job_id])
    return found


async def living(store: Store) -> list[str]:
    """The ids of the workers that are not gone, oldest first."""
    return [each.info.id for each in await store.workers() if each.gone_at is None]


async def exists(store: Store, job_id: str) -> bool:
    """True if a job is there."""
    return bool(await store.get([job_id]))


def outcomes() -> dict[str, Outcome]:
    """One outcome of every kind, by name."""
    return {
        "succeeded": Succeeded(result='"fine"'),
        "retry": Retry(delay=5.0, failure=failure()),
        "snoozed": Snoozed(delay=5.0),
        "dead": Dead(reason=DeadReason.ABORTED, failure=failure()),
        "cancelled": Cancelled(failure=failure(kind="cancelled")),
        "released": Released(),
    }


OUTCOMES = tuple(outcomes())

"""Calls of the model-based test, without what the contract leaves open in their answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from offpath.errors import UniqueConflict
from offpath.model.changes import ChangedJob
from offpath.model.effects import Effects
from offpath.model.job import Enqueued
from offpath.model.lease import Leased, LeaseRequest, Rescued
from offpath.model.settlement import Settled, Settlement
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.builders import worker_info
from tests.conformance.model_values import TASKS

Settle = Callable[[Store, list[Settlement]], Awaitable[list[Settled]]]
MANY = 1_000
_A_CONFLICT = UniqueConflict("one of several", key="", holder="")


async def settle(store: Store, batch: list[Settlement]) -> list[Settled]:
    """Settle these."""
    return await store.settle(batch)


async def settle_unnamed(store: Store, batch: list[Settlement]) -> list[Settled]:
    """Settle these; which of several conflicts an error names is left open.

    So is the time of a job that its own effects rewrote: as it was put off, or as it is now.
    """
    answers = await store.settle(batch)
    timed = [replace(one, enqueued=tuple(last_times(one.enqueued))) for one in answers]
    timed = [
        replace(one, run_at=None) if one.id in {each.job_id for each in one.enqueued} else one
        for one in timed
    ]
    return [
        replace(one, error=_A_CONFLICT) if isinstance(one.error, UniqueConflict) else one
        for one in timed
    ]


async def commit_unnamed(store: Store, *, effects: Effects) -> list[Enqueued]:
    """Enqueue these; which of several conflicts an error names is left open.

    So is the time in the answer to one whose job another one of the same call rewrote again: as it
    was then, or as it is now.
    """
    try:
        return last_times(await store.commit(effects))
    except UniqueConflict:
        raise _A_CONFLICT from None


def last_times(answers: Sequence[Enqueued]) -> list[Enqueued]:
    """The answers, each job's time only where it stands last."""
    last = {each.job_id: number for number, each in enumerate(answers)}
    return [
        each if last[each.job_id] == number else replace(each, run_at=None)
        for number, each in enumerate(answers)
    ]


def request_of(worker: str, limit: int) -> LeaseRequest:
    return LeaseRequest(worker=worker, limit=limit, tasks=dict.fromkeys(TASKS, 8))


async def lease(store: Store, *, request: LeaseRequest, alive: bool) -> Leased:
    """A worker that may take nothing need not be told when it could have taken something."""
    answer = await store.lease(request)
    return answer if alive else replace(answer, due_in=None)


async def lease_apart(store: Store, *, request: LeaseRequest) -> Leased:
    """Whoever leases first makes due jobs ready, so that each sees the same ones."""
    await store.lease(replace(request, suspects_only=False, limit=0))
    return await store.lease(request)


async def rescue(store: Store, *, max_deliveries: int, keep: float | None) -> list[Rescued]:
    return await store.rescue(limit=MANY, max_deliveries=max_deliveries, keep=keep)


async def redrive(store: Store, *, redrives: list[JobRedrive]) -> list[ChangedJob]:
    return await store.redrive(redrives)


async def register(store: Store, *, worker: str, lease_seconds: float) -> None:
    """Without the answer: it is no more than a capability."""
    await store.register(worker_info(worker), lease_seconds=lease_seconds)

"""Transitions of jobs that exist, except their settlement."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from offpath.errors import LeaseLost
from offpath.model.job import DeadReason, Failure, JobRecord, JobState, LeasedJob
from offpath.model.lease import Leased, LeaseRequest, Rescued
from offpath.store.changes import Changed
from offpath.store.memory.lanes import Lane
from offpath.store.memory.moments import later, maybe_later
from offpath.store.memory.records import (
    cancelled,
    ended,
    fresh,
    handed_out,
    leased,
    waiting,
)
from offpath.store.memory.tables import Tables
from offpath.store.protocol import Redrive

_PROMOTED_AT_ONCE = 1000
_WAITING = (JobState.BLOCKED, JobState.QUEUED)
_REDRIVABLE = (JobState.DEAD, JobState.CANCELLED)


# -- lease ---------------------------------------------------------------------------------------


def lease(tables: Tables, now: datetime, request: LeaseRequest) -> Leased:
    """Hand out the best ready jobs of the lanes that were asked for."""
    worker = tables.workers.get(request.worker)
    if worker is None or worker.expires_at <= now:
        return Leased(jobs=(), now=now)
    room = _room(request)
    lanes = tables.lanes.of(room, request.queues)
    held_back = _promote(tables, now, lanes)
    taken, left = _take(tables, now, lanes, request, room)
    return Leased(
        jobs=tuple(leased(job) for job in taken),
        now=now,
        more=left or held_back,
        due_in=_due_in(lanes, now),
    )


def _room(request: LeaseRequest) -> dict[str, int]:
    """How many of each task may be had. The limit as a whole is never a task's own."""
    return {
        task: count if count < request.limit else request.limit + 1
        for task, count in request.tasks.items()
        if count > 0
    }


def _promote(tables: Tables, now: datetime, lanes: Iterable[Lane]) -> bool:
    """Make due scheduled jobs ready; True when some had to be left for the next time."""
    budget = _PROMOTED_AT_ONCE
    for lane in lanes:
        budget -= lane.promote(tables.jobs, now, budget)
        if budget == 0:
            return True
    return False


def _take(
    tables: Tables, now: datetime, lanes: list[Lane], request: LeaseRequest, room: dict[str, int]
) -> tuple[list[JobRecord], bool]:
    """The best of all lanes, merged; also whether more could be had with what room is left."""
    heads = [(first[0], lane) for lane in lanes if (first := lane.ready.first())]
    heapq.heapify(heads)
    taken: list[JobRecord] = []
    while heads and len(taken) < request.limit:
        place, lane = heads[0]
        job = handed_out(tables.jobs[place[2]], request.worker, now)
        tables.file(job, now)
        taken.append(job)
        room[lane.task] -= 1
        if room[lane.task] == 0:
            heads = [head for head in heads if head[1].task != lane.task]
            heapq.heapify(heads)
        elif first := lane.ready.first():
            heapq.heapreplace(heads, (first[0], lane))
        else:
            heapq.heappop(heads)
    return taken, bool(heads)


def _due_in(lanes: Iterable[Lane], now: datetime) -> float | None:
    due = min((at for lane in lanes if (at := lane.due_at())), default=None)
    return None if due is None else max((due - now).total_seconds(), 0.0)


def progress(tables: Tables, now: datetime, job: LeasedJob, text: str) -> None:
    """Record how far a held job is."""
    held = tables.held_by(job)
    if held is None:
        raise LeaseLost(f"job {job.id} is not held by this worker any more: stop working on it")
    tables.file(replace(held, progress=text), now)


# -- an operator's calls -------------------------------------------------------------------------


def cancel(tables: Tables, now: datetime, ids: Sequence[str], keep: float | None) -> list[Changed]:
    """End what waits, mark what runs."""
    expires_at = maybe_later(now, keep)
    changed: list[Changed] = []
    for job in _each(tables, ids):
        if job.state in _WAITING:
            after = cancelled(job, now, expires_at)
        elif job.state is JobState.RUNNING:
            after = replace(job, cancel_requested=True)
        else:
            continue
        changed.append(_changed(job, after, group_done=tables.file(after, now)))
    return changed


def redrive(tables: Tables, now: datetime, redrives: Sequence[Redrive]) -> list[Changed]:
    """Put ended jobs back, and make waiting ones due."""
    due = {each.id: later(now, each.delay) for each in redrives}
    changed: list[Changed] = []
    for job in _each(tables, due):
        after = _redriven(tables, now, job, due[job.id])
        if after is not None:
            tables.file(after, now)
            changed.append(_changed(job, after))
    return changed


def _redriven(tables: Tables, now: datetime, job: JobRecord, run_at: datetime) -> JobRecord | None:
    if job.state is JobState.QUEUED:
        return replace(job, run_at=run_at, reason=None)
    if job.state not in _REDRIVABLE or _key_is_taken(tables, now, job):
        return None
    return fresh(job, run_at, maybe_later(now, tables.terms(job.id).deadline_in))


def _key_is_taken(tables: Tables, now: datetime, job: JobRecord) -> bool:
    """Whether another job holds the unique key that this one would hold again."""
    unique = tables.terms(job.id).unique
    if unique is None or JobState.QUEUED not in unique.states:
        return False
    holder = tables.holder_of(unique.key, now)
    return holder is not None and holder.id != job.id


def delete(tables: Tables, ids: Sequence[str]) -> list[Changed]:
    """Remove ended jobs."""
    ended_jobs = [job for job in _each(tables, ids) if job.state.terminal]
    for job in ended_jobs:
        tables.drop(job)
    return [_changed(job, job) for job in ended_jobs]


def _each(tables: Tables, ids: Iterable[str]) -> list[JobRecord]:
    """The jobs of these ids that exist, each once, in the order of their ids."""
    return [job for each in sorted(set(ids)) if (job := tables.jobs.get(each))]


def _changed(before: JobRecord, after: JobRecord, *, group_done: bool = False) -> Changed:
    return Changed(
        id=after.id,
        task=after.task,
        queue=after.queue,
        group_id=after.group_id,
        was=before.state,
        state=after.state,
        attempt=after.attempt,
        parent=after.parent,
        group_done=group_done,
    )


# -- upkeep --------------------------------------------------------------------------------------


class Rules(Struct, frozen=True, kw_only=True):
    """How a rescue ends."""

    max_deliveries: int
    expires_at: datetime | None


def rescue(
    tables: Tables, now: datetime, *, limit: int, max_deliveries: int, keep: float | None
) -> list[Rescued]:
    """Take jobs from workers that are gone, and note which hold nothing more."""
    rules = Rules(max_deliveries=max_deliveries, expires_at=maybe_later(now, keep))
    orphans = list(islice(_orphans(tables, now), limit))
    rescued = [_rescue_one(tables, now, job, rules) for job in orphans]
    for worker in [w for w in tables.workers.values() if w.expires_at <= now]:
        if worker.gone_at is None and worker.info.id not in tables.held:
            tables.workers[worker.info.id] = replace(worker, gone_at=now)
    return rescued


def _orphans(tables: Tables, now: datetime) -> Iterator[JobRecord]:
    for holder in sorted(tables.held):
        worker = tables.workers.get(holder)
        if worker is None or worker.expires_at <= now:
            yield from (tables.jobs[each] for each in tables.held[holder])


def _rescue_one(tables: Tables, now: datetime, job: JobRecord, rules: Rules) -> Rescued:
    lost = replace(job, losses=job.losses + 1)
    if job.cancel_requested:
        after = cancelled(lost, now, rules.expires_at)
    elif lost.losses < rules.max_deliveries:
        after = waiting(lost, job.run_at, attempt=job.attempt)
    else:
        reason = DeadReason.WORKER_LOST.value
        failure = _worker_lost(lost, now)
        after = ended(lost, JobState.DEAD, now, rules.expires_at, reason=reason, failure=failure)
    group_done = tables.file(after, now)
    return Rescued(job=leased(lost), state=after.state, group_done=group_done)


def _worker_lost(job: JobRecord, now: datetime) -> Failure:
    return Failure(
        kind="worker_lost",
        type="WorkerLost",
        message=f"{job.losses} workers died holding this job; the last was {job.worker}",
        attempt=job.attempt,
        at=now,
    )


def prune(tables: Tables, now: datetime, limit: int) -> int:
    """Remove ended jobs whose time has come."""
    removed = 0
    while removed < limit and (first := tables.expiring.first()) and first[0] <= now:
        tables.drop(tables.jobs[first[1]])
        removed += 1
    return removed

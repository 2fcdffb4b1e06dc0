"""Suspects: handed out apart from other jobs, begun when their worker runs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from offpath.model import suspicion
from offpath.model.job import JobRecord, JobState, LeasedJob
from offpath.model.lease import Leased, LeaseRequest
from offpath.model.suspicion import CLEARED, Suspect
from offpath.store.memory import pauses
from offpath.store.rows.jobs import handed_out, leased

if TYPE_CHECKING:
    from offpath.store.memory.tables import Tables


def lease(tables: Tables, now: datetime, request: LeaseRequest) -> Leased:
    """Hand out a set of suspects, not begun yet."""
    # A worker with suspects in hand gets no more: its crash would accuse both sets.
    if request.worker not in tables.workers or _holds_some(tables, request.worker):
        return Leased(jobs=(), now=now)
    ready = _ready(tables, now, request)
    if not ready:
        return Leased(jobs=(), now=now)
    crash_of = tables.suspects.crash_of
    ready.sort(key=lambda job: _rank(tables, job))
    crash = crash_of[ready[0].id]
    left = sum(of == crash for of in crash_of.values())
    suspects = [Suspect(job.id, job.task, job.queue) for job in ready if crash_of[job.id] == crash]
    ids = suspicion.chosen(suspects, request, suspicion.most_together(crash, left))
    return Leased(jobs=tuple(_hand_out(tables, now, request, ids)), now=now, more=True)


def _rank(tables: Tables, job: JobRecord) -> tuple[bool, int, datetime, str]:
    cleared = tables.suspects.crash_of[job.id] == CLEARED
    return cleared, -job.priority, job.run_at, job.id


def _holds_some(tables: Tables, worker: str) -> bool:
    return any(each in tables.suspects.crash_of for each in tables.held.get(worker, ()))


def _ready(tables: Tables, now: datetime, request: LeaseRequest) -> list[JobRecord]:
    worker = tables.workers[request.worker]
    if worker.expires_at <= now:
        return []
    paused = {queue: True for queue in tables.pauses if pauses.paused(tables, now, queue)}
    known = [tables.jobs[each] for each in tables.suspects.crash_of]
    return [
        job
        for job in known
        if job.state is JobState.QUEUED
        and job.run_at <= now
        and tables.lanes.is_ready(job)
        and not tables.awaits_key(job, now)
        and suspicion.ready_for(request, paused, Suspect(job.id, job.task, job.queue))
    ]


def _hand_out(
    tables: Tables, now: datetime, request: LeaseRequest, ids: Sequence[str]
) -> list[LeasedJob]:
    taken = list[LeasedJob]()
    for each in ids:
        if tables.awaits_key(tables.jobs[each], now):
            continue  # one of this set has it
        job = handed_out(tables.jobs[each], request.worker, now)
        # A worker that is lost before it begins them must not count against them.
        reserved = replace(job, started_at=None)
        tables.file(reserved, now)
        taken.append(leased(reserved))
    if len(taken) == 1:
        tables.suspects.alone.add(taken[0].id)
    return taken


def begin(tables: Tables, now: datetime, jobs: Sequence[LeasedJob]) -> set[str]:
    """Reserved jobs run from now on; the ids of those that their holder still has."""
    begun = set[str]()
    for job in jobs:
        held = tables.held_by(job)
        if held is not None:
            tables.file(replace(held, started_at=now), now)
            begun.add(job.id)
    return begun

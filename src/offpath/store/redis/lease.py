"""Handing out ready jobs; and suspects, which run apart from all others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from offpath.model import suspicion
from offpath.model.announce import STREAM
from offpath.model.job import JobState, LeasedJob, NewJob
from offpath.model.lease import Leased, LeaseRequest
from offpath.model.suspicion import CLEARED, Suspect
from offpath.store.partial import refuse_absent_job
from offpath.store.redis import enqueue, keys
from offpath.store.redis.capabilities import CAPABILITIES
from offpath.store.redis.connection import RedisConnection, packed
from offpath.store.redis.job_rows import StoredJob, leased_job, moment
from offpath.store.redis.reads import paused_queues
from offpath.store.redis.unit import Unit
from offpath.store.refusals import not_registered, refuse_waiting
from offpath.store.rows.jobs import handed_out, holds, leased

_NOT_YET: Final = packed([])
"""The answer while the order that was asked for is still being made, a part at each call."""
_unpacked = msgspec.msgpack.Decoder(list[Any]).decode


async def lease(connection: RedisConnection, request: LeaseRequest, new_id: str) -> Leased:
    """Hand out the best ready jobs, in one call of a function unless their order is to be made."""
    now = connection.given_time()
    at = "" if connection.clock is None else _shown(connection.clock.now())
    asked = {
        "worker": request.worker,
        "limit": request.limit,
        "order": request.order,
        "tasks": request.tasks,
        "queues": request.queues,
        "queue_rooms": request.queue_rooms,
        "served": request.served,
        "declined": request.declined,
        "stream": STREAM,
        "id": new_id,
        "at": at,
    }
    question = packed(asked)
    # It ends: each call makes a part of the order.
    while True:
        answer = await connection.call("lease", question, now)
        if answer != _NOT_YET:
            return _leased(connection, answer)


def _shown(at: datetime) -> str:
    """A moment as announcements have it."""
    return at.isoformat().replace("+00:00", "Z")


def _leased(connection: RedisConnection, answer: bytes) -> Leased:
    told, more, due, *rest = _unpacked(answer)
    now = moment(told)
    if connection.clock is None:
        connection.measured(int(told))
    rows = iter(rest)
    jobs = tuple(leased_job(*each) for each in zip(rows, rows, rows, strict=True))
    due_in = max((moment(due) - now).total_seconds(), 0.0) if due else None
    return Leased(jobs=jobs, now=now, more=more, due_in=due_in)


async def start(unit: Unit, job: NewJob, worker: str) -> LeasedJob | None:
    """Enqueue a job and hand it to a worker; None when it was not created, or waits for its key."""
    refuse_waiting(job)
    refuse_absent_job(CAPABILITIES, job)
    expires = await unit.hash_field(keys.WORKER + worker, "x")
    # A worker whose lease is over may be found dead at any moment: what it began here would run
    # twice.
    if expires is None or moment(expires.decode()) <= unit.now:
        raise not_registered(worker)
    claims = [] if job.unique is None else [job.unique.key]
    await unit.load([job.id], unique=claims)
    if job.group_id not in {None, job.id}:
        await unit.load_groups([str(job.group_id)])
    if not enqueue.add_job(unit, job).created:
        return None
    row = unit.job(job.id)
    # It was created, and stays: it runs later, wherever its key is free first.
    if row is None or unit.awaits_key(row):
        return None
    running = handed_out(row.record, worker, unit.now)
    unit.file(row._replace(record=running))
    await _ends_being_alone(unit, worker)
    return leased(running)


async def _ends_being_alone(unit: Unit, worker: str) -> None:
    """A suspect that was handed out alone has company now: this begins whatever runs there."""
    for row in await _suspects(unit):
        if row.alone and row.record.worker == worker:
            unit.file(row._replace(alone=False))


# -- suspects ------------------------------------------------------------------------------------


async def lease_suspects(unit: Unit, request: LeaseRequest) -> Leased:
    """Hand out a set of suspects, not begun yet."""
    expires = await unit.hash_field(keys.WORKER + request.worker, "x")
    nobody = Leased(jobs=(), now=unit.now)
    # A rescue could take the set back while this worker begins it.
    if expires is None or moment(expires.decode()) <= unit.now:
        return nobody
    suspects = await _suspects(unit)
    # One set at a time: a crash must name the set that caused it.
    if any(each.record.worker == request.worker for each in suspects):
        return nobody
    paused = await paused_queues(unit)
    ready = [
        each
        for each in suspects
        if each.record.state is JobState.QUEUED
        and each.record.run_at <= unit.now
        and not unit.awaits_key(each)
        and suspicion.ready_for(request, paused, _as_suspect(each))
    ]
    if not ready:
        return nobody
    ready.sort(key=_rank)
    crash = ready[0].crash or CLEARED
    left = sum(each.crash == crash for each in suspects)
    # Of one crash only: whoever crashes with them then says something of this half.
    together = [_as_suspect(each) for each in ready if each.crash == crash]
    ids = suspicion.chosen(together, request, suspicion.most_together(crash, left))
    return Leased(jobs=tuple(_hand_out(unit, request, ids)), now=unit.now, more=True)


async def _suspects(unit: Unit) -> list[StoredJob]:
    (found,) = await unit.read(["ZRANGE", unit.key(keys.SUSPECTS), 0, suspicion.MOST_READ - 1])
    ids = [each.decode() for each in found]
    await unit.load(ids)
    rows = (unit.job(each) for each in ids)
    return [row for row in rows if row is not None and row.crash is not None]


def _as_suspect(row: StoredJob) -> Suspect:
    return Suspect(row.record.id, row.record.task, row.record.queue)


def _rank(row: StoredJob) -> tuple[bool, int, datetime, str]:
    job = row.record
    return row.crash == CLEARED, -job.priority, job.run_at, job.id


def _hand_out(unit: Unit, request: LeaseRequest, ids: Sequence[str]) -> list[LeasedJob]:
    taken: list[StoredJob] = []
    for each in ids:
        row = unit.job(each)
        if row is None or unit.awaits_key(row):
            continue  # one of this set has it
        # Not begun: a worker that dies before it begins has proved nothing against them.
        job = replace(handed_out(row.record, request.worker, unit.now), started_at=None)
        taken.append(row._replace(record=job))
        unit.file(taken[-1])
    if len(taken) == 1:
        unit.file(taken[0]._replace(alone=True))
    return [leased(row.record) for row in taken]


async def begin(unit: Unit, jobs: Sequence[LeasedJob]) -> set[str]:
    """Reserved jobs run from now on; the ids of those that their holder still has."""
    await unit.load(each.id for each in jobs)
    begun = set[str]()
    for each in jobs:
        row = unit.job(each.id)
        if row is not None and holds(row.record, each):
            unit.file(row._replace(record=replace(row.record, started_at=unit.now)))
            begun.add(each.id)
    return begun

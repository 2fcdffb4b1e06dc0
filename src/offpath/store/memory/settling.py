"""The end of attempts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from offpath.errors import Conflict, StoreRejected
from offpath.model.job import Enqueued, JobRecord, JobState
from offpath.model.settlement import Settled, Settlement, SettleStatus, Snoozed, Succeeded
from offpath.store.memory.effects import Writing
from offpath.store.memory.moments import maybe_later
from offpath.store.memory.records import settled
from offpath.store.memory.tables import Tables

_QUEUED = JobState.QUEUED
_APPLIED = SettleStatus.APPLIED


class Batch(Struct, kw_only=True):
    """The answers to a batch of settlements, and what it left behind."""

    answers: list[Settled]
    ended: bool = False
    waiting: bool = False


def settle(tables: Tables, now: datetime, settlements: Sequence[Settlement]) -> Batch:
    """Settle each; one that cannot be holds back none of the others."""
    batch = Batch(answers=[])
    for settlement in settlements:
        batch.answers.append(_settle_one(tables, now, settlement, batch))
    return batch


def _settle_one(tables: Tables, now: datetime, settlement: Settlement, batch: Batch) -> Settled:
    held = tables.held_by(settlement.job)
    if held is None:
        return Settled(id=settlement.job.id, status=SettleStatus.LEASE_LOST)
    try:
        job = settled(held, settlement.outcome, now, maybe_later(now, settlement.keep))
        if settlement.effects and _carries_effects(held, settlement):
            return _settle_with_effects(tables, now, settlement, job, batch)
    except (Conflict, StoreRejected) as error:
        return Settled(id=held.id, status=SettleStatus.REFUSED, error=error)
    return _answer(job, batch, group_done=tables.file(job, now))


def _carries_effects(held: JobRecord, settlement: Settlement) -> bool:
    return not held.cancel_requested and isinstance(settlement.outcome, Succeeded | Snoozed)


def _settle_with_effects(
    tables: Tables, now: datetime, settlement: Settlement, job: JobRecord, batch: Batch
) -> Settled:
    writing = Writing(tables, now)
    writing.jobs.becomes(job)
    writing.add(settlement.effects, job.group_id)
    # It may have been rewritten by its own effects; and its children join the group before it
    # leaves, or the group would seem done in between.
    job = writing.jobs.record(job.id)
    batch.waiting = batch.waiting or bool(settlement.effects.jobs)
    group_done = writing.apply(last=job.id)
    return _answer(job, batch, tuple(writing.answers), group_done=group_done)


def _answer(
    job: JobRecord, batch: Batch, enqueued: tuple[Enqueued, ...] = (), *, group_done: bool
) -> Settled:
    waits = job.state is _QUEUED
    if waits:
        batch.waiting = True
    else:
        batch.ended = True
    return Settled(
        id=job.id,
        status=_APPLIED,
        state=job.state,
        run_at=job.run_at if waits else None,
        enqueued=enqueued,
        group_done=group_done,
    )

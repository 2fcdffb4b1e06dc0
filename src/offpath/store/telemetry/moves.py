"""The meaning of a store's answers: which jobs went from which state to which, and as what event.

Pure functions from what was asked and answered to :class:`Move` lists, shared by the metrics and
the event hooks, so that no transition can be seen by one and missed by the other.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, assert_never

from msgspec import Struct, json

from offpath.model.changes import ChangedJob
from offpath.model.event import EventKind, JobEvent
from offpath.model.job import TERMINAL, DeadReason, Failure, JobState, LeasedJob, NewJob, Progress
from offpath.model.options import decode_run
from offpath.model.settlement import (
    Cancelled,
    Dead,
    Released,
    Retry,
    Settled,
    Settlement,
    SettleStatus,
    Snoozed,
    Succeeded,
    Waiting,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from offpath.model.job import Enqueued
    from offpath.model.lease import Rescued


class Move(Struct, frozen=True, eq=False):
    """The way one job went. ``left`` is None for a new job, ``entered`` for a deleted one.

    Made by :func:`move` only, which gives the same object for the same way: what counts moves
    compares identities, which is much cheaper than five fields a job.
    """

    task: str
    queue: str
    left: JobState | None
    entered: JobState | None
    kinds: tuple[EventKind, ...]
    """The events that hooks are told, in this order."""


class MoveStep(Struct, frozen=True, gc=False):
    """One transition of one job, with what its events need."""

    move: Move
    job: NewJob | LeasedJob | ChangedJob
    """The job as it was asked for, held or changed."""
    settlement: Settlement | None = None
    run_at: datetime | None = None
    group_done: bool = False
    progress: Progress | None = None


# A bound, since each queue makes new ways. One that has fallen out is made anew and counts in the
# same series.
@lru_cache(maxsize=10_000)
def move(
    task: str,
    queue: str,
    left: JobState | None,
    entered: JobState | None,
    kinds: tuple[EventKind, ...],
) -> Move:
    """Return the one object for this way. What is blocked counts as queued: it is let go in a call
    about other jobs.
    """
    return Move(task, queue, _unblocked(left), _unblocked(entered), kinds)


def _unblocked(state: JobState | None) -> JobState | None:
    return _S.QUEUED if state is _S.BLOCKED else state


@lru_cache(maxsize=10_000)
def _queued(task: str, queue: str) -> Move:
    """The way of a new job. Looked up by two texts: to hash a state costs a frame."""
    return move(task, queue, None, _S.QUEUED, (_K.QUEUED,))


_K = EventKind
_S = JobState
_ENDS: dict[type, tuple[JobState, tuple[EventKind, ...]]] = {
    Succeeded: (_S.SUCCEEDED, (_K.SUCCEEDED,)),
    Retry: (_S.QUEUED, (_K.FAILED,)),
    Snoozed: (_S.QUEUED, (_K.SNOOZED,)),
    Waiting: (_S.QUEUED, (_K.SNOOZED,)),
    Dead: (_S.DEAD, (_K.FAILED, _K.DEAD)),
    Cancelled: (_S.CANCELLED, (_K.CANCELLED,)),
    Released: (_S.QUEUED, (_K.RELEASED,)),
}
_CANCELLED_END = _ENDS[Cancelled]
_EXPIRED = (_K.EXPIRED, _K.DEAD)
_EXPIRED_END = (_S.DEAD, _EXPIRED)
_CHANGES: dict[JobState, tuple[EventKind, ...]] = {
    _S.CANCELLED: (_K.CANCELLED,),
    _S.DEAD: (_K.DEAD,),
    _S.BLOCKED: (_K.QUEUED,),
    _S.QUEUED: (_K.QUEUED,),
}
_RESCUES: dict[JobState, tuple[EventKind, ...]] = {
    _S.QUEUED: (_K.RESCUED,),
    _S.DEAD: (_K.RESCUED, _K.DEAD),
    _S.CANCELLED: (_K.RESCUED, _K.CANCELLED),
}


def enqueued(jobs: Sequence[NewJob], answers: Sequence[Enqueued]) -> Iterator[MoveStep]:
    """Say which of ``jobs`` are new; repeats and attached ones went nowhere."""
    for job, answer in zip(jobs, answers, strict=True):
        if answer.created:
            yield MoveStep(_queued(job.task, job.queue), job, None, answer.run_at)
    for answer in answers:
        if answer.along:
            yield from changed(answer.along)


def leased(jobs: Iterable[LeasedJob]) -> Iterator[MoveStep]:
    """Say that these jobs started."""
    for job in jobs:
        yield MoveStep(move(job.task, job.queue, _S.QUEUED, _S.RUNNING, (_K.STARTED,)), job)


def settled(settlements: Sequence[Settlement], answers: Sequence[Settled]) -> Iterator[MoveStep]:
    """Say how these attempts ended, and which jobs their effects made."""
    for settlement, answer in zip(settlements, answers, strict=True):
        if answer.status is not SettleStatus.APPLIED:
            continue
        job = settlement.job
        entered, kinds = _end(settlement, answer)
        yield MoveStep(
            move(job.task, job.queue, _S.RUNNING, entered, kinds),
            job,
            settlement,
            answer.run_at,
            answer.group_done,
        )
        if answer.enqueued:
            jobs = settlement.effects.jobs
            yield from enqueued(jobs, answer.enqueued[: len(jobs)])
        if answer.along:
            yield from changed(answer.along)


def progressed(job: LeasedJob, text: str) -> MoveStep:
    """Say how far a running job is: it goes nowhere."""
    way = move(job.task, job.queue, None, None, (_K.PROGRESS,))
    return MoveStep(way, job, progress=json.decode(text, type=Progress))


def rescued(answers: Iterable[Rescued]) -> Iterator[MoveStep]:
    """Say what became of jobs whose worker is gone."""
    for answer in answers:
        job = answer.job
        way = move(job.task, job.queue, _S.RUNNING, answer.state, _RESCUES[answer.state])
        yield MoveStep(way, job, group_done=answer.group_done)
        yield from changed(answer.along)


def changed(answers: Iterable[ChangedJob]) -> Iterator[MoveStep]:
    """Say what an operator's call, a sweep or a gate changed; a mere request changed nothing."""
    for answer in answers:
        if _unblocked(answer.was) is _unblocked(answer.state):
            continue
        kinds = _EXPIRED if answer.reason is DeadReason.DEADLINE else _CHANGES[answer.state]
        way = move(answer.task, answer.queue, answer.was, answer.state, kinds)
        yield MoveStep(way, answer, group_done=answer.group_done)


def amended(answers: Iterable[ChangedJob]) -> Iterator[MoveStep]:
    """Say which jobs wait in another queue: each has left the one, and entered the other."""
    for answer in answers:
        if answer.was_in is not None:
            yield MoveStep(move(answer.task, answer.was_in, answer.was, None, ()), answer)
            yield MoveStep(move(answer.task, answer.queue, None, answer.state, ()), answer)


def deleted(answers: Iterable[ChangedJob]) -> Iterator[MoveStep]:
    """Say which ended jobs are gone."""
    for answer in answers:
        yield MoveStep(move(answer.task, answer.queue, answer.was, None, ()), answer)


def ended(steps: Iterable[MoveStep]) -> list[str]:
    """Return the ids of the jobs that ended."""
    return [step.job.id for step in steps if step.move.entered in TERMINAL]


def events(step: MoveStep, at: datetime) -> Iterator[JobEvent]:
    """Return what hooks are told about one step."""
    for kind in step.move.kinds:
        yield _event(kind, step, at)
    if step.group_done:
        yield _event(_K.GROUP_DONE, step, at)


def _end(settlement: Settlement, answer: Settled) -> tuple[JobState, tuple[EventKind, ...]]:
    outcome = settlement.outcome
    if answer.state is _S.CANCELLED:  # whatever the outcome was: it had been asked for
        return _CANCELLED_END
    if isinstance(outcome, Dead) and outcome.reason is DeadReason.DEADLINE:
        return _EXPIRED_END
    return _ENDS[type(outcome)]


def _event(kind: EventKind, step: MoveStep, at: datetime) -> JobEvent:
    job, settlement = step.job, step.settlement
    outcome = None if settlement is None else settlement.outcome
    return JobEvent(
        kind=kind,
        at=at,
        id=job.id,
        task=job.task,
        queue=job.queue,
        group_id=job.group_id or job.id,
        attempt=getattr(job, "attempt", 1),
        parent=job.parent,
        dependents=getattr(job, "dependents", ()),
        run_at=step.run_at,
        will_retry=isinstance(outcome, Retry),
        failure=_failure(settlement),
        reason=(reason := _reason(step)),
        scheduled_for=_occurrence(step) if reason is DeadReason.WORKER_LOST else None,
        progress=step.progress,
        result=outcome.result if kind is _K.SUCCEEDED and isinstance(outcome, Succeeded) else None,
    )


def _occurrence(step: MoveStep) -> datetime | None:
    """The time that a schedule made a job for: no attempt has an end that would tell it."""
    job = step.job
    if not isinstance(job, LeasedJob) or job.unreadable is not None:
        return None
    return decode_run(job.options).scheduled_for


def _failure(settlement: Settlement | None) -> Failure | None:
    if settlement is None:
        return None
    match settlement.outcome:
        case Retry(failure=failure) | Dead(failure=failure) | Cancelled(failure=failure):
            return failure
        case Succeeded() | Snoozed() | Waiting() | Released():
            return None
    assert_never(settlement.outcome)


def _reason(step: MoveStep) -> DeadReason | None:
    if step.move.entered is not _S.DEAD:
        return None
    if isinstance(step.job, ChangedJob):
        return step.job.reason
    outcome = None if step.settlement is None else step.settlement.outcome
    return outcome.reason if isinstance(outcome, Dead) else DeadReason.WORKER_LOST

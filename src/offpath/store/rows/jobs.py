"""The step from a record to its next state. Pure: the caller files what these make."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import assert_never

from msgspec import Struct
from msgspec.structs import asdict, replace

from offpath.model.amendment import Amendment
from offpath.model.changes import ChangedJob
from offpath.model.group import GroupPolicy
from offpath.model.job import (
    BlockReason,
    DeadReason,
    Enqueued,
    Failure,
    JobRecord,
    JobState,
    LeasedJob,
    NewJob,
    UniqueClaim,
)
from offpath.model.lease import loss_text
from offpath.model.limit import LimitSpec
from offpath.model.settlement import (
    Cancelled,
    Dead,
    Outcome,
    Released,
    Retry,
    Settled,
    SettleStatus,
    Snoozed,
    Succeeded,
    Waiting,
)
from offpath.store.refusals import id_taken
from offpath.store.rows.instants import later, maybe_later


class JobTerms(Struct, frozen=True, kw_only=True):
    """The terms of one job."""

    unique: UniqueClaim | None = None
    unique_until: datetime | None = None
    deadline_in: float | None = None
    announce: int = 0
    gated_delay: float | None = None
    """Seconds from the release of its gate; None when its run time is a moment."""
    limit: LimitSpec | None = None
    policy: GroupPolicy = GroupPolicy.SETTLE_ALL

    def in_scope(self, state: JobState, now: datetime) -> bool:
        """True if a job in ``state`` may have its unique key at ``now``."""
        if self.unique is None or state not in self.unique.states:
            return False
        return self.unique_until is None or now < self.unique_until


PLAIN = JobTerms()


_BLOCKED = JobState.BLOCKED
_QUEUED = JobState.QUEUED
_RUNNING = JobState.RUNNING
# A job that fails for weeks must not grow without a bound.
_FAILURES_KEPT = 50


def run_at_of(job: NewJob, now: datetime) -> datetime:
    """The time when a new job is due."""
    return later(now, job.delay) if job.run_at is None else job.run_at.astimezone(UTC)


def deadline_of(job: NewJob, now: datetime) -> datetime | None:
    """The deadline of a new job. At a gate, one that counts from now counts from the release."""
    if job.deadline is not None:
        return job.deadline.astimezone(UTC)
    return None if job.gate is not None else maybe_later(now, job.deadline_in)


def terms_of(job: NewJob, now: datetime) -> JobTerms:
    """The terms of a new job."""
    if _is_plain(job):
        return PLAIN
    period = None if job.unique is None else job.unique.period
    return JobTerms(
        unique=job.unique,
        unique_until=maybe_later(now, period),
        deadline_in=job.deadline_in,
        announce=job.announce,
        gated_delay=job.delay if job.run_at is None else None,
        limit=job.limit,
        policy=job.group_policy,
    )


def _is_plain(job: NewJob) -> bool:
    return (
        job.unique is None
        and job.deadline_in is None
        and not job.announce
        and job.gate is None
        and job.limit is None
        and job.group_policy is GroupPolicy.SETTLE_ALL
    )


def enqueued(job: NewJob, now: datetime, group_id: str) -> JobRecord:
    """The record of a new job."""
    record = JobRecord(
        id=job.id,
        task=job.task,
        queue=job.queue,
        state=_QUEUED if job.gate is None else _BLOCKED,
        priority=job.priority,
        run_at=run_at_of(job, now),
        enqueued_at=now,
        attempt=1,
        deliveries=0,
        losses=0,
        redrives=0,
        group_id=group_id,
        input=job.input,
        options=job.options,
        fingerprint=job.fingerprint,
        parent=job.parent,
        dependents=job.dependents,
        deadline=deadline_of(job, now),
        unique_key=None if job.unique is None else job.unique.key,
        tags=job.tags,
        gate=job.gate,
        limit_key=None if job.limit is None else job.limit.key,
        fair_key=job.fair_key,
        headers=job.headers,
        reason=None if job.gate is None else BlockReason.GATE.value,
    )
    return arrived(record, now)


def arrived(job: JobRecord, now: datetime) -> JobRecord:
    """A queued job that has come to its turn: when due, one with a limit waits to be admitted."""
    if job.limit_key is None or job.state is not _QUEUED or job.run_at > now:
        return job
    return replace(job, state=_BLOCKED, reason=BlockReason.LIMIT.value)


def admitted(job: JobRecord) -> JobRecord:
    """A job that its limit has let in."""
    return replace(job, state=_QUEUED, reason=None)


def held_again(job: JobRecord) -> JobRecord:
    """A ready job that its limit takes back."""
    return replace(job, state=_BLOCKED, reason=BlockReason.LIMIT.value)


def released(job: JobRecord, terms: JobTerms, now: datetime) -> JobRecord:
    """A job whose gate has fired: what counts from now counts from this moment."""
    run_at = job.run_at if terms.gated_delay is None else later(now, terms.gated_delay)
    deadline = job.deadline or maybe_later(now, terms.deadline_in)
    free = replace(job, state=_QUEUED, gate=None, run_at=run_at, deadline=deadline, reason=None)
    return arrived(free, now)


def woken(job: JobRecord, now: datetime) -> JobRecord:
    """A job whose wait for a signal is over, however it ended."""
    return arrived(replace(job, state=_QUEUED, run_at=now, reason=None), now)


def given_up(
    job: JobRecord, reason: DeadReason, now: datetime, expires_at: datetime | None
) -> JobRecord:
    """A job that dies of its waiting."""
    failure = Failure(
        kind=reason.value,
        type=_GIVEN_UP[reason][0],
        message=_GIVEN_UP[reason][1],
        attempt=job.attempt,
        at=now,
    )
    return ended(job, JobState.DEAD, now, expires_at, reason=reason.value, failure=failure)


_GIVEN_UP = {
    DeadReason.DEADLINE: ("DeadlineExceeded", "its deadline passed while it waited"),
    DeadReason.UNSATISFIABLE: (
        "GateUnsatisfiable",
        "too many of the jobs that its gate watches have failed: redrive those, and it waits again",
    ),
    DeadReason.GATE_TIMEOUT: ("GateTimeout", "its gate had not fired when its time was over"),
}


def changed(before: JobRecord, after: JobRecord, *, group_done: bool = False) -> ChangedJob:
    """The report of a change."""
    died = after.state is JobState.DEAD and before.state is not JobState.DEAD
    return ChangedJob(
        id=after.id,
        task=after.task,
        queue=after.queue,
        group_id=after.group_id,
        was=before.state,
        state=after.state,
        attempt=after.attempt,
        parent=after.parent,
        group_done=group_done,
        reason=DeadReason(after.reason or "") if died else None,
        was_in=None if before.queue == after.queue else before.queue,
    )


def rewritten(holder: JobRecord, job: NewJob, now: datetime) -> JobRecord:
    """A waiting job that takes over the input, options and times of another.

    It stays who it is: id, group, parent, unique scope, what it has been through, and its place
    at a gate or a wait.
    """
    # A gate or a signal still holds it. A limit does not, since the new job may have another one.
    waits = holder.state is _BLOCKED and holder.reason != BlockReason.LIMIT.value
    changed_one = replace(
        holder,
        state=_BLOCKED if waits else _QUEUED,
        reason=holder.reason if waits else None,
        limit_key=None if job.limit is None else job.limit.key,
        fair_key=job.fair_key,
        headers=job.headers,
        task=job.task,
        queue=job.queue,
        priority=job.priority,
        run_at=run_at_of(job, now),
        deadline=deadline_of(job, now),
        input=job.input,
        fingerprint=job.fingerprint,
        options=job.options,
        dependents=job.dependents,
        tags=job.tags,
    )
    return changed_one if waits else arrived(changed_one, now)


def handed_out(job: JobRecord, worker: str, now: datetime) -> JobRecord:
    """A job in a worker's hand."""
    return replace(
        job,
        state=_RUNNING,
        worker=worker,
        deliveries=job.deliveries + 1,
        started_at=now,
        reason=None,
    )


def holds(job: JobRecord, held: LeasedJob) -> bool:
    """True if the fence of a held job holds."""
    return job.state is _RUNNING and job.worker == held.worker and job.deliveries == held.deliveries


def repeated(job: NewJob, known: JobRecord) -> Enqueued:
    """The answer to a job that is there. Raises ``Conflict`` where that is another one."""
    if known.fingerprint != job.fingerprint:
        raise id_taken(job.id)
    return Enqueued(id=job.id, job_id=job.id, created=False, run_at=known.run_at)


def leased(job: JobRecord) -> LeasedJob:
    """The running job as its worker gets it."""
    return LeasedJob(
        id=job.id,
        task=job.task,
        queue=job.queue,
        input=job.input,
        worker=job.worker or "",
        deliveries=job.deliveries,
        attempt=job.attempt,
        options=job.options,
        group_id=job.group_id,
        priority=job.priority,
        run_at=job.run_at,
        enqueued_at=job.enqueued_at,
        losses=job.losses,
        parent=job.parent,
        dependents=job.dependents,
        deadline=job.deadline,
        limit_key=job.limit_key,
        headers=job.headers,
    )


def ended(
    job: JobRecord,
    state: JobState,
    now: datetime,
    expires_at: datetime | None,
    *,
    reason: str | None = None,
    result: str | None = None,
    failure: Failure | None = None,
) -> JobRecord:
    """A job that runs no more."""
    return replace(
        job,
        state=state,
        worker=None,
        finished_at=now,
        expires_at=expires_at,
        reason=reason,
        result=result,
        failures=_with(job.failures, failure, now),
    )


def cancelled(
    job: JobRecord, now: datetime, expires_at: datetime | None, failure: Failure | None = None
) -> JobRecord:
    """A job that was cancelled."""
    return ended(job, JobState.CANCELLED, now, expires_at, reason="cancelled", failure=failure)


def stopped(job: JobRecord, now: datetime, expires_at: datetime | None) -> JobRecord | None:
    """A job after somebody cancelled it: one that runs is asked to end. None for one that has."""
    if job.state is _RUNNING:
        return replace(job, cancel_requested=True)
    return None if job.state.terminal else cancelled(job, now, expires_at)


def lost(
    job: JobRecord,
    now: datetime,
    expires_at: datetime | None,
    *,
    dead: bool,
    seen: bool,
) -> JobRecord:
    """A job that was taken from its worker, its loss counted. ``seen``: the worker was seen to
    end.
    """
    # Its end was asked for: it neither runs again nor dies.
    if job.cancel_requested:
        return cancelled(job, now, expires_at)
    if not dead:
        return waiting(job, job.run_at, attempt=job.attempt)
    worker = job.worker or "unknown"
    failure = Failure(
        kind="worker_lost",
        type="WorkerLost",
        message=loss_text(job.losses, worker, ended=seen),
        attempt=job.attempt,
        at=now,
        worker=worker,
    )
    reason = DeadReason.WORKER_LOST.value
    return ended(job, JobState.DEAD, now, expires_at, reason=reason, failure=failure)


def waiting(
    job: JobRecord,
    run_at: datetime,
    *,
    attempt: int,
    reason: str | None = None,
) -> JobRecord:
    """A job that was held and waits again."""
    return replace(job, state=_QUEUED, worker=None, run_at=run_at, attempt=attempt, reason=reason)


def fresh(job: JobRecord, run_at: datetime, deadline: datetime | None, now: datetime) -> JobRecord:
    """An ended job put back as if it were new; what happened to it stays in its history."""
    again = replace(
        job,
        gate=None,
        state=_QUEUED,
        run_at=run_at,
        deadline=deadline,
        attempt=1,
        losses=0,
        redrives=job.redrives + 1,
        cancel_requested=False,
        started_at=None,
        finished_at=None,
        expires_at=None,
        result=None,
        reason=None,
        progress=None,
    )
    return arrived(again, now)


def waiting_again(job: JobRecord, run_at: datetime) -> JobRecord:
    """An ended job put back to its gate. Its deadline counts from its release."""
    again = fresh(job, run_at, None, run_at)
    return replace(again, state=_BLOCKED, gate=job.gate, reason=BlockReason.GATE.value)


def amended(job: JobRecord, amendment: Amendment) -> JobRecord:
    """A waiting job with other terms. A new run time ends whatever it was put off for."""
    given = {name: value for name, value in asdict(amendment).items() if value is not None}
    return replace(job, **given, reason=job.reason if amendment.run_at is None else None)


def settled(
    job: JobRecord, outcome: Outcome, now: datetime, expires_at: datetime | None
) -> JobRecord:
    """A held job after its attempt has ended this way. Raises StoreRejected."""
    # Whatever the handler made of it: the job was asked to stop, and how it obeys does not decide.
    if job.cancel_requested:
        return cancelled(job, now, expires_at, _failure_of(outcome))
    match outcome:
        case Succeeded(result=result):
            return ended(job, JobState.SUCCEEDED, now, expires_at, result=result)
        case Retry(delay=delay, failure=failure):
            again = waiting(job, later(now, delay), attempt=job.attempt + 1)
            return arrived(replace(again, failures=_with(job.failures, failure, now)), now)
        case Snoozed(delay=delay, until=until, reason=reason):
            due = later(now, delay) if until is None else until.astimezone(UTC)
            return arrived(waiting(job, due, attempt=job.attempt, reason=reason), now)
        case Waiting():
            return replace(job, state=_BLOCKED, worker=None, reason=BlockReason.SIGNAL.value)
        case Dead(reason=reason, failure=failure):
            return ended(job, JobState.DEAD, now, expires_at, reason=reason.value, failure=failure)
        case Cancelled(failure=failure):
            return cancelled(job, now, expires_at, failure)
        case Released(reason=reason):
            # At its old run time, so that what is given back keeps its place among the others.
            return waiting(job, job.run_at, attempt=job.attempt, reason=reason)
        case _:
            assert_never(outcome)


def applied(
    after: JobRecord,
    enqueued: Sequence[Enqueued] = (),
    *,
    group_done: bool = False,
    closing: bool = False,
    along: Sequence[ChangedJob] = (),
) -> Settled:
    """The answer to a settlement that was carried out."""
    return Settled(
        id=after.id,
        status=SettleStatus.APPLIED,
        state=after.state,
        run_at=after.run_at if after.state is _QUEUED else None,
        enqueued=tuple(enqueued),
        group_done=group_done,
        closing=closing,
        along=tuple(along),
    )


def _failure_of(outcome: Outcome) -> Failure | None:
    return outcome.failure if isinstance(outcome, Retry | Dead | Cancelled) else None


def _with(
    failures: tuple[Failure, ...], failure: Failure | None, now: datetime
) -> tuple[Failure, ...]:
    """The history with one more; the oldest give way."""
    if failure is None:
        return failures
    if failure.at is None:
        failure = replace(failure, at=now)
    return (*failures, failure)[-_FAILURES_KEPT:]

"""Transitions of jobs that exist, except their settlement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from offpath.model.amendment import Amendment
from offpath.model.changes import ChangedJob
from offpath.model.job import DeadReason, JobRecord, JobState, LeasedJob
from offpath.model.lease import Rescued
from offpath.model.suspicion import LossVerdict, Lost, judged
from offpath.store.memory import gate_returns, gates, limits, signals
from offpath.store.memory.gate_returns import REDRIVABLE, key_is_taken
from offpath.store.memory.tables import Tables
from offpath.store.memory.waits import awaits_gate
from offpath.store.protocol import JobRedrive
from offpath.store.rows.instants import later, maybe_later
from offpath.store.rows.jobs import (
    amended,
    arrived,
    changed,
    fresh,
    given_up,
    leased,
    lost,
    stopped,
    woken,
)

_WAITING = (JobState.BLOCKED, JobState.QUEUED)


def progress(tables: Tables, now: datetime, job: LeasedJob, text: str) -> None:
    """Record how far a held job is."""
    tables.file(replace(tables.fenced(job), progress=text), now)


# -- an operator's calls -------------------------------------------------------------------------


def cancel(
    tables: Tables, now: datetime, ids: Sequence[str], keep: float | None
) -> list[ChangedJob]:
    """End what waits, mark what runs."""
    expires_at = maybe_later(now, keep)
    answers: list[ChangedJob] = []
    for job in _each(tables, ids):
        after = stopped(job, now, expires_at)
        if after is not None:
            answers.append(changed(job, after, group_done=tables.file(after, now)))
    return answers + gates.died(gates.follow(tables, now, expires_at))


def redrive(tables: Tables, now: datetime, redrives: Sequence[JobRedrive]) -> list[ChangedJob]:
    """Put ended jobs back, and make waiting ones due."""
    # All times first: a delay that leads to none is refused before anything is filed.
    due = {each.id: later(now, each.delay) for each in redrives}
    past = {each.id for each in redrives if each.past_gate}
    answers: list[ChangedJob] = []
    behind: dict[str, datetime] = {}
    for job in _each(tables, due):
        if job.id not in past and gate_returns.waits(tables, job):
            behind[job.id] = due[job.id]
            continue
        after = _redriven(tables, now, job, due[job.id])
        if after is not None:
            tables.file(after, now)
            tables.fault_keys.pop(job.id, None)
            if job.state.terminal:
                tables.redriven[job.id] = now
            answers.append(changed(job, after))
    opened = [answer.id for answer in answers if answer.was.terminal]
    return answers + gate_returns.bring_back(tables, now, opened, behind)


def _redriven(tables: Tables, now: datetime, job: JobRecord, run_at: datetime) -> JobRecord | None:
    if job.state is JobState.QUEUED:
        return _made_due(tables, now, replace(job, run_at=run_at, reason=None))
    if job.state not in REDRIVABLE or key_is_taken(tables, now, job, JobState.QUEUED):
        return None
    return fresh(job, run_at, maybe_later(now, tables.terms(job.id).deadline_in), now)


def _made_due(tables: Tables, now: datetime, job: JobRecord) -> JobRecord:
    """A waiting job at its new time: one that its limit had let in need not wait for that again."""
    return job if tables.lanes.is_ready(job) else arrived(job, now)


def amend(
    tables: Tables, now: datetime, ids: Sequence[str], amendment: Amendment
) -> list[ChangedJob]:
    """Give waiting jobs other terms."""
    answers: list[ChangedJob] = []
    for job in _each(tables, ids):
        if amendment.fits(job):
            after = _amended(tables, now, job, amendment)
            # It may have been sent behind others, and with other terms it has a place of its own
            # again.
            tables.limits.come_forward(job)
            tables.amend(after, now)
            answers.append(changed(job, after))
    return answers


def _amended(tables: Tables, now: datetime, job: JobRecord, amendment: Amendment) -> JobRecord:
    after = amended(job, amendment)
    is_ready = job.state is JobState.QUEUED and tables.lanes.is_ready(job)
    return after if is_ready else arrived(after, now)


def delete(tables: Tables, ids: Sequence[str]) -> list[ChangedJob]:
    """Remove ended jobs."""
    # A job that is still to be undone is needed for that.
    jobs = [job for job in _each(tables, ids) if job.id not in tables.steps.to_undo]
    ended_jobs = [job for job in jobs if job.state.terminal]
    for job in ended_jobs:
        tables.drop(job)
    return [changed(job, job) for job in ended_jobs]


def _each(tables: Tables, ids: Iterable[str]) -> list[JobRecord]:
    """The jobs of these ids that exist, each once, in the order of their ids."""
    return [job for each in sorted(set(ids)) if (job := tables.jobs.get(each))]


# -- upkeep --------------------------------------------------------------------------------------


class RescueRules(Struct, frozen=True, kw_only=True):
    """The rules of a rescue's end."""

    max_deliveries: int
    expires_at: datetime | None


def rescue(
    tables: Tables, now: datetime, *, limit: int, max_deliveries: int, keep: float | None
) -> list[Rescued]:
    """Take jobs from workers that are gone, and note which hold nothing more."""
    rules = RescueRules(max_deliveries=max_deliveries, expires_at=maybe_later(now, keep))
    # A list, since filing takes jobs out of the index that is walked.
    orphans = list(islice(_orphans(tables, now), limit))
    rescued = [_rescue_one(tables, now, job, rules) for job in orphans]
    # Only a worker that holds nothing more is marked: a rescue that its limit has cut comes back
    # for the rest.
    for worker in [w for w in tables.workers.values() if w.expires_at <= now]:
        if worker.gone_at is None and worker.info.id not in tables.held:
            tables.workers[worker.info.id] = replace(worker, gone_at=now)
    return rescued


def _orphans(tables: Tables, now: datetime) -> Iterator[JobRecord]:
    for holder in sorted(tables.held):
        worker = tables.workers.get(holder)
        if worker is None or worker.expires_at <= now:
            yield from (tables.jobs[each] for each in tables.held[holder])


def _rescue_one(tables: Tables, now: datetime, job: JobRecord, rules: RescueRules) -> Rescued:
    verdict = _judged(tables, job, rules)
    taken = replace(job, losses=verdict.losses)
    seen = _seen_to_end(tables, job.worker)
    after = lost(taken, now, rules.expires_at, dead=verdict.dead, seen=seen)
    if after.state is JobState.QUEUED:
        after = limits.given_back(tables, now, after)
    _suspect(tables, job, verdict)
    group_done = tables.file(after, now)
    died = gates.died(gates.follow(tables, now, rules.expires_at))
    done, along = gates.of_group(job.group_id, died)
    return Rescued(
        job=leased(taken), state=after.state, group_done=group_done or done, along=tuple(along)
    )


def _judged(tables: Tables, job: JobRecord, rules: RescueRules) -> LossVerdict:
    """The verdict on a loss. A worker of this process that has not left is out of touch."""
    worker = tables.workers.get(job.worker or "")
    lost = Lost(
        losses=job.losses,
        begun=job.started_at is not None,
        alone=job.id in tables.suspects.alone,
        out_of_touch=worker is not None and worker.gone_at is None,
    )
    return judged(lost, rules.max_deliveries)


def _suspect(tables: Tables, job: JobRecord, verdict: LossVerdict) -> None:
    """Keep who is suspected, before the job is filed: who has ended is forgotten then."""
    suspects = tables.suspects
    before = suspects.crash_of.get(job.id)
    suspects.alone.discard(job.id)
    if verdict.suspect and job.worker is not None:
        suspects.accuse(job.id, job.worker)
    if before and job.started_at is not None:
        suspects.clear(before, tables.jobs)


def _seen_to_end(tables: Tables, worker: str | None) -> bool:
    known = tables.workers.get(worker or "")
    return known is not None and known.gone_at is not None


def expire_blocked(
    tables: Tables, now: datetime, limit: int, keep: float | None
) -> list[ChangedJob]:
    """Give up waits whose time is over."""
    expires_at = maybe_later(now, keep)
    answers, along = list[ChangedJob](), list[ChangedJob]()
    while len(answers) < limit and (first := tables.waits.until.first()) and first[0] <= now:
        job = tables.jobs[first[1]]
        after = _waited_out(tables, now, job, expires_at)
        answers.append(changed(job, after, group_done=tables.file(after, now)))
        along += gates.died(gates.follow(tables, now, expires_at))
    tables.signals.expire(now, limit)
    answers += signals.pass_on(tables, now, limit - len(answers))
    return answers + along


def _waited_out(
    tables: Tables, now: datetime, job: JobRecord, expires_at: datetime | None
) -> JobRecord:
    # The deadline first: where both are over, every backend says that the job died of its deadline.
    if job.deadline is not None and job.deadline <= now:
        return given_up(job, DeadReason.DEADLINE, now, expires_at)
    if job.gate is not None and awaits_gate(job):
        gates.time_out(tables, job.gate)
        return given_up(job, DeadReason.GATE_TIMEOUT, now, expires_at)
    return woken(job, now)


def prune(tables: Tables, now: datetime, limit: int) -> int:
    """Remove ended jobs whose time has come and that nobody needs any more."""
    removed = 0
    needed: list[tuple[datetime, str]] = []
    while removed < limit and (first := tables.expiring.first()) and first[0] <= now:
        if _is_needed(tables, first[1]):
            # Out of the index until the end of this pass, or the first job that is needed would
            # hide all behind it.
            needed.append(first)
            tables.expiring.remove(first[1])
            continue
        tables.drop(tables.jobs[first[1]])
        removed += 1
    for at, job_id in needed:
        tables.expiring.push(job_id, at)
    return removed


def _is_needed(tables: Tables, job_id: str) -> bool:
    """True if it is to be undone, or a job behind a gate over it may yet ask for its result."""
    if job_id in tables.steps.to_undo:
        return True
    waiting = (tables.jobs[each] for each in tables.gates.waiting_for(job_id))
    return any(not each.state.terminal or gate_returns.died_there(each) for each in waiting)

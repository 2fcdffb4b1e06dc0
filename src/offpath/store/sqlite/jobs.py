"""Transitions of jobs that exist, except their lease and their settlement."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from offpath.model.job import DeadReason, Failure, JobState, LeasedJob
from offpath.model.lease import Rescued, loss_text
from offpath.model.suspicion import Lost, judged
from offpath.store.changes import ChangedJob
from offpath.store.programs.instants import instant
from offpath.store.protocol import JobRedrive, Pruned
from offpath.store.sql import Row
from offpath.store.sqlite import deaths, deliveries, groups, limits
from offpath.store.sqlite.ending import aftermath
from offpath.store.sqlite.gating import Following, uncount_steps
from offpath.store.sqlite.groups import Ended
from offpath.store.sqlite.instants import later
from offpath.store.sqlite.keys import in_turns
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.presence import Presence
from offpath.store.sqlite.rows import OUTER, leased_job
from offpath.store.sqlite.session import SQL, Session
from offpath.store.sqlite.settling import given_back, record_failures

GONE_KEPT: Final = 3_600_000_000
"""Microseconds for which a worker that is gone is remembered."""

_REDRIVABLE: Final = frozenset({JobState.DEAD, JobState.CANCELLED})
_WAITING: Final = frozenset({JobState.QUEUED, JobState.BLOCKED})


class _Known(NamedTuple):
    """A job as an operator's call finds it."""

    id: str
    seq: int
    task: str
    queue: str
    group_id: str
    state: str
    attempt: int
    parent: str | None
    announce: int
    watched: int
    redrives: int
    has_undo: int

    def ended(self, state: JobState) -> Ended:
        """It has ended so."""
        return Ended(self.id, self.group_id, state.value, self.redrives)

    @property
    def outer(self) -> JobState:
        """Its state as others see it."""
        return OUTER[self.state]

    @property
    def removable(self) -> bool:
        """True if it may be removed: it has ended, and what undoes it has been made."""
        return self.outer.terminal and not (self.has_undo and self.outer in _REDRIVABLE)


def _known(session: Session, ids: Iterable[str]) -> list[_Known]:
    """The jobs of these ids that exist, each once, in the order of their ids."""
    jobs = [_Known(*row) for row in session.run(SQL["jobs_known"](ids=batch(list(ids))))]
    if any(job.announce for job in jobs):
        session.stirred = True
    return jobs


def _seqs(jobs: Iterable[_Known]) -> str:
    return batch([job.seq for job in jobs])


def _changed(
    job: _Known, state: JobState, *, attempt: int | None = None, group_done: bool = False
) -> ChangedJob:
    return ChangedJob(
        id=job.id,
        task=job.task,
        queue=job.queue,
        group_id=job.group_id,
        was=job.outer,
        state=state,
        attempt=job.attempt if attempt is None else attempt,
        parent=job.parent,
        group_done=group_done,
    )


def cancel(session: Session, now: int, ids: Sequence[str], keep: float | None) -> list[ChangedJob]:
    """End what waits, mark what runs."""
    expires_at = None if keep is None else later(now, keep)
    jobs = [job for job in _known(session, ids) if not job.outer.terminal]
    waiting = [job for job in jobs if job.outer in _WAITING]
    running = [job for job in jobs if job.outer is JobState.RUNNING]
    if running:
        session.run(SQL["cancel_running"](jobs=_seqs(running)))
    if not waiting:
        return [_changed(job, JobState.RUNNING) for job in running]
    session.run(SQL["cancel_waiting"](jobs=_seqs(waiting), now=now, expires_at=expires_at))
    after = aftermath(
        session,
        Following(now, expires_at),
        [job.ended(JobState.CANCELLED) for job in waiting],
        watched=[(job.id, "failed") for job in waiting if job.watched],
    )
    changed = [
        _changed(job, JobState.RUNNING)
        if job.outer is JobState.RUNNING
        else _changed(job, JobState.CANCELLED, group_done=job.id in after.done)
        for job in jobs
    ]
    return changed + after.all_along()


def close(
    session: Session, now: int, closing: Sequence[str], limit: int, keep: float | None
) -> list[ChangedJob]:
    """Cancel up to ``limit`` open members of these groups that were not told."""
    members, all_of_them = groups.untold(session, closing, max(limit, 0))
    changed = cancel(session, now, members, keep) if members else []
    if all_of_them:  # after the cancel, which would have them looked at again
        groups.closed(session, closing)
    return changed


def redrive(session: Session, now: int, redrives: Sequence[JobRedrive]) -> list[ChangedJob]:
    """Put ended jobs back, and make waiting ones due."""
    due = {each.id: later(now, each.delay) for each in redrives}
    jobs = _known(session, due)
    waiting = [job for job in jobs if job.outer is JobState.QUEUED]
    ended = [job for job in jobs if job.outer in _REDRIVABLE]
    if waiting:
        rows = batch([(job.seq, due[job.id]) for job in waiting])
        session.run(SQL["redrive_waiting"](jobs=rows, now=now))
    back = _put_back(session, now, ended, due)
    watched = [job.id for job in ended if job.id in back and job.watched]
    if watched:
        session.drive(uncount_steps(watched))
    groups.reopen(session, [job.group_id for job in ended if job.id in back])
    return [
        _changed(job, JobState.QUEUED, attempt=1 if job.id in back else None)
        for job in jobs
        if job.outer is JobState.QUEUED or job.id in back
    ]


def _put_back(session: Session, now: int, jobs: list[_Known], due: dict[str, int]) -> set[str]:
    """Make ended jobs fresh; returns the ids of those whose unique key allowed it."""
    if not jobs:
        return set()
    session.run(SQL["slot_lapsed"](jobs=_seqs(jobs), now=now))
    rows = batch([(job.seq, due[job.id]) for job in jobs])
    return {row[0] for row in session.run(SQL["redrive_ended"](jobs=rows, now=now))}


def delete(session: Session, ids: Sequence[str]) -> list[ChangedJob]:
    """Remove ended jobs."""
    jobs = [job for job in _known(session, ids) if job.removable]
    _remove(session, [(job.seq, job.group_id) for job in jobs])
    return [_changed(job, job.outer) for job in jobs]


def prune(session: Session, now: int, limit: int) -> Pruned:
    """Remove ended jobs whose time has come, and as many messages; claims, and old workers."""
    expired = session.run(SQL["expired"](now=now, limit=limit))
    _remove(session, expired)
    limits.forget(session, now, limit)
    session.run(SQL["claim_prune"](now=now, limit=limit))
    session.run(SQL["workers_forget"](before=now - GONE_KEPT, limit=limit))
    return Pruned(jobs=len(expired), messages=deliveries.prune(session, now, limit))


def _remove(session: Session, jobs: Sequence[Row]) -> None:
    """Remove jobs, given as ``seq`` and group, with all that belongs to them."""
    if jobs:
        seqs = batch([seq for seq, _ in jobs])
        session.run(SQL["failure_remove"](jobs=seqs))
        session.run(SQL["step_remove"](jobs=seqs))
        gates = [row[0] for row in session.run(SQL["gates_left"](jobs=seqs))]
        session.run(SQL["job_remove"](jobs=seqs))
        if gates:
            gone = [row[0] for row in session.run(SQL["gate_forget"](gates=batch(gates)))]
            session.run(SQL["watch_forget"](gates=batch(gone)))
        groups.forget(session, [group for _, group in jobs])


# -- rescue ----------------------------------------------------------------------------------------


class RescueEnd(NamedTuple):
    """The rules of a rescue's end."""

    limit: int
    max_deliveries: int
    keep: float | None


class _Orphan(NamedTuple):
    """A job that its worker has left, and what becomes of it."""

    job: LeasedJob
    seq: int
    state: JobState
    row: tuple[Any, ...]
    watched: int
    redrives: int
    crash: str | None
    """Of which crash it was a suspect, if it ran as such."""

    @property
    def ended(self) -> bool:
        """True if it will not run again."""
        return self.state.terminal


def nothing_to_rescue(session: Session, now: int, presence: Presence) -> list[Rescued] | None:
    """An empty list when there is neither an orphan nor a worker to forget; else None."""
    orphans = SQL["orphans"](now=now, limit=1, kept=_kept(session, now, presence))
    if session.run(orphans) or session.run(SQL["workers_gone"](now=now)):
        return None
    return []


def _kept(session: Session, now: int, presence: Presence) -> str:
    """The late workers that keep their jobs, since their processes are there and run."""
    return batch(deaths.silent(session, now, presence))


def rescue(session: Session, now: int, rules: RescueEnd, presence: Presence) -> list[Rescued]:
    """Take jobs from workers that are gone, and forget the workers."""
    if session.stalled:  # the living could not renew their leases either: let them first
        return []
    kept = _kept(session, now, presence)
    rows = session.run(SQL["orphans"](now=now, limit=rules.limit, kept=kept))
    if any(row[19] for row in rows):
        session.stirred = True
    shut = limits.shut(session, now, [row[16] for row in rows])
    orphans = [_orphan(row, now, rules.max_deliveries, shut) for row in rows]
    rescued = _move_on(session, now, orphans, rules.keep) if orphans else []
    gone = [row[0] for row in session.run(SQL["workers_gone"](now=now))]
    if gone:
        session.run(SQL["workers_leave"](ids=batch(gone), now=now))
    return rescued


def _orphan(row: Row, now: int, max_deliveries: int, shut: Container[str]) -> _Orphan:
    seq, cancel_requested, watched, redrives = row[17], row[18], row[20], row[21]
    crash, alone, begun, out_of_touch = row[22:26]
    lost = Lost(row[12], begun=bool(begun), alone=bool(alone), out_of_touch=bool(out_of_touch))
    verdict = judged(lost, max_deliveries)
    job = replace(leased_job(row), losses=verdict.losses)
    inner, ended = "dead", 1
    reason: str | None = DeadReason.WORKER_LOST.value
    if cancel_requested:
        inner, reason = "cancelled", "cancelled"
    elif not verdict.dead:
        inner, _, reason = given_back(job, now, shut)
        ended = 0
    suspected = job.worker if verdict.suspect else crash
    new = (seq, inner, reason, ended, int(lost.begun), suspected)
    guilty = crash if lost.begun else None
    return _Orphan(job, seq, OUTER[inner], new, watched, redrives, guilty)


def _move_on(
    session: Session, now: int, orphans: list[_Orphan], keep: float | None
) -> list[Rescued]:
    expires_at = None if keep is None else later(now, keep)
    in_turns(
        session,
        [orphan.row for orphan in orphans],
        lambda rows: SQL["rescue"](batch=rows, now=now, expires_at=expires_at),
        seq=0,
    )
    crashes = sorted({orphan.crash for orphan in orphans if orphan.crash})
    if crashes:
        session.run(SQL["suspects_clear"](crashes=batch(crashes)))
    dead = [orphan for orphan in orphans if orphan.state is JobState.DEAD]
    ended_workers = deaths.gone(session, [orphan.job.worker for orphan in dead])
    record_failures(
        session,
        now,
        [(one.seq, _worker_lost(one.job, now, one.job.worker in ended_workers)) for one in dead],
    )
    ended = [each for each in orphans if each.ended]
    after = aftermath(
        session,
        Following(now, expires_at),
        [Ended(each.job.id, each.job.group_id, each.state.value, each.redrives) for each in ended],
        watched=[(each.job.id, "failed") for each in ended if each.watched],
    )
    return [
        Rescued(
            job=each.job,
            state=each.state,
            group_done=each.job.id in after.done,
            along=after.along(each.job.id),
        )
        for each in orphans
    ]


def _worker_lost(job: LeasedJob, now: int, ended: bool) -> Failure:
    return Failure(
        kind="worker_lost",
        type="WorkerLost",
        message=loss_text(job.losses, job.worker, ended=ended),
        attempt=job.attempt,
        at=instant(now),
    )

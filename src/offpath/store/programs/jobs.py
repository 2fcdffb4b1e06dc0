"""Calls on jobs that exist: cancel, amend, remove; and the upkeep of old ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from msgspec.structs import replace

from offpath.model.amendment import Amendment
from offpath.model.changes import ChangedJob, Pruned
from offpath.model.job import JobState
from offpath.store.hints import Hint
from offpath.store.programs.aftermath import End
from offpath.store.programs.answers import STATES, AmendedRow, GoneRow, HeldRow
from offpath.store.programs.conclusion import conclude
from offpath.store.programs.dialect import Dialect, Send, Steps, ask
from offpath.store.programs.held import changed, held
from offpath.store.sql import Row

GONE_KEPT: Final = 3600.0
"""Seconds for which a worker that is gone is remembered."""

_UNDONE: Final = frozenset({JobState.DEAD, JobState.CANCELLED})
"""Ends after which what a job has done is to be undone."""


# -- cancel ----------------------------------------------------------------------------------------


def cancel(d: Dialect, ids: Sequence[str], *, keep: float | None = None) -> Steps[list[ChangedJob]]:
    """End what waits, mark what runs; then tell of those that died at gates because of it."""
    jobs = held((yield from ask(d.sql["hold_jobs"](ids=d.ids(ids)))))
    return (yield from _cancelled(d, jobs, keep)) if jobs else []


def cancel_groups(
    d: Dialect, ids: Sequence[str], *, limit: int, keep: float | None = None
) -> Steps[list[ChangedJob]]:
    """Cancel open members of groups, and mark the groups as closing."""
    if not ids:
        return []
    groups = sorted(set(ids))
    # A look without locks, in which jobs may end: what is held below is what counts.
    found = yield from ask(d.sql["open_members"](ids=d.batch(groups), limit=max(limit, 0)))
    members = {job for (job,) in found}
    # a root whose group gets its row here is counted by it, so it is held with the members
    rows, roots = yield Send(
        (
            d.sql["hold_jobs"](ids=d.ids([*members, *groups])),
            d.sql["join_roots"](ids=d.ids(groups)),
        )
    )
    jobs = [job for job in held(rows) if job.id in members]
    return (yield from _cancelled(d, jobs, keep, groups, roots))


def close_groups(d: Dialect, *, limit: int, keep: float | None = None) -> Steps[list[ChangedJob]]:
    """Cancel open members of groups that are closing."""
    found = yield from ask(d.sql["members_to_close"](limit=max(limit, 0)))
    return (yield from cancel(d, [job for (job,) in found], keep=keep)) if found else []


def nothing_to_close(
    d: Dialect,
    *,
    limit: int,  # noqa: ARG001 - as the program
    keep: float | None = None,  # noqa: ARG001 - as the program
) -> Steps[list[ChangedJob] | None]:
    """The answer where no group that is closing has a member to cancel."""
    return None if (yield from ask(d.sql["members_to_close"](limit=1))) else []


def _cancelled(
    d: Dialect,
    jobs: Sequence[HeldRow],
    keep: float | None,
    closing: Sequence[str] = (),
    roots: Sequence[Row] = (),
) -> Steps[list[ChangedJob]]:
    """Cancel these, which are held, and count those that have ended in gates and groups.

    Only what is held changes: a job that was committed after that look would not be counted.
    Jobs that had ended before are left out.
    """
    told = [job for job in jobs if not STATES[job.state].terminal]
    over = [job for job in told if STATES[job.state] is not JobState.RUNNING]
    ids = d.ids(job.id for job in told)
    yield Send(
        (
            d.sql["cancel_waiting"](ids=ids, keep=d.span(keep), now=d.now),
            d.sql["cancel_running"](ids=ids),
        )
    )
    joined = {root[0] for root in roots}
    ends = [_end(job, joined) for job in over]
    after = yield from conclude(d, ends, keep, closing=closing, roots=roots)
    d.announced.hear(job.announce for job in over)
    if over:
        d.announced.moved.add(JobState.CANCELLED)
        d.announced.tell(Hint.WORK)  # what ends gives its key and its room to others
    if len(over) < len(told):
        d.announced.tell(Hint.CANCEL)
    ended = {job.id for job in over}
    answers = [
        changed(job, JobState.CANCELLED, group_done=job.id in after.done)
        if job.id in ended
        else changed(job, JobState.RUNNING)
        for job in told
    ]
    return answers + after.all_along()


def _end(job: HeldRow, joined: Collection[str]) -> End:
    grouped = bool(job.grouped) or job.id in joined
    return End(job.id, job.group_id, grouped, bool(job.watched), job.redrives)


# -- amend -----------------------------------------------------------------------------------------


def amend(d: Dialect, ids: Sequence[str], amendment: Amendment) -> Steps[list[ChangedJob]]:
    """Give waiting jobs other terms."""
    before = {job.id: job for job in held((yield from ask(d.sql["hold_jobs"](ids=d.ids(ids)))))}
    if not before:
        return []
    *_, answer = yield Send(
        (
            *d.told_the_time(),
            d.sql["amend"](
                ids=d.ids(before),
                priority=amendment.priority,
                queue=amendment.queue,
                run_at=d.at(amendment.run_at),
                deadline=d.at(amendment.deadline),
                now=d.now,
            ),
        )
    )
    rows = sorted(AmendedRow(*row) for row in answer)
    # A job may be due now, or in a queue that other workers serve.
    if rows:
        d.announced.moved.add(JobState.QUEUED)
    return [_moved(changed(before[row.id], STATES[row.state]), row.queue) for row in rows]


def _moved(job: ChangedJob, queue: str) -> ChangedJob:
    return job if queue == job.queue else replace(job, queue=queue, was_in=job.queue)


# -- delete and prune ------------------------------------------------------------------------------


def delete(d: Dialect, ids: Sequence[str]) -> Steps[list[ChangedJob]]:
    """Remove ended jobs, but not those that are still to be undone."""
    # Held first: what is judged here stays true, so no job that is put back meanwhile is removed.
    rows = yield from ask(d.sql["hold_jobs"](ids=d.ids(ids)))
    jobs = [job for job in held(rows) if _removable(job)]
    yield from _remove(d, [GoneRow(job.id, job.group_id, job.grouped, job.gate) for job in jobs])
    return [changed(job, STATES[job.state]) for job in jobs]


def prune(d: Dialect, *, limit: int) -> Steps[Pruned]:
    """Remove ended jobs whose time has come, and as many messages; claims, and old workers."""
    expired, messages, _, _ = yield Send(
        (
            d.sql["expired_jobs"](limit=limit, now=d.now),
            d.sql["prune_messages"](limit=limit, now=d.now),
            d.sql["prune_claims"](limit=limit, now=d.now),
            d.sql["prune_workers"](limit=limit, keep=d.span(GONE_KEPT), now=d.now),
        )
    )
    # Rows of limits are taken where they are free, so gates and groups may be locked behind them.
    yield from d.prune_limits(limit)
    yield from _remove(d, [GoneRow(*row) for row in expired])
    return Pruned(jobs=len(expired), messages=len(messages))


def _remove(d: Dialect, jobs: Sequence[GoneRow]) -> Steps[None]:
    """Remove jobs with their histories; gates and groups go with the last of their jobs."""
    if not jobs:
        return
    ids = d.ids(job.id for job in jobs)
    queries = [d.sql[name](ids=ids) for name in ("remove_failures", "remove_steps", "remove_jobs")]
    # Gates before groups, as in every transaction that has both, and each by its ids.
    if gates := {job.gate for job in jobs if job.gate}:
        named = d.batch(sorted(gates))
        queries += (
            d.sql["lock_gates"](ids=named, watching="[]"),
            d.sql["drop_watches"](ids=named),
            d.sql["drop_gates"](ids=named),
        )
    if groups := {job.group_id for job in jobs if job.grouped}:
        named = d.batch(sorted(groups))
        queries += d.sql["lock_groups"](ids=named), d.sql["drop_groups"](ids=named)
    yield Send(tuple(queries), last=True)


def _removable(job: HeldRow) -> bool:
    state = STATES[job.state]
    return state.terminal and not (job.has_undo and state in _UNDONE)

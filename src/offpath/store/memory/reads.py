"""Reads: nothing here changes what is kept."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec.structs import replace

from offpath.model.job import Count, JobFilter, JobRecord, JobState, Page
from offpath.store.memory.lanes import Lane
from offpath.store.memory.tables import Tables
from offpath.store.protocol import MOST_ON_A_PAGE, Backlog
from offpath.store.rows.job_filter import tests_of

_ANY = JobFilter()


def get(tables: Tables, ids: Sequence[str]) -> list[JobRecord]:
    """The jobs of these ids that exist."""
    return [
        _with_wait(tables, job) for each in dict.fromkeys(ids) if (job := tables.jobs.get(each))
    ]


def _with_wait(tables: Tables, job: JobRecord) -> JobRecord:
    """A job that waits for a signal says for which one."""
    wait = tables.waits.of(job.id) if job.state is JobState.BLOCKED else None
    if wait is None:
        return job
    target, event = wait.address
    return replace(job, wait_target=target, wait_event=event)


def states(tables: Tables, ids: Sequence[str]) -> dict[str, JobState]:
    """The states of those that exist."""
    return {each: job.state for each in ids if (job := tables.jobs.get(each))}


def find(tables: Tables, where: JobFilter, *, limit: int, after: str | None, newest: bool) -> Page:
    """One page of the jobs that match, by id."""
    if limit <= 0:
        return Page(items=())
    found = (job for job in _matching(tables, where) if is_beyond(job.id, after, newest=newest))
    limit = min(limit, MOST_ON_A_PAGE)
    pick = heapq.nlargest if newest else heapq.nsmallest
    jobs = pick(limit + 1, found, key=lambda job: job.id)
    items = tuple(_with_wait(tables, _with_last_failure(job)) for job in jobs[:limit])
    return Page(items=items, next=items[-1].id if len(jobs) > limit else None)


def is_beyond(job_id: str, after: str | None, *, newest: bool) -> bool:
    """True if a job comes behind ``after``."""
    if after is None:
        return True
    return job_id < after if newest else job_id > after


def _with_last_failure(job: JobRecord) -> JobRecord:
    return replace(job, failures=job.failures[-1:]) if len(job.failures) > 1 else job


def count(tables: Tables, where: JobFilter) -> list[Count]:
    """The number of jobs that match. Without other conditions than state, queue and task no job is
    looked at.
    """
    if replace(where, states=(), queues=(), tasks=()) == _ANY:
        tally = {key: n for key, n in tables.tally.items() if _tallied(key, where)}
    else:
        tally = {}
        for job in _matching(tables, where):
            key = job.state, job.queue, job.task
            tally[key] = tally.get(key, 0) + 1
    return [
        Count(state=state, queue=queue, task=task, count=number)
        for (state, queue, task), number in sorted(tally.items())
    ]


def _tallied(key: tuple[JobState, str, str], where: JobFilter) -> bool:
    state, queue, task = key
    return (
        (not where.states or state in where.states)
        and (not where.queues or queue in where.queues)
        and (not where.tasks or task in where.tasks)
    )


def backlog(tables: Tables, now: datetime, limit: int) -> list[Backlog]:
    """Due work by queue and task."""
    found = [each for lane in tables.lanes if (each := _backlog_of(tables, lane, now, limit))]
    return sorted(found, key=lambda each: (each.queue, each.task))


def _backlog_of(tables: Tables, lane: Lane, now: datetime, limit: int) -> Backlog | None:
    due = [tables.jobs[each].run_at for each in lane.ready]
    # Those that no lease has made ready yet wait as well.
    due += [at for each in lane.scheduled if (at := tables.jobs[each].run_at) <= now]
    if not due or limit <= 0:
        return None
    return Backlog(
        queue=lane.queue, task=lane.task, ready=min(len(due), limit), oldest_run_at=min(due)
    )


# -- filters -------------------------------------------------------------------------------------


def _matching(tables: Tables, where: JobFilter) -> Iterable[JobRecord]:
    """Every job that matches, from the smallest index there is for the filter."""
    if where.ids:
        jobs: Iterable[JobRecord] = get(tables, where.ids)
    elif where.group_id is not None:
        jobs = get(tables, tables.members(where.group_id))
    else:
        jobs = tables.jobs.values()
    tests = tests_of(where)
    return (job for job in jobs if all(test(job) for test in tests))

"""Counts, queues and pages of jobs, from what every store has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from offpath.model.deaths import Deaths, Whose
from offpath.model.job import Count, JobFilter, JobRecord, JobState, Page
from offpath.model.limit import QueueRecord
from offpath.store.protocol import MOST_ON_A_PAGE, Backlog
from offpath.store.rows.job_filter import tests_of


def queue_records(counts: Iterable[Count], due: Iterable[Backlog]) -> list[QueueRecord]:
    """The queues by name, from the counts of their unended jobs and from what is due."""
    tally = Counter[tuple[str, JobState]]()
    for one in counts:
        tally[one.queue, one.state] += one.count
    ready = Counter[str]()
    for each in due:
        ready[each.queue] += each.ready
    return [
        QueueRecord(
            name=name,
            blocked=tally[name, JobState.BLOCKED],
            # Both are read one after the other, and jobs become ready in between.
            scheduled=max(tally[name, JobState.QUEUED] - ready[name], 0),
            ready=ready[name],
            running=tally[name, JobState.RUNNING],
        )
        for name in sorted({queue for queue, _ in tally})
    ]


def page(
    jobs: Mapping[str, JobRecord], where: JobFilter, limit: int, after: str | None, *, newest: bool
) -> Page:
    """One page of the jobs that match, by id."""
    tests = tests_of(where)
    ids = (each for each, job in jobs.items() if all(test(job) for test in tests))
    if after is not None:
        ids = (each for each in ids if (each < after if newest else each > after))
    behind, most = sorted(ids, reverse=newest), max(min(limit, MOST_ON_A_PAGE), 0)
    items = tuple(jobs[each] for each in behind[:most])
    return Page(items=items, next=items[-1].id if 0 < most < len(behind) else None)


def counts(jobs: Iterable[JobRecord]) -> list[Count]:
    """The number of jobs by state, queue and task."""
    tally = Counter((job.state, job.queue, job.task) for job in jobs)
    return [
        Count(state=state, queue=queue, task=task, count=number)
        for (state, queue, task), number in sorted(tally.items())
    ]


def due_work(waiting: Iterable[JobRecord], now: datetime, limit: int) -> list[Backlog]:
    """Due work by queue and task."""
    due = dict[tuple[str, str], list[datetime]]()
    for job in waiting:
        if job.run_at <= now and limit > 0:
            due.setdefault((job.queue, job.task), []).append(job.run_at)
    return [
        Backlog(queue=queue, task=task, ready=min(len(at), limit), oldest_run_at=min(at))
        for (queue, task), at in sorted(due.items())
    ]


def deaths_of(dead: Iterable[JobRecord], since: datetime | None) -> list[Deaths]:
    """Dead jobs by task."""
    counted = Counter(job.task for job in dead if _since(job, since))
    return [Deaths(whose=Whose.TASK, name=task, count=counted[task]) for task in sorted(counted)]


def _since(job: JobRecord, since: datetime | None) -> bool:
    return since is None or (job.finished_at is not None and job.finished_at >= since)

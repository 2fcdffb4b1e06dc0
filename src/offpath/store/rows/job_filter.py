"""The filter of jobs, for backends that look at records one by one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from offpath.model.job import JobFilter, JobRecord, JobState
from offpath.store.rows.faults import key_of

Test = Callable[[JobRecord], bool]


def tests_of(where: JobFilter) -> list[Test]:
    """Only the conditions that were given."""
    tests = [test for given, test in _membership_tests(where) if given]
    tests += [test for given, test in _scalar_tests(where) if given is not None]
    return tests


def _membership_tests(where: JobFilter) -> list[tuple[tuple[str, ...], Test]]:
    return [
        (where.ids, lambda job: job.id in where.ids),
        (where.states, lambda job: job.state in where.states),
        (where.tasks, lambda job: job.task in where.tasks),
        (where.queues, lambda job: job.queue in where.queues),
        (where.tags, lambda job: set(where.tags) <= set(job.tags)),
        (where.reasons, lambda job: job.reason in where.reasons),
        (
            where.error_types,
            lambda job: bool(job.failures) and job.failures[-1].type in where.error_types,
        ),
        (where.faults, lambda job: job.state is JobState.DEAD and key_of(job) in where.faults),
    ]


def _scalar_tests(where: JobFilter) -> list[tuple[object, Test]]:
    return [
        (where.group_id, lambda job: job.group_id == where.group_id),
        (where.parent, lambda job: job.parent == where.parent),
        (where.enqueued_after, lambda job: _not_before(job.enqueued_at, where.enqueued_after)),
        (where.enqueued_before, lambda job: _before(job.enqueued_at, where.enqueued_before)),
        (where.finished_after, lambda job: _not_before(job.finished_at, where.finished_after)),
        (where.finished_before, lambda job: _before(job.finished_at, where.finished_before)),
        (
            where.redrives_below,
            lambda job: where.redrives_below is not None and job.redrives < where.redrives_below,
        ),
    ]


def _before(at: datetime | None, limit: datetime | None) -> bool:
    return at is not None and limit is not None and at < limit


def _not_before(at: datetime | None, limit: datetime | None) -> bool:
    return at is not None and limit is not None and at >= limit

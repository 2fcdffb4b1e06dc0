"""Jobs that may begin at once where they are enqueued, and what is in the way of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from offpath.jobs.values.job import Job
from offpath.model.unsent import unsent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offpath.model.job import NewJob


class BeginsInline(Protocol):
    """A task, as far as it says where its jobs begin."""

    inline: bool
    """True if a job begins at once in the process that enqueues it, where nothing is in the way."""


def begins_here(jobs: Sequence[object], within: object, tasks: Mapping[str, BeginsInline]) -> bool:
    """True if this is one job whose task has its jobs begin inline, and nothing is in the way."""
    if within is not None or len(jobs) != 1 or not isinstance(job := jobs[0], Job):
        return False
    task = tasks.get(job.task)
    return task is not None and task.inline and in_the_way(unsent(job).new) is None


def in_the_way(new: NewJob) -> str | None:
    """Why a job cannot begin at once; None if it can."""
    if new.run_at is not None:
        return "run_at says when it is due"
    if new.delay > 0:
        return f"delay makes it due in {new.delay:g} s"
    if new.gate is not None:
        return "it waits at a gate"
    if new.limit is not None:
        return f"it counts under the limit {new.limit.key!r}, which says when it may begin"
    return None

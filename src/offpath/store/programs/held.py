"""Jobs that are held by an operator's call, as they were before it and after."""

from __future__ import annotations

from collections.abc import Iterable

from offpath.model.changes import ChangedJob
from offpath.model.job import JobState
from offpath.store.programs.answers import STATES, HeldRow
from offpath.store.sql import Row


def held(rows: Iterable[Row]) -> list[HeldRow]:
    """The jobs of known states; one of another is left alone, and ``doctor`` tells of it."""
    jobs = (HeldRow._make(row) for row in rows)
    return [job for job in jobs if job.state in STATES]


def changed(
    job: HeldRow, state: JobState, *, attempt: int | None = None, group_done: bool = False
) -> ChangedJob:
    """The report of a job that is in this state now."""
    return ChangedJob(
        id=job.id,
        task=job.task,
        queue=job.queue,
        group_id=job.group_id,
        was=STATES[job.state],
        state=state,
        attempt=job.attempt if attempt is None else attempt,
        parent=job.parent,
        group_done=group_done,
    )

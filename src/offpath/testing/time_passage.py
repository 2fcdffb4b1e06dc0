"""Letting time pass in a test, with everything that falls due on the way."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from offpath.jobs.worker.terms import COUNTED, AttemptCounts
from offpath.model import checks
from offpath.model.job import JobRecord, JobState
from offpath.testing.due_work import drain

if TYPE_CHECKING:
    from offpath.app import App
    from offpath.runtime.clock import ManualClock

_UNTIL = "~until "
"""Begins the names of the records that say when a wait for a signal is over."""


async def pass_time(app: App, clock: ManualClock, step: float | timedelta) -> AttemptCounts:
    """Move ``clock`` on by ``step``, and run each job at its time on the way.

    ::

        await drain(app)  # the handler asks, and waits for an answer
        await pass_time(app, clock, timedelta(days=6))
        await app.signal(job, "answer", True)
        await drain(app)

    Sleeps end, retries come, waits for a signal time out at their moments, one after the other, as
    they would; so a handler that sleeps three times in a week has done it after one call. Returns
    how many attempts ended how. Raises as :func:`drain`.
    """
    end = clock.now() + timedelta(seconds=checks.seconds(step, "step"))
    counts = AttemptCounts()
    _add(counts, await drain(app))
    while (due := await _next_due(app, clock.now())) is not None and due <= end:
        clock.advance(due - clock.now())
        _add(counts, await drain(app))
    clock.advance(end - clock.now())
    _add(counts, await drain(app))
    return counts


async def _next_due(app: App, now: datetime) -> datetime | None:
    """The first moment after now at which a job falls due, or a wait is over."""
    first: datetime | None = None
    async for job in app.jobs.each(state=(JobState.QUEUED, JobState.BLOCKED)):
        for moment in await _moments(app, job):
            if moment > now and (first is None or moment < first):
                first = moment
    return first


async def _moments(app: App, job: JobRecord) -> list[datetime]:
    if job.state is JobState.QUEUED:
        return [job.run_at]
    steps = await app.store().steps(job.id)
    ends = [text for name, text in steps.items() if name.startswith(_UNTIL) and text is not None]
    return [datetime.fromisoformat(end) for end in ends]


def _add(counts: AttemptCounts, more: AttemptCounts) -> None:
    for name in COUNTED:
        setattr(counts, name, getattr(counts, name) + getattr(more, name))

"""Changes that were not asked for by the job's own worker: operators' calls, sweeps, gates."""

from __future__ import annotations

from msgspec import Struct

from offpath.model.job import DeadReason, JobState


class Changed(Struct, frozen=True, kw_only=True):
    """A job that an operator's call, a sweep or an ending gate changed.

    ``was`` and ``state`` are equal when only a request was noted (cancelling a running job).
    """

    id: str
    task: str
    queue: str
    group_id: str
    was: JobState
    state: JobState
    attempt: int = 1
    parent: str | None = None
    group_done: bool = False
    reason: DeadReason | None = None
    """Why it is dead, where it died."""

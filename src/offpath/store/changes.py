"""What operators' calls and sweeps changed."""

from __future__ import annotations

from msgspec import Struct

from offpath.model.job import JobState


class Changed(Struct, frozen=True, kw_only=True):
    """A job that an operator's call or a sweep changed. ``was`` and ``state`` are equal when only
    a request was noted (cancelling a running job).
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

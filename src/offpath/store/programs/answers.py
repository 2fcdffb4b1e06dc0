"""The rows that statements answer, one class for each kind: its fields are the answer's columns.

Times are microseconds since 1970, truths are 0 and 1, in every database.
"""

from __future__ import annotations

from typing import NamedTuple


class ScheduleRow(NamedTuple):
    """A schedule, and whether its last job is open."""

    definition: str
    paused: int
    next_at: int | None
    created_at: int
    updated_at: int
    version: int
    last_at: int | None
    last_job: str | None
    last_open: int


class OccurrenceRow(NamedTuple):
    """What became of one occurrence of a schedule."""

    schedule: str
    at: int
    outcome: str
    job: str | None
    made_at: int

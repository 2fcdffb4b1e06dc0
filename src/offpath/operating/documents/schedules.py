"""Documents of schedules and their occurrences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from offpath.model.job import JobState
from offpath.model.schedule import (
    Missed,
    Occurrence,
    OccurrenceOutcome,
    Overlap,
    ScheduleRecord,
    Timing,
    TimingKind,
)
from offpath.operating.documents.fields import filled
from offpath.operating.redaction import PLAIN, Redaction


class ScheduleDocument(Struct, frozen=True, kw_only=True):
    """A schedule: when, what it makes, what comes next and how the last went."""

    name: str
    state: str
    timing: Timing
    overlap: Overlap
    missed: Missed
    missed_limit: int
    grace: float
    origin: str
    task: str
    input: Any
    queue: str
    priority: int
    tags: tuple[str, ...]
    next_at: datetime | None
    last_at: datetime | None
    last_job: str | None
    last_open: bool
    created_at: datetime
    updated_at: datetime
    version: int


class ScheduleListed(ScheduleDocument, frozen=True, kw_only=True):
    """A schedule in a list, with how its last job went."""

    last_state: JobState | None
    """The state of its last job; None without one, or where it is removed."""


class OccurrenceDocument(Struct, frozen=True, kw_only=True):
    """An occasion of a schedule, and what became of it."""

    at: datetime
    outcome: OccurrenceOutcome
    job: str | None
    made_at: datetime | None


class ScheduleStanding(ScheduleDocument, frozen=True, kw_only=True):
    """A schedule with its latest occurrences."""

    history: tuple[OccurrenceDocument, ...]


def describe(record: ScheduleRecord, seen: Redaction = PLAIN) -> ScheduleDocument:
    """The document of a schedule."""
    return ScheduleDocument(**_fields(record, seen))


def describe_listed(
    records: Sequence[ScheduleRecord], states: Mapping[str, JobState], seen: Redaction = PLAIN
) -> tuple[ScheduleListed, ...]:
    """The documents of schedules, with the states of their last jobs by id."""
    return tuple(
        ScheduleListed(**_fields(one, seen), last_state=states.get(one.last_job or ""))
        for one in records
    )


def describe_standing(
    record: ScheduleRecord, history: list[Occurrence], seen: Redaction = PLAIN
) -> ScheduleStanding:
    """The document of a schedule with its latest occurrences."""
    told = tuple(describe_occurrence(one) for one in history)
    return ScheduleStanding(**_fields(record, seen), history=told)


def describe_occurrence(one: Occurrence) -> OccurrenceDocument:
    """The document of an occurrence."""
    return filled(OccurrenceDocument, one)


def in_words(timing: Timing) -> str:
    """The timing in a few words."""
    if timing.kind is TimingKind.CRON:
        return f"{timing.expression} {timing.zone}"
    if timing.kind is TimingKind.EVERY:
        return f"every {timing.seconds:.10g} s"
    return f"{timing.function}()"


def schedule_state(record: ScheduleRecord) -> str:
    """The state of a schedule in a word."""
    if record.paused:
        return "paused"
    return "ended" if record.next_at is None else "on"


def _fields(record: ScheduleRecord, seen: Redaction) -> dict[str, Any]:
    schedule = record.schedule
    template = schedule.template
    of_definition = ("name", "timing", "overlap", "missed", "missed_limit", "grace", "origin")
    of_template = ("task", "queue", "priority", "tags")
    of_record = ("last_at", "last_job", "last_open", "created_at", "updated_at", "version")
    return {
        **{name: getattr(schedule, name) for name in of_definition},
        **{name: getattr(template, name) for name in of_template},
        **{name: getattr(record, name) for name in of_record},
        "state": schedule_state(record),
        "input": seen.arguments(template.task, template.input),
        "next_at": None if record.paused else record.next_at,
    }

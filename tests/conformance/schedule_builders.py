"""Short ways to make schedules and what fires them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from offpath.model.schedule import (
    Firing,
    Occurrence,
    OccurrenceOutcome,
    Schedule,
    ScheduleRecord,
    Timing,
    TimingKind,
)
from offpath.store.protocol import Store
from tests.conformance.builders import START, new_job, uid

NIGHTLY = "nightly"
CRON = Timing(kind=TimingKind.CRON, expression="0 3 * * *", zone="Europe/Berlin")


def at(seconds: float) -> datetime:
    """So many seconds after the start."""
    return START + timedelta(seconds=seconds)


def schedule(name: str = NIGHTLY, **fields: Any) -> Schedule:
    """A schedule by its name."""
    fields.setdefault("timing", CRON)
    fields.setdefault("template", new_job(id="", input='"secret"', fingerprint="f"))
    return Schedule(name=name, **fields)


async def plan(
    store: Store, name: str = NIGHTLY, *, next_at: datetime | None = START, **fields: Any
) -> ScheduleRecord:
    """Put a schedule, due at once."""
    return await store.put_schedule(schedule(name, **fields), next_at=next_at)


async def known(store: Store, name: str = NIGHTLY) -> ScheduleRecord:
    """The schedule of this name, which must exist."""
    (found,) = await store.schedules([name])
    return found


def firing(record: ScheduleRecord, number: int = 1, **fields: Any) -> Firing:
    """Fire the next occurrence with job ``number``; the one after is in a minute."""
    assert record.next_at is not None
    name = record.schedule.name
    job = fields.pop("job", None) or new_job(id=uid(number))
    fields.setdefault("next_at", record.next_at + timedelta(seconds=60))
    fields.setdefault("jobs", (job,))
    fields.setdefault("occurrences", (fired(record.next_at, number, name),))
    return Firing(schedule=name, expected=record.next_at, version=record.version, **fields)


def fired(moment: datetime, number: int, name: str = NIGHTLY) -> Occurrence:
    """An occurrence that makes job ``number``."""
    outcome = OccurrenceOutcome.FIRED
    return Occurrence(schedule=name, at=moment, outcome=outcome, job=uid(number))


def missed(moment: datetime, name: str = NIGHTLY) -> Occurrence:
    """An occurrence that makes none."""
    return Occurrence(schedule=name, at=moment, outcome=OccurrenceOutcome.MISSED)


def by_hand(moment: datetime, number: int, name: str = NIGHTLY) -> Occurrence:
    """An occurrence out of turn, of job ``number``."""
    outcome = OccurrenceOutcome.TRIGGERED
    return Occurrence(schedule=name, at=moment, outcome=outcome, job=uid(number))

"""Steps on queues, limits, schedules and findings."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from offpath.app import App
from offpath.errors import InvalidArgument, NotFound
from offpath.jobs.schedules.occurrences import occurrence_job
from offpath.model import checks
from offpath.model.schedule import Occurrence, OccurrenceOutcome
from offpath.operating.steps import DONE, ActionWork, Stepped, once
from offpath.runtime.ids import derive_id


class PauseOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a pause."""

    until: datetime | None = None
    """Its end; None: until it is resumed."""
    seconds: float | None = None
    """Its length from the moment of asking, instead of its end."""


class AcceptOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of an acceptance."""

    reason: str


def pause_end(work: ActionWork) -> datetime | None:
    """The end of a pause; None: until it is resumed. Raises ``InvalidArgument``."""
    options: PauseOptions = work.options
    if options.seconds is None:
        return options.until
    if options.until is not None:
        raise InvalidArgument("until and seconds say the same: give one of them")
    length = checks.seconds(options.seconds, "seconds")
    return work.record.at + timedelta(seconds=length)


async def pause_queue(app: App, work: ActionWork) -> Stepped:
    """Hand out no more of its jobs."""
    await app.queues.pause(work.target.name, until=pause_end(work))
    return DONE


async def resume_queue(app: App, work: ActionWork) -> Stepped:
    """Hand out its jobs again."""
    return once(changed=await app.queues.resume(work.target.name), why="not_paused")


async def pause_limit(app: App, work: ActionWork) -> Stepped:
    """Start no more jobs of a key."""
    await app.limits.pause(work.target.name, until=pause_end(work))
    return DONE


async def resume_limit(app: App, work: ActionWork) -> Stepped:
    """End its pause and its cool-down."""
    return once(changed=await app.limits.resume(work.target.name), why="not_paused")


async def pause_schedule(app: App, work: ActionWork) -> Stepped:
    """Make no occurrences."""
    await app.schedules.pause(work.target.name)
    return DONE


async def resume_schedule(app: App, work: ActionWork) -> Stepped:
    """Make occurrences again, from now on."""
    await app.schedules.resume(work.target.name)
    return DONE


async def trigger_schedule(app: App, work: ActionWork) -> Stepped:
    """Make its job now. The id is made of the action's, so that a repeat makes no second one."""
    record, at = await app.schedules.get(work.target.name), work.record.at
    job = occurrence_job(record.schedule, at, derive_id(work.record.id, "job"))
    name, outcome = record.schedule.name, OccurrenceOutcome.TRIGGERED
    made = Occurrence(schedule=name, at=at, outcome=outcome, job=job.id)
    return once(changed=await app.store().trigger_schedule(name, job, made), why="unknown")


async def delete_schedule(app: App, work: ActionWork) -> Stepped:
    """Remove it with its history."""
    await app.schedules.delete(work.target.name)
    return DONE


async def accept_finding(app: App, work: ActionWork) -> Stepped:
    """Accept it: it stands, and hinders nothing any more."""
    found = await app.store().accept_finding(work.target.id, work.options.reason)
    if found is None:
        raise NotFound(f"there is no finding {work.target.id} that stands")
    return DONE

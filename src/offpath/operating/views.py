"""Views: what an operator asks to see, read from an open app as one document."""

from __future__ import annotations

import asyncio
from typing import Final

from offpath.app import App
from offpath.errors import InvalidArgument, JobNotFound
from offpath.health.fleet import FleetHealth, examine
from offpath.health.thresholds import Thresholds
from offpath.jobs.values.handle import causes_first
from offpath.model.brief import Kind
from offpath.model.group import GroupRecord
from offpath.model.job import OWN_REASONS, JobFilter, JobRecord, JobState, Page
from offpath.operating.documents import groups, jobs
from offpath.operating.documents.groups import GroupStanding
from offpath.operating.documents.jobs import JobStanding
from offpath.operating.job_waits import holder_problems, steps_of, wait_of, waited_for
from offpath.operating.panels import Panels
from offpath.operating.redaction import PLAIN, Redaction
from offpath.operating.short_ids import group_whole, whole

_OPEN: Final = (JobState.BLOCKED, JobState.QUEUED, JobState.RUNNING)
_FAILED: Final = (JobState.DEAD, JobState.CANCELLED)


async def job(
    app: App, job_id: str, seen: Redaction = PLAIN, panels: Panels | None = None
) -> JobStanding:
    """A job and what it waits for. Raises ``JobNotFound``, ``InvalidArgument``."""
    record = await app.jobs.get(await whole(app, Kind.JOB, job_id, "job id"))
    return await standing_of(app, record, seen, panels)


async def standing_of(
    app: App, record: JobRecord, seen: Redaction = PLAIN, panels: Panels | None = None
) -> JobStanding:
    """The standing of a job: what it waits for, what it has recorded, and how its worker is."""
    panels = panels or Panels()
    waits_for, waited, steps, problems = await asyncio.gather(
        panels.read(wait_of(app, record), None, "waits_for", "why"),
        panels.read(waited_for(app, record), None, "waited_for", "why"),
        panels.read(steps_of(app, record), [], "steps"),
        panels.read(holder_problems(app, record), [], "worker_problems", "why"),
    )
    return jobs.describe_standing(
        record,
        seen,
        waits_for=waits_for,
        waited_for=waited,
        steps=steps,
        worker_problems=problems,
    )


async def group(
    app: App, group_id: str, seen: Redaction = PLAIN, *, limit: int = 50
) -> GroupStanding:
    """A group with at most ``limit`` members of each kind. Raises ``JobNotFound``."""
    record = await group_record(app, group_id)
    counts, unended, failed = await asyncio.gather(
        app.jobs.counts(group_id=record.id),
        _members(app, record.id, _OPEN, limit),
        _failed_members(app, record.id, limit),
    )
    return groups.describe_standing(
        record,
        groups.by_state(counts),
        seen,
        open_members=jobs.describe_page(unended, seen),
        failed_members=jobs.describe_page(failed, seen),
    )


async def group_record(app: App, given: str) -> GroupRecord:
    """The group. Raises ``JobNotFound``, and says so when a member's id was given."""
    group_id = await group_whole(app, given)
    found = await app.store().groups((group_id,))
    if found:
        return found[0]
    member = await app.store().get((group_id,))
    if member:
        raise InvalidArgument(
            f"{group_id} is a member of the group {member[0].group_id}: give that id"
        )
    raise JobNotFound(f"there is no group {group_id} (any more)")


async def fleet_of(app: App) -> FleetHealth:
    """The health of the fleet, by the app's thresholds."""
    store = app.store()
    return await examine(store, Thresholds(store, app.settings))


async def _members(app: App, group_id: str, states: tuple[JobState, ...], limit: int) -> Page:
    return await app.groups.members(group_id, states=states, limit=limit, newest=False)


async def _failed_members(app: App, group_id: str, limit: int) -> Page:
    """Failed members, the causes first: what failed by itself, then what died of others."""
    page = await _members(app, group_id, _FAILED, limit)
    found = page.items
    if page.next is not None:  # a cause may be behind many that died of it
        where = JobFilter(group_id=group_id, states=(JobState.DEAD,), reasons=OWN_REASONS)
        own = (await app.store().find(where, limit=limit, newest=False)).items
        found = tuple({one.id: one for one in (*own, *found)}.values())
    return Page(items=causes_first(found)[:limit], next=page.next)

"""The overview: what somebody who is woken at night reads first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from offpath.app import App
from offpath.health.fleet import MOST_COUNTED, MOST_DUE, FleetMember, WorkerPresence
from offpath.model.brief import DeadTally, FaultTally
from offpath.model.endpoint import Endpoint, EndpointState
from offpath.model.job import JobState
from offpath.model.limit import QueueRecord
from offpath.model.redact import redact_text
from offpath.operating import list_views, stats_views, views
from offpath.operating.documents import faults, health
from offpath.operating.documents.faults import FaultsDocument
from offpath.operating.documents.fields import filled
from offpath.operating.documents.health import HealthDocument
from offpath.operating.documents.messages import StreamStanding
from offpath.operating.documents.schedules import ScheduleListed
from offpath.operating.panels import PanelledDocument, Panels
from offpath.operating.queue_service import QueueStanding, describe_queues
from offpath.operating.redaction import PLAIN, Redaction
from offpath.operating.stats_views import QueueRate, StatsDocument
from offpath.store.browse import MOST_COUNTED_DEAD, MOST_LOOKED_AT
from offpath.store.protocol import Backlog

MOST_FAULTS = 100
"""Faults that are told, the most frequent first."""
LATELY = timedelta(hours=1)
"""The time whose deaths the overview tells by fault."""
_UNKNOWN = "the verdict took too long to be made: nothing is known to be well"
_OF_FLEET = (
    *("ready", "reasons", "warnings"),
    *("live_workers", "missing_workers", "slots", "workers"),
)
"""The fields that are known by the workers and what they report."""
_OF_QUEUES = ("blocked", "due", "oldest_due_at", "problems", "queues", "running", "scheduled")
"""The fields that are known by the queues, and by the workers that serve them."""
_OF_DEAD = ("dead", "more_dead", "oldest_dead_at")
_SOON = 8
"""Schedules that are named."""
_MOST_SCHEDULES = 500
"""Schedules, the next ones, of which it is known how the last job went."""
_MISSING = frozenset((WorkerPresence.LATE, WorkerPresence.GONE))


class RouterBrief(Struct, frozen=True, kw_only=True):
    """A router, and since when its oldest event waits."""

    name: str
    open: bool
    """True if its gate and the master's are open."""
    oldest_at: datetime | None


class EndpointBrief(Struct, frozen=True, kw_only=True):
    """An endpoint to which nothing is posted now."""

    name: str
    state: EndpointState
    reason: str | None


class Overview(PanelledDocument, frozen=True, kw_only=True):
    """The verdict, what hinders, and what waits."""

    now: datetime
    ready: bool
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    problems: tuple[str, ...]
    """Queues that nobody serves, and tasks that nobody knows; they are among the warnings too
    while a worker is live.
    """
    due: int
    oldest_due_at: datetime | None
    running: int
    scheduled: int
    blocked: int
    live_workers: int
    workers: int
    missing_workers: int
    """Workers that are late or were lost, not those that left by themselves."""
    slots: int
    """Jobs that live workers can run at once."""
    counted_to: int = MOST_COUNTED
    """The number at which counts of a queue stop: so many, or more."""
    queues: tuple[QueueStanding, ...]
    rates: dict[str, QueueRate]
    """The pace of queues in the last five minutes, by name; of those with stats alone."""
    dead: int
    """Jobs that are dead, counted up to a limit."""
    more_dead: bool
    """True if some were not counted."""
    oldest_dead_at: datetime | None
    """The time when the job died that has been dead for longest."""
    faults: FaultsDocument
    """The faults of jobs that died in the last hour, whenever these were enqueued."""
    schedules: tuple[ScheduleListed, ...]
    """The schedules whose last job died, then the next ones to come."""
    streams: tuple[StreamStanding, ...]
    """Streams in which messages are due or dead, those with the most first."""
    routers: tuple[RouterBrief, ...]
    """Routers, the one whose event waits longest first."""
    endpoints: tuple[EndpointBrief, ...]
    """Endpoints that are paused or disabled."""
    stats: StatsDocument
    """The last hour, or the range that was asked for."""


async def read(
    app: App,
    seen: Redaction = PLAIN,
    *,
    within: str | None = None,
    compared: str | None = None,
    panels: Panels | None = None,
) -> Overview:
    """The overview of an open app's store, with what happened in a range of time.

    Raises ``InvalidArgument`` for a range that is none.
    """
    panels = panels or Panels()
    now, fleet, (found, backlog), lately, parts, events = await asyncio.gather(
        app.store().ping(),
        panels.read(views.fleet_of(app), None, *_OF_FLEET, *_OF_QUEUES),
        _queued(app, panels),
        panels.read(
            stats_views.stats(app, within=within, compared=compared),
            stats_views.unread(app, within=within),
            "stats",
        ),
        _beside(app, seen, panels),
        _events(app, panels),
    )
    members = () if fleet is None else fleet.members
    # without the workers nobody would seem to serve them
    queues = () if fleet is None else describe_queues(found, backlog, members).items
    return Overview(
        now=now,
        **_verdict(None if fleet is None else health.describe(fleet)),
        **_figures(queues),
        **_of_workers(members),
        queues=queues,
        stats=lately,
        **parts,
        **events,
        cut=panels.cut,
    )


async def _queued(app: App, panels: Panels) -> tuple[list[QueueRecord], list[Backlog]]:
    """The queues, and what is due in each."""
    store = app.store()
    return await panels.read(
        asyncio.gather(store.queues(most=MOST_COUNTED), store.backlog(limit=MOST_DUE)),
        ([], []),
        *_OF_QUEUES,
    )


def _figures(queues: Sequence[QueueStanding]) -> dict[str, Any]:
    """The figures that are added up over the queues."""
    due_since = (one.oldest_due_at for one in queues if one.oldest_due_at)
    names = ("running", "scheduled", "blocked")
    return {
        "problems": tuple(line for one in queues for line in one.problems),
        "oldest_due_at": min(due_since, default=None),
        "due": sum(one.ready for one in queues),
        **{name: sum(getattr(one, name) for one in queues) for name in names},
    }


def _of_workers(members: Sequence[FleetMember]) -> dict[str, Any]:
    """The figures of the workers."""
    live = [one.record for one in members if one.presence is WorkerPresence.LIVE]
    return {
        "live_workers": len(live),
        "workers": len(members),
        "missing_workers": sum(one.presence in _MISSING for one in members),
        "slots": sum(one.info.concurrency for one in live),
    }


_NO_FAULTS = faults.describe(FaultTally(items=(), looked_at=0, more=False))
_NO_DEAD = DeadTally(jobs=0)


async def _beside(app: App, seen: Redaction, panels: Panels) -> dict[str, Any]:
    """The parts that stand for themselves."""
    told, coming, rates, dead = await asyncio.gather(
        panels.read(_late_faults(app), _NO_FAULTS, "faults"),
        panels.read(_coming(app, seen), (), "schedules"),
        panels.read(stats_views.queue_rates(app), {}, "rates"),
        panels.read(app.store().dead_tally(), _NO_DEAD, *_OF_DEAD),
    )
    return {
        "faults": told,
        "schedules": coming,
        "rates": rates,
        "dead": dead.jobs,
        "more_dead": dead.jobs >= MOST_COUNTED_DEAD,
        "oldest_dead_at": dead.oldest_at,
    }


async def _late_faults(app: App) -> FaultsDocument:
    """The faults of what died lately. The time goes out with the other questions of the page."""
    since = await app.store().ping() - LATELY
    return await dead_faults(app, most=MOST_COUNTED_DEAD, since=since)


async def _events(app: App, panels: Panels) -> dict[str, Any]:
    """The streams, routers and endpoints of the overview, each at most eight."""
    store = app.store()
    backlog, lags, endpoints = await asyncio.gather(
        panels.read(app.message_backlog(), [], "streams"),
        panels.read(store.router_lags(), [], "routers"),
        panels.read(store.endpoints(), [], "endpoints"),
    )
    waiting = sorted(
        (one for one in backlog if one.due or one.dead),
        key=lambda one: (-one.dead, -one.due, one.stream),
    )
    behind = sorted(lags, key=lambda one: (one.oldest_at is None, one.oldest_at, one.router))
    shut = [one for one in endpoints if one.state is not EndpointState.ENABLED]
    return {
        "streams": tuple(filled(StreamStanding, one) for one in waiting[:_SOON]),
        "routers": tuple(filled(RouterBrief, one, name=one.router) for one in behind[:_SOON]),
        "endpoints": tuple(_shut(one) for one in shut[:_SOON]),
    }


def _shut(one: Endpoint) -> EndpointBrief:
    reason = None if one.reason is None else redact_text(one.reason)
    return filled(EndpointBrief, one, reason=reason)


async def dead_faults(
    app: App, *, most: int = MOST_LOOKED_AT, since: datetime | None = None
) -> FaultsDocument:
    """The faults of the newest dead jobs, by default of as many as one page looks at.

    With ``since`` those of jobs that died then or later.
    """
    found = await app.store().faults(limit=MOST_FAULTS, most=most, since=since)
    return faults.describe(found)


def _verdict(health_now: HealthDocument | None) -> dict[str, Any]:
    if health_now is None:
        return {"ready": False, "reasons": (_UNKNOWN,), "warnings": ()}
    return {name: getattr(health_now, name) for name in ("ready", "reasons", "warnings")}


async def _coming(app: App, seen: Redaction) -> tuple[ScheduleListed, ...]:
    """The schedules that somebody looks for: those that failed last, then the next ones."""
    waiting = (one for one in await app.schedules.list() if one.next_at and not one.paused)
    coming = sorted(waiting, key=lambda one: one.next_at or one.updated_at)
    told = await list_views.schedules(app, coming[:_MOST_SCHEDULES], seen)
    failed = sorted(told, key=lambda one: one.last_state is not JobState.DEAD)
    return tuple(failed[:_SOON])

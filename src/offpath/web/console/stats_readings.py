"""Readings of stats: of a range of time by itself, and of the part of another page."""

from __future__ import annotations

from datetime import datetime

from offpath.app import App
from offpath.errors import InvalidArgument
from offpath.model.stats import STEPS
from offpath.operating import stats_views
from offpath.operating.stats_times import StatTimes
from offpath.operating.stats_views import StatChoice, StatsDocument
from offpath.web.console.document_row import Asking
from offpath.web.console.queries import RequestQuery, moment


async def read_stats(app: App, asking: Asking) -> StatsDocument:
    """Events and counts of a range that has a name, or between two times."""
    query = asking.query
    only = StatChoice(**{name: query.one(name) for name in StatChoice.__struct_fields__})
    return await stats_views.stats(
        app,
        within=query.one("range"),
        only=only,
        compared=query.one("compare"),
        times=_times(query, app.clock.now()),
    )


def _times(query: RequestQuery, now: datetime) -> StatTimes:
    since, until = query.one("from"), query.one("to")
    return StatTimes(
        since=None if since is None else moment(since, "from", now),
        until=None if until is None else moment(until, "to", now),
        step=_step(query.one("step")),
    )


def _step(given: str | None) -> int | None:
    if given is None:
        return None
    found = next((one for one in STEPS if str(one) == given), None)
    if found is None:
        listed = ", ".join(str(one) for one in STEPS)
        raise InvalidArgument(f"step is one of {listed} seconds, not {given!r:.40}")
    return found


async def stats_of(app: App, asking: Asking, only: StatChoice) -> StatsDocument:
    """The stats of one part of the work, which are a part of its page."""
    within = asking.query.one("range")
    return await asking.panels.read(
        stats_views.stats(app, within=within, only=only, compared=asking.query.one("compare")),
        stats_views.unread(app, within=within, only=only),
        "stats",
    )

"""Views of lists: jobs, groups and their graphs, gates, signals, the next jobs of a queue."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from offpath.app import App
from offpath.health.fleet import MOST_COUNTED
from offpath.jobs.client.selection import filter_of
from offpath.model.job import JobFilter, JobState
from offpath.model.schedule import ScheduleRecord
from offpath.operating import graph
from offpath.operating.documents import lists
from offpath.operating.documents.lists import (
    BriefDocument,
    BriefList,
    CountsDocument,
    GateListing,
    GroupListing,
    SignalListing,
)
from offpath.operating.documents.schedules import ScheduleListed, describe_listed
from offpath.operating.graph import GraphDocument
from offpath.operating.redaction import PLAIN, Redaction
from offpath.operating.searches import search
from offpath.operating.views import group_record
from offpath.runtime.ids import parse_id
from offpath.store.browse import MOST_LOOKED_AT


async def jobs(
    app: App,
    where: Mapping[str, Any] | JobFilter,
    *,
    text: str | None = None,
    seen: Redaction = PLAIN,
    limit: int = 50,
    after: str | None = None,
    newest: bool = True,
) -> BriefList:
    """Jobs that match among the next 20,000 rows, and how far that came.

    ``where`` has the names of ``app.jobs.find``. ``text`` is looked for in error texts, and in
    arguments by whoever may see these; never in what is hidden. Raises ``InvalidArgument``.
    """
    chosen = where if isinstance(where, JobFilter) else filter_of(dict(where))  # type: ignore[arg-type]
    place = None if after is None else parse_id(after, "after")
    if text is None:
        page = await app.store().browse(chosen, limit=limit, after=place, newest=newest)
    else:
        page = await search(app, chosen, text, seen, limit=limit, after=place, newest=newest)
    return lists.describe_page(page, MOST_LOOKED_AT)


async def longest_running(app: App, task: str, *, limit: int) -> tuple[BriefDocument, ...]:
    """The jobs of a task that have been running for longest, of the first thousand by id."""
    where = JobFilter(states=(JobState.RUNNING,), tasks=(task,))
    page = await app.store().browse(where, limit=_MOST_RUNNING, newest=False)
    slow = sorted(page.items, key=lambda one: one.started_at or one.run_at)
    return tuple(lists.describe_brief(one) for one in slow[:limit])


_MOST_RUNNING: Final = 1_000


async def counts(app: App) -> CountsDocument:
    """The jobs in each state that has not ended, and the dead, each counted up to a limit."""
    store = app.store()
    queues, dead = await asyncio.gather(store.queues(most=MOST_COUNTED), store.dead_tally())
    return lists.describe_counts(queues, dead, app.settings.dead_age_limit)


async def groups(
    app: App, *, unended: bool | None = None, limit: int = 50, after: str | None = None
) -> GroupListing:
    """Groups with more than their root, newest first. Raises ``InvalidArgument``."""
    start = None if after is None else parse_id(after, "after")
    found = await app.store().browse_groups(limit=limit, after=start, unended=unended)
    return lists.describe_groups(found, limit)


async def groups_open_first(app: App, *, limit: int = 50, after: str | None = None) -> GroupListing:
    """Open groups, then those that have ended, each newest first. Raises ``InvalidArgument``.

    ``next`` is an id among the open ones, and behind them one with ``ended:`` in front.
    """
    given = after or ""
    if given.startswith(_ENDED):
        return await _ended_groups(app, limit, parse_id(given.removeprefix(_ENDED), "after"))
    page = await groups(app, unended=True, limit=limit, after=after)
    if page.next is not None:
        return page
    rest = await _ended_groups(app, limit - len(page.items), None)
    return GroupListing(items=(*page.items, *rest.items), next=rest.next)


_ENDED: Final = "ended:"


async def _ended_groups(app: App, limit: int, after: str | None) -> GroupListing:
    page = await groups(app, unended=False, limit=limit, after=after)
    return GroupListing(
        items=page.items, next=None if page.next is None else f"{_ENDED}{page.next}"
    )


async def group_graph(app: App, group_id: str) -> GraphDocument:
    """The graph of a group, thousands of members folded. Raises ``JobNotFound``."""
    record = await group_record(app, group_id)
    return graph.draw(await app.store().graph(record.id))


async def schedules(
    app: App, records: Sequence[ScheduleRecord], seen: Redaction = PLAIN
) -> tuple[ScheduleListed, ...]:
    """The documents of schedules, with how the last job of each went."""
    last = [one.last_job for one in records if one.last_job]
    states = await app.store().states(last) if last else {}
    return describe_listed(records, states, seen)


async def gates(app: App, *, limit: int = 50, after: str | None = None) -> GateListing:
    """Gates that wait. Raises ``InvalidArgument``."""
    start = None if after is None else parse_id(after, "after")
    return lists.describe_gates(await app.store().open_gates(limit=limit, after=start), limit)


async def signals(
    app: App, seen: Redaction = PLAIN, *, limit: int = 50, after: str | None = None
) -> SignalListing:
    """Signals that nobody has taken. Raises ``InvalidArgument``."""
    start = None if after is None else parse_id(after, "after")
    found = await app.store().pending_signals(limit=limit, after=start)
    return lists.describe_signals(found, limit, seen)


async def next_due(app: App, queue: str, *, limit: int = 20) -> tuple[BriefDocument, ...]:
    """The jobs of a queue that are handed out next."""
    found = await app.store().next_due(queue, limit=limit)
    return tuple(lists.describe_brief(one) for one in found)

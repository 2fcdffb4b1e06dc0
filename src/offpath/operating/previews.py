"""Previews: how many rows an action would be about, and the first of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from offpath.app import App
from offpath.model.brief import JobBrief
from offpath.model.job import DeadReason, JobFilter, JobState
from offpath.model.message import MessageState
from offpath.operating import event_steps, job_steps
from offpath.operating.documents.lists import BriefDocument, describe_brief
from offpath.operating.orders import ActionOrder
from offpath.operating.targets import JobsTarget, MessagesTarget
from offpath.operating.verbs import Verb

MOST_COUNTED: Final = 10_000
"""Rows that are counted; more of them are said to be more."""
PATIENCE: Final = 0.5
"""Seconds that counting may take."""
FREELY: Final = 100
"""Rows that may be removed without their number being confirmed."""
SLOWLY_FROM: Final = 1_000
RATE: Final = 50.0
"""Jobs a second, for a redrive of more than 1,000 that asks for no other rate."""
_FIRST: Final = 10
_PAGE: Final = 1_000
_BEHIND: Final = DeadReason.UNSATISFIABLE.value
_Rows = tuple[Sequence[Any], str | None]
UNCOUNTED: Final = "all"
"""The confirmation for rows that were too many to count."""


class RowCount(Struct, frozen=True, kw_only=True):
    """The number of rows that match."""

    rows: int | None
    """None: there was no time to count them."""
    more: bool = False
    """True if there are more than were counted."""

    @property
    def confirmation(self) -> str:
        """The text that confirms the removal of so many."""
        return UNCOUNTED if self.more or self.rows is None else str(self.rows)


class Preview(Struct, frozen=True, kw_only=True):
    """An action before it is asked for."""

    verb: str
    matching: int | None
    """None: there was no time to count them, or it is about one thing."""
    more: bool
    first: tuple[BriefDocument, ...]
    """The first jobs, the oldest first."""
    before: datetime
    """The moment of asking: give it as the target's ``before``, so that it stays what was seen."""
    confirm: str | None
    """The confirmation that it needs, if it does."""
    per_second: float | None
    """The rate of a redrive that asks for none."""
    seconds: float | None
    """The seconds until all of them are due."""
    behind: int | None = None
    """Of a redrive: those that died at a gate behind failed jobs, which it leaves alone. None:
    there was no time to count them."""


async def preview(app: App, order: ActionOrder) -> Preview:
    """The preview of an action."""
    counted = await count(app, order)
    rate, behind = rate_of(order, counted), await _behind(app, order)
    before: datetime | None = getattr(order.target, "before", None)
    return Preview(
        verb=order.verb.name,
        matching=counted.rows,
        more=counted.more,
        first=await _first(app, order),
        before=before or await app.store().ping(),
        confirm=_confirmation(order, counted),
        per_second=rate,
        seconds=counted.rows / rate if rate and counted.rows and not counted.more else None,
        behind=behind.rows,
    )


def _confirmation(order: ActionOrder, counted: RowCount) -> str | None:
    """The text that confirms it, if one must be typed."""
    if order.verb.typed is not None:
        return order.verb.typed(order.target)
    return counted.confirmation if needs_number(order.verb, counted) else None


def rate_of(order: ActionOrder, counted: RowCount) -> float | None:
    """The rate of a redrive: the one that was asked for, otherwise 50 a second for many."""
    if order.verb.name != "job.redrive":
        return None
    asked: float | None = order.options.per_second
    if asked is not None:
        return asked
    many = counted.more or counted.rows is None or counted.rows > SLOWLY_FROM
    return RATE if many else None


def needs_number(verb: Verb, counted: RowCount) -> bool:
    """True if so many may only be removed by somebody who has read their number."""
    many = counted.more or counted.rows is None or counted.rows > FREELY
    return verb.final and bool(verb.states) and many


async def count(app: App, order: ActionOrder) -> RowCount:
    """The number of rows that match, as far as it can be counted in half a second."""
    if not order.verb.states:
        return RowCount(rows=1)
    return await _counted(lambda after: _page(app, order, after, _PAGE))


async def _behind(app: App, order: ActionOrder) -> RowCount:
    """The jobs of a redrive that died at a gate which cannot fire: by their reason, as all do."""
    if order.verb.name != "job.redrive":
        return RowCount(rows=0)
    where = _jobs_where(order)
    if (where.reasons and _BEHIND not in where.reasons) or JobState.DEAD not in where.states:
        return RowCount(rows=0)
    own = replace(where, reasons=(_BEHIND,), states=(JobState.DEAD,))
    return await _counted(lambda after: _jobs(app, own, after, _PAGE))


async def _counted(page: Callable[[str | None], Awaitable[_Rows]]) -> RowCount:
    """The rows of page after page, as far as they can be counted in half a second."""
    counted = 0
    try:
        async with asyncio.timeout(PATIENCE):
            after: str | None = None
            while counted < MOST_COUNTED:
                found, after = await page(after)
                counted += len(found)
                if after is None:
                    return RowCount(rows=counted)
    except TimeoutError:
        return RowCount(rows=None, more=True)
    return RowCount(rows=counted, more=True)


async def _first(app: App, order: ActionOrder) -> tuple[BriefDocument, ...]:
    """The first jobs that match, as many as are found in half a second."""
    if not isinstance(order.target, JobsTarget):
        return ()
    found: list[JobBrief] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            after: str | None = None
            while len(found) < _FIRST:
                some, after = await _page(app, order, after, _FIRST - len(found))
                found += some
                if after is None:
                    break
    return tuple(map(describe_brief, found))


async def _page(app: App, order: ActionOrder, after: str | None, limit: int) -> _Rows:
    """A page of the rows that match, the oldest first, and the place of the next one."""
    if isinstance(order.target, MessagesTarget):
        return await _messages(app, order, after, limit)
    return await _jobs(app, _jobs_where(order), after, limit)


def _jobs_where(order: ActionOrder) -> JobFilter:
    """The filter of an action on jobs. Raises ``InvalidArgument``."""
    states, target = frozenset(map(JobState, order.verb.states)), order.target
    if target.ids:
        return JobFilter(ids=tuple(target.ids), states=tuple(sorted(states)))
    return job_steps.filter_for(target, states)


async def _jobs(app: App, where: JobFilter, after: str | None, limit: int) -> _Rows:
    """A page of jobs. A bounded number of rows is looked at: it may be empty and lead on."""
    page = await app.store().browse(where, limit=limit, after=after, newest=False)
    return page.items, page.next


async def _messages(app: App, order: ActionOrder, after: str | None, limit: int) -> _Rows:
    states = frozenset(map(MessageState, order.verb.states))
    where = event_steps.messages_for(order.target, states)
    page = await app.store().look_at_messages(where, limit=limit, after=after, newest=False)
    return page.items, page.next

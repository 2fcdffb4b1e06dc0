"""``app.jobs``: every job of the fleet, read and acted on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from msgspec.structs import replace

from offpath.errors import InvalidArgument
from offpath.jobs.client.selection import Where, filter_of, ids_of, page_limit, position, the_record
from offpath.model.amendment import AMENDABLE, Amendment, checked_amendment
from offpath.model.changes import ChangedJob
from offpath.model.checks import seconds
from offpath.model.job import LIVE, TERMINAL, Count, JobFilter, JobRecord, JobState, Page
from offpath.runtime.former import Former, former_names
from offpath.store.protocol import JobRedrive

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from datetime import datetime, timedelta

    from offpath.jobs.client.session import StoreSession

FORMER = {"retry": Former("_again", "redrive (dead, cancelled) or run_now (queued)")}
CHUNK = 500
"""Jobs acted on in one call to the store."""


class JobsView:
    """Jobs of all processes. Listings are pages in the order of ids, which is that of time."""

    def __init__(self, opened: Callable[[], Awaitable[StoreSession]]) -> None:
        self._opened = opened

    async def get(self, job_id: str, /) -> JobRecord:
        """One job, with the history of its failures. Raises ``JobNotFound``."""
        (job_id,) = ids_of((job_id,))
        found = await (await self._opened()).store.get((job_id,))
        return the_record(found, job_id)

    async def find(
        self,
        *,
        limit: int = 100,
        after: str | None = None,
        newest: bool = True,
        **where: Unpack[Where],
    ) -> Page:
        """One page of jobs, newest first; ``after`` is the ``next`` of the page before."""
        store = (await self._opened()).store
        chosen = filter_of(where)
        size, start = page_limit(limit), position(after)
        return await store.find(chosen, limit=size, after=start, newest=newest)

    async def each(
        self, *, newest: bool = True, **where: Unpack[Where]
    ) -> AsyncIterator[JobRecord]:
        """All jobs that match, page by page."""
        chosen = filter_of(where)
        store = (await self._opened()).store
        after: str | None = None
        while True:
            page = await store.find(chosen, limit=CHUNK, after=after, newest=newest)
            for record in page.items:
                yield record
            if page.next is None:
                return
            after = page.next

    async def count(self, **where: Unpack[Where]) -> int:
        """The number of jobs that match."""
        return sum(each.count for each in await self.counts(**where))

    async def counts(self, **where: Unpack[Where]) -> list[Count]:
        """The number of jobs that match, by state, queue and task."""
        return await (await self._opened()).store.count(filter_of(where))

    async def cancel(self, *ids: str, **where: Unpack[Where]) -> list[ChangedJob]:
        """Cancel jobs, by id or by filter: waiting ones at once, running ones are told.

        Returns those it changed; ended and unknown ones are left alone. Raises
        ``InvalidArgument`` when neither ids nor a filter is given.
        """
        what = chosen(ids, filter_of(where), allowed=LIVE)
        session = await self._opened()
        keep = session.keep_cancelled
        return await act(session, what, lambda chunk: session.store.cancel(chunk, keep=keep))

    async def redrive(
        self, *ids: str, delay: float | timedelta = 0.0, **where: Unpack[Where]
    ) -> list[ChangedJob]:
        """Put dead or cancelled jobs back as fresh, due ``delay`` from now.

        Returns those it changed. Jobs in other states are left alone, and so are jobs whose unique
        key another job holds already, and those that never came past their gate, until the jobs
        that they waited for have succeeded. ``app.dead.redrive`` does it to many at a
        chosen rate.
        """
        return await self._due(ids, where, _ENDED, seconds(delay, "delay"))

    async def run_now(self, *ids: str, **where: Unpack[Where]) -> list[ChangedJob]:
        """Make queued jobs due now that wait for their time: delayed, retrying, snoozed.

        Returns those it changed. Jobs in other states are left alone.
        """
        return await self._due(ids, where, _QUEUED, 0.0)

    async def amend(
        self,
        *ids: str,
        set_priority: int | None = None,
        set_queue: str | None = None,
        set_run_at: datetime | None = None,
        set_deadline: datetime | None = None,
        **where: Unpack[Where],
    ) -> list[ChangedJob]:
        """Give waiting jobs other terms, by id or by filter; each takes its new place at once.

        A blocked job takes a priority and a deadline, one that waits for a signal a priority alone.
        Returns those it changed: jobs that cannot take all of it, that run or have ended are left
        alone. Raises ``InvalidArgument`` when nothing is given to change, or for a deadline that
        has passed.
        """
        what = chosen(ids, filter_of(where), allowed=AMENDABLE)
        given = Amendment(
            priority=set_priority, queue=set_queue, run_at=set_run_at, deadline=set_deadline
        )
        store = (session := await self._opened()).store
        amendment = checked_amendment(given, await store.ping(), "set_")
        return await act(session, what, lambda chunk: store.amend(chunk, amendment))

    async def _again(
        self, *ids: str, delay: float | timedelta = 0.0, **where: Unpack[Where]
    ) -> list[ChangedJob]:
        """Do what ``retry`` did, until that name goes."""
        return await self._due(ids, where, _ENDED | _QUEUED, seconds(delay, "delay"))

    async def _due(
        self, ids: tuple[str, ...], where: Where, allowed: frozenset[JobState], delay: float
    ) -> list[ChangedJob]:
        what = chosen(ids, filter_of(where), allowed=allowed)
        store = (session := await self._opened()).store

        async def back(chunk: Sequence[str]) -> list[ChangedJob]:
            return await store.redrive([JobRedrive(id=each, delay=delay) for each in chunk])

        return await act(session, what, back)

    async def delete(self, *ids: str, **where: Unpack[Where]) -> list[ChangedJob]:
        """Remove ended jobs with their history; returns those that were removed.

        Others are left alone, and so are jobs of which something is still to be undone
        (``ctx.on_abort``): a worker first makes their undo jobs, within a second.
        """
        session = await self._opened()
        return await act(
            session, chosen(ids, filter_of(where), allowed=TERMINAL), session.store.delete
        )

    if not TYPE_CHECKING:
        __getattr__ = former_names("app.jobs", FORMER)


_ANY = JobFilter()
_ENDED = frozenset({JobState.DEAD, JobState.CANCELLED})
_QUEUED = frozenset({JobState.QUEUED})


def chosen(
    ids: Sequence[str], given: JobFilter, *, allowed: frozenset[JobState], everything: bool = False
) -> JobFilter:
    """The jobs of a bulk action; never everything by accident. Raises ``InvalidArgument``."""
    if not ids and given == _ANY and not everything:
        raise InvalidArgument(
            "give job ids or a filter: without them nothing is chosen, rather than everything"
        )
    states = tuple(state for state in (given.states or tuple(JobState)) if state in allowed)
    return replace(given, ids=ids_of(ids), states=states)


async def act(
    session: StoreSession,
    what: JobFilter,
    action: Callable[[Sequence[str]], Awaitable[list[ChangedJob]]],
    *,
    limit: int | None = None,
) -> list[ChangedJob]:
    """Do it to all jobs that match, oldest first, chunk by chunk.

    At most ``limit`` of them change; one that is left as it is does not count.
    """
    changed: list[ChangedJob] = []
    left = limit
    async for ids in _chunks(session, what):
        at = 0
        while at < len(ids) and (left is None or left > 0):
            some = ids[at : at + (CHUNK if left is None else left)]
            answers = await action(some)
            changed += answers
            if left is not None:  # others may have followed, as a join does its parts
                left -= len({one.id for one in answers}.intersection(some))
            at += len(some)
        if left == 0:
            break
    return changed


async def _chunks(session: StoreSession, what: JobFilter) -> AsyncIterator[tuple[str, ...]]:
    if not what.states:
        return
    after: str | None = None
    while True:
        page = await session.store.find(what, limit=CHUNK, after=after, newest=False)
        if page.items:
            yield tuple(record.id for record in page.items)
        if page.next is None:
            return
        after = page.next

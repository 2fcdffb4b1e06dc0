"""``app.dead``: what will not run again unaided, and the ways to put it back."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Unpack

from msgspec.structs import replace

from offpath.errors import JobNotFound
from offpath.jobs.client.jobs_view import act, chosen
from offpath.jobs.client.selection import Where, filter_of, ids_of, page_limit, position
from offpath.model import checks
from offpath.model.changes import ChangedJob
from offpath.model.job import JobRecord, JobState, Page
from offpath.store.protocol import JobRedrive

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import timedelta

    from offpath.jobs.client.session import StoreSession
    from offpath.model.job import JobFilter

_DEAD = frozenset({JobState.DEAD})
_FASTEST = 1e6
_Changes = list[ChangedJob]  # inside of the class, `list` is the verb


class DeadLetters:
    """Dead jobs with their errors. They stay until they are redriven, discarded or pruned."""

    def __init__(self, opened: Callable[[], Awaitable[StoreSession]]) -> None:
        self._opened = opened

    async def list(
        self,
        *,
        limit: int = 100,
        after: str | None = None,
        newest: bool = True,
        **where: Unpack[Where],
    ) -> Page:
        """One page of dead jobs, newest first; ``after`` is the ``next`` of the page before."""
        store = (await self._opened()).store
        what = _dead(filter_of(where))
        size, start = page_limit(limit), position(after)
        return await store.find(what, limit=size, after=start, newest=newest)

    async def show(self, job_id: str, /) -> JobRecord:
        """One dead job with every failure kept. Raises ``JobNotFound`` when it is not dead."""
        (job_id,) = ids_of((job_id,))
        found = await (await self._opened()).store.get((job_id,))
        if not found:
            raise JobNotFound(f"there is no job {job_id} (any more)")
        if found[0].state is not JobState.DEAD:
            raise JobNotFound(f"job {job_id} is not dead, it is {found[0].state}")
        return found[0]

    async def redrive(
        self,
        *ids: str,
        per_second: float | None = None,
        delay: float | timedelta = 0.0,
        limit: int | None = None,
        everything: bool = False,
        without_gates: bool = False,
        **where: Unpack[Where],
    ) -> _Changes:
        """Put dead jobs back as fresh, oldest first: attempt 1, a fresh deadline, errors kept.

        A job that died since its gate could not fire waits there again as soon as the failed jobs
        that it waited for are put back, by this call or by another; until then it is left alone.
        ``without_gates=True`` puts it back at once, and it works with what there is.

        ``per_second`` throttles: the jobs become due one after another at that rate. That is
        written with them, so it needs no process to stay alive. ``everything=True`` takes all
        dead jobs; otherwise give ids or a filter. Returns those that were put back.
        """
        wait = checks.seconds(delay, "delay")
        step = _step(per_second)
        order = itertools.count()

        async def back(chunk: Sequence[str]) -> _Changes:
            return await session.store.redrive(
                [
                    JobRedrive(id=each, delay=wait + next(order) * step, past_gate=without_gates)
                    for each in chunk
                ]
            )

        what = chosen(ids, filter_of(where), allowed=_DEAD, everything=everything)
        session = await self._opened()
        return await act(session, what, back, limit=_limit(limit))

    async def discard(
        self,
        *ids: str,
        limit: int | None = None,
        everything: bool = False,
        **where: Unpack[Where],
    ) -> _Changes:
        """Delete dead jobs for good. Returns those that were deleted: not those that are still to
        be undone (``ctx.on_abort``), of which a worker first makes the undo jobs.
        """
        what = chosen(ids, filter_of(where), allowed=_DEAD, everything=everything)
        session = await self._opened()
        return await act(session, what, session.store.delete, limit=_limit(limit))


def _dead(what: JobFilter) -> JobFilter:
    return replace(what, states=(JobState.DEAD,))


def _step(per_second: float | None) -> float:
    if per_second is None:
        return 0.0
    return 1.0 / checks.number(per_second, "per_second", least=1e-6, most=_FASTEST)


def _limit(limit: int | None) -> int | None:
    return limit if limit is None else checks.integer(limit, "limit", least=1, most=10**9)

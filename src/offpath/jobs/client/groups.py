"""``app.groups``: jobs that are counted together, looked at and cancelled as one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from offpath.errors import InvalidArgument, JobNotFound
from offpath.jobs.client.group_events import Group
from offpath.jobs.client.selection import page_limit, position
from offpath.model.changes import ChangedJob
from offpath.model.job import JobFilter, JobState, Page
from offpath.runtime.ids import parse_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from offpath.jobs.client.session import StoreSession
    from offpath.jobs.values.group_codecs import GroupCodecs

CHUNK = 500
"""Jobs cancelled in one call to the store."""


class GroupsView:
    """Groups of all processes. A group has the id of its first job."""

    def __init__(self, opened: Callable[[], Awaitable[StoreSession]], codecs: GroupCodecs) -> None:
        self._opened = opened
        self._codecs = codecs

    async def get(self, group_id: str, /) -> Group:
        """A group as it is now: how many of its jobs are open, how many failed, and its value.

        A job that never had company is a group of one. Raises ``JobNotFound`` when none of its
        jobs is in the store (any more).
        """
        group_id = parse_id(group_id, "group_id")
        found = await (await self._opened()).store.groups((group_id,))
        if not found:
            raise JobNotFound(f"there is no group {group_id} (any more)")
        return Group.of(found[0], self._codecs)

    async def members(
        self,
        group_id: str,
        /,
        *,
        states: Iterable[JobState | str] = (),
        limit: int = 100,
        after: str | None = None,
        newest: bool = True,
    ) -> Page:
        """One page of a group's jobs; ``after`` is the ``next`` of the page before."""
        where = JobFilter(group_id=parse_id(group_id, "group_id"), states=_states(states))
        store = (await self._opened()).store
        size, start = page_limit(limit), position(after)
        return await store.find(where, limit=size, after=start, newest=newest)

    async def cancel(self, group_id: str, /) -> list[ChangedJob]:
        """Cancel a group: waiting jobs at once, running ones are told, and what would still join
        it is cancelled too. Returns those it changed; repeating it changes nothing.

        Raises ``JobNotFound`` when there is no such group.
        """
        group_id = (await self.get(group_id)).id
        return await cancel_group(await self._opened(), group_id)


async def cancel_group(session: StoreSession, group_id: str) -> list[ChangedJob]:
    """Cancel all open jobs of a group, chunk by chunk."""
    changed: list[ChangedJob] = []
    while True:
        more = await session.store.cancel_groups(
            (group_id,), limit=CHUNK, keep=session.keep_cancelled
        )
        if not more:
            return changed
        changed += more


def _states(given: Iterable[JobState | str]) -> tuple[JobState, ...]:
    if isinstance(given, str):
        raise InvalidArgument(f"states must be a list of states, not one str: [{given!r}]")
    try:
        return tuple(JobState(state) for state in given)
    except ValueError as error:
        raise InvalidArgument(f"states: {error}; the states are {', '.join(JobState)}") from error

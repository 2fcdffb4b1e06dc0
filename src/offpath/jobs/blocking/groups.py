"""The blocking verbs of ``app.blocking.groups``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from offpath.jobs.blocking.flow import Runs
    from offpath.jobs.client.group_events import Group
    from offpath.jobs.client.groups import GroupsView
    from offpath.model.job import JobState, Page
    from offpath.store.changes import Changed


class BlockingGroups:
    """The verbs of :class:`offpath.jobs.client.groups.GroupsView`, blocking."""

    def __init__(self, client: Runs, groups: GroupsView) -> None:
        self._run = client.run
        self._groups = groups

    def get(self, group_id: str, /) -> Group:
        """A group as it is now. Raises ``JobNotFound``."""
        return self._run(lambda: self._groups.get(group_id))

    def members(
        self,
        group_id: str,
        /,
        *,
        states: Iterable[JobState | str] = (),
        limit: int = 100,
        after: str | None = None,
        newest: bool = True,
    ) -> Page:
        """One page of a group's jobs."""
        members = self._groups.members
        return self._run(
            lambda: members(group_id, states=states, limit=limit, after=after, newest=newest)
        )

    def cancel(self, group_id: str, /) -> list[Changed]:
        """Cancel a group. Raises ``JobNotFound``."""
        return self._run(lambda: self._groups.cancel(group_id))

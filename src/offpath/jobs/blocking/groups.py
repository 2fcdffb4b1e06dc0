"""The blocking twin of ``app.groups``."""

from __future__ import annotations

from offpath.jobs.blocking.twin import Twin, blocking
from offpath.jobs.client.groups import GroupsView


class BlockingGroups(Twin[GroupsView]):
    """The verbs of :class:`offpath.jobs.client.groups.GroupsView`, blocking."""

    get = blocking(GroupsView.get)
    members = blocking(GroupsView.members)
    cancel = blocking(GroupsView.cancel)

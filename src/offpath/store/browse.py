"""The part of the store that people look at: pages that never walk a table.

The rules of the store's protocol hold here too. Every method looks at a bounded number of rows,
whatever its filter matches, and says how far it came.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from offpath.store.absence import none_of, refused
from offpath.store.capabilities import Profile

if TYPE_CHECKING:
    from datetime import datetime

    from offpath.model.brief import (
        BriefPage,
        DeadTally,
        FaultTally,
        GateBrief,
        GroupBrief,
        GroupGraph,
        JobBrief,
        Kind,
        SignalRecord,
        StepRecord,
    )
    from offpath.model.job import JobFilter
    from offpath.model.message import MessageFilter, MessageLook
    from offpath.model.route import LogEvent

MOST_LOOKED_AT: Final = 20_000
"""Rows that one page looks at, whatever its filter matches."""
MOST_DEAD: Final = 100_000
"""Dead jobs whose faults are counted, the newest ones."""
MOST_COUNTED_DEAD: Final = 10_000
"""Dead jobs that are counted where their number alone is told."""
MOST_MEMBERS: Final = 5_000
"""Members of a group that are read for its graph."""


class BrowseStore(Protocol):
    """Lists for people."""

    async def browse(
        self,
        where: JobFilter,
        *,
        text: str | None = None,
        arguments: bool = False,
        limit: int = 50,
        after: str | None = None,
        most: int = MOST_LOOKED_AT,
        newest: bool = True,
    ) -> BriefPage:
        """Jobs that match, by id, among the first ``most`` rows behind ``after``.

        Only ids, a group, a parent, dead jobs alone and running jobs alone narrow what is looked
        at; other conditions are tried on each row. So a page may be empty although some match
        further on: then ``next`` leads there. ``text`` is part of the message of the last failure,
        or with ``arguments`` of the input. At most 1,000 jobs a page.
        """
        ...

    async def look_at_messages(
        self,
        where: MessageFilter,
        *,
        limit: int = 50,
        after: str | None = None,
        most: int = MOST_LOOKED_AT,
        newest: bool = True,
    ) -> MessageLook:
        """Messages that match, by position, among the first ``most`` rows behind ``after``.

        Only ids and dead messages alone narrow what is looked at. So a page may be empty although
        some match further on: then ``next`` leads there. At most 1,000 messages a page.
        """
        ...

    async def faults(
        self,
        *,
        limit: int = 100,
        most: int = MOST_DEAD,
        task: str | None = None,
        since: datetime | None = None,
    ) -> FaultTally:
        """The faults of the newest ``most`` dead jobs: the most frequent first, then by task,
        reason and key. With ``task`` those of its jobs among them are told. With ``since``, those
        are looked at that died then or later, the latest deaths first.
        """
        ...

    async def step_records(self, job_id: str) -> list[StepRecord]:
        """The recorded steps of a job, in their order, each with its time."""
        ...

    async def dead_tally(self, *, most: int = MOST_COUNTED_DEAD) -> DeadTally:
        """The number of dead jobs, counted up to ``most``, and the time when the oldest died."""
        ...

    async def graph(self, group: str, *, limit: int = MOST_MEMBERS) -> GroupGraph:
        """The first ``limit`` members of a group by id, and the gates that hold them.

        Of what a gate watches, only members of the group are told. An unknown group has none.
        """
        ...

    async def browse_groups(
        self, *, limit: int = 50, after: str | None = None, unended: bool | None = None
    ) -> list[GroupBrief]:
        """Groups with more than their root, newest first, behind ``after``.

        With ``unended``, those that have open members among the next 20,000. False leaves just
        these out, None leaves nothing out.
        """
        ...

    async def open_gates(self, *, limit: int = 50, after: str | None = None) -> list[GateBrief]:
        """Gates that wait, by id, behind ``after``."""
        ...

    async def pending_signals(
        self, *, limit: int = 50, after: str | None = None
    ) -> list[SignalRecord]:
        """Signals that nobody has taken and whose time is not over, by id, behind ``after``."""
        ...

    async def drop_signals(self, ids: Sequence[str]) -> list[str]:
        """End signals that nobody has taken: no job gets them any more, and sending one again
        changes nothing, as after it was taken. Others are left alone and not answered.
        """
        ...

    async def next_due(self, queue: str, *, limit: int = 20) -> list[JobBrief]:
        """The ready jobs of a queue that are handed out next, by priority, due time and id."""
        ...

    async def newest_events(
        self, *, domain: str | None = None, before: int | None = None, limit: int = 50
    ) -> list[LogEvent]:
        """Events of the log from its head, the newest first, below the position ``before``."""
        ...

    async def ids_beginning(self, kind: Kind, beginning: str, *, limit: int = 10) -> list[str]:
        """Ids of a kind that begin with this text, in their order.

        The text has at least 4 characters of an id, otherwise the answer is empty.
        """
        ...


class WithoutLists:
    """A store without lists for people."""

    browse = refused(Profile.OPERATING, BrowseStore.browse)
    look_at_messages = refused(Profile.OPERATING, BrowseStore.look_at_messages)
    step_records = none_of(BrowseStore.step_records, list)
    graph = refused(Profile.OPERATING, BrowseStore.graph)
    browse_groups = refused(Profile.OPERATING, BrowseStore.browse_groups)
    open_gates = none_of(BrowseStore.open_gates, list)
    pending_signals = none_of(BrowseStore.pending_signals, list)
    drop_signals = refused(Profile.OPERATING, BrowseStore.drop_signals)
    next_due = refused(Profile.OPERATING, BrowseStore.next_due)
    newest_events = none_of(BrowseStore.newest_events, list)

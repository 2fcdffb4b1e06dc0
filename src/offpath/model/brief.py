"""Briefs: what lists show of jobs, groups, gates and signals, without what these carry."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from msgspec import Struct

from offpath.model.gate import Counting, GateState
from offpath.model.group import GroupPolicy
from offpath.model.job import JobState
from offpath.model.quiet import Quiet

MOST_QUEUES: Final = 10
"""Queues that are named of a fault."""
LONGEST_MESSAGE: Final = 300
"""Characters of a failure's message in a brief."""


class JobBrief(Quiet, frozen=True, kw_only=True, gc=False):
    """A job as a list shows it: no input, result, traceback or header."""

    id: str
    task: str
    queue: str
    state: JobState
    priority: int
    run_at: datetime
    enqueued_at: datetime
    attempt: int
    deliveries: int
    group_id: str
    parent: str | None = None
    tags: tuple[str, ...] = ()
    worker: str | None = None
    cancel_requested: bool = False
    started_at: datetime | None = None
    finished_at: datetime | None = None
    reason: str | None = None
    limit_key: str | None = None
    error_type: str | None = None
    """The type of its last failure."""
    error: str | None = None
    """The beginning of that failure's message."""
    redriven_at: datetime | None = None
    """The time when it was last put back after it had ended."""
    options: str = "{}"
    """The options of the job: its retry policy is among them."""
    ran: timedelta | None = None
    """The time that its latest attempt took, where that failed and told so itself."""
    unreadable: str | None = None
    """The columns of its row that cannot be read, with their content."""


class BriefPage(Struct, frozen=True, kw_only=True):
    """One page of :meth:`~offpath.store.browse.BrowseStore.browse`."""

    items: tuple[JobBrief, ...]
    next: str | None
    """Given back as ``after`` to look further; None when there is nothing behind."""
    reached: str | None = None
    """The id of the last row that was looked at; None when there was none."""
    reached_at: datetime | None = None
    """The time when that job was enqueued."""
    exhausted: bool = False
    """True if every row was looked at that there is in this direction."""


class GroupBrief(Quiet, frozen=True, kw_only=True):
    """A group that has more than its root, without its value."""

    id: str
    open: int
    failed: int
    policy: GroupPolicy
    closing: bool
    final: bool
    task: str | None = None
    """The task of its root; None when the root is gone."""
    enqueued_at: datetime | None = None


class GateBrief(Struct, frozen=True, kw_only=True):
    """A gate, with the number of the jobs that it watches and holds."""

    id: str
    state: GateState
    need: int
    of: Counting
    watched: int
    succeeded: int
    failed: int
    deadline: datetime | None = None
    holds: int = 0
    """The jobs that it holds, counted up to 1,000."""
    sample: str | None = None
    """The id of one of them."""


class GraphMember(Struct, frozen=True, kw_only=True):
    """A job of a group, as its graph needs it."""

    id: str
    task: str
    state: JobState
    parent: str | None = None
    gate: str | None = None


class GateWatch(Struct, frozen=True, kw_only=True):
    """A gate, and the jobs of one group that it watches, in their order."""

    gate: GateBrief
    on: tuple[str, ...]


class GroupGraph(Struct, frozen=True, kw_only=True):
    """The first members of a group by id, and the gates that hold or held some of them."""

    members: tuple[GraphMember, ...]
    watches: tuple[GateWatch, ...]
    more: bool
    """True if the group has further members."""


class FaultCount(Quiet, frozen=True, kw_only=True):
    """Dead jobs of one task that died for one reason, of one fault."""

    task: str
    reason: str | None
    key: str | None
    """See :mod:`offpath.model.fault`; None for deaths that no attempt brought about."""
    jobs: int
    first_at: datetime
    last_at: datetime
    queues: tuple[str, ...]
    """The first ten by name."""
    sample: str
    """The id of the newest of these jobs."""


class FaultTally(Struct, frozen=True, kw_only=True):
    """The faults of the newest dead jobs, the most frequent first."""

    items: tuple[FaultCount, ...]
    looked_at: int
    """Dead jobs that were looked at."""
    more: bool
    """True if there are older ones, which are not counted here."""


class DeadTally(Struct, frozen=True, kw_only=True):
    """The dead jobs that there are, counted up to a limit."""

    jobs: int
    oldest_at: datetime | None = None
    """The time when the one died that has been dead for longest; None when there is none."""


class StepRecord(Quiet, frozen=True, kw_only=True):
    """A step that a job has recorded."""

    name: str
    result: str | None
    at: datetime | None = None
    """The time when it was recorded; None where that was not kept yet."""


class SignalRecord(Quiet, frozen=True, kw_only=True):
    """A signal that no job has taken."""

    id: str
    target: str
    event: str
    payload: str
    expires_at: datetime
    sent_at: datetime | None = None
    """The time when it was sent, by the store's clock."""


class Kind(StrEnum):
    """The kinds of things that are found by the beginning of an id."""

    JOB = "job"
    MESSAGE = "message"
    EVENT = "event"
    LETTER = "letter"
    ACTION = "action"
    WORKER = "worker"
    GATE = "gate"

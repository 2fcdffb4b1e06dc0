"""Lifecycle events: what the seam reports of each transition."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from offpath.model.job import DeadReason, Failure, Progress
from offpath.model.quiet import Quiet


class EventKind(StrEnum):
    """The transitions that hooks and metrics see."""

    QUEUED = "queued"
    STARTED = "started"
    PROGRESS = "progress"
    SNOOZED = "snoozed"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    DEAD = "dead"
    RESCUED = "rescued"
    RELEASED = "released"
    GROUP_DONE = "group_done"

    __hash__ = str.__hash__
    """Enum's own is a Python function."""


class JobEvent(Quiet, frozen=True, kw_only=True, omit_defaults=True):
    """One transition of one job, after it was committed.

    It carries no input, and its repr shows no result.
    """

    kind: EventKind
    at: datetime
    id: str
    task: str
    queue: str
    group_id: str
    attempt: int = 1
    parent: str | None = None
    dependents: tuple[str, ...] = ()
    run_at: datetime | None = None
    """The time when it is due next (queued, snoozed, failed with ``will_retry``)."""
    will_retry: bool = False
    failure: Failure | None = None
    reason: DeadReason | None = None
    scheduled_for: datetime | None = None
    """Of a job that is dead since its workers died: the occurrence of a schedule that it was."""
    progress: Progress | None = None
    result: str | None = None
    """Encoded: of a job that succeeded its result, of a group that is done its value."""

"""The end of an attempt, and what it leaves behind."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from offpath.model.changes import ChangedJob
from offpath.model.effects import NOTHING, Effects
from offpath.model.job import DeadReason, Enqueued, Failure, JobState, LeasedJob
from offpath.model.quiet import Quiet


class Succeeded(Quiet, frozen=True, kw_only=True, gc=False):
    """The handler returned. ``result`` is codec text, None for nothing."""

    result: str | None = None
    contributes: bool = True
    """True if the result is also a contribution to the group's value: the last one wins."""


class Retry(Struct, frozen=True, kw_only=True):
    """The attempt failed and counts; due again ``delay`` seconds after the store's now."""

    delay: float
    failure: Failure


class Snoozed(Struct, frozen=True, kw_only=True):
    """The attempt does not count; due again after ``delay`` seconds, or at ``until`` if given."""

    delay: float = 0.0
    until: datetime | None = None
    reason: str = "snoozed"
    cool_down: float | None = None
    """Seconds for which nothing more of the job's limit key is admitted, anywhere."""


class Waiting(Struct, frozen=True, kw_only=True):
    """The attempt does not count; blocked until a signal comes, or for ``timeout`` seconds."""

    target: str
    event: str
    timeout: float | None = None


class Dead(Struct, frozen=True, kw_only=True):
    """The job will not run again unaided."""

    reason: DeadReason
    failure: Failure


class Cancelled(Struct, frozen=True, kw_only=True):
    """The handler ended because its cancellation was asked for."""

    failure: Failure | None = None


class Released(Struct, frozen=True, kw_only=True):
    """Given back unfinished by a stopping worker, or one that does not want it: due at once, in its
    old place, nothing counted.
    """

    reason: str | None = None


Outcome = Succeeded | Retry | Snoozed | Waiting | Dead | Cancelled | Released


class Settlement(Struct, frozen=True, kw_only=True, gc=False):
    """The end of one attempt, and its effects. Effects are only carried out with ``Succeeded``,
    ``Snoozed`` and ``Waiting``: what a failed attempt wanted to do is dropped with it.
    """

    job: LeasedJob
    outcome: Outcome
    effects: Effects = NOTHING
    keep: float | None = None
    """Seconds to keep the ended job; None keeps it until it is deleted."""


class SettleStatus(StrEnum):
    """The outcome of a settlement."""

    APPLIED = "applied"
    LEASE_LOST = "lease_lost"
    """The fence did not hold: nothing was written."""
    REFUSED = "refused"
    """The store cannot take it (``error`` says why): nothing was written, the lease still holds."""
    BUSY = "busy"
    """Somebody else has a row of it locked: nothing was written, and it is to be tried again."""


class Settled(Struct, frozen=True, kw_only=True):
    """The store's answer to one settlement, in the order given."""

    id: str
    status: SettleStatus
    state: JobState | None = None
    """The job's state now; cancelled whatever the outcome was, when that had been asked for."""
    run_at: datetime | None = None
    enqueued: tuple[Enqueued, ...] = ()
    group_done: bool = False
    """True if this ended the last open job of its group. True exactly once per group."""
    closing: bool = False
    """True if its group is being closed: members are to be cancelled by ``close_groups``."""
    along: tuple[ChangedJob, ...] = ()
    """Jobs that died at gates because of this end. A ``group_done`` of them is of other groups."""
    error: Exception | None = None

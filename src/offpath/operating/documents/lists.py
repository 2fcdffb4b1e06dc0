"""Documents of lists that look at a bounded number of rows: jobs, groups, gates, signals."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from offpath.health.fleet import MOST_COUNTED
from offpath.model.brief import (
    BriefPage,
    DeadTally,
    GateBrief,
    GroupBrief,
    JobBrief,
    SignalRecord,
)
from offpath.model.gate import Counting, GateState
from offpath.model.group import GroupPolicy
from offpath.model.job import JobState
from offpath.model.joined_limits import shown
from offpath.model.limit import QueueRecord
from offpath.model.redact import redact_text
from offpath.operating.documents.fields import filled
from offpath.operating.documents.jobs import most_attempts
from offpath.operating.documents.pages import DocumentPage, after_full
from offpath.operating.graph import gate_text
from offpath.operating.redaction import PLAIN, Redaction
from offpath.store.browse import MOST_COUNTED_DEAD

MOST_TAGS: Final = 20
"""Tags of a job that a list tells."""


class BriefDocument(Struct, frozen=True, kw_only=True):
    """A job in a list: nothing of its input, result and tracebacks."""

    id: str
    task: str
    queue: str
    state: JobState
    priority: int
    run_at: datetime
    enqueued_at: datetime
    attempt: int
    most_attempts: int | None
    """The attempts that its retry policy allows; None where that is its task's to say."""
    deliveries: int
    group_id: str
    parent: str | None
    tags: tuple[str, ...]
    """The first twenty."""
    more_tags: int
    """Further tags, which are not told here."""
    worker: str | None
    cancel_requested: bool
    started_at: datetime | None
    finished_at: datetime | None
    waited: float | None
    """Seconds between being due and being started, of its latest attempt; None before one."""
    ran: float | None
    """Seconds that its latest attempt took; None while it has not ended."""
    ran_at_most: bool
    """True if the time until its end was stored is in these: of an attempt that did not fail no
    other end is kept.
    """
    reason: str | None
    limit_key: str | None
    error_type: str | None
    error: str | None
    """The beginning of the last failure's message, secrets hidden."""
    unreadable: str | None


class BriefList(Struct, frozen=True, kw_only=True):
    """A page of jobs, and how far was looked for them."""

    items: tuple[BriefDocument, ...]
    next: str | None
    """Given back as ``after`` to look further; None when there is nothing behind."""
    reached: str | None
    reached_at: datetime | None
    """The time when the last job that was looked at was enqueued."""
    exhausted: bool
    """True if every job in this direction was looked at."""
    looked_at_most: int
    """The most rows that one page looks at."""


class CountedState(Struct, frozen=True, kw_only=True):
    """The jobs of one state."""

    state: JobState
    jobs: int
    more: bool
    """True if some were not counted."""


class CountsDocument(Struct, frozen=True, kw_only=True):
    """The jobs in each state that has not ended, and the dead. The others are not counted."""

    items: tuple[CountedState, ...]
    oldest_dead_at: datetime | None
    """The time when the job died that has been dead for longest."""
    dead_age_limit: float | None
    """Seconds after which the health of the app tells of a dead letter; None: it does not."""


class GroupBriefDocument(Struct, frozen=True, kw_only=True):
    """A group in a list."""

    id: str
    task: str | None
    state: str
    """``open``, ``closing``, ``done``, or ``failed``."""
    open: int
    failed: int
    policy: GroupPolicy
    final: bool
    enqueued_at: datetime | None


class GroupListing(DocumentPage[GroupBriefDocument], frozen=True, kw_only=True):
    """A page of groups, newest first; ``next`` is given back as ``after``."""


class GateDocument(Struct, frozen=True, kw_only=True):
    """A gate that waits: its condition, what it counted, and how many jobs it holds."""

    id: str
    state: GateState
    text: str
    need: int
    of: Counting
    watched: int
    succeeded: int
    failed: int
    deadline: datetime | None
    holds: int
    """Jobs that it holds, counted up to 1,000."""
    sample: str | None
    """The id of one of them."""


class GateListing(DocumentPage[GateDocument], frozen=True, kw_only=True):
    """A page of gates; ``next`` is given back as ``after``."""


class SignalDocument(Struct, frozen=True, kw_only=True):
    """A signal that no job has taken."""

    id: str
    target: str
    event: str
    payload: Any
    sent_at: datetime | None
    expires_at: datetime


class SignalListing(DocumentPage[SignalDocument], frozen=True, kw_only=True):
    """A page of signals; ``next`` is given back as ``after``."""


def describe_brief(one: JobBrief) -> BriefDocument:
    """The document of a job in a list."""
    return filled(
        BriefDocument,
        one,
        tags=one.tags[:MOST_TAGS],
        more_tags=max(len(one.tags) - MOST_TAGS, 0),
        limit_key=shown(one.limit_key),
        waited=_seconds(one.run_at, _started(one)),
        most_attempts=most_attempts(one.options),
        **_ran(one),
        error=None if one.error is None else redact_text(one.error),
    )


def _ran(one: JobBrief) -> dict[str, Any]:
    if one.ran is not None and one.finished_at is not None:
        return {"ran": one.ran.total_seconds(), "ran_at_most": False}
    return {"ran": _seconds(_started(one), one.finished_at), "ran_at_most": True}


def _started(one: JobBrief) -> datetime | None:
    """The start of the latest attempt; None where the job is due at a later time, for the next."""
    begun = one.started_at is not None and one.run_at <= one.started_at
    return one.started_at if begun else None


def _seconds(since: datetime | None, until: datetime | None) -> float | None:
    return None if since is None or until is None else (until - since).total_seconds()


def describe_page(page: BriefPage, most: int) -> BriefList:
    """The document of a page of jobs."""
    items = tuple(describe_brief(one) for one in page.items)
    return filled(BriefList, page, items=items, looked_at_most=most)


def describe_counts(
    queues: Sequence[QueueRecord], dead: DeadTally, dead_age_limit: float | None
) -> CountsDocument:
    """The document of what there is, of queues that are counted up to ``MOST_COUNTED``."""
    waiting = {
        JobState.BLOCKED: [one.blocked for one in queues],
        JobState.QUEUED: [each for one in queues for each in (one.ready, one.scheduled)],
        JobState.RUNNING: [one.running for one in queues],
    }
    told = [
        CountedState(state=state, jobs=sum(several), more=max(several, default=0) >= MOST_COUNTED)
        for state, several in waiting.items()
    ]
    told.append(
        CountedState(state=JobState.DEAD, jobs=dead.jobs, more=dead.jobs >= MOST_COUNTED_DEAD)
    )
    return CountsDocument(
        items=tuple(told), oldest_dead_at=dead.oldest_at, dead_age_limit=dead_age_limit
    )


def describe_groups(found: Sequence[GroupBrief], limit: int) -> GroupListing:
    """The document of a page of groups."""
    items = tuple(filled(GroupBriefDocument, one, state=_state(one)) for one in found)
    return GroupListing(items=items, next=after_full(found, limit, _id))


def describe_gates(found: Sequence[GateBrief], limit: int) -> GateListing:
    """The document of a page of gates."""
    items = tuple(filled(GateDocument, one, text=gate_text(one)) for one in found)
    return GateListing(items=items, next=after_full(found, limit, _id))


def describe_signals(
    found: Sequence[SignalRecord], limit: int, seen: Redaction = PLAIN
) -> SignalListing:
    """The document of a page of signals."""
    items = tuple(filled(SignalDocument, one, payload=seen.payload(one.payload)) for one in found)
    return SignalListing(items=items, next=after_full(found, limit, _id))


def _id(one: GroupBrief | GateBrief | SignalRecord) -> str:
    return one.id


def _state(one: GroupBrief) -> str:
    if one.open == 0:
        return "failed" if one.failed else "done"
    return "closing" if one.closing else "open"

"""The rows that lists for people answer, one class for each kind; times are microseconds."""

from __future__ import annotations

from typing import NamedTuple


class BriefRow(NamedTuple):
    """A job as lists show it."""

    id: str
    task: str
    queue: str
    state: str
    priority: int
    run_at: int
    enqueued_at: int
    attempt: int
    deliveries: int
    group_id: str
    parent: str | None
    tags: str | None
    worker: str | None
    cancel_requested: int
    started_at: int | None
    finished_at: int | None
    reason: str | None
    limit_key: str | None
    error_type: str | None
    error: str | None
    redriven_at: int | None
    options: str
    failed_attempt: int | None
    failed_from: str | None
    """The times when the attempt that failed last began, and when it ended, as ISO 8601."""
    failed_at: str | None


class MemberRow(NamedTuple):
    """A job of a group, as its graph needs it."""

    id: str
    task: str
    state: str
    parent: str | None
    gate: str | None


class GroupBriefRow(NamedTuple):
    """A group's row without its value, and its root's task and time."""

    id: str
    open: int
    failed: int
    policy: str
    closing: int
    final: int
    task: str | None
    enqueued_at: int | None


class GateBriefRow(NamedTuple):
    """A gate without what it watches, and how many jobs it holds."""

    id: str
    state: str
    need: int
    counting: str
    total: int
    succeeded: int
    failed: int
    deadline: int | None
    holds: int
    sample: str | None


class FaultRow(NamedTuple):
    """A fault, beside how many dead jobs were looked at."""

    task: str
    reason: str | None
    key: str | None
    jobs: int
    first: int
    last: int
    queues: str
    sample: str
    looked_at: int


class SignalRow(NamedTuple):
    """A signal that nobody has taken."""

    id: str
    target: str
    event: str
    payload: str
    expires_at: int
    sent_at: int

"""Documents of tasks: what an app's code says of each, and who runs it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from offpath.model.retry import BackoffKind
from offpath.operating.documents.faults import FaultDocument
from offpath.operating.documents.lists import BriefDocument


class TaskDocument(Struct, frozen=True, kw_only=True):
    """A task that live workers, or the app that answers, know."""

    name: str
    here: bool
    """True if the app that answers defines it: then its schema and its options are known."""
    queue: str | None
    """The queue of its jobs, for which nothing else is said; None where it is not defined here."""
    workers: int
    """Live workers that run it."""
    ready: int
    """Its due jobs, counted up to 100 in each queue."""


class TaskList(Struct, frozen=True, kw_only=True):
    """Tasks by name."""

    items: tuple[TaskDocument, ...]


class RetryDocument(Struct, frozen=True, kw_only=True):
    """A retry policy: runs in all, and the waits between them in seconds."""

    attempts: int
    base: float
    factor: float
    cap: float
    jitter: float
    kind: BackoffKind


class TaskOptionsDocument(Struct, frozen=True, kw_only=True):
    """The options of a task's jobs, for which a call says nothing. Durations are seconds."""

    queue: str
    priority: int
    retry: RetryDocument
    timeout: float | None
    deadline_in: float | None
    keep: float | None
    tags: tuple[str, ...]
    unique: str | None
    """The policy of its unique key, where all its jobs share one."""
    limit: str | None
    """The key of its limit, where all its jobs share one."""
    concurrency: int | None
    """Its jobs that one worker runs at once."""


class TaskShown(TaskDocument, frozen=True, kw_only=True):
    """A task with its options, and the JSON schemas of its arguments and its result."""

    cut: tuple[str, ...] = ()
    """The fields that were not read, for that took too long: they are empty here."""
    options: TaskOptionsDocument | None
    arguments: dict[str, Any] | None
    result: dict[str, Any] | None
    summary: str | None
    """The first line of the handler's docstring."""
    queues: tuple[str, ...]
    """Queues in which jobs of it are due."""
    oldest_due_at: datetime | None
    """The time since when its oldest job is due."""
    faults: tuple[FaultDocument, ...]
    """The faults of its dead jobs among the newest, the most frequent first."""
    running: tuple[BriefDocument, ...]
    """Its jobs that have been running for longest."""

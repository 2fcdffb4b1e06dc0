"""Documents of jobs: one, a page of them, one with what it waits for."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from offpath.model.job import Failure, JobRecord, JobState, Page
from offpath.model.joined_limits import shown
from offpath.model.options import decode_run
from offpath.model.redact import redact_text
from offpath.operating.documents.fields import filled
from offpath.operating.documents.pages import DocumentPage
from offpath.operating.redaction import PLAIN, Redaction


class FailureDocument(Struct, frozen=True, kw_only=True):
    """An attempt that failed."""

    attempt: int
    at: datetime | None
    kind: str
    type: str
    message: str
    traceback: str | None
    module: str | None
    """The module of the exception's class."""
    started_at: datetime | None
    """The start of the attempt, where it was kept."""
    worker: str | None
    """The id of the worker that ran it."""


class JobDocument(Struct, frozen=True, kw_only=True):
    """A job: input, result and progress decoded where they are JSON, secrets hidden."""

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
    losses: int
    redrives: int
    group_id: str
    input: Any
    options: Any
    fingerprint: str
    parent: str | None
    dependents: tuple[str, ...]
    deadline: datetime | None
    unique_key: str | None
    tags: tuple[str, ...]
    gate: str | None
    limit_key: str | None
    fair_key: str | None
    headers: Any
    wait_target: str | None
    wait_event: str | None
    worker: str | None
    cancel_requested: bool
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime | None
    result: Any
    reason: str | None
    progress: Any
    failures: tuple[FailureDocument, ...]
    unreadable: str | None


class JobStanding(JobDocument, frozen=True, kw_only=True):
    """A job with what it waits for and what it has recorded."""

    waits_for: dict[str, Any] | None
    waited_for: dict[str, Any] | None
    steps: list[str]
    worker_problems: list[str]


class StepDocument(Struct, frozen=True, kw_only=True):
    """A step that a job has recorded: what its handler called so, a sleep, or a wait."""

    name: str
    at: datetime | None
    """The time when it was recorded; None where that was not kept yet."""
    result: Any


class StepList(Struct, frozen=True, kw_only=True):
    """The steps of a job, in their order."""

    items: tuple[StepDocument, ...]


class JobPage(DocumentPage[JobDocument], frozen=True, kw_only=True):
    """One page of jobs; ``next`` is given back as ``after``."""


def describe(job: JobRecord, seen: Redaction = PLAIN) -> JobDocument:
    """The document of a job."""
    return filled(JobDocument, job, **_foreign(job, seen))


def describe_standing(
    job: JobRecord,
    seen: Redaction = PLAIN,
    *,
    waits_for: dict[str, Any] | None,
    waited_for: dict[str, Any] | None,
    steps: list[str],
    worker_problems: list[str],
) -> JobStanding:
    """The document of a job with what it waits for."""
    return filled(
        JobStanding,
        job,
        waits_for=waits_for,
        waited_for=waited_for,
        steps=steps,
        worker_problems=worker_problems,
        **_foreign(job, seen),
    )


def describe_page(page: Page, seen: Redaction = PLAIN) -> JobPage:
    """The document of a page."""
    return JobPage(items=tuple(describe(one, seen) for one in page.items), next=page.next)


def _foreign(job: JobRecord, seen: Redaction) -> dict[str, Any]:
    return {
        **{name: seen.payload(getattr(job, name)) for name in ("headers", "result", "progress")},
        "input": seen.arguments(job.task, job.input),
        "options": Redaction(names=seen.names).payload(job.options),
        "most_attempts": most_attempts(job.options),
        "limit_key": shown(job.limit_key),
        "failures": tuple(_failure(one, seen) for one in job.failures),
    }


def most_attempts(options: str) -> int | None:
    """The attempts that options allow; None where that is the task's to say."""
    try:
        run = decode_run(options)
    except msgspec.MsgspecError:  # written by hand: the worker refuses it, and says why
        return None
    return None if run.of_task else run.retry.attempts


def _failure(failure: Failure, seen: Redaction) -> FailureDocument:
    message, traceback = redact_text(failure.message), seen.traceback(failure.traceback)
    return filled(FailureDocument, failure, message=message, traceback=traceback)

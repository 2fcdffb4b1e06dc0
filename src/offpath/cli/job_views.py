"""The views of jobs: a page of them, one with all that is known, changed ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from offpath.cli import output
from offpath.cli.failures import failure_cell, failure_parts
from offpath.cli.selection import Selection
from offpath.cli.values import Cell, Changed, Fields, Listing, Part, Table
from offpath.jobs.values.handle import progress_of
from offpath.model.job import ChangedJob, JobRecord, JobState, Page, Progress
from offpath.operating.documents import jobs
from offpath.operating.documents.jobs import JobDocument

_LABELS = 11
"""Characters of the longest name in a job's fields."""


def job_page(page: Page, empty: str, spare: Sequence[str] = ()) -> Listing:
    """A page of jobs; ``spare`` are further columns that a narrow terminal goes without."""
    document = jobs.describe_page(page)
    return Listing(document.items, job_table(page.items, empty, spare), next=document.next)


def job_table(
    found: Sequence[JobRecord | JobDocument], empty: str = "", spare: Sequence[str] = ()
) -> Table:
    """A line for each job."""
    columns = ("id", "task", "queue", "state", "attempt", "due", "last error")
    rows = [_row(job) for job in found]
    return Table(columns, rows, empty, brief=True, spare=("queue", "attempt", *spare))


def _row(job: JobRecord | JobDocument) -> tuple[Cell, ...]:
    due = output.ago(job.run_at) if job.state is JobState.QUEUED else ""
    blocked = job.state is JobState.BLOCKED
    state = f"{job.state} ({job.reason})" if blocked else str(job.state)
    if job.unreadable:
        state += " (unreadable)"
    return (
        job.id,
        job.task,
        job.queue,
        state,
        job.attempt,
        due,
        failure_cell(job.failures[-1] if job.failures else None),
    )


def job_parts(
    job: JobRecord,
    *,
    waits: Mapping[str, dict[str, Any] | None] = MappingProxyType({}),
    steps: Sequence[str] = (),
    ill: Sequence[str] = (),
) -> list[Part]:
    """One job, name and value on each line, then its failures."""
    document = jobs.describe(job)
    fields: dict[str, Cell] = {
        "id": job.id,
        "task": job.task,
        "queue": job.queue,
        "state": f"{job.state} ({job.reason})" if job.reason else str(job.state),
        **{name.replace("_", " "): one["text"] for name, one in waits.items() if one},
        **({"steps": ", ".join(steps)} if steps else {}),
        **({"unreadable": job.unreadable} if job.unreadable else {}),
        "attempt": job.attempt,
        "deliveries": job.deliveries,
        **({"redrives": job.redrives} if job.redrives else {}),
        "priority": job.priority,
        "enqueued": output.when(job.enqueued_at),
        "due": output.when(job.run_at),
        "started": output.when(job.started_at),
        "finished": output.when(job.finished_at),
        "deadline": output.when(job.deadline),
        "kept until": output.when(job.expires_at),
        "worker": job.worker or "-",
        **({"worker says": "; ".join(ill)} if ill else {}),
        "unique key": job.unique_key or "-",
        "tags": ", ".join(job.tags) or "-",
        "group": job.group_id,
        **({"headers": output.json_text(document.headers)} if document.headers else {}),
        "input": output.json_text(document.input),
        "options": output.json_text(document.options),
        "progress": _percent(progress_of(job)) or "-",
        "result": output.json_text(document.result),
    }
    failures = [part for failure in job.failures for part in failure_parts(failure)]
    return [Fields(fields, _LABELS), *failures]


def _percent(progress: Progress | None) -> str:
    """The progress that a job reports."""
    if progress is None:
        return ""
    amount = f"{progress.done:.15g}"
    if progress.total:
        amount = f"{progress.done / progress.total:.0%}"
    return f"{amount} {progress.note}" if progress.note else amount


def _transition(one: ChangedJob) -> str:
    if one.was is one.state:
        return f"{one.was}: its worker is told"
    return f"{one.was} → {one.state}"


def changed_jobs(
    changed: Sequence[ChangedJob],
    which: Selection,
    verb: str,
    *,
    say: Callable[[ChangedJob], str] = _transition,
    why: str = "unknown, or in no state for this",
    notes: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
    whys: Mapping[str, str] = MappingProxyType({}),
) -> Changed:
    """Jobs that a command changed, and what became of each. ``more`` goes into the document."""
    rows = {one.id: f"{one.task}  {say(one)}" for one in changed}
    items = [msgspec.to_builtins(one) for one in changed]
    return Changed(rows, which.ids, verb, why, items, notes, more or {}, whys)

"""The rows that statements answer, one class for each kind: its fields are the answer's columns.

Times are microseconds since 1970, truths are 0 and 1, in every database.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from offpath.model.job import JobState

STATES: Final = {
    **{state.value: state for state in JobState},
    "ready": JobState.QUEUED,
    "scheduled": JobState.QUEUED,
}
"""States as others see them, by the state that is kept: queued is kept as two."""


class JobRow(NamedTuple):
    """A job as it is looked at."""

    id: str
    task: str
    queue: str
    state: str
    priority: int
    run_at: int
    enqueued_at: int
    attempt: int
    deliveries: int
    losses: int
    redrives: int
    group_id: str
    input: str
    options: str
    fingerprint: str
    parent: str | None
    dependents: str | None
    deadline: int | None
    unique_key: str | None
    tags: str | None
    worker: str | None
    cancel_requested: int
    started_at: int | None
    finished_at: int | None
    expires_at: int | None
    result: str | None
    reason: str | None
    progress: str | None
    failures: str | None
    gate: str | None
    limit_key: str | None
    fair_key: str | None
    wait_target: str | None
    wait_event: str | None
    headers: str | None


class BacklogRow(NamedTuple):
    """Due work of a queue and a task."""

    queue: str
    task: str
    ready: int
    oldest: int


class OutlookRow(NamedTuple):
    """The messages left in the streams that were asked for, on Postgres, beside each message."""

    now: int
    due: int
    hidden: int
    due_at: int | None


class LaneRow(NamedTuple):
    """The time when the first message of a stream is due on SQLite: of those first of a key, and
    behind.
    """

    stream: str
    leading: int | None
    behind: int | None


class DeclarationRow(NamedTuple):
    """A definition that live processes have."""

    name: str
    fingerprint: str
    first_seen: int
    last_seen: int


class ScheduleRow(NamedTuple):
    """A schedule, and whether its last job is open."""

    name: str
    definition: str
    paused: int
    next_at: int | None
    created_at: int
    updated_at: int
    version: int
    last_at: int | None
    last_job: str | None
    last_open: int


class OccurrenceRow(NamedTuple):
    """The fate of one occurrence of a schedule."""

    schedule: str
    at: int
    outcome: str
    job: str | None
    made_at: int


class FindingRow(NamedTuple):
    """A finding that stands."""

    id: str
    name: str
    text: str
    since: int
    seen_at: int
    accepted_at: int | None
    reason: str | None


class QueueRow(NamedTuple):
    """A queue, its jobs by state, and its pause."""

    name: str
    blocked: int
    held: int
    scheduled: int
    ready: int
    running: int
    paused: int
    paused_until: int | None


class WorkerRow(NamedTuple):
    """A worker, and how many jobs it holds."""

    info: str
    started_at: int
    seen_at: int
    expires_at: int
    late: int
    presence: int
    running: int
    report: str | None
    gone_at: int | None


class WokenRow(NamedTuple):
    """A job that is due since its signal is there."""

    id: str
    task: str
    queue: str
    group_id: str
    attempt: int
    parent: str | None
    announce: int


class GroupRow(NamedTuple):
    """A group's row, or what a lone job says as its own group."""

    id: str
    open: int
    failed: int
    policy: str
    closing: int
    final: int
    value: str | None


class GateRow(NamedTuple):
    """A gate, with the jobs that it watches as a JSON list."""

    id: str
    state: str
    need: int
    counting: str
    succeeded: int
    failed: int
    on: str
    deadline: int | None


class LimitRow(NamedTuple):
    """A limit. Its rate is a JSON document."""

    key: str
    max_running: int | None
    rate: str | None
    admitted: int
    running: int
    held: int
    closed_until: int | None
    paused: int


class MovedRow(NamedTuple):
    """A job that a statement has changed, with its state before and after."""

    id: str
    task: str
    queue: str
    group_id: str
    was: str
    state: str
    attempt: int
    parent: str | None
    grouped: int
    announce: int
    watched: int
    redrives: int = 0
    reason: str | None = None


class HeldRow(NamedTuple):
    """A job that is held by an operator's call, as it was before."""

    id: str
    task: str
    queue: str
    group_id: str
    state: str
    attempt: int
    parent: str | None
    grouped: int
    announce: int
    watched: int
    redrives: int
    has_undo: int
    gate: str | None
    at_gate: int
    """1: it has not come past its gate."""


class RecountedRow(NamedTuple):
    """A gate that cannot fire, with the ends of the jobs that it watches as they are now."""

    id: str
    need: int
    counting: str
    total: int
    succeeded: int
    failed: int


class RedrivenRow(NamedTuple):
    """A job that was put back."""

    id: str
    state: str
    attempt: int


class AmendedRow(NamedTuple):
    """A job that has other terms."""

    id: str
    state: str
    queue: str


class GoneRow(NamedTuple):
    """A job that is removed, with its group, whether that has a row, and the gate that held it."""

    id: str
    group_id: str
    grouped: int
    gate: str | None


class OrphanRow(NamedTuple):
    """The facts that the rules need of an orphan, behind the columns of a leased job."""

    cancel_requested: int
    announce: int
    watched: int
    redrives: int
    grouped: int
    crash: str | None
    """The crash of which it was a suspect."""
    alone: int | None
    begun: int
    out_of_touch: int
    """A lease ran out of a worker whose death could have been seen, and was not."""
    worker_ended: int
    """Its worker stopped, or was seen to be dead."""


class MissedRow(NamedTuple):
    """A signal that should have woken somebody, and whether it is still there to take."""

    id: str | None
    target: str
    event: str
    there: int


class DueRow(NamedTuple):
    """A blocked job whose wait is over, and the gate that it waits at."""

    id: str
    gate: str | None
    gate_state: str | None


class OverRow(NamedTuple):
    """A job whose wait is over, and its fate: the reason of its death, or ``woken``."""

    id: str
    fate: str
    attempt: int
    deliveries: int


class GivenUpRow(NamedTuple):
    """A job whose wait was ended: it is dead, or due."""

    id: str
    task: str
    queue: str
    group_id: str
    state: str
    attempt: int
    parent: str | None
    grouped: int
    announce: int
    watched: int
    redrives: int
    reason: str | None


class ActionRow(NamedTuple):
    """An action of an operator."""

    id: str
    at: int
    actor: str
    via: str
    verb: str
    target: str
    options: str
    note: str
    state: str
    cursor: str | None
    changed: int
    unchanged: int
    reasons: str
    error: str | None
    resumed: int
    holder: str
    held_until: int
    finished_at: int | None

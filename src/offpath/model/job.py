"""A job: one durable instance of a task, and what is known of it.

What there are many of is made with ``gc=False``: these hold text, numbers and times, so no cycle
can go through them, and the collector need not walk a hundred thousand of them.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

from msgspec import Struct

from offpath.model.group import GroupPolicy
from offpath.model.limit import LimitSpec
from offpath.model.quiet import Quiet
from offpath.model.ref import ref_of


class JobState(StrEnum):
    """The state of a job: ``blocked → queued → running → succeeded | dead | cancelled``.

    Scheduled, snoozed and retrying jobs are *queued* with a future ``run_at``.
    """

    BLOCKED = "blocked"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"

    __hash__ = str.__hash__
    """Enum's own is a Python function, and states are looked up several times for each job."""

    @property
    def terminal(self) -> bool:
        """True if a job in this state can run no more unless it is redriven."""
        return self in TERMINAL


TERMINAL = frozenset({JobState.SUCCEEDED, JobState.DEAD, JobState.CANCELLED})
LIVE = frozenset({JobState.BLOCKED, JobState.QUEUED, JobState.RUNNING})


class BlockReason(StrEnum):
    """The thing that a blocked job waits for."""

    GATE = "gate"
    """Other jobs."""
    LIMIT = "limit"
    """Room under its limit."""
    SIGNAL = "signal"
    """A signal that its handler asked for."""


class DeadReason(StrEnum):
    """The reason why a job is dead."""

    EXHAUSTED = "exhausted"
    """It failed as often as its retry policy allows."""
    ABORTED = "aborted"
    """The handler raised :class:`offpath.Abort`, or the classifier said so."""
    DEADLINE = "deadline"
    """Its deadline passed before it had succeeded."""
    WORKER_LOST = "worker_lost"
    """Workers died holding it as often as is allowed."""
    BAD_INPUT = "bad_input"
    """Its stored input, or a signal that it took, does not decode for the task as it is defined
    now."""
    UNSETTLEABLE = "unsettleable"
    """Its result, or that of a step, or its effects could not be stored."""
    REJECTED = "rejected"
    """The handler of an inbox message said no: trying again would not change that."""
    INVALID_PLAN = "invalid_plan"
    """Its handler made a plan and did not return it, or one that cannot be carried out, a gate that
    cannot be, or two steps of one name."""
    UNSATISFIABLE = "unsatisfiable"
    """It waited at a gate that cannot fire any more."""
    GATE_TIMEOUT = "gate_timeout"
    """It waited at a gate for as long as the gate's timeout allows."""
    UNDELIVERABLE = "undeliverable"
    """The dispatcher of an outbox message said that it can never be delivered."""
    UNREADABLE = "unreadable"
    """Its row holds what offpath never writes, as a time of infinity: somebody else wrote it."""


OWN_REASONS: Final = tuple(one.value for one in DeadReason if one is not DeadReason.UNSATISFIABLE)
"""Reasons of jobs that did not die because others had failed."""


class Failure(Quiet, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt that failed, as recorded: plain text only, safe to store and to show.

    ``kind`` is ``error``, ``timeout``, ``deadline``, ``aborted``, ``cancelled``, ``worker_lost``,
    ``bad_input``, ``invalid_plan``, ``unsettleable`` or ``unreadable``; of a message that was put
    off, ``snoozed``.
    """

    kind: str
    type: str
    message: str
    traceback: str | None = None
    attempt: int = 1
    at: datetime | None = None
    module: str | None = None
    """The module of the exception's class; None where no exception was raised."""
    started_at: datetime | None = None
    """The start of the attempt, by the worker's idea of the store's clock."""
    worker: str | None = None
    """The id of the worker that ran the attempt."""

    @property
    def headline(self) -> str:
        """The attempt that failed, in words, or the wait that was given up without one."""
        begun = self.worker is not None or self.started_at is not None
        return headline(self.kind, self.attempt, begun=begun)


def headline(kind: str, attempt: int, *, begun: bool) -> str:
    """The failure of an attempt in words, or of a wait. ``begun``: a worker had the job."""
    if kind in {DeadReason.UNSATISFIABLE, DeadReason.GATE_TIMEOUT}:
        return "died at its gate"
    if kind == DeadReason.DEADLINE and not begun:
        return "gave up waiting"
    return f"attempt {attempt} failed"


def unreadable_row(columns: str, attempt: int) -> Failure:
    """The failure of a row of which these columns cannot be read."""
    return Failure(
        kind=DeadReason.UNREADABLE.value,
        type="UnreadableRow",
        message=f"its row holds what offpath never writes; columns that cannot be read: {columns}",
        attempt=attempt,
    )


class UniquePolicy(StrEnum):
    """The policy when a unique key is already held by a job in scope."""

    ATTACH = "attach"
    """The caller gets the handle of the job that holds the key (another payload is a conflict)."""
    REPLACE = "replace"
    """A holder that waits takes over the new input, options and run time; a running one refuses."""
    REFUSE = "refuse"
    """A :class:`offpath.UniqueConflict` is raised."""


class UniqueClaim(Struct, frozen=True, kw_only=True, gc=False):
    """A unique key that a new job claims.

    The key is held while the job is in one of ``states`` and, with ``period`` (seconds from
    enqueue), not longer than that. ``key`` is the full key: callers prefix the task's
    name, as ``options.claim_of`` does.
    """

    key: str
    policy: UniquePolicy = UniquePolicy.ATTACH
    states: tuple[JobState, ...] = (JobState.BLOCKED, JobState.QUEUED, JobState.RUNNING)
    period: float | None = None


class NewJob(Quiet, frozen=True, kw_only=True, gc=False):
    """A job to enqueue, with every option resolved.

    Times that count from now are given as seconds (``delay``, ``deadline_in``), so that the
    store's clock decides and a caller's skewed clock does not; absolute ones are aware datetimes.
    """

    id: str
    task: str
    input: str
    """The encoded input (codec text)."""
    fingerprint: str
    """Hash of task and input: tells a repeat from a conflict."""
    queue: str = "default"
    priority: int = 0
    delay: float = 0.0
    """Seconds from the store's now; ignored when ``run_at`` is given. A few microseconds less than
    none put a job before others that are due at once."""
    run_at: datetime | None = None
    deadline: datetime | None = None
    deadline_in: float | None = None
    """Seconds from the store's now; kept, so that a redrive gets a fresh deadline."""
    options: str = "{}"
    """Encoded :class:`offpath.model.options.RunOptions`: how to run it; opaque to the store."""
    group_id: str | None = None
    """The workflow instance; None makes the job the root of a new group whose id is its own."""
    parent: str | None = None
    dependents: tuple[str, ...] = ()
    unique: UniqueClaim | None = None
    tags: tuple[str, ...] = ()
    announce: int = 0
    """The changes of its state that become messages: see :mod:`offpath.model.announce`."""
    gate: str | None = None
    """Id of the gate that holds it, in the same effects or in the store."""
    limit: LimitSpec | None = None
    fair_key: str | None = None
    """The owner of the job, for a balanced lease."""
    headers: str | None = None
    """Encoded, see :mod:`offpath.model.headers`; None where it has none."""
    group_policy: GroupPolicy = GroupPolicy.SETTLE_ALL
    """Of the group whose root it is; of a member it means nothing."""


class ChangedJob(Struct, frozen=True, kw_only=True):
    """A job that an operator's call, a sweep or an ending gate changed.

    ``was`` and ``state`` are equal when only a request was noted (cancelling a running job).
    """

    id: str
    task: str
    queue: str
    group_id: str
    was: JobState
    state: JobState
    attempt: int = 1
    parent: str | None = None
    group_done: bool = False
    reason: DeadReason | None = None
    """The reason why it is dead, where it died."""
    was_in: str | None = None
    """The queue that it has left, where it was moved to another one."""


class Enqueued(Struct, frozen=True, kw_only=True, gc=False):
    """The outcome of one :class:`NewJob`, in the order given; or of one new message.

    ``job_id`` differs from ``id`` when the new job attached to the holder of its unique key.
    ``created`` is False for a repeat, an attach or a replace. Of a message, ``job_id`` is the id
    that the store has: another one than ``id`` when its inbox key had been accepted before.
    """

    id: str
    job_id: str
    created: bool
    run_at: datetime | None = None
    along: tuple[ChangedJob, ...] = ()
    """This job, when it died as it was made, since its gate could not fire any more; and jobs that
    were there before and died of that along their own gates. A settlement has them all together in
    its own ``along``."""


class LeasedJob(Quiet, frozen=True, kw_only=True, gc=False):
    """A job in a worker's hand. ``(id, worker, deliveries)`` is the fence of every later write."""

    id: str
    task: str
    queue: str
    input: str
    worker: str
    deliveries: int
    """Times this job was handed out in its life, this one included; never reset."""
    attempt: int
    """1 for the first run; only a counted failure raises it."""
    options: str
    group_id: str
    priority: int
    run_at: datetime
    enqueued_at: datetime
    losses: int = 0
    """The number of workers that died holding it (since the last redrive)."""
    parent: str | None = None
    dependents: tuple[str, ...] = ()
    deadline: datetime | None = None
    limit_key: str | None = None
    headers: str | None = None
    """Encoded, as those of :class:`NewJob`."""
    unreadable: str | None = None
    """The columns of its row that cannot be read, with their content; the fields have neutral
    values instead. Such a job is not to be run.
    """


class JobRecord(Quiet, frozen=True, kw_only=True, gc=False):
    """Everything the store knows of one job."""

    id: str
    task: str
    queue: str
    state: JobState
    priority: int
    run_at: datetime
    enqueued_at: datetime
    attempt: int
    deliveries: int
    losses: int
    redrives: int
    group_id: str
    input: str
    options: str
    fingerprint: str
    parent: str | None = None
    dependents: tuple[str, ...] = ()
    deadline: datetime | None = None
    unique_key: str | None = None
    tags: tuple[str, ...] = ()
    gate: str | None = None
    limit_key: str | None = None
    fair_key: str | None = None
    wait_target: str | None = None
    """The target of the signal that a blocked job waits for; None for any other job."""
    wait_event: str | None = None
    """The event of that signal."""
    headers: str | None = None
    """Encoded: a JSON object of texts; None where it has none."""
    worker: str | None = None
    cancel_requested: bool = False
    started_at: datetime | None = None
    finished_at: datetime | None = None
    expires_at: datetime | None = None
    result: str | None = None
    """Encoded result of a succeeded job; None also when the handler returned nothing."""
    reason: str | None = None
    """The reason why it is dead, cancelled, snoozed or blocked, in a word."""
    progress: str | None = None
    """Encoded :class:`Progress`, as last reported."""
    failures: tuple[Failure, ...] = ()
    """The attempts that failed, oldest first (the last 50 are kept)."""
    unreadable: str | None = None
    """The columns of its row that cannot be read, with their content; the fields have neutral
    values instead.
    """

    @property
    def ref(self) -> str | None:
        """The caller's own name for it, if it was enqueued with ``ref=``."""
        return ref_of(self.id, self.tags)

    @property
    def ran_on(self) -> tuple[str, ...]:
        """The workers that are known to have run it, the last one last, each once.

        Those of its recorded failures and of its present attempt: a run that was snoozed, given
        back or lost leaves no record.
        """
        known = [one.worker for one in self.failures] + [self.worker]
        return tuple(dict.fromkeys(one for one in known if one is not None))

    @property
    def failure(self) -> Failure | None:
        """The last failure, if any attempt failed."""
        return self.failures[-1] if self.failures else None


class Progress(Quiet, frozen=True, kw_only=True, omit_defaults=True):
    """The progress of a running job."""

    done: float
    total: float | None = None
    note: str | None = None
    at: datetime | None = None


class JobFilter(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The filter of jobs: every given field must match; an empty tuple or None means any."""

    ids: tuple[str, ...] = ()
    states: tuple[JobState, ...] = ()
    tasks: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """All of these tags."""
    group_id: str | None = None
    parent: str | None = None
    reasons: tuple[str, ...] = ()
    error_types: tuple[str, ...] = ()
    """Type names of the last failure."""
    faults: tuple[str, ...] = ()
    """Keys of the faults that dead jobs ended by: see :mod:`offpath.model.fault`."""
    enqueued_after: datetime | None = None
    enqueued_before: datetime | None = None
    finished_after: datetime | None = None
    finished_before: datetime | None = None
    redrives_below: int | None = None


class Page(Struct, frozen=True, kw_only=True):
    """One page of a list. ``next`` is given back as ``after`` to go on; None at the end."""

    items: tuple[JobRecord, ...]
    next: str | None = None


class Count(Struct, frozen=True, kw_only=True):
    """The number of jobs that share a state, queue and task."""

    state: JobState
    queue: str
    task: str
    count: int

"""Leases: who may finish which job, until when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from offpath.model.changes import ChangedJob
from offpath.model.fan_out import TASK as FAN_OUT
from offpath.model.job import JobState, LeasedJob

SILENCE = 6
"""Leases after which a worker that says nothing loses its jobs, although its process is there."""


def loss_text(losses: int, worker: str, *, ended: bool) -> str:
    """The death of a job whose workers were lost. ``ended``: the last one was seen to end."""
    how = "ended" if ended else "was out of touch: nobody saw it end"
    return f"{losses} workers were lost that held this job; the last, {worker}, {how}"


class WorkerInfo(Struct, frozen=True, kw_only=True):
    """A worker process as it registers. ``id`` is new at each start, never a host name."""

    id: str
    host: str
    pid: int
    version: str
    concurrency: int
    tasks: tuple[str, ...]
    queues: tuple[str, ...] = ()
    """Queues it serves; empty means all."""

    def knows(self, task: str) -> bool:
        """True if it runs jobs of this task: one of its own, or the one of every worker."""
        return task in self.tasks or (task == FAN_OUT and bool(self.tasks))


class WorkerRecord(Struct, frozen=True, kw_only=True):
    """A worker as the store sees it. ``late`` once its lease has expired."""

    info: WorkerInfo
    started_at: datetime
    seen_at: datetime
    expires_at: datetime
    late: bool
    running: int
    """Jobs it holds now."""
    presence: bool = False
    """True if its death can be seen before its lease expires."""
    report: str | None = None
    """The last report on its own health: a JSON object."""
    gone_at: datetime | None = None
    """The time when it stopped, or was found dead; None while it is live or late."""

    @property
    def left(self) -> bool:
        """True if it ended by itself.

        Then its lease ended as it left, and it took its presence back. A lease that ran out is
        older than the time when somebody saw that, and a presence outlives whoever was killed.
        """
        return self.gone_at is not None and self.gone_at == self.expires_at and not self.presence


class WorkerRequest(StrEnum):
    """The requests of an operator to a live worker."""

    QUIET = "quiet"
    """Take no more jobs, and keep those that run."""
    RESUME = "resume"
    """Take jobs again."""
    STOP = "stop"
    """Drain and leave, as on SIGTERM."""
    DUMP = "dump"
    """Tell where every task and thread is."""


class WorkerAsk(Struct, frozen=True, kw_only=True):
    """One request to a worker, until the worker has answered it."""

    id: str
    request: WorkerRequest


class WorkerAnswer(Struct, frozen=True, kw_only=True):
    """The answer of a worker to the last request that it has carried out."""

    id: str
    """The request's id."""
    request: WorkerRequest
    text: str = ""
    """The text that it told: the dump. Secrets are hidden."""
    at: datetime | None = None
    """Set by the store."""


class WorkerDesk(Struct, frozen=True, kw_only=True):
    """The requests to a worker, and the answer to the last that it has carried out."""

    asked: tuple[WorkerAsk, ...] = ()
    """Requests that it has not answered, the oldest first."""
    answer: WorkerAnswer | None = None


class Order(StrEnum):
    """The order of a queue's ready jobs."""

    PRIORITY = "priority"
    """Priority (higher first), then ``run_at``, then id."""
    AGE = "age"
    """The order of enqueueing, then of ids; priority does not matter."""
    BALANCED = "balanced"
    """Fewest running jobs of its ``fair_key`` in the fleet (those of this lease included), then
    priority, then when it was enqueued, then id, over the whole backlog. Jobs without a fair key
    share one. Of many keys a lease may look at some, each in its turn."""


class LeaseRequest(Struct, frozen=True, kw_only=True):
    """The request of a worker for jobs."""

    worker: str
    limit: int
    tasks: dict[str, int]
    """Task name → how many of it at most. A task that is absent or 0 is not fetched at all."""
    queues: tuple[str, ...] = ()
    """Queues to take from; empty means all."""
    queue_rooms: dict[str, int] = {}
    """Queue → how many of it at most; one that is absent is not bounded, one with 0 is skipped."""
    served: dict[str, int] = {}
    """Queue → how many of its jobs this worker took lately, for a fair share between queues."""
    order: Order = Order.PRIORITY
    declined: tuple[str, ...] = ()
    """Ids of jobs that this worker has declined lately: they are passed over, whatever is behind
    them is had. Costs a little more than a lease without it, however many there are."""
    suspects_only: bool = False
    """True if suspects are asked for, and nothing else. They run apart from all other jobs."""
    waits: bool = False
    """True if the worker asks again at ``due_in`` and after a glance that saw work. What is dear to
    find may then be had up to a second later. For others an answer without ``more`` is all."""

    def without(self, jobs: Sequence[LeasedJob]) -> LeaseRequest:
        """The request for what is left to ask for, once these jobs were had."""
        if not jobs:
            return self
        tasks, queues = Counter(job.task for job in jobs), Counter(job.queue for job in jobs)
        return replace(
            self,
            limit=self.limit - len(jobs),
            tasks={task: room - tasks[task] for task, room in self.tasks.items()},
            queue_rooms={name: room - queues[name] for name, room in self.queue_rooms.items()},
            served=dict(queues + Counter(self.served)),
        )


class Leased(Struct, frozen=True, kw_only=True):
    """The jobs that a worker got, best first (priority, then run time, then id)."""

    jobs: tuple[LeasedJob, ...]
    now: datetime
    """The store's clock at the lease: deadlines are judged by it."""
    more: bool = False
    """True if asking again at once may give more."""
    due_in: float | None = None
    """Seconds until the next future job of these tasks and queues is due; None: there is none."""


class Renewed(Struct, frozen=True, kw_only=True):
    """The answer to a heartbeat."""

    alive: bool
    """False: the worker's row was gone or expired and its jobs may have been rescued.
    It has been registered anew; ``lost`` says which jobs are no longer its own."""
    cancelled: tuple[str, ...] = ()
    """Held jobs whose cancellation was asked for."""
    lost: tuple[str, ...] = ()
    """Held jobs that somebody else may run now."""
    asked: tuple[WorkerAsk, ...] = ()
    """Requests of operators that it has not answered, the oldest first."""


class Rescued(Struct, frozen=True, kw_only=True):
    """A job taken from a worker that is gone.

    ``state`` is queued (it runs again), blocked (its limit's key is closed), dead (its workers died
    too often) or cancelled (as asked).
    """

    job: LeasedJob
    state: JobState
    group_done: bool = False
    along: tuple[ChangedJob, ...] = ()
    """Jobs that died at gates because of this end. A ``group_done`` of them is of other groups."""


MOST_ASKED = 16
"""Requests that may wait for a worker's answer."""
LONGEST_ANSWER = 65_536
"""Characters of an answer."""


def holder_of(worker: str | None, token: str) -> str:
    """The name under which a process holds a cursor, messages or a claim.

    It begins with the process's worker, where it has one, so that what it holds is free as soon as
    the worker is seen to be dead.
    """
    return token if worker is None else f"{worker}/{token}"


def worker_of(holder: str) -> str:
    """The worker in a holder's name; another name where the process had none."""
    return holder.partition("/")[0]

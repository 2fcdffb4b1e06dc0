"""Hooks of workers: what an app's workers ask the program, and what they tell it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from msgspec import Struct

from offpath.model.served import Dispatch

if TYPE_CHECKING:
    from datetime import datetime

    from offpath.jobs.values.run import Run


class Offer:
    """A job that a worker may run, as its ``accept`` sees it."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    def __repr__(self) -> str:
        """Show task and id; never the input."""
        return f"<Offer {self.task} {self.id}>"

    @property
    def id(self) -> str:
        """Its id."""
        return self._run.job.id

    @property
    def task(self) -> str:
        """The name of its task."""
        return self._run.job.task

    @property
    def queue(self) -> str:
        """Its queue."""
        return self._run.job.queue

    @property
    def group_id(self) -> str:
        """The group it is counted in."""
        return self._run.job.group_id

    @property
    def parent(self) -> str | None:
        """Id of the job whose handler enqueued it."""
        return self._run.job.parent

    @property
    def priority(self) -> int:
        """Its priority."""
        return self._run.job.priority

    @property
    def attempt(self) -> int:
        """The number that its attempt would have, from 1."""
        return self._run.job.attempt

    @property
    def enqueued_at(self) -> datetime:
        """The time when it was enqueued."""
        return self._run.job.enqueued_at

    @property
    def deadline(self) -> datetime | None:
        """The time when it must have succeeded; None: never too late."""
        return self._run.job.deadline

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the call of its handler. Raises ``InvalidInput``."""
        return self._run.task.inputs.decode(self._run.job.input)


class WorkerLoad(Struct, frozen=True, kw_only=True):
    """The load of a worker, as its ``backpressure`` gets it."""

    worker: str
    """Its id."""
    at: float
    """A reading of the monotonic clock, in seconds."""
    active: int
    """The number of slots in use."""
    slots: int
    """The number of slots."""
    succeeded: Mapping[str, int]
    """Task → how many of its attempts have succeeded in this worker."""
    failed: Mapping[str, int]
    """Task → how many of its attempts have failed in this worker: those that will be retried, that
    made the job dead (a passed deadline too), and that asked for a cool-down."""


class BackedUp(Struct, frozen=True, kw_only=True):
    """The backlog of a worker, as its ``on_backlog`` gets it."""

    active: int
    """The number of slots in use."""
    queued: int | None
    """The number of due jobs that it could run, each queue and task counted up to 10,000; None when
    the store could not say.
    """
    seconds: float
    """For how long the worker has been full."""


Pause = float | timedelta | None
Backpressure = Callable[["WorkerLoad"], "Pause | Awaitable[Pause]"]
"""Is asked before each lease how long to take nothing; None or 0: go on."""
Accept = Callable[["Offer"], bool]
"""Decides whether this worker runs a job. It must not block."""
OnBacklog = Callable[["BackedUp"], "Awaitable[None] | None"]
"""Is told that work has been waiting for a full worker."""


class WorkerHooks(TypedDict, total=False):
    """The callbacks of workers; see :meth:`WorkingVerbs.configure_workers`."""

    backpressure: Backpressure | None
    """Asked before each lease: seconds for which this worker takes no job, None or 0 to go on."""
    accept: Accept | None
    """Asked for each job that was leased: False gives it back, for other workers."""
    on_backlog: OnBacklog | None
    """Told when the worker has been full, with due work waiting, for ``backlog_after`` seconds."""


HOOKS = tuple(WorkerHooks.__annotations__)


class WorkerOverrides(WorkerHooks, total=False):
    """The keywords of ``app.worker(...)``; what is not given follows the app's settings."""

    concurrency: int
    """The number of jobs that run at once."""
    queues: Sequence[str] | Mapping[str, int | None]
    """Queues to serve, none meaning all: a list, or how many jobs of each run at once here, as
    ``{"emails": 5, "reports": None}``; ``"*"`` stands for all others."""
    dispatch: Dispatch | Mapping[str, Dispatch]
    """The order of a queue's jobs: by priority, by age, or by the turn of each fair_key; or the
    order of each queue, as ``{"mail": "balanced", "*": "age"}``."""
    lease_seconds: float
    """The time for which it may be out of touch before its jobs are given to others."""
    poll_interval: float
    """The longest time between two looks for work, when nothing announces any."""
    drain_timeout: float
    """The time that ``stop`` waits for running jobs before it aborts them."""
    max_deliveries: int
    """The number of workers that may die holding a job before the job is dead."""
    relays: bool
    """True if it relays the outbox and drains the inbox."""
    backlog_after: float
    """The time for which it must be full, with due work waiting, before ``on_backlog`` is
    called.
    """
    backlog_every: float
    """The time between two calls of ``on_backlog`` while the backlog lasts; without it there is one
    call.
    """
    abort: Literal["release", "fail"]
    """The fate of jobs that a stop aborts: given back without losing an attempt, or dead."""

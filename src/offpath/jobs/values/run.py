"""A job in this worker's hand, from its lease to its settlement."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence
    from datetime import datetime

    from offpath.jobs.values.plan import Plan
    from offpath.jobs.values.runnable import Runnable
    from offpath.jobs.values.suspension import Suspended
    from offpath.model.effects import Effects
    from offpath.model.group import Contribution
    from offpath.model.job import LeasedJob
    from offpath.model.options import RunOptions
    from offpath.model.settlement import Outcome
    from offpath.runtime.extension import Running
    from offpath.runtime.metrics import Counter


class Interruption(StrEnum):
    """The reason why the engine, not the handler, ended an attempt."""

    TIMEOUT = "timeout"
    """It ran longer than one attempt may."""
    DEADLINE = "deadline"
    """The job's deadline passed while it ran."""
    CANCEL = "cancel"
    """Somebody asked for the job to be cancelled."""
    STOP = "stop"
    """The worker was told to stop and its patience ended."""
    EXPIRED = "expired"
    """The store could not be reached for a whole lease: the job may be somebody else's."""
    LOST = "lost"
    """The store says that the job is somebody else's."""


LEASE_DOUBTED = frozenset({Interruption.EXPIRED, Interruption.LOST})


class StoreTime:
    """The store's clock as last told, carried forward by this machine's monotonic clock."""

    __slots__ = ("_at", "_told")

    def __init__(self, told: datetime, at: float) -> None:
        self._told = told
        self._at = at

    def at(self, monotonic: float) -> datetime:
        """Return the store's time at a reading of the monotonic clock."""
        return self._told + timedelta(seconds=monotonic - self._at)

    def reading(self, moment: datetime) -> float:
        """Return the reading of the monotonic clock at a time of the store."""
        return self._at + (moment - self._told).total_seconds()


def silent() -> None:
    """Stand in for a wake-up that nobody is waiting for."""


class AttemptContext(Protocol):
    """The engine's side of a handler's context: what the attempt has noted, and how it is told."""

    @property
    def suspension(self) -> Suspended | None:
        """The sleep or wait that ends this attempt; None for an attempt that ends by itself."""
        ...

    @property
    def plans(self) -> Sequence[Plan[Any, Any]]:
        """Every plan made so far."""
        ...

    @property
    def named(self) -> frozenset[str]:
        """Ids of enqueued jobs that every run of the handler gives."""
        ...

    @property
    def unwritten(self) -> bool:
        """True if progress was reported that is not written yet."""
        ...

    def take_progress(self) -> str | None:
        """Return the progress that is not written yet, encoded, and forget it."""
        ...

    def effects(self) -> Effects:
        """Return what is joined to the end of this attempt so far."""
        ...

    def plan(self, effects: Effects) -> None:
        """Join the effects of the plan that the handler returned."""
        ...

    def require_bounded(self) -> None:
        """Raise ``PlanError`` when more is queued at once than one transaction may make."""
        ...

    async def set_apart(self, returned: object) -> None:
        """Give other ids to jobs of this run that an earlier run has sent in another form."""
        ...

    def tell(self, why: Interruption) -> None:
        """Set the signals of an attempt that must end."""
        ...


class Call(Protocol):
    """The call of a batch handler, as one of its jobs sees it."""

    left: int
    """The number of its jobs that have not ended."""

    @property
    def items(self) -> Sequence[Run]:
        """Its jobs."""
        ...

    @property
    def unwanted(self) -> bool:
        """True if each of its jobs was asked to end."""
        ...

    def nudge(self) -> None:
        """Consider ending the call: one of its jobs was told to end."""
        ...


class TaskSeries(Protocol):
    """The metric series that a run counts in: those of its task and queue."""

    @property
    def lease_lost(self) -> Counter:
        """Leases that were lost."""
        ...

    def took(self) -> None:
        """Count a job that was leased."""
        ...

    def began(self) -> None:
        """Count a handler that runs."""
        ...

    def ran(self, run: Run, outcome: Outcome | None) -> None:
        """Count a handler that has ended, or will never begin."""
        ...

    def judged(self, outcome: Outcome) -> None:
        """Count a recorded end."""
        ...

    def let_go(self) -> None:
        """Count a job that is held no longer."""
        ...


class Run:
    """One attempt. Changed only in the loop's thread."""

    __slots__ = (
        "batch",
        "begun",
        "context",
        "ended_at",
        "entered_at",
        "fault",
        "given_up",
        "gives",
        "interrupted",
        "job",
        "lane",
        "leased_at",
        "options",
        "over",
        "raised",
        "runner",
        "running",
        "single",
        "started_at",
        "store_time",
        "task",
    )

    def __init__(
        self,
        job: LeasedJob,
        task: Runnable,
        options: RunOptions,
        *,
        store_time: StoreTime,
        leased_at: float,
    ) -> None:
        self.job = job
        self.task = task
        self.options = options
        self.store_time = store_time
        self.leased_at = leased_at
        self.started_at: float | None = None
        self.entered_at: float | None = None
        """The time when its handler was called; None before, and then cancelling its task would
        miss it.
        """
        self.begun = False
        """True if its handler runs or ran; a sync one waits for a thread before."""
        self.ended_at: float | None = None
        self.lane: TaskSeries | None = None
        self.context: AttemptContext | None = None
        self.batch: Call | None = None
        """The call that it is part of, if it is run together with others."""
        self.single = False
        """True if it is run by itself although its task is a batch task."""
        self.interrupted: Interruption | None = None
        self.runner: asyncio.Task[None] | None = None
        self.fault: Exception | None = None
        """The reason why its stored options could not be read."""
        self.given_up = False
        """True if its end was written without waiting for the handler any longer."""
        self.gives: Contribution | None = None
        """Its result as its group is given it, where that is another text than the job's."""
        self.running: Running | None = None
        """The value that extensions and arounds were given, until they were told about the end."""
        self.raised: BaseException | None = None
        """The exception of its handler, where an extension is to be told."""
        self.over = False
        """True if the handler has ended, or was given up on."""

    def begin(self) -> None:
        """Its handler runs from now on, unless it was given up on meanwhile."""
        if not self.over:
            self.begun = True
            if self.lane is not None:
                self.lane.began()

    def interrupt(self, why: Interruption) -> bool:
        """Tell the handler that it must end; the first reason stays, unless the lease is lost.

        Returns whether this was news. An async handler is cancelled where it awaits; one in a
        thread can only be told through its context.
        """
        if self.over or (self.interrupted is not None and why not in LEASE_DOUBTED):
            return False
        if self.interrupted in LEASE_DOUBTED and why is not Interruption.LOST:
            return False
        news = self.interrupted is not why
        self.interrupted = why
        if self.context is not None:
            self.context.tell(why)
        self.nudge()
        return news

    def nudge(self) -> None:
        """Cancel an async handler where it awaits; again, should it have swallowed it once."""
        if self.batch is not None:
            self.batch.nudge()
            return
        reachable = self.entered_at is not None and not self.over and self.task.is_async
        if reachable and self.runner is not None:
            self.runner.cancel()

    @property
    def must_end(self) -> bool:
        """True if its handler has to end on request: one of a batch goes on for others."""
        if self.batch is None:
            return self.task.is_async
        return self.task.is_async and self.batch.items[0] is self and self.batch.unwanted

"""The terms of a worker, and its report on itself."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Literal

from msgspec import Struct

from offpath.jobs.handler.resources import Resources
from offpath.jobs.values.offers import Accept, Backpressure, OnBacklog
from offpath.jobs.values.run import Run
from offpath.jobs.values.runnable import LogContext
from offpath.jobs.values.services import EventWriter, HandlerThreads
from offpath.jobs.worker.judge import AttemptRules
from offpath.jobs.worker.upkeep import Upkeep
from offpath.model.finding import FindingRecord
from offpath.model.health import AgeGauge, SettlementReport
from offpath.model.lease import Order, WorkerInfo
from offpath.runtime.clock import Clock
from offpath.runtime.codec import Codec, JsonCodec
from offpath.runtime.extensions import Extensions
from offpath.runtime.loop import LoopSpec
from offpath.runtime.metrics import Metrics
from offpath.store.protocol import Backlog, Store


class WorkerSettings(Struct, frozen=True, kw_only=True):
    """The terms of a worker's work. Durations in seconds."""

    concurrency: int = 100
    """The number of jobs that run at once."""
    queues: tuple[str, ...] = ()
    """Queues to serve; empty means all."""
    queue_limits: dict[str, int] = {}
    """The number of jobs of a queue that run at once; an absent queue has no limit of its own."""
    order: Order = Order.PRIORITY
    """The order in which a queue's jobs are taken."""
    orders: dict[str, Order] = {}
    """The queues that have another one."""
    lease_seconds: float = 30.0
    """The time for which the worker may be out of touch before its jobs are given to others."""
    poll_interval: float = 1.0
    """The longest time between two looks for work, when nothing announces any."""
    drain_timeout: float = 30.0
    """The time that ``stop`` waits for running jobs before it aborts them."""
    max_deliveries: int = 3
    """The number of workers that may die holding a job before the job is dead."""
    max_result_bytes: int = 1_048_576
    max_children: int = 10_000
    """The most jobs that one attempt queues in one transaction."""
    redact: tuple[str, ...] = ()
    """Field names to hide in handlers' log records, beside the built-in ones."""
    prune_every: float = 60.0
    on_dead_loop: Literal["restart", "exit"] = "restart"
    """The consequence of a loop's death: it is started again, or the worker stops for good."""
    rules: AttemptRules = AttemptRules()
    version: str = ""
    backpressure: Backpressure | None = None
    """Asked before each lease for how long to take nothing."""
    accept: Accept | None = None
    """Asked for each leased job whether it is to be run here."""
    on_backlog: OnBacklog | None = None
    """Told when the worker has been full for ``backlog_after`` seconds and due work waits."""
    backlog_after: float = 60.0
    backlog_every: float | None = None
    """Seconds between two tellings of one episode; None tells each once."""
    takes: bool = True
    """True if it leases jobs; otherwise it only runs what begins in this process."""

    def info(self, worker_id: str, tasks: Iterable[str]) -> WorkerInfo:
        """Describe a worker of this process."""
        return WorkerInfo(
            id=worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=self.version,
            concurrency=self.concurrency,
            # One that takes none serves no task: nobody must think that it does.
            tasks=tuple(sorted(tasks)) if self.takes else (),
            queues=self.queues,
        )


def _nobody(_worker: str) -> None:
    """Told of a worker whose loops hold nothing."""


class Parts(Struct, frozen=True, kw_only=True):
    """The parts of a worker."""

    store: Store
    clock: Clock
    threads: HandlerThreads
    report: Callable[[BaseException, str], None]
    """Told of what the worker swallows, and in which phase. Must not raise."""
    new_id: Callable[[], str]
    writer: EventWriter
    """Makes events."""
    random: Callable[[], float]
    """Numbers in [0, 1), for jitter."""
    metrics: Metrics
    codec: Codec = JsonCodec()
    """The app's."""
    log_context: LogContext | None = None
    extensions: Extensions | None = None
    resources: Resources
    """The resources that its handlers share."""
    upkeep: Upkeep
    """The passes that it makes for the fleet."""
    loops: tuple[LoopSpec, ...] = ()
    """Loops that it drives beside its own."""
    real_time: bool = False
    """True if the clock is the machine's: only then can a thread watch the event loop by it."""
    measure: Measure | None = None
    """Tells how long work has been waiting, by the backlog that was just read."""
    found: Found | None = None
    """Looks at the store's findings, and records those that it makes."""
    worker_id: str | None = None
    """The worker's id; a new one if it is not given."""
    begins: Callable[[str], None] = _nobody
    """Told the worker's id before it registers."""
    settled: Callable[[], tuple[SettlementReport, ...]] = tuple
    """Tells how the last settlement runs of this process went."""


Measure = Callable[[Sequence[Backlog], datetime], Awaitable[Sequence[AgeGauge]]]
"""From due jobs and the store's time to the ages that decide over the fleet's health."""
Found = Callable[[datetime], Awaitable[Sequence[FindingRecord]]]
"""From the store's time to the findings that stand."""


class Stage(StrEnum):
    """The stage of a held job."""

    PENDING = "pending"
    """Leased, not begun."""
    RUNNING = "running"
    ENDING = "ending"
    """Its handler has ended; the end is not recorded yet."""


class Active(Struct, frozen=True, kw_only=True):
    """A job that a worker holds."""

    id: str
    task: str
    queue: str
    attempt: int
    deliveries: int
    since: datetime
    """The time when it was leased, by the store's clock."""
    stage: Stage


class AttemptCounts(Struct, kw_only=True):
    """The number of attempts in one worker, by how they ended."""

    succeeded: int = 0
    retried: int = 0
    snoozed: int = 0
    waiting: int = 0
    """Ended to wait for a signal."""
    dead: int = 0
    cancelled: int = 0
    released: int = 0
    lease_lost: int = 0
    """Ended without effect: somebody else had the job."""

    def __sub__(self, earlier: AttemptCounts) -> AttemptCounts:
        """Return what was counted since ``earlier``."""
        return AttemptCounts(
            **{name: getattr(self, name) - getattr(earlier, name) for name in COUNTED}
        )

    def copy(self) -> AttemptCounts:
        """Return the counts as they are now."""
        return self - AttemptCounts()

    @property
    def total(self) -> int:
        """The number of attempts that ended."""
        return sum(getattr(self, name) for name in COUNTED)


COUNTED = AttemptCounts.__struct_fields__


class Stopped(Struct, frozen=True, kw_only=True):
    """The result of a worker's stop."""

    drained: bool = True
    """True if every job ended by itself within the limit."""
    given_up: int = 0
    """Handlers that went on although they were told to end. Their jobs were settled without them;
    whatever they still do does not count."""
    unrecorded: int = 0
    """Ends that the store did not take in time: those jobs are rescued by another worker."""
    dead_loops: tuple[str, ...] = ()
    """Loops that died and made it stop, as the setting ``on_dead_loop`` says."""

    @property
    def exit_code(self) -> int:
        """0 when every job's end (or its release) is recorded and no loop died, otherwise 1."""
        return 1 if self.unrecorded or self.dead_loops else 0


def active_of(run: Run) -> Active:
    """A run as others see it."""
    job = run.job
    stage = Stage.PENDING if run.started_at is None else Stage.RUNNING
    return Active(
        id=job.id,
        task=job.task,
        queue=job.queue,
        attempt=job.attempt,
        deliveries=job.deliveries,
        since=run.store_time.at(run.leased_at),
        stage=Stage.ENDING if run.over else stage,
    )

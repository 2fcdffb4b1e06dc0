"""The engine's side of a handler's context: what its attempt has noted, and how it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import json, structs

from offpath.errors import PlanError
from offpath.jobs.values.names import in_order
from offpath.jobs.values.plan import Plan, reach, shape_of
from offpath.jobs.values.reruns import set_apart
from offpath.jobs.values.run import LEASE_DOUBTED
from offpath.model.effects import NOTHING, Effects
from offpath.model.fan_out import require_bounded
from offpath.model.unsent import unsent
from offpath.runtime.forks import ProcessLock

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpath.jobs.handler.durable.book import StepBook
    from offpath.jobs.handler.host import Host
    from offpath.jobs.values.job import Job
    from offpath.jobs.values.run import Interruption, Run
    from offpath.jobs.values.signals import Signal
    from offpath.jobs.values.suspension import Suspended
    from offpath.model.job import NewJob, Progress
    from offpath.model.ledger.decision import LedgerOp
    from offpath.model.new import NewLogEvent, NewMessage

making = ProcessLock()
"""Held while a signal is made or set: a thread may ask for one while the loop interrupts.
One for all contexts, since signals are rarely asked for and one lock per job would cost more."""


class Notes:
    """The notes of one attempt: its context writes them, the engine reads them at its end."""

    __slots__ = (
        "also",
        "book",
        "cancelled",
        "host",
        "jobs",
        "lease_lost",
        "log",
        "messages",
        "operations",
        "planned",
        "plans",
        "progress",
        "run",
    )

    def __init__(self, run: Run, host: Host) -> None:
        self.run = run
        self.host = host
        self.jobs: list[Job[Any, Any]] = []
        self.messages: list[NewMessage] = []
        self.log: list[NewLogEvent] = []
        self.operations: list[LedgerOp] = []
        self.plans: list[Plan[Any, Any]] = []
        """Every plan made so far."""
        self.planned: Effects = NOTHING
        """The effects of the plan that the handler returned."""
        self.progress: Progress | None = None
        """The progress that is not written yet."""
        self.cancelled: Signal | None = None
        """Made when it is first asked for, as ``lease_lost``."""
        self.lease_lost: Signal | None = None
        self.book: StepBook | None = None
        """The steps, sleeps and waits; None while there was none."""
        self.also: Callable[[], None] | None = None
        """Told, too, when the attempt must end: the call of a batch handler."""

    @property
    def suspension(self) -> Suspended | None:
        """The sleep or wait that ends this attempt; None for an attempt that ends by itself."""
        return None if self.book is None else self.book.suspension

    @property
    def named(self) -> frozenset[str]:
        """Ids of enqueued jobs that every run of the handler gives."""
        return frozenset(job.id for job in map(unsent, self.jobs) if job.named)

    @property
    def unwritten(self) -> bool:
        """True if progress was reported that is not written yet."""
        return self.progress is not None

    def take_progress(self) -> str | None:
        """Return the progress that is not written yet, encoded, and forget it."""
        latest, self.progress = self.progress, None
        return None if latest is None else json.encode(latest).decode()

    def effects(self) -> Effects:
        """Return what is joined to the end of this attempt so far.

        Nothing while it sleeps or waits: the handler runs again from its first line, and joins it
        again.
        """
        if self.suspension is not None:
            return NOTHING
        if not (self.jobs or self.messages or self.log or self.operations):
            return self.planned
        noted = Effects(
            jobs=self._enqueued(),
            messages=tuple(self.messages),
            log=tuple(self.log),
            operations=tuple(self.operations),
        )
        return joined(noted, self.planned)

    def plan(self, effects: Effects) -> None:
        """Join the effects of the plan that the handler returned."""
        joined(Effects(jobs=self._enqueued()), effects)
        self.planned = effects

    async def set_apart(self, returned: object) -> None:
        """See to it that no job of this run is taken for one that an earlier run has sent."""
        plans = [shape_of(one) for one in reach(returned)] if isinstance(returned, Plan) else []
        jobs = [*self.jobs, *(job for plan in plans for job in plan.jobs())]
        if any(job.doubtful for job in map(unsent, jobs)):
            gates = [gate for plan in plans for gate in plan.gates()]
            await set_apart(self.host.store, map(unsent, jobs), gates)

    def require_bounded(self) -> None:
        """Raise ``PlanError`` when more is queued at once than one transaction may make."""
        most = self.host.max_children
        if len(self.jobs) + len(self.planned.jobs) > most:
            told = self.effects()
            require_bounded(told.jobs, told.gates, self.run.job.id, most)

    def tell(self, why: Interruption) -> None:
        """Set the signals of an attempt that must end."""
        with making:
            if self.cancelled is not None:
                self.cancelled.set()
            if self.lease_lost is not None and why in LEASE_DOUBTED:
                self.lease_lost.set()
        if self.also is not None:
            self.also()

    def _enqueued(self) -> tuple[NewJob, ...]:
        parent, group = self.run.job.id, self.run.job.group_id
        made = [
            structs.replace(unsent(one).new, parent=parent, group_id=group) for one in self.jobs
        ]
        return in_order(made)


def joined(first: Effects, second: Effects) -> Effects:
    """The effects of both. Raises ``PlanError`` when a job is in both."""
    if not second:
        return first
    if not first:
        return second
    if {job.id for job in first.jobs}.intersection(job.id for job in second.jobs):
        raise PlanError("a job is in the plan and was given to ctx.enqueue: it is queued once")
    return structs.replace(
        first,
        jobs=first.jobs + second.jobs,
        gates=first.gates + second.gates,
        contributions=first.contributions + second.contributions,
    )

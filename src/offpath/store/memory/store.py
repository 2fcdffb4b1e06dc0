"""The memory backend: its life, its doors, and the transitions that each facet's file does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from offpath.errors import CapabilityMissing
from offpath.model.amendment import Amendment
from offpath.model.changes import ChangedJob, Pruned
from offpath.model.effects import Effects
from offpath.model.glance import EVERYTHING, Concern
from offpath.model.job import (
    TERMINAL,
    Count,
    Enqueued,
    JobFilter,
    JobRecord,
    JobState,
    LeasedJob,
    Page,
)
from offpath.model.lease import (
    Leased,
    LeaseRequest,
    Renewed,
    Rescued,
    WorkerAnswer,
    WorkerAsk,
    WorkerDesk,
    WorkerInfo,
    WorkerRecord,
)
from offpath.model.settlement import Settled, Settlement
from offpath.runtime.clock import Clock, SystemClock
from offpath.runtime.ids import IdGenerator, new_id
from offpath.store.capabilities import Capabilities, Durability
from offpath.store.hints import Hint, Hints
from offpath.store.memory import effects as doors
from offpath.store.memory import jobs, lease, limits, messages, reads, settle, suspects, workers
from offpath.store.memory.actions import MemoryActions
from offpath.store.memory.browse import MemoryBrowse
from offpath.store.memory.events import MemoryEvents, no_transactions
from offpath.store.memory.flow import MemoryFlow
from offpath.store.memory.health import MemoryDeclarations, MemoryFindings, MemoryHealth
from offpath.store.memory.ledger import MemoryLedger
from offpath.store.memory.runs import MemoryRuns
from offpath.store.memory.schedules import MemorySchedules
from offpath.store.memory.stats import MemoryStats
from offpath.store.memory.tables import Tables
from offpath.store.memory.workflows import MemoryWorkflows
from offpath.store.offered import OFFERED
from offpath.store.protocol import Backlog, Finding, JobRedrive, Migration

_CAPABILITIES = Capabilities(
    name="memory",
    durability=Durability.PROCESS,
    shared=False,
    presence=False,
    pushes=False,
    self_migrating=True,
    profiles=OFFERED["memory"],
)


class MemoryStore(
    MemoryEvents,
    MemorySchedules,
    MemoryWorkflows,
    MemoryFlow,
    MemoryLedger,
    MemoryDeclarations,
    MemoryActions,
    MemoryRuns,
    MemoryStats,
    MemoryBrowse,
    MemoryFindings,
    MemoryHealth,
):
    """A :class:`~offpath.store.protocol.Store` in this process's memory, lost with the process.

    Belongs to one event loop. No method waits, so each is one step that nothing can interrupt.
    What it holds outlives :meth:`close`, as a database would.
    """

    def __init__(self, clock: Clock | None = None, *, ids: IdGenerator = new_id) -> None:
        self._clock = clock or SystemClock()
        self._tables = Tables(ids)
        self._hints = Hints()

    @property
    def capabilities(self) -> Capabilities:
        """The abilities of this backend."""
        return _CAPABILITIES

    # -- life ------------------------------------------------------------------------------

    async def open(self) -> None:
        """Nothing is needed to open it."""

    async def close(self) -> None:
        """Nothing is held that would have to be released."""

    async def migrate(self) -> list[Migration]:
        """There is no schema."""
        return []

    async def migrations(self) -> list[Migration]:
        """There is no schema."""
        return []

    def migration_script(self, *, after: int = 0) -> str:  # noqa: ARG002 - the protocol's
        """There is no schema."""
        raise CapabilityMissing("memory has no schema: give a sqlite:/// or postgresql:// URL")

    async def diagnose(self) -> list[Finding]:
        """Nothing can be wrong with it that its own process would not show."""
        return []

    async def ping(self) -> datetime:
        """The clock it was made with."""
        return self._clock.now()

    def listen(self, callback: Callable[[Hint], None]) -> Callable[[], None]:
        """Call ``callback`` when something may have changed, until the answer is called."""
        return self._hints.subscribe(callback)

    # -- doors: new work -------------------------------------------------------------------

    async def commit(self, effects: Effects) -> list[Enqueued]:
        """Write all effects or none."""
        answers = doors.commit(self._tables, self._clock.now(), effects)
        self._tell(waiting=bool(effects.jobs))
        return answers

    async def commit_within(self, connection: Any, effects: Effects) -> list[Enqueued]:  # noqa: ANN401, ARG002
        """Memory has no transactions to join."""
        no_transactions()

    def commit_within_blocking(self, connection: Any, effects: Effects) -> list[Enqueued]:  # noqa: ANN401, ARG002
        """Memory has no transactions to join."""
        no_transactions()

    async def get_within(self, connection: Any, ids: Sequence[str]) -> list[JobRecord]:  # noqa: ANN401, ARG002
        """Memory has no transactions to join."""
        no_transactions()

    def get_within_blocking(self, connection: Any, ids: Sequence[str]) -> list[JobRecord]:  # noqa: ANN401, ARG002
        """Memory has no transactions to join."""
        no_transactions()

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """End attempts, each with its effects."""
        batch = settle.settle(self._tables, self._clock.now(), settlements)
        self._tell(waiting=batch.waiting, ended=batch.ended)
        return batch.answers

    # -- jobs ------------------------------------------------------------------------------

    async def lease(self, request: LeaseRequest) -> Leased:
        """Hand out ready jobs, best first."""
        leased, held = lease.lease(self._tables, self._clock.now(), request)
        self._tell(waiting=held)
        return leased

    async def begin(self, jobs: Sequence[LeasedJob]) -> set[str]:
        """Reserved jobs run from now on."""
        return suspects.begin(self._tables, self._clock.now(), jobs)

    async def progress(self, job: LeasedJob, progress: str) -> None:
        """Record how far a held job is."""
        jobs.progress(self._tables, self._clock.now(), job, progress)

    async def cancel(self, ids: Sequence[str], *, keep: float | None = None) -> list[ChangedJob]:
        """Cancel waiting jobs, ask running ones to end."""
        changed = jobs.cancel(self._tables, self._clock.now(), ids, keep)
        self._tell_of(changed)
        return changed

    async def redrive(self, redrives: Sequence[JobRedrive]) -> list[ChangedJob]:
        """Put dead or cancelled jobs back, make waiting ones due."""
        changed = jobs.redrive(self._tables, self._clock.now(), redrives)
        self._tell(waiting=bool(changed))
        return changed

    async def amend(self, ids: Sequence[str], amendment: Amendment) -> list[ChangedJob]:
        """Give waiting jobs other terms."""
        changed = jobs.amend(self._tables, self._clock.now(), ids, amendment)
        self._tell(waiting=bool(changed))
        return changed

    async def delete(self, ids: Sequence[str]) -> list[ChangedJob]:
        """Remove ended jobs."""
        return jobs.delete(self._tables, ids)

    async def rescue(
        self, *, limit: int, max_deliveries: int, keep: float | None = None
    ) -> list[Rescued]:
        """Take jobs from workers that are gone."""
        rescued = jobs.rescue(
            self._tables,
            self._clock.now(),
            limit=limit,
            max_deliveries=max_deliveries,
            keep=keep,
        )
        states = {each.state for each in rescued}
        self._tell(waiting=JobState.QUEUED in states, ended=bool(states & TERMINAL))
        return rescued

    async def glance(self, *, work: bool = True) -> frozenset[Concern]:  # noqa: ARG002 - all are named
        """Every pass: a look would cost as much as they do."""
        return EVERYTHING

    async def notice_deaths(self) -> list[str]:
        """A worker in this process cannot die alone."""
        return []

    async def prune(self, *, limit: int) -> Pruned:
        """Remove what has been kept long enough."""
        now = self._clock.now()
        workers.prune_claims(self._tables, now, limit)
        workers.prune(self._tables, now, limit)
        limits.prune(self._tables, now, limit)
        return Pruned(
            jobs=jobs.prune(self._tables, now, limit),
            messages=messages.prune(self._tables, now, limit),
        )

    async def get(self, ids: Sequence[str]) -> list[JobRecord]:
        """The jobs of these ids that exist."""
        return reads.get(self._tables, ids)

    async def states(self, ids: Sequence[str]) -> dict[str, JobState]:
        """The states of these ids."""
        return reads.states(self._tables, ids)

    async def find(
        self, where: JobFilter, *, limit: int = 100, after: str | None = None, newest: bool = True
    ) -> Page:
        """One page of the jobs that match."""
        return reads.find(self._tables, where, limit=limit, after=after, newest=newest)

    async def count(self, where: JobFilter) -> list[Count]:
        """The number of jobs that match."""
        return reads.count(self._tables, where)

    async def backlog(self, *, limit: int = 1000) -> list[Backlog]:
        """Due work by queue and task."""
        return reads.backlog(self._tables, self._clock.now(), limit)

    # -- workers ---------------------------------------------------------------------------

    async def register(self, worker: WorkerInfo, *, lease_seconds: float) -> bool:
        """Add a worker; its death cannot be seen early."""
        workers.register(self._tables, self._clock.now(), worker, lease_seconds)
        return False

    async def extend(
        self,
        worker: WorkerInfo,
        *,
        lease_seconds: float,
        held: Sequence[LeasedJob],
        report: str | None = None,
    ) -> Renewed:
        """Keep a worker's jobs leased."""
        return workers.extend(
            self._tables,
            self._clock.now(),
            worker,
            lease_seconds=lease_seconds,
            held=held,
            report=report,
        )

    def cut_off(self) -> bool:
        """No connection shows that this process lives."""
        return False

    def vouch(self, worker: str, *, lease_seconds: float, report: str | None = None) -> bool:
        """Renew the lease of a worker whose event loop is blocked."""
        now = self._clock.now()
        return workers.vouch(self._tables, now, worker, lease_seconds=lease_seconds, report=report)

    async def signals(self, worker: str, held: Sequence[LeasedJob]) -> Renewed:
        """The signals for a worker, without a renewal."""
        return workers.signals(self._tables, self._clock.now(), worker, held)

    async def held(self, worker: str) -> list[LeasedJob]:
        """The jobs that a worker holds."""
        return workers.held(self._tables, worker)

    async def deregister(self, worker: str) -> None:
        """Note that a worker has stopped."""
        workers.deregister(self._tables, self._clock.now(), worker)

    async def workers(self) -> list[WorkerRecord]:
        """Every worker, those that are gone included."""
        return workers.workers(self._tables, self._clock.now())

    async def ask_worker(self, worker: str, ask: WorkerAsk) -> bool:
        """Ask something of a live worker; who listens hears a hint."""
        asked = workers.ask(self._tables, worker, ask)
        if asked:
            self._hints.emit(Hint.CANCEL)
        return asked

    async def answer_worker(self, worker: str, answer: WorkerAnswer) -> bool:
        """Note that a worker has carried a request out."""
        return workers.answer(self._tables, self._clock.now(), worker, answer)

    async def worker_desk(self, worker: str) -> WorkerDesk | None:
        """The requests and the last answer of a worker."""
        return workers.desk(self._tables, worker)

    # -- singletons ------------------------------------------------------------------------

    async def claim(
        self, key: str, holder: str, *, ttl: float | None = None, renew: bool = False
    ) -> bool:
        """Claim a name once."""
        return workers.claim(self._tables, self._clock.now(), key, holder, ttl, renew=renew)

    async def release_claim(self, key: str, holder: str) -> bool:
        """Give a name back."""
        return workers.release_claim(self._tables, key, holder)

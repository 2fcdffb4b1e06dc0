"""The one seam where all that a store does is seen: how long, with which error, what moved.

Metrics and event hooks are observers of this wrapper, so that no transition can go
by them: not a rescue, not an operator's cancel, not the children of a settled job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from msgspec import structs

from offpath.errors import StoreUnavailable
from offpath.model.effects import Effects
from offpath.model.job import Count, Enqueued, JobFilter, JobRecord, JobState, LeasedJob, Page
from offpath.model.lease import (
    Extension,
    Leased,
    LeaseRequest,
    Rescued,
    WorkerInfo,
    WorkerRecord,
)
from offpath.model.settlement import Settled, Settlement, SettleStatus
from offpath.runtime.clock import Clock
from offpath.store import observed
from offpath.store.changes import Changed
from offpath.store.hints import Hint
from offpath.store.instrumented_events import InstrumentedEvents
from offpath.store.instrumented_findings import InstrumentedFindings
from offpath.store.instrumented_flow import InstrumentedFlow
from offpath.store.instrumented_health import InstrumentedHealth
from offpath.store.instrumented_ledger import InstrumentedLedger
from offpath.store.instrumented_schedules import InstrumentedSchedules
from offpath.store.instrumented_workflows import InstrumentedWorkflows
from offpath.store.metering import Metering
from offpath.store.observed_events import carried_out
from offpath.store.protocol import Backlog, Finding, Migration, Pruned, Redrive, Store
from offpath.store.watching import MOST_DOUBTED, Observer

Fence = tuple[str, str, int]


class InstrumentedStore(
    InstrumentedEvents,
    InstrumentedSchedules,
    InstrumentedWorkflows,
    InstrumentedFlow,
    InstrumentedLedger,
    InstrumentedFindings,
    InstrumentedHealth,
):
    """A :class:`Store` that tells observers what another one did."""

    def __init__(
        self, inner: Store, clock: Clock, metering: Metering, observers: Sequence[Observer] = ()
    ) -> None:
        super().__init__(inner, clock, metering, observers)
        self._doubted: dict[Fence, None] = {}

    # -- life ------------------------------------------------------------------------------

    async def open(self) -> None:
        """As the store does."""
        await self._timed("open", self._inner.open())

    async def close(self) -> None:
        """As the store does."""
        await self._timed("close", self._inner.close())

    async def migrate(self) -> list[Migration]:
        """As the store does."""
        return await self._timed("migrate", self._inner.migrate())

    async def migrations(self) -> list[Migration]:
        """As the store does."""
        return await self._timed("migrations", self._inner.migrations())

    def migration_script(self, *, after: int = 0) -> str:
        """As the store does."""
        return self._inner.migration_script(after=after)

    async def diagnose(self) -> list[Finding]:
        """As the store does."""
        return await self._timed("diagnose", self._inner.diagnose())

    async def ping(self) -> datetime:
        """As the store does."""
        return await self._timed("ping", self._inner.ping())

    def listen(self, callback: Callable[[Hint], None]) -> Callable[[], None]:
        """As the store does."""
        return self._inner.listen(callback)

    # -- doors -----------------------------------------------------------------------------

    async def commit(self, effects: Effects) -> list[Enqueued]:
        """As the store does."""
        answers = await self._timed("commit", self._inner.commit(effects))
        self._wrote(effects, answers)
        return answers

    async def commit_within(self, connection: Any, effects: Effects) -> list[Enqueued]:  # noqa: ANN401
        """As the store does. Told as soon as the rows are written: they may still be rolled back,
        which nobody but the caller's database can see.
        """
        call = self._inner.commit_within(connection, effects)
        answers = await self._timed("commit_within", call)
        self._wrote(effects, answers)
        return answers

    def commit_within_blocking(self, connection: Any, effects: Effects) -> list[Enqueued]:  # noqa: ANN401
        """As the store does; not observed, since it may be called in any thread."""
        return self._inner.commit_within_blocking(connection, effects)

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """As the store does, and clears doubts: a settlement whose first answer was lost and whose
        repeat is refused by the fence is answered ``APPLIED`` if the first one was taken.
        """
        try:
            answers = await self._timed("settle", self._inner.settle(settlements))
        except StoreUnavailable:
            self._doubt(settlements)
            raise
        if self._doubted:
            answers = await self._undoubted(settlements, answers)
        self._moved(observed.settled(settlements, answers))
        for settlement, answer in zip(settlements, answers, strict=True):
            effects = settlement.effects
            more = effects.messages or effects.log or effects.operations
            if more and carried_out(settlement, answer):
                events = Effects(
                    messages=effects.messages, log=effects.log, operations=effects.operations
                )
                self._carried_out(events, answer.enqueued[len(effects.jobs) :])
        return answers

    def _doubt(self, settlements: Sequence[Settlement]) -> None:
        for settlement in settlements:
            self._doubted[_fence(settlement)] = None
        while len(self._doubted) > MOST_DOUBTED:
            del self._doubted[next(iter(self._doubted))]

    async def _undoubted(
        self, settlements: Sequence[Settlement], answers: Sequence[Settled]
    ) -> list[Settled]:
        repeated = [
            self._doubted.pop(_fence(settlement), self) is None for settlement in settlements
        ]
        refused = [
            settlement
            for settlement, answer, again in zip(settlements, answers, repeated, strict=True)
            if again and answer.status is SettleStatus.LEASE_LOST
        ]
        if not refused:
            return list(answers)
        taken = await self._taken(refused)
        return [
            structs.replace(answer, status=SettleStatus.APPLIED, state=taken[answer.id])
            if answer.status is SettleStatus.LEASE_LOST and answer.id in taken
            else answer
            for answer in answers
        ]

    async def _taken(self, settlements: Sequence[Settlement]) -> dict[str, JobState]:
        """Which of these were applied, and where that led.

        Only the holder could end this delivery; a rescue would have raised the losses.
        """
        jobs = {settlement.job.id: settlement.job for settlement in settlements}
        try:
            records = await self.get(tuple(jobs))
        except StoreUnavailable:
            return {}
        return {
            record.id: record.state
            for record in records
            if record.deliveries == jobs[record.id].deliveries
            and record.losses == jobs[record.id].losses
            and record.state is not JobState.RUNNING
        }

    # -- jobs ------------------------------------------------------------------------------

    async def lease(self, request: LeaseRequest) -> Leased:
        """As the store does."""
        leased = await self._timed("lease", self._inner.lease(request))
        if leased.jobs:
            self._moved(observed.leased(leased.jobs))
            self._sighted("job", [job.unreadable for job in leased.jobs])
        return leased

    async def begin(self, jobs: Sequence[LeasedJob]) -> set[str]:
        """As the store does."""
        return await self._timed("begin", self._inner.begin(jobs))

    async def progress(self, job: LeasedJob, progress: str) -> None:
        """As the store does."""
        await self._timed("progress", self._inner.progress(job, progress))
        self._moved([observed.progressed(job, progress)])

    async def cancel(self, ids: Sequence[str], *, keep: float | None = None) -> list[Changed]:
        """As the store does."""
        answers = await self._timed("cancel", self._inner.cancel(ids, keep=keep))
        self._moved(observed.changed(answers))
        return answers

    async def redrive(self, redrives: Sequence[Redrive]) -> list[Changed]:
        """As the store does."""
        answers = await self._timed("redrive", self._inner.redrive(redrives))
        self._moved(observed.changed(answers))
        return answers

    async def delete(self, ids: Sequence[str]) -> list[Changed]:
        """As the store does."""
        answers = await self._timed("delete", self._inner.delete(ids))
        self._moved(observed.deleted(answers))
        return answers

    async def rescue(
        self, *, limit: int, max_deliveries: int, keep: float | None = None
    ) -> list[Rescued]:
        """As the store does."""
        call = self._inner.rescue(limit=limit, max_deliveries=max_deliveries, keep=keep)
        answers = await self._timed("rescue", call)
        if answers:
            self._moved(observed.rescued(answers))
        return answers

    async def notice_deaths(self) -> list[str]:
        """As the store does."""
        return await self._timed("notice_deaths", self._inner.notice_deaths())

    async def prune(self, *, limit: int) -> Pruned:
        """As the store does."""
        removed = await self._timed("prune", self._inner.prune(limit=limit))
        if removed.jobs:
            self._metering.pruned(removed.jobs)
        self._metering.messages.pruned(removed.messages)
        return removed

    async def get(self, ids: Sequence[str]) -> list[JobRecord]:
        """As the store does."""
        return await self._timed("get", self._inner.get(ids))

    async def states(self, ids: Sequence[str]) -> dict[str, JobState]:
        """As the store does."""
        return await self._timed("states", self._inner.states(ids))

    async def find(
        self, where: JobFilter, *, limit: int = 100, after: str | None = None, newest: bool = True
    ) -> Page:
        """As the store does."""
        call = self._inner.find(where, limit=limit, after=after, newest=newest)
        return await self._timed("find", call)

    async def count(self, where: JobFilter) -> list[Count]:
        """As the store does."""
        return await self._timed("count", self._inner.count(where))

    async def backlog(self, *, limit: int = 1000) -> list[Backlog]:
        """As the store does."""
        return await self._timed("backlog", self._inner.backlog(limit=limit))

    # -- workers ---------------------------------------------------------------------------

    async def register(self, worker: WorkerInfo, *, lease_seconds: float) -> bool:
        """As the store does."""
        call = self._inner.register(worker, lease_seconds=lease_seconds)
        return await self._timed("register", call)

    async def extend(
        self,
        worker: WorkerInfo,
        *,
        lease_seconds: float,
        held: Sequence[LeasedJob],
        report: str | None = None,
    ) -> Extension:
        """As the store does."""
        call = self._inner.extend(worker, lease_seconds=lease_seconds, held=held, report=report)
        return await self._timed("extend", call)

    def vouch(self, worker: str, *, lease_seconds: float, report: str | None = None) -> bool:
        """As the store does. Not timed: nothing here may wait for what else is measured."""
        return self._inner.vouch(worker, lease_seconds=lease_seconds, report=report)

    async def signals(self, worker: str, held: Sequence[LeasedJob]) -> Extension:
        """As the store does."""
        return await self._timed("signals", self._inner.signals(worker, held))

    async def held(self, worker: str) -> list[LeasedJob]:
        """As the store does. What is found this way had started when its lease went unanswered."""
        return await self._timed("held", self._inner.held(worker))

    async def deregister(self, worker: str) -> None:
        """As the store does."""
        await self._timed("deregister", self._inner.deregister(worker))

    async def workers(self) -> list[WorkerRecord]:
        """As the store does."""
        return await self._timed("workers", self._inner.workers())

    # -- singletons ------------------------------------------------------------------------

    async def claim(self, key: str, holder: str, *, ttl: float | None = None) -> bool:
        """As the store does."""
        return await self._timed("claim", self._inner.claim(key, holder, ttl=ttl))

    async def release_claim(self, key: str, holder: str) -> bool:
        """As the store does."""
        return await self._timed("release_claim", self._inner.release_claim(key, holder))


def _fence(settlement: Settlement) -> Fence:
    job = settlement.job
    return job.id, job.worker, job.deliveries

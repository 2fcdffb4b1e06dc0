"""The methods of a store that follow from few others, for backends of little code.

Each is honest and not quick: a list is read where an index would tell. A backend with an index has
a method of its own in its place.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from offpath.errors import CapabilityMissing
from offpath.model.brief import DeadTally, FaultTally, Kind
from offpath.model.deaths import Deaths
from offpath.model.finding import FindingRecord
from offpath.model.glance import EVERYTHING, Concern
from offpath.model.id_range import id_range
from offpath.model.job import LIVE, Count, JobFilter, JobRecord, JobState, LeasedJob, NewJob, Page
from offpath.model.lease import Renewed, WorkerInfo, WorkerRecord
from offpath.model.limit import QueueRecord, counted_to
from offpath.store.browse import MOST_COUNTED_DEAD, MOST_DEAD
from offpath.store.capabilities import Capabilities
from offpath.store.flow import MOST_IN_QUEUE
from offpath.store.hints import Hint
from offpath.store.protocol import MOST_ON_A_PAGE, Backlog, Finding, Migration
from offpath.store.rows.faults import NOTHING as NO_FAULTS
from offpath.store.rows.faults import key_of, tallied
from offpath.store.rows.jobs import leased
from offpath.store.rows.looks import counts, deaths_of, due_work, queue_records
from offpath.store.rows.workers import renewed

_DEAD = JobFilter(states=(JobState.DEAD,))
_QUEUED = JobFilter(states=(JobState.QUEUED,))
_RUNNING = JobFilter(states=(JobState.RUNNING,))


def _begun(job: JobRecord) -> tuple[datetime, str]:
    return job.started_at or job.run_at, job.id


class DerivedStore:
    """A store without a schema, a presence to see, or notices of its own. It looks by ``get``,
    ``find`` and ``workers``, which a class that extends it has.
    """

    @property
    def capabilities(self) -> Capabilities:
        """The abilities of this backend."""
        raise NotImplementedError

    async def ping(self) -> datetime:
        """The store's clock."""
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is held that would have to be released."""

    # -- life: without a schema, a presence to see, or notices of its own --------------------

    async def migrate(self) -> list[Migration]:
        """There is no schema."""
        return []

    async def migrations(self) -> list[Migration]:
        """There is no schema."""
        return []

    def migration_script(self, *, after: int = 0) -> str:  # noqa: ARG002 - the protocol's
        """There is no schema."""
        raise CapabilityMissing(f"{self.capabilities.name} has no schema to print")

    async def diagnose(self) -> list[Finding]:
        """Nothing is known of its settings."""
        return []

    def listen(self, callback: Callable[[Hint], None]) -> Callable[[], None]:  # noqa: ARG002
        """Nobody tells: what others write is found by polling."""
        return lambda: None

    async def keep_templates(self, templates: Sequence[NewJob]) -> None:
        """Nobody enqueues by SQL here."""

    async def glance(self, *, work: bool = True) -> frozenset[Concern]:  # noqa: ARG002 - all are named
        """Every pass: a look would cost as much as they do."""
        return EVERYTHING

    async def notice_deaths(self) -> list[str]:
        """Nothing is seen of a death before the lease ends."""
        return []

    def vouch(self, worker: str, *, lease_seconds: float, report: str | None = None) -> bool:  # noqa: ARG002
        """Only the event loop renews a lease."""
        return False

    def cut_off(self) -> bool:
        """No connection shows that this process lives."""
        return False

    async def begin(self, jobs: Sequence[LeasedJob]) -> set[str]:
        """No job is handed out as a suspect, which only a begin sets going."""
        return {job.id for job in jobs}

    async def declare(self, kind: str, definitions: Mapping[str, str]) -> frozenset[str]:  # noqa: ARG002
        """No definitions are kept, so none differs."""
        return frozenset()

    async def record_finding(self, name: str, text: str, *, new_id: str) -> FindingRecord:
        """A finding that is told now and not kept."""
        now = await self.ping()
        return FindingRecord(id=new_id, name=name, text=text, since=now, seen_at=now)

    # -- looking: what follows from the first four -------------------------------------------

    async def find(
        self, where: JobFilter, *, limit: int = 100, after: str | None = None, newest: bool = True
    ) -> Page:
        """One page of the jobs that match."""
        raise NotImplementedError

    async def get(self, ids: Sequence[str]) -> list[JobRecord]:
        """The jobs of these ids that exist."""
        raise NotImplementedError

    async def states(self, ids: Sequence[str]) -> dict[str, JobState]:
        """The states of these ids."""
        return {job.id: job.state for job in await self.get(ids)}

    async def _all(self, where: JobFilter) -> AsyncIterator[JobRecord]:
        """Every job that matches, page by page."""
        after: str | None = None
        while True:
            page = await self.find(where, limit=MOST_ON_A_PAGE, after=after)
            for job in page.items:
                yield job
            if (after := page.next) is None:
                return

    async def count(self, where: JobFilter) -> list[Count]:
        """The number of jobs that match. Each is read."""
        return counts([job async for job in self._all(where)])

    async def backlog(self, *, limit: int = 1000) -> list[Backlog]:
        """Due work by queue and task. Each waiting job is read."""
        waiting = [job async for job in self._all(_QUEUED)]
        return due_work(waiting, await self.ping(), limit)

    async def held(self, worker: str) -> list[LeasedJob]:
        """The jobs that a worker holds."""
        running = [job async for job in self._all(_RUNNING)]
        return [leased(job) for job in sorted(running, key=_begun) if job.worker == worker]

    async def workers(self) -> list[WorkerRecord]:
        """Every worker, those that are gone included."""
        raise NotImplementedError

    async def renew(self, worker: WorkerInfo, lease_seconds: float, report: str | None) -> None:
        """Give a worker a lease from now on; a report of None leaves the last one."""
        raise NotImplementedError

    async def register(self, worker: WorkerInfo, *, lease_seconds: float) -> bool:
        """Add a worker; its death cannot be seen early."""
        await self.renew(worker, lease_seconds, None)
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
        # Looked at before the renewal, behind which it would always seem alive.
        told = await self.signals(worker.id, held)
        await self.renew(worker, lease_seconds, report)
        return told

    async def signals(self, worker: str, held: Sequence[LeasedJob]) -> Renewed:
        """The signals for a worker, without a renewal."""
        known = {one.info.id: one for one in await self.workers()}.get(worker)
        jobs = {job.id: job for job in await self.get([job.id for job in held])}
        return renewed(known, await self.ping(), held, jobs)

    async def queues(self, *, most: int = MOST_IN_QUEUE) -> list[QueueRecord]:
        """Queues with unended jobs, from their counts and what is due."""
        counted = await self.count(JobFilter(states=tuple(LIVE)))
        due = await self.backlog(limit=most)
        return [counted_to(most, one) for one in queue_records(counted, due)]

    async def deaths(self, *, since: datetime | None = None, limit: int = 10_000) -> list[Deaths]:
        """Dead letters by whose they are and name. Each is read, so a page of them is counted."""
        dead = await self.find(_DEAD, limit=min(limit, MOST_ON_A_PAGE))
        return deaths_of(dead.items, since)

    async def ids_beginning(self, kind: Kind, beginning: str, *, limit: int = 10) -> list[str]:
        """Ids of jobs and workers that begin with this text, in their order."""
        between = id_range(beginning)
        if between is None or limit <= 0:
            return []
        if kind is Kind.WORKER:
            known = sorted(one.info.id for one in await self.workers())
        elif kind is Kind.JOB:
            page = await self.find(JobFilter(), limit=limit + 1, after=between[0], newest=False)
            # A page begins behind ``after``, so the first id of the range is asked for by itself.
            first = await self.find(JobFilter(ids=(between[0],)), limit=1)
            known = [one.id for one in (*first.items, *page.items)]
        else:
            return []
        return [one for one in known if between[0] <= one <= between[1]][:limit]

    async def dead_tally(self, *, most: int = MOST_COUNTED_DEAD) -> DeadTally:
        """The number of dead jobs, and the time of the oldest death among those enqueued first."""
        jobs = sum(one.count for one in await self.count(_DEAD))
        first = await self.find(_DEAD, limit=MOST_ON_A_PAGE, newest=False)
        ended = [job.finished_at for job in first.items if job.finished_at is not None]
        return DeadTally(jobs=min(jobs, most), oldest_at=min(ended, default=None))

    async def faults(
        self,
        *,
        limit: int = 100,
        most: int = MOST_DEAD,
        task: str | None = None,
        since: datetime | None = None,
    ) -> FaultTally:
        """The faults of the newest dead jobs. Each is read, so a page of them is looked at."""
        if limit <= 0 or most <= 0:
            return NO_FAULTS
        read = min(most, MOST_ON_A_PAGE)
        where = _DEAD if since is None else replace(_DEAD, finished_after=since)
        dead = await self.find(where, limit=read)
        more = len(dead.items) >= most or dead.next is not None
        return tallied(dead.items, key_of, limit=limit, more=more, task=task)

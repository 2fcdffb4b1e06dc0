"""The Redis backend: one line for each transition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from msgspec.structs import replace

from offpath.model.amendment import Amendment
from offpath.model.brief import Kind
from offpath.model.changes import ChangedJob, Pruned
from offpath.model.deaths import Deaths
from offpath.model.declaration import Declaration
from offpath.model.effects import Effects
from offpath.model.endpoint import Endpoint, EndpointNote, EndpointState
from offpath.model.finding import FindingRecord
from offpath.model.group import GroupRecord
from offpath.model.job import (
    Count,
    Enqueued,
    JobFilter,
    JobRecord,
    JobState,
    LeasedJob,
    NewJob,
    Page,
)
from offpath.model.lease import Leased, LeaseRequest, Renewed, Rescued, WorkerInfo, WorkerRecord
from offpath.model.limit import QueueRecord, counted_to
from offpath.model.message import (
    LeasedMessages,
    MessageBacklog,
    MessageFilter,
    MessagePage,
    MessageRequest,
    MessageSettled,
    MessageSettlement,
)
from offpath.model.post import PostRecord
from offpath.model.schedule import Firing, FiringStatus, Occurrence, Schedule, ScheduleRecord
from offpath.model.settlement import Settled, Settlement
from offpath.store.flow import MOST_IN_QUEUE
from offpath.store.protocol import Backlog, JobRedrive
from offpath.store.redis import (
    documents,
    enqueue,
    group_members,
    jobs,
    lease,
    messages,
    reads,
    schedules,
    settle,
    workers,
)
from offpath.store.redis.life import RedisLife
from offpath.store.redis.unit import transacted

T = TypeVar("T")
Changes = list[ChangedJob]


class RedisStore(RedisLife):
    """A :class:`~offpath.store.protocol.Store` of some profiles in a Redis or Valkey server.

    ``url`` is ``redis://host:6379/0`` (``rediss://``, ``valkey://``, ``unix://``); it may have
    ``prefix=``, ``wait=`` (replicas that confirm each write) and ``durability=process`` (this
    server may forget everything). ``call_timeout``: seconds that a call waits for an answer.
    """

    # -- doors: new work -------------------------------------------------------------------

    async def commit(self, effects: Effects) -> list[Enqueued]:
        """Write all effects or none."""
        alone = await self._enqueuer.commit(effects)
        if alone is not None:
            return alone
        return await self._do(lambda unit: enqueue.commit(unit, effects), grows=True)

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """End attempts, each with its effects."""
        plain = await settle.settle_plain(self._connection, settlements) if settlements else []
        if plain is not None:
            return plain
        answers, unit = await transacted(
            self._connection,
            self._new_id,
            lambda unit: settle.settle(unit, settlements),
            grows=any(each.effects for each in settlements),
        )
        return settle.answered(unit, answers)

    # -- jobs ------------------------------------------------------------------------------

    async def lease(self, request: LeaseRequest) -> Leased:
        """Hand out ready jobs, best first."""
        if request.suspects_only:
            return await self._do(lambda unit: lease.lease_suspects(unit, request))
        return await lease.lease(self._connection, request, self._new_id())

    async def begin(self, jobs: Sequence[LeasedJob]) -> set[str]:
        """Reserved jobs run from now on."""
        return await self._do(lambda unit: lease.begin(unit, jobs))

    async def start(self, job: NewJob, worker: str) -> LeasedJob | None:
        """Enqueue a job and hand it to this worker."""
        return await self._do(lambda unit: lease.start(unit, job, worker), grows=True)

    async def progress(self, job: LeasedJob, progress: str) -> None:
        """Record how far a held job is."""
        await self._do(lambda unit: jobs.progress(unit, job, progress))

    async def cancel(self, ids: Sequence[str], *, keep: float | None = None) -> list[ChangedJob]:
        """Cancel waiting jobs, ask running ones to end."""
        return await self._change(lambda unit: jobs.cancel(unit, ids, keep))

    async def redrive(self, redrives: Sequence[JobRedrive]) -> list[ChangedJob]:
        """Put dead or cancelled jobs back, make waiting ones due."""
        return await self._do(lambda unit: jobs.redrive(unit, redrives))

    async def amend(self, ids: Sequence[str], amendment: Amendment) -> list[ChangedJob]:
        """Give waiting jobs other terms."""
        return await self._do(lambda unit: jobs.amend(unit, ids, amendment))

    async def delete(self, ids: Sequence[str]) -> list[ChangedJob]:
        """Remove ended jobs."""
        return await self._do(lambda unit: jobs.delete(unit, ids))

    async def rescue(
        self, *, limit: int, max_deliveries: int, keep: float | None = None
    ) -> list[Rescued]:
        """Take jobs from workers that are gone."""
        rescued, unit = await transacted(
            self._connection,
            self._new_id,
            lambda unit: jobs.rescue(unit, limit=limit, max_deliveries=max_deliveries, keep=keep),
        )
        done = jobs.group_done
        return [replace(each, group_done=done(unit, each.job.id)) for each in rescued]

    async def prune(self, *, limit: int) -> Pruned:
        """Remove what has been kept long enough."""
        await self._do(lambda unit: documents.prune_claims(unit, limit))
        await self._do(lambda unit: workers.prune(unit, limit))
        return Pruned(
            jobs=await self._do(lambda unit: jobs.prune(unit, limit)),
            messages=await self._do(lambda unit: messages.prune(unit, limit)),
        )

    async def expire_blocked(self, *, limit: int, keep: float | None = None) -> list[ChangedJob]:
        """Give up jobs whose deadline has passed while they waited."""
        return await self._change(lambda unit: jobs.expire(unit, limit, keep))

    async def get(self, ids: Sequence[str]) -> list[JobRecord]:
        """The jobs of these ids that exist."""
        return await reads.get(await self._look(), ids)

    async def states(self, ids: Sequence[str]) -> dict[str, JobState]:
        """The states of these ids."""
        return await reads.states(await self._look(), ids)

    async def find(
        self, where: JobFilter, *, limit: int = 100, after: str | None = None, newest: bool = True
    ) -> Page:
        """One page of the jobs that match."""
        unit = await self._look()
        return await reads.find(unit, where, limit=limit, after=after, newest=newest)

    async def count(self, where: JobFilter) -> list[Count]:
        """The number of jobs that match."""
        return await reads.count(await self._look(), where)

    async def backlog(self, *, limit: int = 1000) -> list[Backlog]:
        """Due work by queue and task."""
        return await reads.backlog(await self._look(), limit)

    async def ids_beginning(self, kind: Kind, beginning: str, *, limit: int = 10) -> list[str]:
        """Ids of a kind that begin with this text."""
        return await reads.ids_beginning(await self._look(), kind, beginning, limit)

    async def deaths(self, *, since: datetime | None = None, limit: int = 10_000) -> list[Deaths]:
        """Dead letters by whose they are and name."""
        return await reads.deaths(await self._look(), since, limit)

    # -- groups and queues -----------------------------------------------------------------

    async def groups(self, ids: Sequence[str]) -> list[GroupRecord]:
        """The groups of these ids that exist."""
        return await reads.groups(await self._look(), ids)

    async def cancel_groups(
        self, ids: Sequence[str], *, limit: int, keep: float | None = None
    ) -> list[ChangedJob]:
        """Mark groups as closing and cancel open members."""
        return await self._change(lambda unit: group_members.cancel(unit, ids, limit, keep))

    async def close_groups(self, *, limit: int, keep: float | None = None) -> list[ChangedJob]:
        """Cancel open members of groups that are closing."""
        return await self._change(lambda unit: group_members.close(unit, limit, keep))

    async def pause_queue(self, name: str, *, until: datetime | None = None) -> None:
        """Hand out nothing of a queue."""
        await self._do(lambda unit: documents.pause_queue(unit, name, until))

    async def resume_queue(self, name: str) -> bool:
        """Hand out its jobs again."""
        return await self._do(lambda unit: documents.resume_queue(unit, name))

    async def queues(self, *, most: int = MOST_IN_QUEUE) -> list[QueueRecord]:
        """Queues with unended jobs or a pause."""
        return [counted_to(most, one) for one in await reads.queues(await self._look())]

    # -- workers ---------------------------------------------------------------------------

    async def register(self, worker: WorkerInfo, *, lease_seconds: float) -> bool:
        """Add a worker; whether others see its death is asked of the server."""
        seen = await self._connection.shown()
        token = self._connection.presence.token
        await self._do(lambda unit: workers.register(unit, worker, lease_seconds, token))
        return seen

    async def extend(
        self,
        worker: WorkerInfo,
        *,
        lease_seconds: float,
        held: Sequence[LeasedJob],
        report: str | None = None,
    ) -> Renewed:
        """Keep a worker's jobs leased."""
        token = self._connection.presence.token
        return await self._do(
            lambda unit: workers.extend(
                unit, worker, lease_seconds=lease_seconds, held=held, token=token, report=report
            )
        )

    def vouch(self, worker: str, *, lease_seconds: float, report: str | None = None) -> bool:
        """Renew the lease of a worker whose event loop is blocked."""
        return self._connection.vouch(worker, lease_seconds, report)

    async def signals(self, worker: str, held: Sequence[LeasedJob]) -> Renewed:
        """The signals for a worker, without a renewal."""
        return await workers.signals(await self._look(), worker, held)

    async def held(self, worker: str) -> list[LeasedJob]:
        """The jobs that a worker holds."""
        return await workers.held(await self._look(), worker)

    async def notice_deaths(self) -> list[str]:
        """Expire workers whose connection is missing."""
        return await self._do(workers.notice_deaths)

    async def deregister(self, worker: str) -> None:
        """Note that a worker has stopped."""
        await self._do(lambda unit: workers.deregister(unit, worker))

    async def workers(self) -> list[WorkerRecord]:
        """Every worker, those that are gone included."""
        return await workers.workers(await self._look())

    async def claim(
        self, key: str, holder: str, *, ttl: float | None = None, renew: bool = False
    ) -> bool:
        """Claim a name once."""
        return await self._do(lambda unit: documents.claim(unit, key, holder, ttl, renew=renew))

    async def release_claim(self, key: str, holder: str) -> bool:
        """Give a name back."""
        return await self._do(lambda unit: documents.release_claim(unit, key, holder))

    # -- definitions and findings ----------------------------------------------------------

    async def declare(self, kind: str, definitions: Mapping[str, str]) -> frozenset[str]:
        """Note what is defined."""
        return await self._do(lambda unit: documents.declare(unit, kind, definitions))

    async def declarations(self, kind: str) -> list[Declaration]:
        """The recent declarations of a kind."""
        return await documents.declarations(await self._look(), kind)

    async def findings(self) -> list[FindingRecord]:
        """The findings that stand."""
        return await documents.findings(await self._look())

    async def record_finding(self, name: str, text: str, *, new_id: str) -> FindingRecord:
        """Note that something was found."""
        return await self._do(lambda unit: documents.record_finding(unit, name, text, new_id))

    async def end_finding(self, name: str) -> bool:
        """Note that it is not so any more."""
        return await self._do(lambda unit: documents.end_finding(unit, name))

    async def accept_finding(self, finding: str, reason: str) -> FindingRecord | None:
        """Accept the finding of this id."""
        return await self._do(lambda unit: documents.accept_finding(unit, finding, reason))

    # -- messages --------------------------------------------------------------------------

    async def lease_messages(self, request: MessageRequest) -> LeasedMessages:
        """Hand out messages that are due."""
        leased = await self._do(lambda unit: messages.lease(unit, request))
        return replace(leased, due_in=await messages.due_in(await self._look(), request))

    async def settle_messages(
        self, settlements: Sequence[MessageSettlement]
    ) -> list[MessageSettled]:
        """End attempts, each with its effects."""
        return await self._do(lambda unit: messages.settle(unit, settlements))

    async def find_messages(
        self,
        where: MessageFilter,
        *,
        limit: int = 100,
        after: str | None = None,
        newest: bool = True,
    ) -> MessagePage:
        """One page of the messages that match."""
        unit = await self._look()
        return await messages.find(unit, where, limit=limit, after=after, newest=newest)

    async def revive_messages(self, ids: Sequence[str]) -> list[str]:
        """Put ended messages back as fresh."""
        return await self._do(lambda unit: messages.revive(unit, ids))

    async def delete_messages(self, ids: Sequence[str]) -> list[str]:
        """Remove ended messages."""
        return await self._do(lambda unit: messages.delete(unit, ids))

    async def message_backlog(self, *, limit: int = 1000) -> list[MessageBacklog]:
        """The number that waits in each stream."""
        return await messages.backlog(await self._look(), limit)

    async def put_endpoint(self, endpoint: Endpoint) -> bool:
        """Add or change an endpoint."""
        return await self._do(lambda unit: documents.put_endpoint(unit, endpoint), grows=True)

    async def endpoints(self) -> list[Endpoint]:
        """Every endpoint."""
        return await documents.endpoints(await self._look())

    async def set_endpoint(self, name: str, state: EndpointState, reason: str | None) -> bool:
        """Enable, pause or disable an endpoint."""
        return await self._do(lambda unit: documents.set_endpoint(unit, name, state, reason))

    async def note_endpoint(self, note: EndpointNote) -> Endpoint | None:
        """Record how a post went."""
        return await self._do(lambda unit: documents.note_endpoint(unit, note))

    async def delete_endpoint(self, name: str) -> bool:
        """Remove an endpoint."""
        return await self._do(lambda unit: documents.delete_endpoint(unit, name))

    async def put_posts(self, posts: Sequence[PostRecord]) -> None:
        """Keep how posts to endpoints went."""
        await self._do(lambda unit: documents.put_posts(unit, posts), grows=True)

    async def posts(self, endpoint: str) -> list[PostRecord]:
        """The newest posts to an endpoint."""
        return await documents.posts_to(await self._look(), endpoint)

    # -- schedules -------------------------------------------------------------------------

    async def put_schedule(self, schedule: Schedule, *, next_at: datetime | None) -> ScheduleRecord:
        """Add or change a schedule."""
        return await self._do(lambda unit: schedules.put(unit, schedule, next_at), grows=True)

    async def schedules(self, names: Sequence[str] = ()) -> list[ScheduleRecord]:
        """The schedules of these names, or all."""
        return await schedules.listed(await self._look(), names)

    async def due_schedules(self, *, limit: int) -> tuple[list[ScheduleRecord], float | None]:
        """The schedules that are due."""
        return await schedules.due(await self._look(), limit)

    async def pause_schedule(
        self, name: str, *, paused: bool, next_at: datetime | None = None
    ) -> bool:
        """Pause or resume one."""
        return await self._do(
            lambda unit: schedules.pause(unit, name, paused=paused, next_at=next_at)
        )

    async def delete_schedule(self, name: str) -> bool:
        """Remove one with its history."""
        return await self._do(lambda unit: schedules.delete(unit, name))

    async def fire(self, firing: Firing) -> FiringStatus:
        """Settle occurrences."""
        return await self._do(lambda unit: schedules.fire(unit, firing), grows=True)

    async def trigger_schedule(self, name: str, job: NewJob, occurrence: Occurrence) -> bool:
        """Make a job of it now."""
        return await self._do(
            lambda unit: schedules.trigger(unit, name, job, occurrence), grows=True
        )

    async def occurrences(
        self, name: str, *, limit: int = 100, before: datetime | None = None
    ) -> list[Occurrence]:
        """The history of a schedule."""
        return await schedules.occurrences(await self._look(), name, limit=limit, before=before)

    async def prune_occurrences(self, *, before: datetime, limit: int) -> int:
        """Remove old history."""
        return await self._do(lambda unit: schedules.prune(unit, before, limit))

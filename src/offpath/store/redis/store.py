"""The Redis backend: one line for each transition."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from offpath.model.changes import Pruned
from offpath.model.effects import Effects
from offpath.model.job import Enqueued, LeasedJob
from offpath.model.lease import Leased, LeaseRequest, Renewed, Rescued, WorkerInfo
from offpath.model.message import LeasedMessages, MessageRequest
from offpath.model.settlement import Settled, Settlement
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
from offpath.store.redis.life import RedisLife, changing, reading, writing


class RedisStore(RedisLife):
    """A :class:`~offpath.store.protocol.Store` of some profiles in a Redis or Valkey server.

    ``url`` is ``redis://host:6379/0`` (``rediss://``, ``valkey://``, ``unix://``); it may have
    ``prefix=``, ``wait=`` (replicas that confirm each write) and ``durability=process`` (this
    server may forget everything). ``call_timeout``: seconds that a call waits for an answer.
    """

    # -- new work, and its end -------------------------------------------------------------

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
        answers, unit = await self._transacted(
            lambda unit: settle.settle(unit, settlements),
            grows=any(each.effects for each in settlements),
        )
        return settle.answered(unit, answers)

    # -- jobs ------------------------------------------------------------------------------

    begin = writing(lease.begin)
    start = writing(lease.start, grows=True)

    async def lease(self, request: LeaseRequest) -> Leased:
        """Hand out ready jobs, best first."""
        if request.suspects_only:
            return await self._do(lambda unit: lease.lease_suspects(unit, request))
        return await lease.lease(self._connection, request, self._new_id())

    async def rescue(
        self, *, limit: int, max_deliveries: int, keep: float | None = None
    ) -> list[Rescued]:
        """Take jobs from workers that are gone."""
        rescued, unit = await self._transacted(
            lambda unit: jobs.rescue(unit, limit=limit, max_deliveries=max_deliveries, keep=keep)
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

    progress = writing(jobs.progress)
    cancel = changing(jobs.cancel)
    redrive = writing(jobs.redrive)
    amend = writing(jobs.amend)
    delete = writing(jobs.delete)
    expire_blocked = changing(jobs.expire)
    get = reading(reads.get)
    states = reading(reads.states)
    find = reading(reads.find)
    count = reading(reads.count)
    backlog = reading(reads.backlog)
    ids_beginning = reading(reads.ids_beginning)
    deaths = reading(reads.deaths)

    # -- groups and queues -----------------------------------------------------------------

    groups = reading(reads.groups)
    cancel_groups = changing(group_members.cancel)
    close_groups = changing(group_members.close)
    pause_queue = writing(documents.pause_queue)
    resume_queue = writing(documents.resume_queue)
    queues = reading(reads.queues)

    # -- workers ---------------------------------------------------------------------------

    async def register(self, worker: WorkerInfo, *, lease_seconds: float) -> bool:
        """Add a worker; whether others see its death is asked of the server."""
        # The presence before the row: others would miss at once what the row says is there.
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

    signals = reading(workers.signals)
    held = reading(workers.held)
    notice_deaths = writing(workers.notice_deaths)
    deregister = writing(workers.deregister)
    workers = reading(workers.workers)
    claim = writing(documents.claim)
    release_claim = writing(documents.release_claim)

    # -- definitions and findings ----------------------------------------------------------

    declare = writing(documents.declare)
    declarations = reading(documents.declarations)
    findings = reading(documents.findings)
    record_finding = writing(documents.record_finding)
    end_finding = writing(documents.end_finding)
    accept_finding = writing(documents.accept_finding)

    # -- messages --------------------------------------------------------------------------

    async def lease_messages(self, request: MessageRequest) -> LeasedMessages:
        """Hand out messages that are due."""
        leased = await self._do(lambda unit: messages.lease(unit, request))
        # Behind the write: what was handed out is due again when its lease ends.
        return replace(leased, due_in=await messages.due_in(await self._look(), request))

    settle_messages = writing(messages.settle)
    find_messages = reading(messages.find)
    revive_messages = writing(messages.revive)
    delete_messages = writing(messages.delete)
    message_backlog = reading(messages.backlog)
    put_endpoint = writing(documents.put_endpoint, grows=True)
    endpoints = reading(documents.endpoints)
    set_endpoint = writing(documents.set_endpoint)
    note_endpoint = writing(documents.note_endpoint)
    delete_endpoint = writing(documents.delete_endpoint)
    put_posts = writing(documents.put_posts, grows=True)
    posts = reading(documents.posts)

    # -- schedules -------------------------------------------------------------------------

    put_schedule = writing(schedules.put, grows=True)
    due_schedules = reading(schedules.due)
    pause_schedule = writing(schedules.pause)
    delete_schedule = writing(schedules.delete)
    fire = writing(schedules.fire, grows=True)
    trigger_schedule = writing(schedules.trigger, grows=True)
    occurrences = reading(schedules.occurrences)
    prune_occurrences = writing(schedules.prune)
    schedules = reading(schedules.listed)

"""New jobs and messages, decided before anything is written."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from offpath.errors import StoreRejected
from offpath.model.effects import Effects
from offpath.model.group import GroupPolicy
from offpath.model.job import Enqueued, JobState, NewJob, UniqueClaim, UniquePolicy
from offpath.store.hints import Hint
from offpath.store.partial import refuse_absent
from offpath.store.redis.capabilities import CAPABILITIES
from offpath.store.redis.connection import RedisConnection, packed
from offpath.store.redis.job_rows import StoredJob, new_row
from offpath.store.redis.unit import Unit
from offpath.store.refusals import key_held, not_unicode, refuse_contributions
from offpath.store.rows.jobs import enqueued, repeated, rewritten, run_at_of, terms_of
from offpath.store.rows.messages import check

_WAITING = (JobState.BLOCKED, JobState.QUEUED)
_AT_ONCE = 1000
"""Jobs of several callers that go together: a server does nothing else meanwhile."""


class Enqueuer:
    """Writes jobs that stand alone, in one call for many callers: those that come while a call is
    on its way go together with the next one.
    """

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._flying: asyncio.Task[None] | None = None
        self._waiting: list[tuple[list[list[Any]], asyncio.Future[bool]]] = []

    async def commit(self, effects: Effects) -> list[Enqueued] | None:
        """Write these jobs; None, and nothing is written, where they need a decision."""
        if not _stand_alone(effects):
            return None
        now = await self._connection.now()
        try:
            rows = [new_row(job, now) for job in effects.jobs]
        # The other way refuses the one that it is about, with an error of its own.
        except UnicodeEncodeError:
            return None
        if not await self._write(rows):
            return None
        self._connection.hints.emit(Hint.WORK)
        return [
            Enqueued(id=job.id, job_id=job.id, created=True, run_at=run_at_of(job, now))
            for job in effects.jobs
        ]

    async def _write(self, rows: list[list[Any]]) -> bool:
        written: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((rows, written))
        # One call at a time: those that come while it is on its way share the next one, however
        # many they are.
        if self._flying is None:
            self._flying = asyncio.create_task(self._fly())
        return await written

    async def _fly(self) -> None:
        """Write what waits, until nothing does."""
        try:
            while self._waiting:
                await self._send(self._next())
        finally:
            # Nothing is awaited between the last look and this, so no caller is left behind.
            self._flying = None

    def _next(self) -> list[tuple[list[list[Any]], asyncio.Future[bool]]]:
        """The callers whose jobs go together: not so many that the server is held up."""
        jobs, number = 0, 0
        while number < len(self._waiting) and jobs < _AT_ONCE:
            jobs += len(self._waiting[number][0])
            number += 1
        # Callers whole: half of what one of them asked for must not be written without the rest.
        together, self._waiting = self._waiting[:number], self._waiting[number:]
        return together

    async def _send(self, together: list[tuple[list[list[Any]], asyncio.Future[bool]]]) -> None:
        rows = [row for given, _ in together for row in given]
        try:
            # two callers with one id: each decides alone
            alone = len({row[0] for row in rows}) == len(rows)
            done = bool(alone and await self._connection.call("enqueue", packed(rows)))
        except StoreRejected:
            done = False  # by one of them, perhaps: each is decided alone, and told
        except Exception as error:  # noqa: BLE001 - whoever waits is told
            for _, written in together:
                # A caller that was cancelled waits no more; its jobs are written all the same.
                if not written.done():
                    written.set_exception(error)
            return
        for _, written in together:
            if not written.done():
                written.set_result(done)


def _stand_alone(effects: Effects) -> bool:
    """True if there are new jobs, nothing else, and none that others have to do with."""
    if not effects.jobs or effects != Effects(jobs=effects.jobs):
        return False
    return all(
        job.unique is None
        and not job.announce
        and job.gate is None
        and job.limit is None
        and job.group_id in {None, job.id}
        and job.group_policy is GroupPolicy.SETTLE_ALL
        and not _unreadable(job.id, job.queue, job.task, job.input)
        for job in effects.jobs
    )


async def commit(unit: Unit, effects: Effects) -> list[Enqueued]:
    """Write all effects."""
    refuse_absent(CAPABILITIES, effects)
    refuse_contributions(effects)
    await load(unit, [effects])
    return add(unit, effects)


async def load(unit: Unit, all_effects: Sequence[Effects]) -> None:
    """Read all that deciding about these effects needs."""
    # What cannot be encoded would fail this question for all, and is refused alone later.
    jobs = [
        job for effects in all_effects for job in effects.jobs if not _unreadable(job.id, _key(job))
    ]
    messages = [
        new
        for effects in all_effects
        for new in effects.messages
        if not _unreadable(new.id, new.key)
    ]
    claims = [job.unique.key for job in jobs if job.unique is not None]
    await unit.load((job.id for job in jobs), unique=claims)
    joined = [job.group_id for job in jobs if job.group_id not in {None, job.id}]
    joined += [job.id for job in jobs if job.group_policy.value != "settle_all"]
    if joined:
        await unit.load_groups(joined)
    if messages:
        await unit.load_messages(messages)


def _key(job: NewJob) -> str | None:
    return None if job.unique is None else job.unique.key


def _unreadable(*texts: str | None) -> bool:
    """True if a text cannot be encoded: whoever wants to store it is refused alone."""
    return any(
        each is not None and not each.isascii() and any("\ud800" <= one <= "\udfff" for one in each)
        for each in texts
    )


def add(unit: Unit, effects: Effects, group_id: str | None = None) -> list[Enqueued]:
    """Decide about all of these, and file them. Raises Conflict kinds and StoreRejected."""
    answers = [add_job(unit, new, group_id) for new in effects.jobs]
    for new in effects.messages:
        check(new, unit.now)
        if _unreadable(new.id, new.key):
            raise not_unicode()
        known = unit.known_message(new)
        answers.append(Enqueued(id=new.id, job_id=known or new.id, created=known is None))
        if known is None:
            unit.write_message(new)
    return answers


def add_job(unit: Unit, job: NewJob, group_id: str | None = None) -> Enqueued:
    """Decide about one new job, and file it. Raises Conflict kinds and StoreRejected."""
    if _unreadable(job.id, _key(job), job.group_id):
        raise not_unicode()
    known = unit.job(job.id)
    # Before its unique key: a repeat must find itself, not be refused as a second one.
    if known is not None:
        return repeated(job, known.record)
    if job.unique is not None and JobState.QUEUED in job.unique.states:
        holder = unit.holder_of(job.unique.key)
        if holder is not None:
            return _meet(unit, job, job.unique, holder)
    record = enqueued(job, unit.now, job.group_id or group_id or job.id)
    unit.file(StoredJob(record, terms_of(job, unit.now)))
    return Enqueued(id=job.id, job_id=job.id, created=True, run_at=record.run_at)


def _meet(unit: Unit, job: NewJob, unique: UniqueClaim, holder: StoredJob) -> Enqueued:
    """The key is held: do as the policy says."""
    record = holder.record
    if unique.policy is UniquePolicy.ATTACH and record.fingerprint == job.fingerprint:
        return Enqueued(id=job.id, job_id=record.id, created=False, run_at=record.run_at)
    if unique.policy is UniquePolicy.REPLACE and record.state in _WAITING:
        changed = rewritten(record, job, unit.now)
        terms = replace(holder.terms, deadline_in=job.deadline_in, announce=job.announce)
        unit.file(holder._replace(record=changed, terms=terms))
        return Enqueued(id=job.id, job_id=record.id, created=False, run_at=changed.run_at)
    raise key_held(unique.policy, unique.key, holder=record.id, state=record.state)

"""The store's part for flow control: limits, pauses, inline starts and the SQL door."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from offpath.model.effects import Effects
from offpath.model.job import LeasedJob, NewJob
from offpath.model.joined_limits import is_joined
from offpath.model.limit import Admitted
from offpath.model.settlement import Settlement, Snoozed
from offpath.store.hints import Hint
from offpath.store.postgres import limits
from offpath.store.postgres.announcements import PostgresPart
from offpath.store.postgres.effects import commit_steps
from offpath.store.postgres.handouts import ANNOUNCE, JOB, job_of
from offpath.store.postgres.steps import moment, to_json
from offpath.store.programs.dialect import Announced, Send, Steps, ask, embed
from offpath.store.refusals import not_registered, refuse_waiting
from offpath.store.sql import Catalogue


class AdmissionTurns:
    """One pass of admission at a time: two of a store would only wait for each other's keys.

    Whoever finds one under way leaves it its keys: they get another pass as soon as that is over.
    """

    __slots__ = ("_keys", "_one_at_a_time")

    def __init__(self) -> None:
        self._one_at_a_time = asyncio.Lock()
        # A set: many settlements leave the same key, and one pass does for all of them.
        self._keys: set[str] = set()

    def leave(self, keys: Sequence[str]) -> bool:
        """Leave these keys to the pass that is under way; whether there is one."""
        busy = self._one_at_a_time.locked()
        if busy:
            self._keys.update(keys)
        return busy

    def left(self) -> list[str]:
        """The keys that were left, once."""
        keys = sorted(self._keys)
        self._keys.clear()
        return keys

    @property
    def any_left(self) -> bool:
        """True if keys were left meanwhile."""
        return bool(self._keys)

    async def __aenter__(self) -> None:
        await self._one_at_a_time.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._one_at_a_time.release()


class FlowTables(PostgresPart):
    """Limits, pauses and inline starts on Postgres; each method is one transaction."""

    _passes: AdmissionTurns

    async def admit(self, *, limit: int, keys: Sequence[str] = ()) -> Admitted:
        """Make held jobs ready."""
        return await self._admit(limit, keys, near=True)

    async def _admit(self, limit: int, keys: Sequence[str], *, near: bool) -> Admitted:
        async with self._passes:
            done = await self._pass(limit, keys, near=near)
            if left := self._passes.left():
                # Lines that share a limit with these have their turn in the next pass.
                await self._pass(limits.AT_ONCE, left, near=any(map(is_joined, left)))
        # of what was left since, the next pass finds the nudges
        return replace(done, more=True) if self._passes.any_left else done

    async def _pass(self, limit: int, keys: Sequence[str], *, near: bool) -> Admitted:
        now = self._now()
        with self._telling() as announced:
            done = await self._database.write(
                lambda: limits.admit_steps(limit, keys, now, announced, near=near, sql=self._sql)
            )
        if done.jobs:
            self._tell(Hint.WORK)
        return done

    async def close_limit(
        self, key: str, *, until: datetime | None = None, seconds: float | None = None
    ) -> int:
        """Admit nothing of a key for some time."""
        now = self._now()
        return await self._database.write(
            lambda: limits.close_steps(key, until, seconds, now, sql=self._sql)
        )

    async def open_limit(self, key: str) -> bool:
        """End a pause and a cool-down."""
        now = self._now()
        was_closed = await self._database.write(lambda: limits.open_steps(key, now, sql=self._sql))
        if was_closed:
            self._tell(Hint.WORK)
        return was_closed

    async def keep_templates(self, templates: Sequence[NewJob]) -> None:
        """Keep what the SQL door takes."""
        if templates:
            await self._database.write(lambda: keep_steps(templates, sql=self._sql))

    async def start(self, job: NewJob, worker: str) -> LeasedJob | None:
        """Enqueue a job and hand it out."""
        refuse_waiting(job)
        now = self._now()
        with self._telling() as announced:
            return await self._database.write(
                lambda: start_steps(job, worker, now, announced, sql=self._sql)
            )

    async def _admit_after(self, settlements: Sequence[Settlement]) -> None:
        """Give the room that these gave back to the next jobs of their keys."""
        keys = sorted({one.job.limit_key for one in settlements if one.job.limit_key is not None})
        if not keys:
            return
        now = self._now()
        if any(isinstance(one.outcome, Snoozed) and one.outcome.cool_down for one in settlements):
            await self._database.write(lambda: limits.hold_closed_steps(keys, now, sql=self._sql))
        # A pass that is under way takes them over. A second one would wait for its keys.
        if self._passes.leave(keys):
            return
        waiting = await self._database.write(lambda: limits.waiting_steps(keys, now, sql=self._sql))
        if waiting:
            # With those that gave it back: what these did is taken in here.
            await self._admit(limits.AT_ONCE, [*keys, *waiting], near=False)


def start_steps(
    job: NewJob,
    worker: str,
    now: datetime | None,
    announced: Announced | None = None,
    *,
    sql: Catalogue,
) -> Steps[LeasedJob | None]:
    """Enqueue a job and hand it to a worker; None when it was not created, or waits for its key."""
    # It begins whatever runs there. First, since rows of known jobs are locked before new ones.
    beside = sql["beside_suspect"](worker=worker)
    _, alive = yield Send((beside, sql["alive"](worker=worker, now=moment(now))))
    # Before the job is written: nobody would renew the lease of a worker that is not there.
    if not alive:
        raise not_registered(worker)
    (answer,) = yield from embed(commit_steps(Effects(jobs=(job,)), now, sql=sql))
    if not answer.created:
        return None
    rows = yield from ask(
        sql["take_chosen"](
            now=moment(now),
            ids=to_json([answer.job_id]),
            worker=worker,
            tasks="{}",
            queues="[]",
            begun=True,
        ),
        last=True,
    )
    if announced is not None:
        announced.hear(row[ANNOUNCE] for row in rows)
    return next((job_of(row, worker) for row in rows if row[JOB] is not None), None)


def keep_steps(templates: Sequence[NewJob], *, sql: Catalogue) -> Steps[None]:
    """Write the templates that are new or have changed."""
    # sorted, as workers that begin together write the same rows
    batch = to_json(sorted(templates, key=lambda job: job.task))
    yield from ask(sql["keep_templates"](batch=batch), last=True)

"""The client side of an open app: sending jobs and asking about them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from offpath.errors import InvalidArgument
from offpath.jobs.client.groups import cancel_group
from offpath.jobs.client.selection import the_record
from offpath.jobs.values.gates import Gate
from offpath.jobs.values.handle import Handle, causes_first
from offpath.jobs.values.job import BeginsInline, Job, begins_here
from offpath.jobs.values.names import in_order
from offpath.jobs.values.reruns import set_apart
from offpath.jobs.values.standby import in_handler, standing_by
from offpath.model.checks import seconds
from offpath.model.effects import Effects
from offpath.model.gate import holders, require_ends
from offpath.model.job import OWN_REASONS, Enqueued, JobFilter, JobRecord, JobState
from offpath.model.unsent import Unsent, unsent
from offpath.runtime.baggage import carried, with_carried
from offpath.runtime.seats import EVERYWHERE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import timedelta

    from offpath.jobs.client.session import StoreSession
    from offpath.model.gate import NewGate
    from offpath.model.group import GroupRecord
    from offpath.model.job import NewJob
    from offpath.runtime.extension import Extension
    from offpath.runtime.extensions import Extensions
    from offpath.store.protocol import Store

    Begin = Callable[[Sequence["Sent"], object], Awaitable[Handle[Any, Any]]]
    """Begins one job in this process, or says why it cannot."""

Sent = Job[Any, Any] | Gate[Any]
MOST_MEMBERS = 100
"""Members of a failed group that its error has."""


class Client:
    """Sends jobs and serves their handles, over whatever session is open."""

    def __init__(
        self,
        opened: Callable[[], Awaitable[StoreSession]],
        live: Callable[[], StoreSession | None],
        begin: Begin,
        *,
        tasks: Mapping[str, BeginsInline],
        extended: Callable[[], Extensions | None],
        own: Sequence[Extension],
    ) -> None:
        self._opened = opened
        self._live = live
        self._extended = extended
        self._tasks = tasks
        self._begin = begin
        self._own = own

    async def send(
        self, jobs: Sequence[Sent], within: object = None, *, inline: bool | None = False
    ) -> list[Handle[Any, Any]]:
        """Enqueue jobs and gates in one commit, or in the caller's transaction; handles in their
        order. The handle of a gate is that of its first job.

        ``inline``: begin one job in this process at once; None: as its task says.
        """
        if inline is None:
            inline = begins_here(jobs, within, self._tasks)
        if inline:
            return [await self._begin(jobs, within)]
        if not jobs:
            return []
        if (lone := _lone(jobs)) is not None:
            answers = await self.commit(Effects(jobs=(lone.new,)), within)
            return [self._handle(lone, answers[0])]
        named = len(jobs) > 1 and any(unsent(job).named for job in each_job(jobs))
        await self.set_apart(jobs)
        effects = effects_of(jobs)
        if named:
            effects = replace(effects, jobs=in_order(effects.jobs))
        return self.handles(jobs, await self.commit(effects, within))

    async def set_apart(self, jobs: Sequence[Sent]) -> None:
        """Give jobs of a handler that runs again new ids, where its earlier runs sent theirs."""
        if doubtful := [job for job in map(unsent, each_job(jobs)) if job.doubtful]:
            gates = [one for one in jobs if isinstance(one, Gate)]
            await set_apart((await self._opened()).store, doubtful, gates)

    async def commit(self, effects: Effects, within: object = None) -> list[Enqueued]:
        """Write effects in one commit, or in the caller's transaction; the store's answers."""
        # Asked without a coroutine first: all but the first call find the app open.
        store = (self._live() or await self._opened()).store
        extensions = self._extended() if EVERYWHERE or self._own else None
        if extensions is not None and extensions.sends:
            return await _surrounded(store, effects, within, extensions)
        if carried.get():
            effects = with_carried(effects)
        if within is None:
            return await store.commit(effects)
        return await store.commit_within(within, effects)

    @contextmanager
    def sending(self, effects: Effects, *, within: bool = False) -> Iterator[Effects]:
        """The effects with all headers that travel, for a commit by another way than ours."""
        extensions = self._extended()
        if extensions is None or not extensions.sends:
            yield with_carried(effects)
            return
        with extensions.sending(effects, within=within) as ready:
            yield with_carried(ready)

    def handles(self, jobs: Sequence[Sent], answers: Sequence[Enqueued]) -> list[Handle[Any, Any]]:
        """The handles of jobs that the store answered for."""
        left = iter(answers)
        handles: list[Handle[Any, Any]] = []
        group: Callable[[str | None], Any]
        for one in jobs:
            if isinstance(one, Gate):
                answer, *_ = [next(left) for _ in one.jobs]
                first, group = unsent(one.jobs[0]), one.decode_group
            else:
                answer, first = next(left), unsent(one)
                group = first.decode_group
            created = answer.created
            handles.append(Handle(answer.job_id, self, first.decode, group, created=created))
        return handles

    def _handle(self, sent: Unsent, answer: Enqueued) -> Handle[Any, Any]:
        created = answer.created
        return Handle(answer.job_id, self, sent.decode, sent.decode_group, created=created)

    def wait(self, job_id: str, timeout: float | timedelta | None) -> Awaitable[JobRecord]:
        """The record of a job once it has ended."""
        limit = None if timeout is None else seconds(timeout, "timeout")
        session = self._live()
        if session is None or in_handler():
            return self._wait(job_id, limit)
        return session.waiters.wait(job_id, limit)  # very many may wait so, at the least memory

    async def _wait(self, job_id: str, limit: float | None) -> JobRecord:
        session = await self._opened()
        if not in_handler():
            return await session.waiters.wait(job_id, limit)
        async with standing_by(job_id, session.store.get):
            return await session.waiters.wait(job_id, limit)

    async def record(self, job_id: str) -> JobRecord:
        """The record of a job as it is now. Raises ``JobNotFound``."""
        found = await (await self._opened()).store.get((job_id,))
        return the_record(found, job_id)

    async def cancel_job(self, job_id: str) -> bool:
        """Ask for a job's cancellation; whether there was something to cancel."""
        session = await self._opened()
        return bool(await session.store.cancel((job_id,), keep=session.keep_cancelled))

    async def wait_group(self, group_id: str, timeout: float | timedelta | None) -> GroupRecord:  # noqa: ASYNC109
        """The record of a group once it is done."""
        limit = None if timeout is None else seconds(timeout, "timeout")
        session = await self._opened()
        if await session.tells_of_waits():
            from offpath.jobs.client.group_events import AWAITED, KEEP_AWAITED, claim_key

            key = claim_key(group_id)
            await session.store.claim(key, AWAITED, ttl=KEEP_AWAITED + (limit or 0.0))
        async with standing_by(group_id, session.store.get):
            return await session.waiters.wait_group(group_id, limit)

    async def failed_members(self, group_id: str) -> tuple[JobRecord, ...]:
        """Members that are dead or cancelled, at most 100: causes first, then the oldest."""
        where = JobFilter(group_id=group_id, states=(JobState.DEAD, JobState.CANCELLED))
        store = (await self._opened()).store
        page = await store.find(where, limit=MOST_MEMBERS, newest=False)
        found = page.items
        if page.next is not None:  # a cause may be behind a hundred that died of it
            where = JobFilter(group_id=group_id, states=(JobState.DEAD,), reasons=OWN_REASONS)
            own = (await store.find(where, limit=MOST_MEMBERS, newest=False)).items
            found = tuple({one.id: one for one in (*own, *found)}.values())
        return causes_first(found)[:MOST_MEMBERS]

    async def cancel_group(self, group_id: str) -> int:
        """Cancel all open jobs of a group; how many that concerns."""
        return len(await cancel_group(await self._opened(), group_id))


async def _surrounded(
    store: Store, effects: Effects, within: object, extensions: Extensions
) -> list[Enqueued]:
    with extensions.sending(effects, within=within is not None) as ready:
        effects = with_carried(ready)
        if within is None:
            return await store.commit(effects)
        return await store.commit_within(within, effects)


def _lone(jobs: Sequence[Sent]) -> Unsent | None:
    """The only job of a call, if it can go as it is; most calls have one."""
    if len(jobs) > 1 or not isinstance(job := jobs[0], Job):
        return None
    only = unsent(job)
    return None if only.doubtful else only


def as_jobs(given: object) -> list[Sent]:
    """One job or gate, or several, as a list. Raises ``InvalidArgument`` for anything else."""
    several = [given] if isinstance(given, Job | Gate) else _listed(given)
    for each in several:
        if not isinstance(each, Job | Gate):
            raise InvalidArgument(
                f"enqueue takes jobs as task.job(...) makes them, not {type(each).__name__}; "
                "for one call write `await task.enqueue(...)`"
            )
    return several


def each_job(given: Iterable[Sent]) -> Iterator[Job[Any, Any]]:
    """The jobs of these, those that gates hold included."""
    for one in given:
        if isinstance(one, Gate):
            yield from one.jobs
        else:
            yield one


def effects_of(given: Iterable[Sent]) -> Effects:
    """The effects that commit these jobs and gates. Raises ``GateError``."""
    jobs: list[NewJob] = []
    gates: list[NewGate] = []
    for one in given:
        if isinstance(one, Gate):
            jobs += one.alone()
            gates += () if one.new is None else (one.new,)
        else:
            jobs.append(unsent(one).new)
    if gates:
        require_ends(gates, holders((job.id, job.gate) for job in jobs))
    return Effects(jobs=tuple(jobs), gates=tuple(gates))


def _listed(given: Any) -> list[Any]:  # noqa: ANN401 - checked by the caller
    try:
        return list(given)
    except TypeError:
        return [given]

"""Beside a snapshot of others a look is dear, so the places of emptied lanes are kept.

A store that waits for work asks behind them first. What came in before a place, or in another lane,
is had by the next look.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import psycopg
import pytest
from msgspec.structs import replace

from offpath.model.amendment import Amendment
from offpath.model.effects import Effects
from offpath.model.glance import Concern
from offpath.model.job import DeadReason, LeasedJob
from offpath.model.lease import Leased, LeaseRequest
from offpath.model.settlement import Dead, Released, Retry, Settlement, Succeeded
from offpath.store.postgres import PostgresStore, front
from offpath.store.postgres.front import LOOK
from offpath.store.postgres.lease import Leases
from offpath.store.postgres.migrate import PACKAGE
from offpath.store.protocol import JobRedrive
from offpath.store.sql import catalogue
from tests.conformance.builders import TASK, failure, new_job, worker_info

from .conftest import Ask, Opened
from .test_marks import Time, pages, silent

SQL = catalogue(PACKAGE)
LONG_AGO = timedelta(days=-1)


class Waiting:
    """A store that waits for work and has places, and another one whose notices do not arrive."""

    def __init__(self, store: PostgresStore, other: PostgresStore, time: Time) -> None:
        self.store, self.other, self.time = store, other, time
        self.sent: list[str] = []
        """The statements of the last leases."""
        store._before_statement = self._sends

    def _sends(self, name: str) -> None:
        if name.startswith("lease"):
            self.sent.append(name)

    @property
    def leases(self) -> Leases:
        return self.store._leases

    async def lease(self) -> list[str]:
        """Lease until there is no more; the ids. They are ended, too."""
        got, more = list[str](), True
        self.sent.clear()
        while more:
            leased = await self.store.lease(asked())
            got += await self._ended(leased)
            more = leased.more
        return got

    async def new(self, **fields: object) -> str:
        """A job that this store adds."""
        return await _added(self.store, **fields)

    async def _ended(self, leased: Leased) -> list[str]:
        await self.store.settle([Settlement(job=job, outcome=Succeeded()) for job in leased.jobs])
        return [job.id for job in leased.jobs]


def asked(worker: str = "w1", limit: int = 20, **tasks: int) -> LeaseRequest:
    return LeaseRequest(worker=worker, limit=limit, tasks={TASK: limit, **tasks}, waits=True)


async def _added(store: PostgresStore, **fields: object) -> str:
    [added] = await store.commit(Effects(jobs=(new_job(**fields),)))  # type: ignore[arg-type]
    return added.job_id


@pytest.fixture
async def waiting(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> Waiting:
    """It has had a job by a look, and knows its place."""
    monkeypatch.setattr(front, "DEAR", -1.0)  # each look is
    store, other, time = await opened(), await silent(opened), Time()
    for worker in ("w1", "w2"):
        await store.register(worker_info(worker), lease_seconds=600)
    store._leases.front._clock = time
    other._leases = Leases(looks_only=True)
    rig = Waiting(store, other, time)
    assert await rig.lease() == []
    job = await rig.new()
    assert (await rig.lease(), rig.sent) == ([job], ["lease_few"])
    return rig


# -- what comes in before a place ------------------------------------------------------------------


async def _older(rig: Waiting) -> str:
    """A time as of a transaction that began long ago and commits now."""
    return await _added(rig.other, run_at=await _then(rig))


async def _urgent(rig: Waiting) -> str:
    return await _added(rig.other, priority=9)


async def _elsewhere(rig: Waiting) -> str:
    return await _added(rig.other, queue="elsewhere")


async def _taken_back(rig: Waiting) -> str:
    held = await _held_by_another(rig)
    await rig.other.settle([Settlement(job=held, outcome=Released())])
    return held.id


async def _retried(rig: Waiting) -> str:
    held = await _held_by_another(rig)
    outcome = Retry(delay=0.0, failure=failure(attempt=held.attempt))
    await rig.other.settle([Settlement(job=held, outcome=outcome)])
    return held.id


async def _redriven(rig: Waiting) -> str:
    held = await _held_by_another(rig)
    outcome = Dead(reason=DeadReason.ABORTED, failure=failure())
    await rig.other.settle([Settlement(job=held, outcome=outcome)])
    [changed] = await rig.other.redrive([JobRedrive(id=held.id)])
    return changed.id


async def _amended(rig: Waiting) -> str:
    job = await _added(rig.other, run_at=await _then(rig, timedelta(days=1)))
    [changed] = await rig.other.amend([job], Amendment(run_at=await _then(rig)))
    return changed.id


async def _then(rig: Waiting, ago: timedelta = LONG_AGO) -> datetime:
    return await rig.other.ping() + ago


async def _held_by_another(rig: Waiting) -> LeasedJob:
    await _added(rig.other, priority=1)
    held, *_ = (await rig.other.lease(asked("w2"))).jobs
    return held


_COMERS: tuple[Callable[[Waiting], Awaitable[str]], ...] = (
    *(_older, _urgent, _elsewhere, _taken_back, _retried, _redriven, _amended),
)


async def test_what_others_bring_in_before_a_place_is_had_within_a_second(
    waiting: Waiting,
) -> None:
    for comer in _COMERS:
        known = await waiting.new()
        assert await waiting.lease() == [known], comer.__name__
        job = await comer(waiting)
        later = await waiting.new()
        leased = await waiting.store.lease(asked())
        assert later in {one.id for one in leased.jobs}
        if job not in {one.id for one in leased.jobs}:
            assert leased.due_in is not None
            assert leased.due_in <= LOOK
            waiting.time.now += leased.due_in
            assert job in await waiting.lease(), comer.__name__
        waiting.time.now += LOOK
        await waiting.lease()


async def test_a_glance_that_sees_a_job_makes_a_look_due_at_once(waiting: Waiting) -> None:
    for comer in _COMERS:
        known = await waiting.new()
        assert await waiting.lease() == [known], comer.__name__
        job = await comer(waiting)
        assert Concern.WORK in await waiting.store.glance(work=True)
        assert job in await waiting.lease(), comer.__name__


async def test_a_glance_that_sees_no_job_is_a_look(waiting: Waiting) -> None:
    for _ in range(4):
        waiting.time.now += LOOK - 0.01
        assert Concern.WORK not in await waiting.store.glance(work=True)
        job = await waiting.new()
        assert (await waiting.lease(), waiting.sent) == ([job], ["lease_behind"])
    waiting.time.now += LOOK - 0.01
    await waiting.store.glance(work=False)  # it did not look for jobs
    waiting.time.now += 0.02
    await waiting.lease()
    assert "lease_few" in waiting.sent


async def test_a_backlog_behind_a_place_is_worked_off_in_order(waiting: Waiting) -> None:
    ids = [await waiting.new() for _ in range(45)]
    assert (await waiting.lease(), waiting.sent) == (ids, ["lease_behind"] * 3)


async def test_who_does_not_wait_is_told_of_all(waiting: Waiting) -> None:
    """A lease as ``run_until_idle`` asks for it, which ends when nothing is left."""
    urgent, plain = await waiting.new(priority=9), await waiting.new()
    request = replace(asked(), waits=False)
    assert [job.id for job in (await waiting.store.lease(request)).jobs] == [urgent, plain]


async def test_a_cheap_look_forgets_the_places(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "DEAR", 3600.0)
    waiting.time.now += LOOK
    await waiting.lease()
    job = await waiting.new()
    assert (await waiting.lease(), waiting.sent) == ([job], ["lease_few"])


async def test_a_worker_that_asks_for_more_tasks_looks(waiting: Waiting) -> None:
    job = await _added(waiting.other, task="another")
    leased = await waiting.store.lease(asked(another=1))
    assert [one.id for one in leased.jobs] == [job]


async def test_random_comers_are_all_had_after_a_second(waiting: Waiting, ask: Ask) -> None:
    chance = random.Random(7)
    for _ in range(150):
        match chance.randrange(5):
            case 0:
                await chance.choice(_COMERS)(waiting)
            case 1:
                await waiting.new(priority=chance.randrange(3), queue=chance.choice("ab"))
            case 2:
                await waiting.store.lease(asked(limit=chance.choice([1, 2, 20])))
            case 3:
                await waiting.store.glance(work=True)
            case _:
                waiting.time.now += chance.random()
        if chance.random() < 0.2:
            waiting.time.now += LOOK
            await waiting.lease()
            assert ask("select count(*) from offpath.job where state = 'ready'") == [(0,)]


async def test_dead_entries_before_a_place_are_not_walked_over(url: str, waiting: Waiting) -> None:
    few = Leases().steps
    with psycopg.connect(url) as elsewhere:  # nothing may be removed, by nobody
        elsewhere.execute("set transaction isolation level repeatable read")
        elsewhere.execute("select 1 from offpath.job limit 1")
        await waiting.store.commit(Effects(jobs=tuple(new_job() for _ in range(2_000))))
        while await waiting.lease():
            pass
        [query] = next(waiting.leases.steps(asked(), None, sql=SQL)).queries
        [walk] = next(few(asked(), None, sql=SQL)).queries
        assert (query.name, walk.name) == ("lease_behind", "lease_few")
        assert pages(url, query) * 10 < pages(url, walk)

"""Suspects in hand: begun when their worker runs nothing else, with nothing taken beside them."""

from __future__ import annotations

import asyncio

import pytest

from offpath.errors import StoreUnavailable
from offpath.jobs.worker.worker import Worker
from offpath.model.job import JobState
from offpath.model.lease import Leased, LeaseRequest, WorkerInfo
from tests.unit.jobs.worker.rig import Rig, breathe


def worker_info(worker: str) -> WorkerInfo:
    return WorkerInfo(id=worker, host="h", pid=1, version="1", concurrency=99, tasks=("stay",))


class Ward:
    """Jobs that wait until they are told to end."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.running: set[str] = set()
        self.beside: set[frozenset[str]] = set()
        self.gates: dict[str, asyncio.Event] = {}

        async def stay(name: str) -> None:
            self.running.add(name)
            self.beside.add(frozenset(self.running))
            await self.gates.setdefault(name, asyncio.Event()).wait()
            self.running.discard(name)

        rig.task(stay)

    async def enqueue(self, *names: str) -> list[str]:
        return [await self.rig.enqueue("stay", f'{{"name": "{name}"}}') for name in names]

    async def suspected(self, *names: str) -> list[str]:
        """Jobs that two workers died with."""
        ids = await self.enqueue(*names)
        memory = self.rig.memory
        for worker in ("early1", "early2"):
            await memory.register(worker_info(worker), lease_seconds=30)
            taken = await memory.lease(LeaseRequest(worker=worker, limit=99, tasks={"stay": 99}))
            assert len(taken.jobs) == len(ids)
            await memory.deregister(worker)
            await memory.rescue(limit=99, max_deliveries=3)
        return ids

    def end(self, *names: str) -> None:
        for name in names:
            self.gates.setdefault(name, asyncio.Event()).set()


async def test_suspects_run_in_sets_and_then_all_are_done(rig: Rig) -> None:
    ward = Ward(rig)
    ids = await ward.suspected("a", "b", "c", "d")
    await rig.started()
    assert ward.running == {"a", "b"}
    ward.end("a", "b", "c", "d")
    await rig.pass_time(1)
    assert [await rig.state(each) for each in ids] == [JobState.SUCCEEDED] * 4
    assert frozenset("cd") not in ward.beside, "what is left of a set that went well is halved"


async def test_who_knows_of_no_suspects_takes_other_jobs_first(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    ward = Ward(rig)
    await rig.started()
    await rig.pass_time(10)
    asked: list[LeaseRequest] = []
    lease = rig.memory.lease

    async def noted(request: LeaseRequest) -> Leased:
        asked.append(request)
        return await lease(request)

    monkeypatch.setattr(rig.memory, "lease", noted)
    await ward.enqueue("x")
    await breathe()
    assert ward.running == {"x"}
    await rig.pass_time(1)
    looks = [one.suspects_only for one in asked]
    assert (looks[0], True in looks) == (False, True)


async def test_nothing_is_taken_beside_a_suspect(rig: Rig) -> None:
    ward = Ward(rig)
    await ward.suspected("pill")
    await rig.started()
    await ward.enqueue("x", "y")
    await rig.pass_time(10)
    assert ward.running == {"pill"}
    ward.end("pill")
    await rig.pass_time(1)
    assert ward.running == {"x", "y"}


async def test_a_busy_worker_leaves_suspects_to_others_and_then_takes_no_more(rig: Rig) -> None:
    ward = Ward(rig)
    await ward.enqueue("x")
    await rig.started()
    (pill,) = await ward.suspected("pill")
    await rig.pass_time(1)
    assert (await rig.record(pill)).worker is None
    await rig.pass_time(12)
    await ward.enqueue("later")
    await rig.pass_time(5)
    record = await rig.record(pill)
    assert (record.state, record.started_at) == (JobState.RUNNING, None), "reserved, not begun"
    assert ward.running == {"x"}
    ward.end("x")
    await rig.pass_time(1)
    assert ward.running == {"pill"}
    assert (await rig.record(pill)).started_at is not None
    ward.end("pill")
    await rig.pass_time(1)
    assert ward.running == {"later"}


async def _reserving(rig: Rig, ward: Ward) -> tuple[Worker, str]:
    """A worker that runs a job, and has a suspect that has not begun."""
    await ward.enqueue("x")
    worker = await rig.started()
    (pill,) = await ward.suspected("pill")
    await rig.pass_time(12)
    assert (await rig.record(pill)).worker == worker.id
    return worker, pill


async def test_a_worker_that_stops_gives_a_reserved_suspect_back(rig: Rig) -> None:
    ward = Ward(rig)
    worker, pill = await _reserving(rig, ward)
    stop = asyncio.ensure_future(worker.stop())
    await breathe()
    record = await rig.record(pill)
    assert (record.state, record.worker, record.losses) == (JobState.QUEUED, None, 2)
    ward.end("x")
    await rig.pass_time(5)
    await stop
    assert ward.beside == {frozenset("x")}


async def test_a_reserved_suspect_can_be_cancelled(rig: Rig) -> None:
    ward = Ward(rig)
    _, pill = await _reserving(rig, ward)
    await rig.memory.cancel([pill])
    await rig.pass_time(5)
    assert await rig.state(pill) is JobState.CANCELLED
    await ward.enqueue("later")
    await rig.pass_time(2)
    assert ward.running == {"x", "later"}


async def test_a_suspect_that_was_lost_before_it_began_does_not_run(rig: Rig) -> None:
    ward = Ward(rig)
    _, pill = await _reserving(rig, ward)
    record = await rig.record(pill)
    (held,) = [job for job in await rig.memory.held(record.worker or "") if job.id == pill]
    rig.memory._tables.suspects.alone.clear()
    await rig.memory.deregister(held.worker)
    await rig.memory.rescue(limit=99, max_deliveries=99)
    await rig.memory.register(worker_info("thief"), lease_seconds=1_000)
    request = LeaseRequest(worker="thief", limit=9, tasks={"stay": 9}, suspects_only=True)
    assert [job.id for job in (await rig.memory.lease(request)).jobs] == [pill]
    ward.end("x")
    await rig.pass_time(3)
    assert "pill" not in ward.running


async def test_a_store_that_is_away_holds_a_suspect_up_and_no_longer(rig: Rig) -> None:
    ward = Ward(rig)
    await ward.suspected("pill")
    rig.faulty.fail("begin", StoreUnavailable("away"), times=2)
    await rig.started()
    assert ward.running == set()
    await rig.pass_time(2)
    assert ward.running == {"pill"}


async def test_run_until_idle_runs_suspects_too(rig: Rig) -> None:
    ward = Ward(rig)
    names = [f"n{number}" for number in range(7)]
    ids = await ward.suspected(*names)
    ward.end(*names)
    ids += await ward.enqueue("other")
    ward.end("other")
    await rig.run()
    assert [await rig.state(each) for each in ids] == [JobState.SUCCEEDED] * 8


async def test_a_suspect_that_an_unanswered_lease_brought_runs_alone(rig: Rig) -> None:
    ward = Ward(rig)
    await ward.suspected("pill")
    await ward.enqueue("x")
    rig.faulty.fail("lease", StoreUnavailable("cut"), after=True)
    await rig.started()
    await rig.pass_time(10)
    assert ward.running == {"pill"}
    ward.end("pill")
    await rig.pass_time(5)
    assert ward.running == {"x"}

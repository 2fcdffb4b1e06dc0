"""The tests of ``core``: what every backend has."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from offpath.errors import Conflict, LeaseLost
from offpath.model.effects import Effects
from offpath.model.job import JobFilter, JobState
from offpath.model.settlement import (
    Released,
    Retry,
    Settlement,
    SettleStatus,
    Snoozed,
    Succeeded,
)
from offpath.store.protocol import JobRedrive, Store
from offpath.testing.conformance.bench import LEASE, TASK, Bench, contract, worker_info

_LOST = SettleStatus.LEASE_LOST


class CoreTests:
    """Jobs: enqueue, lease, end, retry, cancel, rescue, look."""

    @contract()
    async def test_a_repeat_changes_nothing(self, bench: Bench, store: Store) -> None:
        job = bench.job()
        first = await store.commit(Effects(jobs=(job,)))
        again = await store.commit(Effects(jobs=(job,)))
        assert [first[0].created, again[0].created] == [True, False]
        assert len(await store.get([job.id])) == 1

    @contract()
    async def test_an_id_of_another_job_is_a_conflict_and_nothing_is_written(
        self, bench: Bench, store: Store
    ) -> None:
        taken = await bench.add(store)
        other = bench.job()
        with pytest.raises(Conflict):
            await store.commit(Effects(jobs=(other, bench.job(id=taken, input="1"))))
        assert await store.get([other.id]) == []

    @contract()
    async def test_a_lease_takes_the_best_first(self, bench: Bench, store: Store) -> None:
        await bench.join(store)
        late = await bench.add(store)
        high = await bench.add(store, priority=5)
        later = await bench.add(store, delay=1.0)
        bench.clock.advance(2)
        leased = await bench.ask(store, limit=2)
        assert ([each.id for each in leased.jobs], leased.more) == ([high, late], True)
        assert [each.id for each in (await bench.ask(store)).jobs] == [later]

    @contract()
    async def test_a_job_is_not_handed_out_before_its_time(
        self, bench: Bench, store: Store
    ) -> None:
        await bench.join(store)
        await bench.add(store, delay=10.0)
        early = await bench.ask(store)
        assert (early.jobs, early.due_in) == ((), 10.0)
        bench.clock.advance(10)
        assert len((await bench.ask(store)).jobs) == 1

    @contract()
    async def test_a_worker_that_is_not_registered_gets_nothing(
        self, bench: Bench, store: Store
    ) -> None:
        await bench.add(store)
        assert (await bench.ask(store, "nobody")).jobs == ()

    @contract()
    async def test_an_end_is_recorded_once_and_only_by_the_holder(
        self, bench: Bench, store: Store
    ) -> None:
        job = await bench.start(store)
        assert (await bench.end(store, job, Succeeded(result="7"))).status is SettleStatus.APPLIED
        assert (await bench.end(store, job, Succeeded(result="8"))).status is _LOST
        found = await bench.record(store, job.id)
        assert (found.state, found.result) == (JobState.SUCCEEDED, "7")

    @contract()
    async def test_only_a_failure_counts_as_an_attempt(self, bench: Bench, store: Store) -> None:
        job = await bench.start(store)
        await bench.end(store, job, Released())
        job = await bench.take(store)
        await bench.end(store, job, Snoozed(delay=5.0))
        bench.clock.advance(5)
        job = await bench.take(store)
        assert (job.attempt, job.deliveries) == (1, 3)
        await bench.end(store, job, Retry(delay=5.0, failure=bench.failure()))
        assert (await bench.ask(store)).jobs == ()
        bench.clock.advance(5)
        job = await bench.take(store)
        assert (job.attempt, len((await bench.record(store, job.id)).failures)) == (2, 1)

    @contract()
    async def test_a_dead_job_is_put_back_as_fresh(self, bench: Bench, store: Store) -> None:
        job = await bench.start(store)
        await bench.end(store, job, bench.dead())
        assert (await bench.record(store, job.id)).state is JobState.DEAD
        (changed,) = await store.redrive([JobRedrive(id=job.id)])
        assert changed.state is JobState.QUEUED
        again = await bench.take(store)
        assert (again.attempt, again.deliveries) == (1, 2)

    @contract()
    async def test_what_waits_is_cancelled_and_what_runs_is_asked(
        self, bench: Bench, store: Store
    ) -> None:
        running = await bench.start(store)
        waiting = await bench.add(store)
        await store.cancel([running.id, waiting])
        assert (await bench.record(store, waiting)).state is JobState.CANCELLED
        told = await store.extend(worker_info("w1"), lease_seconds=LEASE, held=[running])
        assert told.cancelled == (running.id,)
        ended = await bench.end(store, running, Succeeded())
        assert ended.state is JobState.CANCELLED

    @contract()
    async def test_a_deadline_ends_what_still_waits(self, bench: Bench, store: Store) -> None:
        job = await bench.add(store, deadline_in=10.0)
        bench.clock.advance(11)
        (given_up,) = await store.expire_blocked(limit=10)
        assert (given_up.id, given_up.state) == (job, JobState.DEAD)

    @contract()
    async def test_jobs_of_a_lost_worker_run_again_and_its_end_is_refused(
        self, bench: Bench, store: Store
    ) -> None:
        lost = await bench.start(store)
        bench.clock.advance(LEASE + 1)
        (rescued,) = await store.rescue(limit=10, max_deliveries=3)
        assert (rescued.job.id, rescued.state) == (lost.id, JobState.QUEUED)
        assert (await bench.end(store, lost, Succeeded())).status is _LOST
        assert (await bench.record(store, lost.id)).attempt == 1

    @contract()
    async def test_a_heartbeat_keeps_a_lease(self, bench: Bench, store: Store) -> None:
        job = await bench.start(store)
        for _ in range(3):
            bench.clock.advance(LEASE - 1)
            told = await store.extend(worker_info("w1"), lease_seconds=LEASE, held=[job])
            assert (told.alive, told.lost) == (True, ())
            assert await store.rescue(limit=10, max_deliveries=3) == []

    @contract()
    async def test_progress_is_written_by_the_holder_only(self, bench: Bench, store: Store) -> None:
        job = await bench.start(store)
        await store.progress(job, "50")
        assert (await bench.record(store, job.id)).progress == "50"
        await bench.end(store, job, Succeeded())
        with pytest.raises(LeaseLost):
            await store.progress(job, "60")

    @contract()
    async def test_effects_and_the_end_are_written_together_or_not_at_all(
        self, bench: Bench, store: Store
    ) -> None:
        taken = await bench.add(store, delay=100.0)
        job, other = await bench.start(store), await bench.start(store)
        child = bench.job(delay=100.0)
        clash = Effects(jobs=(child, bench.job(id=taken, input="1")))
        answers = await store.settle(
            [
                Settlement(job=job, outcome=Succeeded(), effects=clash),
                Settlement(job=other, outcome=Succeeded()),
            ]
        )
        assert [each.status for each in answers] == [SettleStatus.REFUSED, SettleStatus.APPLIED]
        assert await store.get([child.id]) == []
        assert (await bench.record(store, job.id)).state is JobState.RUNNING

    @contract()
    async def test_looking_finds_what_is_there(self, bench: Bench, store: Store) -> None:
        running = await bench.start(store)
        waiting = await bench.add(store)
        page = await store.find(JobFilter(states=(JobState.QUEUED,)))
        assert [each.id for each in page.items] == [waiting]
        counts = {each.state: each.count for each in await store.count(JobFilter())}
        assert counts == {JobState.QUEUED: 1, JobState.RUNNING: 1}
        (due,) = await store.backlog()
        assert (due.task, due.ready) == (TASK, 1)
        known = await store.states([running.id, waiting, bench.new_id()])
        assert known == {running.id: JobState.RUNNING, waiting: JobState.QUEUED}

    @contract()
    async def test_ended_jobs_go_when_their_time_is_over(self, bench: Bench, store: Store) -> None:
        job = await bench.start(store)
        await bench.end(store, job, Succeeded(), keep=60.0)
        assert (await store.prune(limit=10)).jobs == 0
        bench.clock.advance(61)
        assert (await store.prune(limit=10)).jobs == 1
        assert await store.get([job.id]) == []

    @contract()
    async def test_a_name_is_claimed_once(self, bench: Bench, store: Store) -> None:
        assert await store.claim("lead", "a", ttl=10.0)
        assert not await store.claim("lead", "b", ttl=10.0)
        bench.clock.advance(11)
        assert await store.claim("lead", "b", ttl=10.0)
        assert await store.release_claim("lead", "b")

    @contract(shared=True)
    async def test_several_clients_take_each_job_once(self, bench: Bench, store: Store) -> None:
        clients = [store, *[await bench.another() for _ in range(3)]]
        names = [f"w{number}" for number in range(4)]
        await bench.join(store, *names)
        jobs = [await bench.add(store) for _ in range(40)]
        asked = [
            bench.ask(client, name, 5)
            for _ in range(4)
            for client, name in zip(clients, names, strict=True)
        ]
        taken = Counter(job.id for leased in await asyncio.gather(*asked) for job in leased.jobs)
        assert set(taken.values()) == {1}
        assert set(taken) <= set(jobs)

    @contract(shared=True)
    async def test_twenty_at_once_with_one_id_make_one_job(
        self, bench: Bench, store: Store
    ) -> None:
        other, job = await bench.another(), bench.job()
        calls = [each.commit(Effects(jobs=(job,))) for each in (store, other) * 10]
        answers = await asyncio.gather(*calls)
        assert sum(answer[0].created for answer in answers) == 1

    @contract(shared=True)
    async def test_what_was_committed_is_there_after_closing(
        self, bench: Bench, store: Store
    ) -> None:
        job = await bench.add(store)
        await bench.close()
        again = await bench.another()
        assert (await bench.record(again, job)).state is JobState.QUEUED

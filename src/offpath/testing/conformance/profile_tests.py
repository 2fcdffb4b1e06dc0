"""The tests of the profiles beside ``core``."""

from __future__ import annotations

from datetime import timedelta

import pytest

from offpath.errors import UniqueConflict
from offpath.model.effects import Effects
from offpath.model.job import JobState, UniqueClaim, UniquePolicy
from offpath.model.message import MessageRequest, MessageSettlement, StreamRoom
from offpath.model.new import Box, NewMessage
from offpath.model.schedule import (
    Firing,
    FiringStatus,
    Occurrence,
    OccurrenceOutcome,
    Schedule,
    Timing,
    TimingKind,
)
from offpath.model.settlement import SettleStatus, Succeeded
from offpath.store.capabilities import Profile
from offpath.store.protocol import Store
from offpath.testing.conformance.bench import START, Bench, contract


class ProfileTests:
    """Unique keys, groups, pauses, schedules, messages."""

    @contract(Profile.UNIQUE)
    async def test_a_unique_key_is_met_as_its_policy_says(self, bench: Bench, store: Store) -> None:
        first = await bench.add(store, unique=UniqueClaim(key="k"), delay=5.0)
        (met,) = await store.commit(Effects(jobs=(bench.job(unique=UniqueClaim(key="k")),)))
        assert (met.created, met.job_id) == (False, first)
        with pytest.raises(UniqueConflict):
            await bench.add(store, unique=UniqueClaim(key="k", policy=UniquePolicy.REFUSE))
        replacing = UniqueClaim(key="k", policy=UniquePolicy.REPLACE)
        await store.commit(Effects(jobs=(bench.job(input="2", unique=replacing),)))
        assert (await bench.record(store, first)).input == "2"

    @contract(Profile.UNIQUE)
    async def test_a_unique_key_is_free_after_the_end(self, bench: Bench, store: Store) -> None:
        job = await bench.start(store, unique=UniqueClaim(key="k"))
        await bench.end(store, job, Succeeded())
        await bench.add(store, unique=UniqueClaim(key="k"))

    @contract(Profile.GROUPS)
    async def test_a_group_is_done_once_and_its_last_value_wins(
        self, bench: Bench, store: Store
    ) -> None:
        root = await bench.start(store)
        child = bench.job()
        ended = await bench.end(store, root, Succeeded(result="1"), effects=Effects(jobs=(child,)))
        assert not ended.group_done
        assert (await bench.end(store, await bench.take(store), Succeeded(result="2"))).group_done
        (group,) = await store.groups([root.id])
        assert (group.open, group.result) == (0, "2")

    @contract(Profile.GROUPS)
    async def test_a_group_is_cancelled_together(self, bench: Bench, store: Store) -> None:
        root = await bench.start(store)
        child = bench.job()
        await bench.end(store, root, Succeeded(), effects=Effects(jobs=(child,)))
        (changed,) = await store.cancel_groups([root.id], limit=10)
        assert (changed.id, changed.state) == (child.id, JobState.CANCELLED)

    @contract(Profile.PAUSES)
    async def test_a_paused_queue_hands_out_nothing(self, bench: Bench, store: Store) -> None:
        await bench.join(store)
        await bench.add(store)
        await store.pause_queue("default", until=START + timedelta(seconds=10))
        assert (await bench.ask(store)).jobs == ()
        bench.clock.advance(10)
        assert len((await bench.ask(store)).jobs) == 1

    @contract(Profile.SCHEDULES)
    async def test_an_occurrence_is_made_once(self, bench: Bench, store: Store) -> None:
        timing = Timing(kind=TimingKind.CRON, expression="0 3 * * *", zone="UTC")
        schedule = Schedule(name="nightly", timing=timing, template=bench.job(id=""))
        record = await store.put_schedule(schedule, next_at=START)
        job = bench.job()
        occurrence = Occurrence(
            schedule="nightly", at=START, outcome=OccurrenceOutcome.FIRED, job=job.id
        )
        firing = Firing(
            schedule="nightly",
            expected=START,
            version=record.version,
            next_at=START + timedelta(days=1),
            occurrences=(occurrence,),
            jobs=(job,),
        )
        due, _ = await store.due_schedules(limit=10)
        assert [each.schedule.name for each in due] == ["nightly"]
        assert await store.fire(firing) is FiringStatus.FIRED
        assert await store.fire(firing) is FiringStatus.STALE
        assert [each.job for each in await store.occurrences("nightly")] == [job.id]
        assert (await bench.record(store, job.id)).state is JobState.QUEUED

    @contract(Profile.MESSAGES)
    async def test_a_message_is_handed_out_until_its_end_is_recorded(
        self, bench: Bench, store: Store
    ) -> None:
        new = NewMessage(id=bench.new_id(), box=Box.OUT, stream="s", payload="{}")
        await store.commit(Effects(messages=(new,)))
        request = MessageRequest(
            box=Box.OUT,
            holder="h1",
            streams=(StreamRoom(stream="s", limit=10),),
            limit=10,
            lease_seconds=30.0,
        )
        (held,) = (await store.lease_messages(request)).messages
        assert (await store.lease_messages(request)).messages == ()
        settlement = MessageSettlement(message=held, outcome=Succeeded())
        statuses = [(await store.settle_messages([settlement]))[0].status for _ in range(2)]
        assert statuses == [SettleStatus.APPLIED, SettleStatus.LEASE_LOST]

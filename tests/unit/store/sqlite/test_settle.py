"""A batch is settled as if one settlement came after the other."""

from __future__ import annotations

from offpath.model.effects import Effects
from offpath.model.job import JobState, UniquePolicy
from offpath.model.settlement import Settlement, SettleStatus, Snoozed, Succeeded
from offpath.store.sqlite import SqliteStore
from tests.conformance.builders import add, join, new_job, take, unique


async def test_a_key_is_free_for_the_next_settlement_only(store: SqliteStore) -> None:
    await join(store)
    for _ in range(2):
        await add(store)
    holder = await add(store, unique=unique("k"))
    jobs = {job.id: job for job in await take(store)}
    held = jobs.pop(holder)
    before, after = jobs.values()

    def wanting() -> Effects:
        return Effects(jobs=(new_job(unique=unique("k", policy=UniquePolicy.REFUSE)),))

    answers = await store.settle(
        [
            Settlement(job=before, outcome=Succeeded(), effects=wanting()),
            Settlement(job=held, outcome=Succeeded()),
            Settlement(job=after, outcome=Succeeded(), effects=wanting()),
        ]
    )

    assert [answer.status for answer in answers] == [
        SettleStatus.REFUSED,
        SettleStatus.APPLIED,
        SettleStatus.APPLIED,
    ]


async def test_two_that_want_one_key_back_do_not_refuse_each_other(store: SqliteStore) -> None:
    waiting = (JobState.QUEUED,)
    await join(store)
    await add(store, unique=unique("k", states=waiting))
    first = await take(store)
    await add(store, unique=unique("k", states=waiting))
    second = await take(store)

    answers = await store.settle(
        [Settlement(job=job, outcome=Snoozed()) for job in (*first, *second)]
    )

    assert [answer.status for answer in answers] == [SettleStatus.APPLIED] * 2
    assert len(await take(store)) == 2

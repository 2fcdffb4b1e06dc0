"""Acts of two callers in the same moment, neither seeing the other, are put together afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest

from offpath.model.effects import Effects
from offpath.model.job import JobState, NewJob
from offpath.model.settlement import Settlement, Succeeded
from offpath.store.postgres import PostgresStore
from tests.conformance.builders import join, new_job, record, take, take_one
from tests.conformance.workflow_builders import (
    gate_of,
    gate_on,
    group_of,
    hold_one,
)
from tests.integration.polling import eventually


@pytest.fixture
async def store(pg_url: str) -> AsyncIterator[PostgresStore]:
    made = PostgresStore(pg_url)
    await made.open()
    await join(made)
    yield made
    await made.close()


@asynccontextmanager
async def being_added(store: PostgresStore, url: str, job: NewJob) -> AsyncIterator[None]:
    """Somebody adds a job, and commits when the block has ended."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await store.commit_within(connection, Effects(jobs=(job,)))
        yield


async def unseen(url: str) -> int:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        cursor = await connection.execute("select count(*)::int from offpath.unseen")
        row = await cursor.fetchone()
    assert row is not None
    found: int = row[0]
    return found


async def end_all(store: PostgresStore) -> None:
    ends = [Settlement(job=job, outcome=Succeeded()) for job in await take(store)]
    await store.settle(ends)


@pytest.mark.parametrize("ended", [False, True])
async def test_a_root_is_counted_whose_first_member_came_in_the_same_moment(
    store: PostgresStore, pg_url: str, *, ended: bool
) -> None:
    root = new_job()
    async with being_added(store, pg_url, root):
        await store.commit(Effects(jobs=(new_job(group_id=root.id, delay=3600),)))
        await store.expire_blocked(limit=10)
    if ended:
        await end_all(store)
    await store.expire_blocked(limit=10)
    assert (await group_of(store, root.id)).open == (1 if ended else 2)
    await end_all(store)
    assert (await group_of(store, root.id)).open == 1
    assert not await unseen(pg_url)


@pytest.mark.parametrize("joined", ["before its end", "after its end", "after all"])
async def test_the_end_of_a_group_whose_first_member_came_in_the_same_moment_is_told_once(
    store: PostgresStore, pg_url: str, joined: str
) -> None:
    root = new_job()
    async with being_added(store, pg_url, root):
        await store.commit(Effects(jobs=(new_job("other", group_id=root.id),)))
    if joined == "before its end":
        await store.expire_blocked(limit=10)
    told = [await _ended_one(store, root.task)]
    if joined == "after its end":
        await store.expire_blocked(limit=10)
    told.append(await _ended_one(store, "other"))
    await store.expire_blocked(limit=10)
    assert told.count(True) == 1
    group = await group_of(store, root.id)
    assert (group.open, group.result) == (0, '"root"')


async def _ended_one(store: PostgresStore, task: str) -> bool:
    job = await take_one(store, task=task)
    result = '"root"' if job.id == job.group_id else None
    (answer,) = await store.settle([Settlement(job=job, outcome=Succeeded(result=result))])
    return answer.group_done


async def test_a_group_goes_with_its_last_job_also_when_its_root_was_never_counted(
    store: PostgresStore, pg_url: str
) -> None:
    root, member = new_job(), new_job()
    async with being_added(store, pg_url, root):
        await store.commit(Effects(jobs=(new_job(id=member.id, group_id=root.id),)))
    await end_all(store)
    await store.delete([member.id])
    await store.delete([root.id])

    async def gone() -> bool:  # anybody's transaction on this server may be adding the root
        await store.expire_blocked(limit=10)
        return not await store.groups([root.id])

    await eventually(gone, within=60, what="the group is gone")


@pytest.mark.parametrize("ended", [False, True])
async def test_a_gate_counts_a_job_that_was_added_in_the_same_moment(
    store: PostgresStore, pg_url: str, *, ended: bool
) -> None:
    job = new_job()
    gate = gate_on(job.id, timeout=3600)
    async with being_added(store, pg_url, job):
        held = await hold_one(store, gate)
        await store.expire_blocked(limit=10)
    if ended:
        await end_all(store)
    await store.expire_blocked(limit=10)
    await end_all(store)
    await store.expire_blocked(limit=10)
    assert (await record(store, held)).state is JobState.QUEUED
    assert (await gate_of(store, gate)).succeeded == 1


async def test_what_never_comes_is_looked_for_no_longer_than_somebody_may_be_adding_it(
    store: PostgresStore, pg_url: str
) -> None:
    await hold_one(store, gate_on(new_job().id, timeout=3600))
    await store.commit(Effects(jobs=(new_job(group_id=new_job().id),)))
    assert await unseen(pg_url) == 2

    async def forgotten() -> bool:  # anybody's transaction on this server may be one of those
        await store.expire_blocked(limit=10)
        return not await unseen(pg_url)

    await eventually(forgotten, within=60, what="they are forgotten")

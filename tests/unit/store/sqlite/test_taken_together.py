"""Commits that are surely taken together: what one needs, or does, is not its neighbours'."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from offpath.errors import StoreRejected
from offpath.model.effects import Effects
from offpath.model.job import NewJob
from offpath.store.sqlite import SqliteStore
from offpath.store.sqlite.enqueue import enqueue_steps
from offpath.store.sqlite.session import Session
from offpath.store.sqlite.writer import Writer
from tests.conformance.builders import START, enqueue, new_job

WAITS, DOES_NOT_WAIT = 2, 1
"""FULL and NORMAL: with a log, only the first waits for the disk at each commit."""


@asynccontextmanager
async def taken_together(store: SqliteStore) -> AsyncIterator[Writer]:
    """Everything that is asked for within is in one transaction: the writer is kept busy."""
    writer = store._writer
    assert writer is not None
    busy, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def keep_busy(_session: Session) -> None:
        loop.call_soon_threadsafe(busy.set)
        assert go_on.wait(10)

    holding = asyncio.create_task(writer.do(keep_busy, relaxed=True))
    await busy.wait()
    try:
        yield writer
        await asyncio.sleep(0)  # those who ask have asked
    finally:
        go_on.set()
        await holding


def watch_commits(store: SqliteStore) -> list[int]:
    """Grows by one at each commit: how the connection is set, as SQLite itself says."""
    seen: list[int] = []

    def look(name: str) -> None:
        if name == "commit":
            assert store._writer is not None
            assert store._writer._session is not None
            [[level]] = store._writer._session.once("pragma synchronous")
            seen.append(level)

    store._before_statement = look
    return seen


@pytest.mark.parametrize("durable_at", [None, 0, 1, 2])
async def test_one_that_must_be_durable_makes_all_wait_for_the_disk(
    store: SqliteStore, durable_at: int | None
) -> None:
    seen = watch_commits(store)

    async with taken_together(store) as writer:
        asked = [
            asyncio.create_task(writer.do(lambda _session: None, relaxed=at != durable_at))
            for at in range(3)
        ]
    await asyncio.gather(*asked)

    assert seen == [DOES_NOT_WAIT, DOES_NOT_WAIT if durable_at is None else WAITS]


def written_then_failed(jobs: list[NewJob]) -> Callable[[Session], None]:
    """A transition that is refused after its rows were written."""

    def work(session: Session) -> None:
        session.drive(enqueue_steps(Effects(jobs=tuple(jobs)), START))
        raise StoreRejected("refused at its end")

    return work


@pytest.mark.parametrize("fails_at", [0, 1, 2])
async def test_one_that_fails_leaves_no_rows_beside_good_ones(
    store: SqliteStore, fails_at: int
) -> None:
    good, refused = [new_job(), new_job()], [new_job(), new_job(group_id="g")]
    seen = watch_commits(store)

    async with taken_together(store) as writer:
        asked: list[asyncio.Task[object]] = [
            asyncio.create_task(enqueue(store, job)) for job in good
        ]
        failing = asyncio.create_task(writer.do(written_then_failed(refused)))
        asked.insert(fails_at, failing)
    answers = await asyncio.gather(*asked, return_exceptions=True)

    assert len(seen) == 2, "the one that kept the writer busy, and all three"
    assert [at for at, one in enumerate(answers) if isinstance(one, StoreRejected)] == [fails_at]
    stored = await store.states([job.id for job in (*good, *refused)])
    assert stored.keys() == {job.id for job in good}

"""A job that is committed between the look of an operation and its change: it is left alone.

Each statement of a transaction sees what is committed when it begins, so a later one sees more.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from offpath.model.effects import Effects
from offpath.model.job import JobState, NewJob
from offpath.store.postgres import PostgresStore
from offpath.store.protocol import JobRedrive
from tests.conformance.builders import new_job

from .conftest import Ask, Opened

SECOND = timedelta(seconds=1)
_GROUP = "select open, failed from offpath.job_group where id = %s"


class Newcomer:
    """A job that another process commits when a statement is about to be sent."""

    def __init__(self, url: str, statement: str, job: NewJob) -> None:
        self._url = url
        self._statement = statement
        self._job = job
        self.came = False

    def __call__(self, name: str) -> None:
        """Told of each statement before it is sent."""
        if name == self._statement and not self.came:
            self.came = True
            other = threading.Thread(target=asyncio.run, args=(self._commit(),))
            other.start()
            other.join()

    async def _commit(self) -> None:
        store = PostgresStore(self._url)
        await store.open()
        await store.commit(Effects(jobs=(self._job,)))
        await store.close()


async def _cancel(store: PostgresStore, *ids: str) -> list[str]:
    return [one.id for one in await store.cancel(ids)]


async def _redrive(store: PostgresStore, *ids: str) -> list[str]:
    return [one.id for one in await store.redrive([JobRedrive(id=each) for each in ids])]


@pytest.mark.parametrize(
    ("statement", "operation"), [("cancel_waiting", _cancel), ("redrive", _redrive)]
)
async def test_a_job_that_comes_between_the_look_and_the_change_is_left_alone(
    opened: Opened,
    url: str,
    ask: Ask,
    statement: str,
    operation: Callable[..., Awaitable[list[str]]],
) -> None:
    store = await opened()
    root = new_job(delay=60)
    member = new_job(group_id=root.id, delay=60)
    late = new_job(group_id=root.id, delay=60)
    await store.commit(Effects(jobs=(root, member)))
    newcomer = Newcomer(url, statement, late)
    store._before_statement = newcomer
    assert await operation(store, member.id, late.id) == [member.id]
    store._before_statement = None
    assert newcomer.came
    (kept,) = await store.get([late.id])
    assert kept is not None
    assert (kept.state, kept.run_at) == (JobState.QUEUED, kept.enqueued_at + (late.delay * SECOND))
    ended = statement == "cancel_waiting"
    assert ask(_GROUP, root.id) == [(3 - ended, int(ended))]

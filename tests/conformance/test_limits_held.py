"""Held jobs: how many, and whose limit it is that holds a job which replaced another."""

from __future__ import annotations

import pytest

from offpath.model.job import NewJob, UniquePolicy
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import add, enqueue, join, new_job, take, unique
from tests.conformance.workflow_builders import gate_on, hold, limit_of, limited

pytestmark = pytest.mark.needs("limits")


async def test_held_jobs_are_counted_by_key_by_queue_and_in_all(store: Store) -> None:
    assert await store.count_held(limit=10) == 0
    await enqueue(
        store,
        *[limited("api", 1) for _ in range(4)],
        *[limited("mail", 1, queue="post") for _ in range(3)],
        new_job(),
    )
    await store.admit(limit=10)
    assert await store.count_held(limit=10) == 5
    assert await store.count_held(limit=4) == 4
    assert [(await limit_of(store, key)).held for key in ("api", "mail")] == [3, 2]
    queues = {one.name: (one.blocked, one.held) for one in await store.queues()}
    assert queues == {"default": (3, 3), "post": (2, 2)}


async def test_what_waits_for_something_else_is_not_held(store: Store) -> None:
    watched = await add(store)
    await hold(store, gate_on(watched))
    assert await store.count_held(limit=10) == 0
    (queue,) = await store.queues()
    assert (queue.blocked, queue.held) == (1, 0)


def _replacing(key: str | None) -> NewJob:
    claim = unique("u", policy=UniquePolicy.REPLACE)
    return new_job(unique=claim) if key is None else limited(key, 1, unique=claim)


@pytest.mark.parametrize(
    ("before", "after"), [("one", "other"), ("one", "one"), ("one", None), (None, "other")]
)
async def test_a_job_that_is_replaced_has_the_limit_of_the_new_one(
    store: Store, before: str | None, after: str | None
) -> None:
    await join(store)
    await enqueue(store, _replacing(before))
    await store.admit(limit=10)
    await enqueue(store, _replacing(after))
    await store.admit(limit=10)
    counts = {one.key: (one.admitted, one.held) for one in await store.limits()}
    assert sum(admitted for admitted, _ in counts.values()) == (0 if after is None else 1)
    assert counts.get(after or "", (1, 0)) == (1, 0)
    await enqueue(store, limited("one", 1))  # has room, unless the replaced one is of its key
    await store.admit(limit=10)
    assert len(await take(store)) == (1 if after == "one" else 2)


async def test_a_job_whose_key_was_let_go_of_has_its_limit(
    store: Store, clock: ManualClock
) -> None:
    """It is added in a second try, once the unique key's holder has lost it."""
    await join(store)
    await enqueue(store, new_job(unique=unique("u", period=60)))
    clock.advance(61)
    await join(store)
    await enqueue(store, limited("api", 1, unique=unique("u", period=60)))
    await store.admit(limit=10)
    assert len(await take(store)) == 2

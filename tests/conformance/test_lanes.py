"""The lanes that a lease looks into: those of its tasks and queues, whatever lies between them."""

from __future__ import annotations

import random

import pytest

from offpath.model.lease import LeaseRequest, Order
from offpath.store.protocol import Store
from tests.conformance.builders import enqueue, join, new_job

NAMES = ("a", "a.b", "ab", "b", "B", "b b", "c", "c_", "cc", "z", "é", "日")
"""Some are beginnings of others, and no two languages sort them alike."""


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("order", list(Order))
async def test_a_lease_finds_each_lane_that_it_asks_for_and_no_other(
    store: Store, seed: int, order: Order
) -> None:
    chance = random.Random(seed)
    there = {(chance.choice(NAMES), chance.choice(NAMES)) for _ in range(60)}
    await enqueue(store, *(new_job(queue=queue, task=task) for queue, task in sorted(there)))
    await enqueue(store, *(new_job(queue=q, task=t, delay=60) for q, t in sorted(there)))
    await join(store)
    tasks = chance.sample(NAMES, chance.randint(1, 5))
    queues = chance.sample(NAMES, chance.choice([0, 1, 4]))
    request = LeaseRequest(
        worker="w1",
        limit=500,
        tasks={task: chance.choice([500, 500, 0]) for task in tasks},
        queues=tuple(queues),
        order=order,
    )
    leased = await store.lease(request)
    assert sorted((job.queue, job.task) for job in leased.jobs) == sorted(
        (queue, task)
        for queue, task in there
        if request.tasks.get(task) and (not queues or queue in queues)
    )

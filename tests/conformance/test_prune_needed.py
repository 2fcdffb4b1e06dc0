"""Ended jobs that others wait for are kept past their time."""

from __future__ import annotations

import pytest

from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.builders import add, exists, join, succeed, take
from tests.conformance.workflow_builders import LATER, gate_on, hold_one


async def _parts(store: Store, count: int, keep: float) -> list[str]:
    """Jobs of which all but the last have succeeded."""
    await join(store)
    ids = [await add(store) for _ in range(count)]
    for job in await take(store, limit=count - 1):
        await succeed(store, job, keep=keep)
    return ids


async def _pruned(store: Store, clock: ManualClock, ids: list[str]) -> list[bool]:
    """The ones of these that are there, after all retention is over and all is pruned."""
    clock.advance(100)
    await store.prune(limit=100)
    return [await exists(store, each) for each in ids]


async def test_parts_stay_until_who_waits_for_them_has_ended(
    store: Store, clock: ManualClock
) -> None:
    ids = await _parts(store, 4, keep=10)
    reducer = await hold_one(store, gate_on(*ids))
    alone = await add(store, queue="other")
    (job,) = await take(store, queues=("other",))
    await succeed(store, job, keep=10)

    assert await _pruned(store, clock, [*ids, alone]) == [True] * 4 + [False]
    await join(store)
    (last,) = await take(store)
    await succeed(store, last, keep=10)
    assert await _pruned(store, clock, ids) == [True] * 4, "it is released, and has not run"
    await join(store)
    (held,) = await take(store, tasks={LATER: 1})
    assert held.id == reducer
    assert await _pruned(store, clock, ids) == [True] * 4, "it runs"
    await join(store)
    await succeed(store, held, keep=1000)
    assert await _pruned(store, clock, ids) == [False] * 4


async def test_two_gates_over_one_job_both_keep_it(store: Store, clock: ManualClock) -> None:
    ids = await _parts(store, 2, keep=10)
    await hold_one(store, gate_on(ids[0]), queue="first")
    await hold_one(store, gate_on(*ids), queue="second")
    (first,) = await take(store, tasks={LATER: 1}, queues=("first",))
    await succeed(store, first, keep=10)
    assert await _pruned(store, clock, ids) == [True, True]


@pytest.mark.parametrize("how", ["cancelled", "deleted"])
async def test_nobody_is_kept_for_who_will_never_run(
    store: Store, clock: ManualClock, how: str
) -> None:
    ids = await _parts(store, 2, keep=10)
    reducer = await hold_one(store, gate_on(*ids))
    await store.cancel([reducer])
    if how == "deleted":
        await store.delete([reducer])
    assert (await _pruned(store, clock, ids))[0] is False


async def test_those_that_stay_do_not_hide_others(store: Store, clock: ManualClock) -> None:
    ids = await _parts(store, 4, keep=10)
    await hold_one(store, gate_on(*ids))
    alone = await add(store, queue="other")
    (job,) = await take(store, queues=("other",))
    await succeed(store, job, keep=20)
    clock.advance(100)
    assert (await store.prune(limit=1)).jobs == 1
    assert not await exists(store, alone)

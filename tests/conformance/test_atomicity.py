"""Every statement of every transition fails once: what is left is *before*, or *after*.

Each scenario makes some rows and returns one call. The call is made with the n-th statement
failing, for n = 1, 2, … until it has no n-th statement, and the store's whole content is compared,
table by table. Then the call is repeated: its effect must be there once, as if nothing was cut.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from offpath.model.amendment import Amendment
from offpath.model.effects import Effects
from offpath.model.job import JobState, LeasedJob, NewJob, UniquePolicy
from offpath.model.settlement import Settlement, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.bench import Bench, Call, Fuse, Scenario, cut_everywhere, repeat
from tests.conformance.builders import (
    TASK,
    ask,
    die,
    end,
    enqueue,
    join,
    new_job,
    outcomes,
    succeed,
    take,
    take_one,
    uid,
    unique,
    worker_info,
)


def job(number: int, task: str = TASK, **fields: Any) -> NewJob:
    """A job of a fixed id, so that every run of a scenario makes the same rows."""
    return new_job(task, id=uid(number), **fields)


# -- scenarios -------------------------------------------------------------------------------------


async def _commit(store: Store, clock: ManualClock) -> Call:
    await enqueue(store, job(1))
    jobs = (job(1), job(2, tags=("x",)), job(3, delay=60), job(4, deadline_in=9))
    return lambda: enqueue(store, *jobs)


async def _commit_unique(store: Store, clock: ManualClock) -> Call:
    """Attach, replace and take over an outlived key, in one commit."""
    await enqueue(
        store,
        job(1, unique=unique("attach")),
        job(2, unique=unique("replace"), delay=60),
        job(3, unique=unique("outlived", period=5)),
    )
    clock.advance(10)
    replace = unique("replace", policy=UniquePolicy.REPLACE)
    jobs = (
        job(4, unique=unique("attach")),
        job(5, unique=replace, input='{"n":2}'),
        job(6, unique=unique("outlived", period=5)),
        job(7, unique=unique("free")),
    )
    return lambda: enqueue(store, *jobs)


async def _commit_to_group(store: Store, clock: ManualClock) -> Call:
    await enqueue(store, job(1))
    return lambda: enqueue(store, job(2, group_id=uid(1)), job(3, group_id=uid(1)), job(4))


async def _lease(store: Store, clock: ManualClock) -> Call:
    await join(store)
    await enqueue(store, *(job(n, delay=n % 2, priority=n) for n in range(1, 7)))
    clock.advance(1)
    return lambda: ask(store)


async def _running(store: Store, count: int, **fields: Any) -> list[LeasedJob]:
    await join(store)
    await enqueue(store, *(job(n, **fields) for n in range(1, count + 1)))
    return list(await take(store, limit=count))


async def _settle_plain(store: Store, clock: ManualClock) -> Call:
    batch = [
        Settlement(job=each, outcome=Succeeded(result="1"), keep=60)
        for each in await _running(store, 5)
    ]
    return lambda: store.settle(batch)


async def _settle_every_kind(store: Store, clock: ManualClock) -> Call:
    kinds = list(outcomes().values())
    batch = [
        Settlement(job=each, outcome=kinds[n % len(kinds)], keep=60)
        for n, each in enumerate(await _running(store, 12))
    ]
    return lambda: store.settle(batch)


async def _settle_with_children(store: Store, clock: ManualClock) -> Call:
    batch = [
        Settlement(
            job=each,
            outcome=Succeeded(),
            effects=Effects(
                jobs=(
                    job(100 + n, parent=each.id),
                    job(200 + n, parent=each.id, unique=unique(f"k{n}")),
                )
            ),
        )
        for n, each in enumerate(await _running(store, 3))
    ]
    return lambda: store.settle(batch)


async def _settle_the_last_of_a_group(store: Store, clock: ManualClock) -> Call:
    (root,) = await _running(store, 1)
    await end(store, root, Succeeded(), effects=[job(n, parent=root.id) for n in (2, 3)])
    batch = [Settlement(job=each, outcome=Succeeded()) for each in await take(store)]
    return lambda: store.settle(batch)


async def _settle_with_poison(store: Store, clock: ManualClock) -> Call:
    await enqueue(store, job(50, "held", unique=unique("k")))
    refuse = unique("k", policy=UniquePolicy.REFUSE)
    batch = [
        Settlement(
            job=each,
            outcome=Succeeded(),
            effects=Effects(jobs=(job(100 + n, unique=refuse if n == 1 else None),)),
        )
        for n, each in enumerate(await _running(store, 3))
    ]
    return lambda: store.settle(batch)


async def _progress(store: Store, clock: ManualClock) -> Call:
    (held,) = await _running(store, 1)
    return lambda: store.progress(held, '{"done":1}')


async def _cancel(store: Store, clock: ManualClock) -> Call:
    """A running one, a waiting one with a key, and the last open member of a group."""
    (root,) = await _running(store, 1)
    await end(store, root, Succeeded(), effects=[job(2, parent=root.id, priority=-1)])
    await enqueue(store, job(3), job(4, unique=unique("k"), delay=60))
    await take_one(store)
    return lambda: store.cancel([uid(n) for n in range(1, 5)], keep=60)


async def _redrive(store: Store, clock: ManualClock) -> Call:
    held = await _running(store, 3)
    await die(store, held[0], keep=60)
    await end(store, held[1], Succeeded(), effects=[job(4, parent=held[1].id)])
    await store.cancel([uid(4)])
    await enqueue(store, job(5, unique=unique("k")), job(6, delay=60))
    await store.cancel([uid(5)])
    return lambda: store.redrive([JobRedrive(id=uid(n), delay=n % 2) for n in range(1, 7)])


async def _amend(store: Store, clock: ManualClock) -> Call:
    await enqueue(store, *(job(n, delay=n % 2 * 60) for n in range(1, 5)))
    amendment = Amendment(
        priority=3, queue="slow", run_at=clock.now(), deadline=clock.now() + timedelta(seconds=60)
    )
    return lambda: store.amend([uid(n) for n in range(1, 5)], amendment)


async def _delete(store: Store, clock: ManualClock) -> Call:
    held = await _running(store, 3)
    await end(store, held[0], outcomes()["retry"])
    await die(store, held[1])
    await store.cancel([uid(1)])
    return lambda: store.delete([uid(n) for n in range(1, 4)])


async def _rescue(store: Store, clock: ManualClock) -> Call:
    """One runs again, one dies and ends its group, one is cancelled; the worker's row goes."""
    (root,) = await _running(store, 1)
    await end(store, root, Succeeded(), effects=[job(2, parent=root.id)])
    await take_one(store)
    clock.advance(31)
    await store.rescue(limit=10, max_deliveries=9)
    await join(store, "w2")
    await enqueue(store, job(3), job(4))
    await take(store, "w2")
    await store.cancel([uid(4)])
    clock.advance(31)
    return lambda: store.rescue(limit=10, max_deliveries=2, keep=60)


async def _prune(store: Store, clock: ManualClock) -> Call:
    held = await _running(store, 3)
    await end(store, held[0], outcomes()["retry"])
    await die(store, held[1], keep=5)
    await succeed(store, held[2], keep=5)
    await store.claim("old", "a", ttl=5)
    await store.claim("new", "a", ttl=500)
    clock.advance(6)
    return lambda: store.prune(limit=10)


async def _register(store: Store, clock: ManualClock) -> Call:
    return lambda: store.register(worker_info("new"), lease_seconds=30)


async def _extend(store: Store, clock: ManualClock) -> Call:
    held = await _running(store, 2)
    await store.cancel([uid(1)])
    clock.advance(5)
    return lambda: store.extend(worker_info(), lease_seconds=60, held=held)


async def _extend_unknown(store: Store, clock: ManualClock) -> Call:
    held = await _running(store, 2)
    await store.deregister("w1")
    return lambda: store.extend(worker_info(), lease_seconds=60, held=held)


async def _deregister(store: Store, clock: ManualClock) -> Call:
    await _running(store, 2)
    return lambda: store.deregister("w1")


async def _claim(store: Store, clock: ManualClock) -> Call:
    await store.claim("key", "old", ttl=5)
    clock.advance(6)
    return lambda: store.claim("key", "new", ttl=60)


SCENARIOS: dict[str, Scenario] = {
    "commit": _commit,
    "commit unique": _commit_unique,
    "commit to group": _commit_to_group,
    "lease": _lease,
    "settle plain": _settle_plain,
    "settle every kind": _settle_every_kind,
    "settle with children": _settle_with_children,
    "settle the last of a group": _settle_the_last_of_a_group,
    "settle with poison": _settle_with_poison,
    "progress": _progress,
    "cancel": _cancel,
    "redrive": _redrive,
    "amend": _amend,
    "delete": _delete,
    "rescue": _rescue,
    "prune": _prune,
    "register": _register,
    "extend": _extend,
    "extend unknown": _extend_unknown,
    "deregister": _deregister,
    "claim": _claim,
}


# -- the experiment --------------------------------------------------------------------------------


async def _each_settlement_is_whole(store: Store) -> None:
    """A job has its child if, and only if, it has succeeded."""
    states = await store.states([uid(n) for n in (1, 2, 3, 100, 101, 102)])
    for n in range(3):
        succeeded = states[uid(n + 1)] is JobState.SUCCEEDED
        assert (uid(100 + n) in states) is succeeded


async def _due_jobs_are_ready_and_all_or_none_leased(store: Store) -> None:
    """Jobs that are due are made ready first, whoever takes them."""
    states = Counter((await store.states([uid(n) for n in range(1, 7)])).values())
    assert states in ({JobState.QUEUED: 6}, {JobState.RUNNING: 6})


PIECEWISE = {
    "settle with poison": _each_settlement_is_whole,
    "lease": _due_jobs_are_ready_and_all_or_none_leased,
}
"""Parts of these may be committed apart: each part is whole, the call need not be."""


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_cut_at_any_statement_leaves_before_or_after(bench: Bench, name: str) -> None:
    await cut_everywhere(bench, SCENARIOS[name], piecewise=PIECEWISE.get(name))


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_repeat_after_a_lost_answer_changes_nothing(bench: Bench, name: str) -> None:
    """Cases B8, H5: the call was carried out, nobody heard of it, and it is made again."""
    await repeat(bench, SCENARIOS[name])


async def test_a_cut_commit_is_in_nobodys_way(bench: Bench) -> None:
    """The store works on after a cut: no lock, no open transaction, no lost thread."""
    call = await bench.set_up(_commit)
    for place in (1, 2, 3):
        await bench.cut(call, Fuse(place))
    answers = await call()
    assert [answer.job_id for answer in answers] == [uid(n) for n in range(1, 5)]

"""Gates and ``.next`` that wait for all that the watched jobs led to; in every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

import offpath
from offpath import App, Context, Plan
from offpath.model.effects import Effects
from offpath.model.gate import Counting, GateState, NewGate
from offpath.model.job import LeasedJob, NewJob
from offpath.model.settlement import Settlement, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.builders import (
    add,
    die,
    fresh_id,
    join,
    new_job,
    start,
    succeed,
    take,
    take_one,
    unique,
)
from tests.conformance.workflow_builders import LATER, fates, gate_of, hold_one, settle_with

pytestmark = pytest.mark.needs("workflows")

GATE = ("blocked", "gate")
QUEUED = ("queued", None)


def tree(*ids: str, of: Counting = Counting.SUCCEEDED) -> NewGate:
    """A gate over jobs and all that they lead to."""
    return NewGate(id=fresh_id(), on=ids, need=len(ids), of=of, descendants=True)


async def _leads_to(store: Store, job: LeasedJob, *jobs: NewJob, **more: Any) -> None:
    await settle_with(store, job, Effects(jobs=jobs, **more), Succeeded())


def child(of: LeasedJob, **fields: Any) -> NewJob:
    """A new job that another one queues."""
    return new_job(parent=of.id, group_id=of.id, **fields)


async def test_it_waits_for_the_jobs_of_the_jobs(store: Store) -> None:
    first = await start(store)
    gate = tree(first.id)
    held = await hold_one(store, gate)
    await _leads_to(store, first, child(first), child(first))
    one, two = await take(store, limit=2)
    await succeed(store, one)
    assert await fates(store, held) == [GATE]
    await _leads_to(store, two, child(two))
    known = await gate_of(store, gate)
    assert (known.state, known.need, known.succeeded, len(known.on)) == (GateState.OPEN, 4, 3, 4)
    assert (await store.watched(held))[0] == first.id
    await succeed(store, await take_one(store))
    assert await fates(store, held) == [QUEUED]


async def test_a_plain_gate_does_not(store: Store) -> None:
    first = await start(store)
    held = await hold_one(store, NewGate(id=fresh_id(), on=(first.id,), need=1))
    await _leads_to(store, first, child(first))
    assert await fates(store, held) == [QUEUED]


@pytest.mark.parametrize("of", Counting)
async def test_a_descendant_that_dies_counts_as_the_condition_says(
    store: Store, of: Counting
) -> None:
    first = await start(store)
    held = await hold_one(store, tree(first.id, of=of))
    await _leads_to(store, first, child(first))
    grandchild = await take_one(store)
    await die(store, grandchild)
    dead = ("dead", "unsatisfiable")
    assert await fates(store, held) == [QUEUED if of is Counting.SETTLED else dead]
    if of is Counting.SUCCEEDED:
        await store.redrive([JobRedrive(id=grandchild.id)])
        assert await fates(store, held) == [GATE]
        await succeed(store, await take_one(store))
        assert await fates(store, held) == [QUEUED]


async def test_a_job_that_failed_leads_to_nothing(store: Store) -> None:
    first = await start(store)
    held = await hold_one(store, tree(first.id, of=Counting.SETTLED))
    await die(store, first)
    assert await fates(store, held) == [QUEUED]


async def test_jobs_behind_gates_of_their_own_are_waited_for(store: Store) -> None:
    first = await start(store)
    held = await hold_one(store, tree(first.id))
    part = child(first)
    inner = NewGate(id=fresh_id(), on=(part.id,), need=1)
    last = child(first, task=LATER, gate=inner.id)
    await _leads_to(store, first, part, last, gates=(inner,))
    await succeed(store, await take_one(store))
    assert await fates(store, held, last.id) == [GATE, QUEUED]
    (end,) = await take(store, tasks={LATER: 1})
    await succeed(store, end)
    assert await fates(store, held) == [QUEUED]


async def test_one_that_attached_is_waited_for_or_counts_as_it_has_ended(store: Store) -> None:
    first = await start(store)
    other = await add(store, unique=unique("k"), queue="later")
    held = await hold_one(store, tree(first.id))
    await _leads_to(store, first, child(first, unique=unique("k"), queue="later"))
    assert await fates(store, held) == [GATE]
    (holder,) = await take(store, queues=("later",))
    assert holder.id == other
    await succeed(store, holder)
    assert await fates(store, held) == [QUEUED]


async def test_pieces_of_a_large_fan_out_lead_on(store: Store) -> None:
    """Their jobs are the children of who has listed them."""
    first = await start(store)
    held = await hold_one(store, tree(first.id))
    await _leads_to(store, first, child(first, task="piece"))
    (piece,) = await take(store, tasks={"piece": 1})
    await _leads_to(store, piece, child(first))
    assert await fates(store, held) == [GATE]
    await succeed(store, await take_one(store))
    assert await fates(store, held) == [QUEUED]


async def test_parts_that_end_in_one_batch_lead_on_together(store: Store) -> None:
    await join(store)
    ids = [await add(store) for _ in range(2)]
    jobs = await take(store, limit=2)
    one, both = tree(ids[0]), tree(*ids)
    held = [await hold_one(store, one), await hold_one(store, both)]
    answers = await store.settle(
        [
            Settlement(job=job, outcome=Succeeded(), effects=Effects(jobs=(child(job),)))
            for job in jobs
        ]
    )
    assert len(answers) == 2
    assert await fates(store, *held) == [GATE, GATE]
    assert [(await gate_of(store, gate)).need for gate in (one, both)] == [2, 4]
    for job in await take(store, limit=2):
        await succeed(store, job)
    assert await fates(store, *held) == [QUEUED, QUEUED]


# -- as handlers say it ----------------------------------------------------------------------------


@pytest.fixture
async def app(store: Store, clock: ManualClock) -> AsyncIterator[App]:
    async with App(store=store, clock=clock, auto_start=False) as made:
        yield made


async def test_a_handler_waits_for_what_its_parts_delegate(app: App) -> None:
    @app.task
    async def leaf(n: int) -> int:
        return n

    @app.task
    async def part(ctx: Context, n: int) -> Plan[None, int]:
        ctx.enqueue(leaf.job(10 * n))
        return ctx.queue(leaf.job(n))

    @app.task
    async def total(ctx: Context) -> int:
        return sum(await ctx.results(leaf))

    @app.task
    async def split(ctx: Context) -> Plan[None, int]:
        parts = [part.job(n) for n in (1, 2)]
        return ctx.queue(*parts).next(total.job(), when=offpath.descendants_succeeded)

    handle = await split.enqueue()
    await app.worker().run_until_idle()
    (done,) = (await app.jobs.find(task="total")).items
    assert done.result == "33"
    await handle


async def test_what_follows_the_job_itself_is_refused(app: App) -> None:
    @app.task
    async def last() -> None: ...

    @app.task(retry=1)
    async def first(ctx: Context) -> Plan[int, Any]:
        return ctx.result(1).next(last.job(), when=offpath.descendants_settled)

    handle = await first.enqueue()
    await app.worker().run_until_idle()
    (job,) = await app.store().get([handle.id])
    assert (job.reason, "descendants" in job.failures[-1].message) == ("invalid_plan", True)

"""Weaknesses A.29, by number: where no other test shows the right behaviour by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from offpath import App, Context, Group, JobState, Plan, StoreUnavailable
from offpath.jobs.client.waiters import Waiters
from offpath.model.event import EventKind
from offpath.runtime.clock import ManualClock
from offpath.store.memory import MemoryStore
from offpath.testing import FlakyStore
from tests.unit.edge_cases.bench import Bench

DAY = 86_400.0


async def test_w2_an_enqueue_that_fails_tells_its_caller_and_leaves_nothing() -> None:
    store = FlakyStore(MemoryStore())
    app = App(store=store, auto_start=False)

    @app.task
    async def leaf() -> None: ...

    async with app:
        store.fail("commit")
        with pytest.raises(StoreUnavailable):
            await leaf.enqueue()
        assert await app.jobs.count() == 0


async def test_w5_a_job_that_ended_is_not_handed_out_again(bench: Bench) -> None:
    runs: list[str] = []

    @bench.app.task
    async def leaf(ctx: Context) -> None:
        runs.append(ctx.id)

    handle = await leaf.enqueue()
    await bench.run()
    await bench.app.store().rescue(limit=10, max_deliveries=3)
    await bench.run_after(60)
    assert runs == [handle.id]


async def test_s6_a_group_that_idles_for_months_ends_with_its_last_member(bench: Bench) -> None:
    @bench.app.task
    async def leaf() -> str:
        return "late"

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, str]:
        return ctx.queue(leaf.options(delay=90 * DAY).job())

    handle = await root.enqueue()
    await bench.run()
    for _ in range(89):  # the root is removed when its time has passed
        bench.clock.advance(DAY)
        await bench.app.store().prune(limit=100)
        assert (await bench.app.groups.get(handle.id)).open == 1
    assert await bench.app.jobs.count() == 1
    await bench.run_after(DAY)
    assert await handle.group(timeout=0) == "late"
    ends = [one for one in bench.events if one.kind is EventKind.GROUP_DONE]
    assert [one.group_id for one in ends] == [handle.id]


async def test_s6_what_a_gate_watches_is_kept_while_it_waits(bench: Bench) -> None:
    @bench.app.task
    async def leaf(n: int) -> int:
        return n

    @bench.app.task
    async def root(ctx: Context) -> Plan[None, int]:
        return ctx.queue(leaf.job(1), leaf.options(delay=90 * DAY).job(2)).next(leaf.job(3))

    handle = await root.enqueue()
    await bench.run()
    bench.clock.advance(90 * DAY)
    await bench.app.store().prune(limit=100)
    kept = (await bench.app.jobs.find(state=JobState.SUCCEEDED)).items
    assert [one.task for one in kept] == ["leaf"]  # the root is gone, what the gate watches is not
    await bench.run()
    assert await handle.group(timeout=0) == 3


async def test_s6_who_has_waited_for_a_day_is_not_forgotten() -> None:
    orphans: list[Group] = []
    clock = ManualClock()
    app = App(auto_start=False, clock=clock, on_orphan_group=orphans.append)

    @app.task
    async def leaf() -> str:
        return "done"

    async with app:
        handle = await leaf.options(delay=DAY).enqueue()
        wait = asyncio.ensure_future(handle.group())
        await _until(lambda: len(_waiters(app)) == 1)
        clock.advance(DAY)
        await app.worker().run_until_idle()
        assert await asyncio.wait_for(wait, 10) == "done"
        clock.advance(1)
        for _ in range(100):
            await asyncio.sleep(0)
    assert orphans == []


async def test_s8_a_redriven_job_loses_its_error_when_it_succeeds(bench: Bench) -> None:
    outcomes = [ValueError("no"), None]

    @bench.app.task(retry=1)
    async def leaf() -> str:
        if (error := outcomes.pop(0)) is not None:
            raise error
        return "fine"

    handle = await leaf.options(deadline=60).enqueue()
    await bench.run_after(30)
    assert (await handle.status()).state is JobState.DEAD
    bench.clock.advance(600)  # long past the first deadline
    assert len(await bench.app.dead.redrive(handle.id)) == 1
    await bench.run()
    record = await handle.status()
    assert (record.state, record.reason) == (JobState.SUCCEEDED, None)
    assert await handle == "fine"
    assert bench.kinds(handle.id).count("expired") == 0


def _waiters(app: App) -> Waiters:
    session = app._lifecycle.session
    assert session is not None
    return session.waiters


async def _until(holds: Callable[[], bool]) -> None:
    for _ in range(100_000):
        if holds():
            return
        await asyncio.sleep(0)
    pytest.fail("it does not come to that")

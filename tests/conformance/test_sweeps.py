"""A sweep that is not shared has one worker in the fleet at a time, on every backend."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime
from typing import Any

from offpath import App, Worker
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from offpath.sweeps import Tally
from offpath.sweeps.catalogue import OWN
from offpath.sweeps.leader import LOOKS_PER_TERM, SHORTEST_TERM, term_of

EVERY = 7.0
TERM = term_of(EVERY)
assert TERM == SHORTEST_TERM  # so that loops and passes by hand have the same one here


class Noted:
    """A sweep that notes whose pass it was; a row may be made to wait, or time to pass in it."""

    def __init__(self, rows: int = 1) -> None:
        self.passes: list[str] = []
        self.rows = rows
        self.seconds = 0.0
        self.clock: ManualClock | None = None
        self.one_more = asyncio.Event()

    def member(self, name: str) -> Any:
        outer = self

        class Member:
            async def claim(self, ctx: Any, now: datetime, limit: int) -> list[str]:
                outer.passes.append(name)
                outer.one_more.set()
                return [f"row {number}" for number in range(outer.rows)]

            async def advance(self, ctx: Any, row: str, now: datetime) -> None:
                if outer.clock is not None:
                    outer.clock.advance(outer.seconds)

        return Member()


def workers(
    stores: tuple[Store, ...], clock: ManualClock, noted: Noted, *, shared: bool = False
) -> list[Worker]:
    made = []
    for number, store in enumerate(stores):
        app = App(store=store, clock=clock, auto_start=False)
        app.sweep("s", every=EVERY, shared=shared)(noted.member(f"worker {number}"))
        made.append(app.worker())
    return made


async def tally(worker: Worker, **options: Any) -> Tally:
    return (await worker.run_once(only=["s"], **options))["s"].tally


async def a_turn(worker: Worker) -> None:
    """Wait until its loop has had a turn."""
    async with asyncio.timeout(10):
        while not any(one.name == "sweep:s" and one.iterations for one in worker.loops()):  # noqa: ASYNC110 - nothing tells of a pass that was skipped
            await asyncio.sleep(0)


async def test_of_many_workers_at_once_one_makes_the_pass(
    rivals: tuple[Store, ...], clock: ManualClock
) -> None:
    noted = Noted()
    fleet = workers(rivals, clock, noted)
    tallies = await asyncio.gather(*(tally(worker) for worker in fleet))
    assert len(noted.passes) == 1
    assert sorted(str(one.skipped) for one in tallies) == [
        "None",
        *["another worker leads it"] * (len(fleet) - 1),
    ]


async def test_the_loop_of_a_worker_that_does_not_lead_says_so(
    rivals: tuple[Store, ...], clock: ManualClock
) -> None:
    first, second, *_ = workers(rivals, clock, Noted())
    async with first:
        await a_turn(first)
        async with second:
            await a_turn(second)
            told = [
                next(one for one in each.health() if one.name == "sweep:s")
                for each in (first, second)
            ]
            assert [one.skipped for one in told] == [None, "another worker leads it"]
            assert all(one.next_in is not None and one.next_in <= EVERY for one in told)


async def test_the_leader_goes_on_leading_and_another_follows_when_it_has_gone(
    rivals: tuple[Store, ...], clock: ManualClock
) -> None:
    noted = Noted()
    first, second, *_ = workers(rivals, clock, noted)
    for _ in range(2):
        await tally(first)
        assert (await tally(second)).skipped == "another worker leads it"
        clock.advance(EVERY)
    clock.advance(TERM - 2 * EVERY + 1)
    await tally(first)  # renewed: its term had ended, and it asks first
    assert (await tally(second)).skipped == "another worker leads it"
    clock.advance(TERM + 1)  # the first one does not ask any more
    assert (await tally(second)).skipped is None
    assert (await tally(first)).skipped == "another worker leads it"
    assert noted.passes == ["worker 0"] * 3 + ["worker 1"]


async def test_a_leader_that_stops_is_followed_at_once(
    rivals: tuple[Store, ...], clock: ManualClock
) -> None:
    noted = Noted()
    first, second, third, *_ = workers(rivals, clock, noted)
    async with first:
        await asyncio.wait_for(noted.one_more.wait(), 10)
        assert (await tally(second)).skipped == "another worker leads it"
    assert (await tally(second)).skipped is None
    async with third:  # it does not lead, and so takes nothing from who does
        await a_turn(third)
    assert (await tally(first)).skipped == "another worker leads it"
    assert noted.passes == ["worker 0", "worker 1"]


async def test_a_leader_of_which_a_pass_goes_on_keeps_its_term(
    rivals: tuple[Store, ...], clock: ManualClock
) -> None:
    began, end = asyncio.Event(), asyncio.Event()

    class Stubborn:
        async def claim(self, ctx: Any, now: datetime, limit: int) -> list[str]:
            return ["row"]

        async def advance(self, ctx: Any, row: str, now: datetime) -> None:
            began.set()
            while not end.is_set():
                with suppress(asyncio.CancelledError):
                    await end.wait()

    app = App(store=rivals[0], clock=clock, auto_start=False)
    app.sweep("s", every=EVERY, row_timeout=1)(Stubborn())
    _, second, *_ = workers(rivals, clock, Noted())
    try:
        async with app.worker() as leader:
            await asyncio.wait_for(began.wait(), 10)
            for _ in range(2):  # the row is over time, is cancelled, and goes on
                clock.advance(1)
                for _ in range(30):
                    await asyncio.sleep(0)
            await a_turn(leader)
        assert (await tally(second)).skipped == "another worker leads it"
    finally:
        end.set()


async def test_a_leader_that_has_lost_its_term_leaves_the_rows_that_it_has_not_begun(
    rivals: tuple[Store, ...], clock: ManualClock
) -> None:
    noted = Noted(rows=5)
    first, second, *_ = workers(rivals, clock, noted)

    class Slow:
        async def claim(self, ctx: Any, now: datetime, limit: int) -> list[str]:
            return ["a", "b", "c"]

        async def advance(self, ctx: Any, row: str, now: datetime) -> None:
            clock.advance(TERM + 1)
            await tally(second)  # somebody else leads from here on

    app = App(store=rivals[0], clock=clock, auto_start=False)
    app.sweep("s", every=EVERY, row_timeout=10 * TERM)(Slow())
    slow = app.worker()
    result = await tally(slow)
    assert result.buckets == {"advanced": ("a",), "left": ("b", "c")}
    assert result.failures == 0
    assert noted.passes == ["worker 1"]
    assert (await tally(first)).skipped == "another worker leads it"


async def test_a_long_pass_goes_on_when_it_renews(
    rivals: tuple[Store, ...], clock: ManualClock
) -> None:
    noted = Noted(rows=4)
    noted.clock, noted.seconds = clock, TERM / LOOKS_PER_TERM + TERM
    (leader, *_) = workers(rivals, clock, noted)
    assert (await tally(leader)).counts == {"advanced": 4}


async def test_a_shared_sweep_is_run_by_all(rivals: tuple[Store, ...], clock: ManualClock) -> None:
    noted = Noted()
    fleet = workers(rivals, clock, noted, shared=True)
    await asyncio.gather(*(tally(worker) for worker in fleet))
    assert sorted(noted.passes) == [f"worker {number}" for number in range(len(fleet))]


async def test_force_runs_what_another_worker_leads(
    rivals: tuple[Store, ...], clock: ManualClock
) -> None:
    noted = Noted()
    first, second, *_ = workers(rivals, clock, noted)
    await tally(first)
    assert (await tally(second, force=True)).counts == {"advanced": 1}


async def test_the_engines_own_sweeps_run_on_every_backend(
    store: Store, clock: ManualClock
) -> None:
    app = App(store=store, clock=clock, auto_start=False)

    @app.task
    async def work() -> None: ...

    async with app:
        await work.enqueue()
        await app.worker().run_until_idle()
        clock.advance(10 * 366 * 86_400 / 2)
        run = await app.worker().run_once()
    assert [one.name for one in run.batch] == list(OWN)
    assert run["prune"].tally.counts == {"jobs": 1}
    assert run["redrive"].tally.skipped is not None
    assert run["rescue"].error is None

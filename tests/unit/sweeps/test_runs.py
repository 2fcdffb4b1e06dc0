"""Several sweeps: in their order, apart from each other, by loops, by timers, or once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from offpath import App, InvalidArgument, JobState, Redrive
from offpath.errors import PassFailed
from offpath.model.tally import SweepResult, SweepRun, Turn
from offpath.store.memory import MemoryStore
from offpath.sweeps import Tally, Verdict
from offpath.sweeps.catalogue import OWN
from offpath.sweeps.runs import run_sweeps
from offpath.sweeps.sweeper import BREATH
from offpath.testing import ManualClock
from tests.unit.sweeps.rows_table import Desk

NOW = datetime(2026, 11, 28, tzinfo=UTC)


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    made = Desk()
    yield made
    await made.app.close()


class Sweep:
    """A sweep that tells, or raises, what it is made with."""

    def __init__(self, name: str, answer: Tally | Exception | None = None) -> None:
        self.name = name
        self.answer = answer or Tally(buckets={"moved": (name,)})
        self.asked: list[tuple[datetime, int | None]] = []

    async def run(self, now: datetime, limit: int | None) -> Tally:
        self.asked.append((now, limit))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Whole:
    """The same, as users register it."""

    def __init__(self, step: Callable[[], Awaitable[Tally]]) -> None:
        self.step = step

    async def run(self, ctx: Any, now: datetime, limit: int) -> Tally:
        return await self.step()


async def test_one_that_raises_is_a_failed_result_of_its_own(desk: Desk) -> None:
    lost = ConnectionError("secret")
    sweeps = [Sweep("a"), Sweep("b", KeyError("x")), Sweep("c", lost), Sweep("d")]
    results = await run_sweeps(sweeps, NOW, 7, report=desk.note)
    assert [(r.name, r.verdict, r.error, r.retryable) for r in results] == [
        ("a", Verdict.CLEAN, None, False),
        ("b", Verdict.FAILED, "KeyError", False),
        ("c", Verdict.FAILED, "ConnectionError", True),
        ("d", Verdict.CLEAN, None, False),
    ]
    assert all(sweep.asked == [(NOW, 7)] for sweep in sweeps)
    assert desk.told == [("KeyError", "sweep:b"), ("ConnectionError", "sweep:c")]


async def test_results_come_in_the_order_of_the_run_whatever_only_says(desk: Desk) -> None:
    sweeps = [Sweep("a"), Sweep("b"), Sweep("c")]
    results = await run_sweeps(sweeps, NOW, only=["c", "a"], report=desk.note)
    assert [result.name for result in results] == ["a", "c"]
    assert sweeps[1].asked == []


async def test_an_unknown_name_is_refused_before_anything_runs(desk: Desk) -> None:
    sweeps = [Sweep("a"), Sweep("b")]
    with pytest.raises(InvalidArgument, match=r"no sweep 'x'; there are: a, b"):
        await run_sweeps(sweeps, NOW, only=["a", "x"], report=desk.note)
    assert sweeps[0].asked == []


async def test_a_pass_whose_every_row_failed_keeps_its_tally(desk: Desk) -> None:
    tally = Tally(buckets={"failed": ("e1", "e2")})
    sweep = Sweep("relay", PassFailed("no event was delivered", tally=tally))
    (result,) = await run_sweeps([sweep], NOW, report=desk.note)
    assert (result.tally, result.error, result.retryable) == (tally, "pass_failed", True)


async def test_what_is_absent_is_an_empty_success_that_says_why(desk: Desk) -> None:
    class NoRail:
        def skip(self) -> str:
            return "no payment rail is configured"

        async def claim(self, ctx: Any, now: datetime, limit: int) -> list[str]:
            raise AssertionError

        async def advance(self, ctx: Any, row: str, now: datetime) -> None: ...

    desk.app.sweep("payouts")(NoRail)
    result = (await desk.passing(only=["payouts"]))["payouts"]
    assert result.tally == Tally(skipped="no payment rail is configured")
    assert (result.verdict, result.error) == (Verdict.EMPTY, None)


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        ([], Verdict.EMPTY),
        ([Tally(), Tally()], Verdict.EMPTY),
        ([Tally(), Tally(buckets={"moved": ("a",)})], Verdict.CLEAN),
        ([Tally(buckets={"moved": ("a",)}), Tally(buckets={"failed": ("a",)})], Verdict.DEGRADED),
        ([Tally(), Tally(buckets={"failed": ("a",)})], Verdict.FAILED),
    ],
)
def test_a_run_amounts_to_what_its_sweeps_do(parts: list[Tally], whole: Verdict) -> None:
    batch = tuple(SweepResult(name=str(n), tally=tally) for n, tally in enumerate(parts))
    assert SweepRun(batch=batch).verdict is whole
    with pytest.raises(KeyError):
        SweepRun(batch=batch)["none"]


# -- registering -----------------------------------------------------------------------------------


async def moved() -> Tally:
    return Tally(buckets={"moved": ("a",)})


@pytest.mark.parametrize(
    "terms",
    [{"every": 0}, {"limit": 0}, {"limit": True}, {"row_timeout": -1}, {"claim_timeout": 0}],
)
async def test_terms_that_cannot_be_are_refused(desk: Desk, terms: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        desk.app.sweep("s", **terms)(Whole(moved))
    assert "s" not in desk.app.sweeps


async def test_a_name_is_given_once_and_the_engines_are_taken(desk: Desk) -> None:
    desk.app.sweep("s")(Whole(moved))
    for name in ("s", "rescue", ""):
        with pytest.raises(InvalidArgument):
            desk.app.sweep(name)(Whole(moved))
    assert [one.name for one in desk.app.sweeps.list()] == [*OWN, "s"]
    assert len(desk.app.sweeps) == len(OWN) + 1


async def test_what_is_no_sweep_is_told_what_it_lacks(desk: Desk) -> None:
    with pytest.raises(InvalidArgument, match="advance"):
        desk.app.sweep("s")(type("Half", (), {"claim": moved}))
    with pytest.raises(InvalidArgument, match=r"app\.sweep\('s'\)\(Whole"):
        desk.app.sweep("s")(Whole)
    assert "s" not in desk.app.sweeps


@pytest.mark.parametrize(
    "options",
    [{"only": ["nope"]}, {"limit": 0}, {"now": datetime(2026, 1, 1)}],  # noqa: DTZ001
)
async def test_a_run_that_cannot_be_does_nothing(desk: Desk, options: dict[str, Any]) -> None:
    done: list[int] = []

    async def step() -> Tally:
        done.append(1)
        return Tally()

    desk.app.sweep("s")(Whole(step))
    with pytest.raises(InvalidArgument):
        await desk.app.worker().run_once(**options)
    assert done == []


# -- passes never overlap --------------------------------------------------------------------------


class Gate:
    """A pass that waits to be let on, and counts how many are in it at once."""

    def __init__(self) -> None:
        self.began, self.go = asyncio.Event(), asyncio.Event()
        self.inside = self.most = self.done = 0

    async def __call__(self) -> Tally:
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.began.set()
        try:
            await self.go.wait()
        finally:
            self.inside -= 1
        self.done += 1
        return Tally(counted={"moved": 1})


async def turns(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_passes_of_one_worker_never_overlap(desk: Desk) -> None:
    gate = Gate()
    desk.app.sweep("s", every=5)(Whole(gate))
    async with desk.app.worker() as worker:
        runs = [asyncio.create_task(worker.run_once(only=["s"])) for _ in range(3)]
        await asyncio.wait_for(gate.began.wait(), 10)
        await turns()
        gate.go.set()
        await asyncio.wait_for(asyncio.gather(*runs), 10)
    assert gate.most == 1
    assert gate.done >= 4  # the loop's own, and each run


async def test_stop_waits_for_the_running_pass(desk: Desk) -> None:
    gate = Gate()
    desk.app.sweep("s")(Whole(gate))
    stop = await desk.app.worker().start_sweeps(every=5, only=["s"])
    await asyncio.wait_for(gate.began.wait(), 10)
    stopping = asyncio.ensure_future(stop())
    await turns()
    assert not stopping.done()
    gate.go.set()
    await asyncio.wait_for(stopping, 10)
    assert gate.done == 1
    desk.clock.advance(60)
    await turns()
    await stop()
    assert gate.done == 1


async def test_a_host_may_bring_its_own_scheduler(desk: Desk) -> None:
    gate, given, ended = Gate(), [], []

    def scheduler(tick: Any, every: float) -> Callable[[], object]:
        given.append((tick, every))
        return lambda: ended.append(1)

    desk.app.sweep("s")(Whole(gate))
    stop = await desk.app.worker().start_sweeps(5, scheduler=scheduler, only=["s"])
    ((tick, every),) = given
    assert every == 5
    first = asyncio.create_task(tick())
    await asyncio.wait_for(gate.began.wait(), 10)
    await tick()  # comes while the first still runs: does nothing
    gate.go.set()
    await first
    await tick()
    await stop()
    await tick()
    assert (gate.done, gate.most, ended) == (2, 1, [1])


async def test_the_timer_comes_again_after_each_rest_also_after_a_failure(desk: Desk) -> None:
    began: list[datetime] = []

    async def step() -> Tally:
        began.append(desk.clock.now())
        raise ValueError

    desk.app.sweep("s")(Whole(step))
    stop = await desk.app.worker().start_sweeps(5, only=["s"])
    for _ in range(3):
        await turns()
        desk.clock.advance(5)
    await turns()
    await stop()
    assert [(at - began[0]).total_seconds() for at in began] == [0, 5, 10, 15]


async def test_a_timer_for_an_unknown_sweep_is_refused(desk: Desk) -> None:
    with pytest.raises(InvalidArgument, match=f"there are: {', '.join(OWN)}"):
        await desk.app.worker().start_sweeps(only=["nope"])


# -- a worker's loops ------------------------------------------------------------------------------


async def test_a_worker_drives_each_sweep_as_a_loop_of_its_own(desk: Desk) -> None:
    seen = asyncio.Event()

    async def step() -> Tally:
        seen.set()
        return Tally(buckets={"failed": ("a",), "moved": ("b",)})

    desk.app.sweep("s", every=5)(Whole(step))
    async with desk.app.worker() as worker:
        await asyncio.wait_for(seen.wait(), 10)
        await turns()
        (status,) = [one for one in worker.loops() if one.name == "sweep:s"]
        assert status.outcomes["degraded"] == 1
        assert status.cause == "1 of 2 rows went wrong: 1 failed"
        assert {"rescue", "prune"} < {one.name for one in worker.loops()}
        assert not [one for one in worker.loops() if one.name == "sweep:rescue"]


async def test_a_loop_leads_until_after_its_next_pass_and_a_pass_by_hand_but_shortly(
    desk: Desk,
) -> None:
    desk.app.sweep("s", every=60)(Whole(moved))
    loops = [
        next(loop for loop in desk.app.worker()._parts.loops if loop.name == "sweep:s")
        for _ in range(2)
    ]

    async def verdicts() -> list[Verdict]:
        turns = [await loop.step() for loop in loops]
        return [turn.verdict for turn in turns if isinstance(turn, Turn)]

    async with desk.app:
        await desk.app.worker().run_once(only=["s"])
        assert await verdicts() == [Verdict.EMPTY, Verdict.EMPTY]
        desk.clock.advance(16)
        for _ in range(2):
            assert await verdicts() == [Verdict.CLEAN, Verdict.EMPTY]
            desk.clock.advance(60 - 1)
        loops.reverse()  # the leader does not come back in time
        desk.clock.advance(3)
        assert await verdicts() == [Verdict.CLEAN, Verdict.EMPTY]


async def test_a_lead_that_a_stop_has_no_time_to_give_back_is_no_error(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def hang(store: object, key: str, holder: str) -> bool:
        asked.append(key)
        return await asyncio.Event().wait()

    monkeypatch.setattr(MemoryStore, "release_claim", hang)
    desk.app.sweep("s", every=60)(Whole(moved))
    (loop,) = [one for one in desk.app.worker()._parts.loops if one.name == "sweep:s"]
    async with desk.app:
        await loop.step()
        assert loop.stop is not None
        await loop.stop(0.0)
    assert len(asked) == 1


async def turn_of(app: App, answer: Tally | Exception, by_rows: bool = False) -> Turn:
    async def step() -> Tally:
        if isinstance(answer, Exception):
            raise answer
        return answer

    class Rows:
        async def claim(self, ctx: Any, now: datetime, limit: int) -> list[str]:
            return ["a"]

        async def advance(self, ctx: Any, row: str, now: datetime) -> None: ...

    app.sweep("s", limit=1)(Rows() if by_rows else Whole(step))
    async with app:
        (loop,) = [one for one in app.worker()._parts.loops if one.name == "sweep:s"]
        turn = await loop.step()
    assert isinstance(turn, Turn)
    return turn


async def test_a_failed_pass_is_a_failed_turn(desk: Desk) -> None:
    turn = await turn_of(desk.app, KeyError("secret"))
    assert (turn.verdict, turn.cause) == (Verdict.FAILED, "the sweep s failed: KeyError")
    assert turn.again is None


async def test_a_full_pass_is_followed_soon(desk: Desk) -> None:
    assert (await turn_of(desk.app, Tally(counted={"moved": 1}, more=True))).again is True


async def test_a_full_pass_of_rows_is_followed_after_a_breath(desk: Desk) -> None:
    assert (await turn_of(desk.app, Tally(), by_rows=True)).again == BREATH


async def test_a_pass_whose_rows_all_failed_does_not_hurry(desk: Desk) -> None:
    turn = await turn_of(desk.app, Tally(counted={"failed": 1}, more=True))
    assert (turn.verdict, turn.again) == (Verdict.FAILED, None)


async def test_passes_and_rows_are_counted(desk: Desk) -> None:
    async def step() -> Tally:
        desk.clock.advance(3)
        return Tally(counted={"moved": 4, "failed": 1})

    desk.app.sweep("s")(Whole(step))
    await desk.passing(only="s")
    metrics = desk.app.metrics
    rows = {one.labels["bucket"]: one.value for one in metrics.list("offpath_sweep_rows_total")}
    assert rows == {"moved": 4, "failed": 1}
    (passes,) = metrics.list("offpath_sweep_passes_total")
    assert (passes.labels, passes.value) == ({"sweep": "s", "outcome": "degraded"}, 1)
    (took,) = metrics.list("offpath_sweep_pass_seconds")
    assert took.total == 3


async def test_redrive_puts_dead_jobs_back_as_the_policy_says() -> None:
    clock = ManualClock()
    app = App(clock=clock, auto_start=False, redrive=Redrive())

    @app.task(retry=1)
    async def fail() -> None:
        raise ValueError

    async with app:
        job = await fail.enqueue()
        await app.worker().run_until_idle()
        clock.advance(7 * 86_400)
        run = await app.worker().run_once(only=["redrive"])
        assert run["redrive"].tally.buckets == {"redriven": (job.id,)}
        assert (await app.jobs.get(job.id)).state is JobState.QUEUED


async def test_a_worker_drives_what_is_registered_when_it_is_there_already() -> None:
    app = App(auto_start=False)
    ran: dict[str, asyncio.Event] = {name: asyncio.Event() for name in ("made", "running", "late")}

    def sweep(name: str) -> None:
        async def step() -> Tally:
            ran[name].set()
            return Tally()

        app.sweep(name)(Whole(step))

    async with app:
        worker = app.worker()
        sweep("made")
        async with worker:
            sweep("running")
            async with asyncio.timeout(10):
                await ran["made"].wait()
                await ran["running"].wait()
            names = [loop.name for loop in worker.loops()]
            assert [names.count(f"sweep:{name}") for name in ("made", "running")] == [1, 1]
        sweep("late")
        assert "sweep:late" not in [loop.name for loop in worker.loops()]

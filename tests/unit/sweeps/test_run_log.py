"""Passes that found something are kept: at once, or several that went well together."""

from __future__ import annotations

from typing import Any

import pytest

from offpath import App
from offpath.model.run import RunKind, RunRecord
from offpath.model.tally import SweepResult, Tally, Verdict
from offpath.runtime.clock import ManualClock
from offpath.runtime.ids import new_id
from offpath.settlements import Credited
from offpath.settlements.rates import PlayerActivity
from offpath.store.memory import MemoryStore
from offpath.sweeps.run_log import EVERY, RunLog

MOVED = SweepResult(name="carts", tally=Tally(buckets={"moved": ("a", "b")}), seconds=0.5)
FAILED = SweepResult(
    name="carts", tally=Tally(buckets={"moved": ("a",), "failed": ("b",)}), seconds=0.5
)
NOTHING = SweepResult(name="carts")
LED = SweepResult(name="carts", tally=Tally(skipped="another worker leads it"))


class Log:
    """A log on a store of its own, and what was reported."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(clock=self.clock)
        self.told: list[str] = []
        self.log = RunLog("carts", "w1", self.store, self.clock, new_id)

    async def note(self, result: SweepResult) -> None:
        await self.log.note(result, self.report)

    def report(self, error: BaseException, phase: str, **_: Any) -> None:
        self.told.append(f"{type(error).__name__} {phase}")

    async def kept(self) -> list[RunRecord]:
        return await self.store.runs()


async def test_a_pass_that_found_something_is_kept() -> None:
    log = Log()
    await log.note(MOVED)
    (one,) = await log.kept()
    assert (one.kind, one.name, one.report.worker) == (RunKind.SWEEP, "carts", "w1")
    assert (one.report.counts, one.report.passes, one.report.seconds) == ({"moved": 2}, 1, 0.5)


@pytest.mark.parametrize("result", [NOTHING, LED])
async def test_one_that_found_nothing_is_not(result: SweepResult) -> None:
    log = Log()
    await log.note(result)
    await log.log.flush(log.report)
    assert await log.kept() == []


async def test_passes_that_went_well_are_told_together() -> None:
    log = Log()
    for _ in range(4):
        await log.note(MOVED)
    assert len(await log.kept()) == 1
    log.clock.advance(EVERY)
    await log.note(MOVED)
    newest, _ = await log.kept()
    assert (newest.report.passes, newest.report.counts) == (4, {"moved": 8})


async def test_one_that_went_wrong_is_told_at_once_with_what_was_before() -> None:
    log = Log()
    await log.note(MOVED)
    await log.note(MOVED)
    await log.note(FAILED)
    newest, _ = await log.kept()
    assert (newest.report.verdict, newest.report.passes) == (Verdict.DEGRADED, 2)
    assert newest.report.counts == {"moved": 3, "failed": 1}
    assert newest.report.cause == "1 of 2 rows went wrong: 1 failed"


async def test_what_was_not_told_is_told_at_the_end() -> None:
    log = Log()
    await log.note(MOVED)
    await log.note(MOVED)
    await log.log.flush(log.report)
    assert [one.report.passes for one in await log.kept()] == [1, 1]


async def test_what_cannot_be_kept_hinders_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()

    async def away(_: RunRecord) -> None:
        raise ConnectionError

    monkeypatch.setattr(log.store, "put_run", away)
    await log.note(MOVED)
    assert log.told == ["ConnectionError sweep:carts"]


class Carts:
    """A sweep that always finds two rows."""

    async def run(self, _ctx: Any, _now: Any, _limit: int) -> Tally:
        return Tally(buckets={"moved": ("a", "b")})


async def test_a_pass_by_hand_of_the_apps_own_sweep_is_kept() -> None:
    app = App("memory://")
    app.sweep("carts", every=60)(Carts)
    async with app:
        await app.worker().run_once(only=["carts", "prune"])
        (one,) = await app.store().runs()
        assert (one.name, one.report.counts) == ("carts", {"moved": 2})


async def test_a_settlement_run_is_kept_while_the_app_is_open() -> None:
    app = App("memory://")

    async def records(_: Any) -> Any:
        yield PlayerActivity(id="r", user="u")

    async def credit(_user: str, _amount: int, _key: str) -> Credited:
        return Credited()

    app.settlements.define("bonus", records=records, calculate=lambda _: 5, credit=credit)
    await app.settlements.run("bonus", "2026-11")  # it is closed: nothing is opened for this
    async with app:
        await app.settlements.run("bonus", "2026-10")
        (one,) = await app.store().runs()
    assert (one.kind, one.name, one.report.period) == (
        RunKind.SETTLEMENT,
        "bonus",
        "2026-10@UTC",
    )
    assert (one.report.verdict, one.report.counts["credited"]) == (Verdict.CLEAN, 1)

"""An app with settlement runs over five players, and everything around it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from offpath import App
from offpath.errors import SettlementFailed
from offpath.model.settlement_counts import SettlementCounts
from offpath.settlements import SettlementSummary
from offpath.settlements.rates import PlayerActivity, Rebate, Share
from offpath.testing import FakeCredits, FakeRecords, ManualClock

NOVEMBER = "2026-11"
REBATE = Rebate(share=Share.parse("1%"))


def players(count: int) -> list[PlayerActivity]:
    return [
        PlayerActivity(id=f"r{n}", user=f"u{n}", turnover=1_000 * n) for n in range(1, count + 1)
    ]


class Desk:
    """An app with rebates over five players, and everything around it."""

    def __init__(self, records: Any = None, **terms: Any) -> None:
        self.clock = ManualClock()
        self.told: list[tuple[str, str]] = []
        self.app = App(clock=self.clock, on_error=self.note)
        self.credits = FakeCredits()
        self.records = records or FakeRecords(players(5))
        given: dict[str, Any] = {"calculate": REBATE, "credit": self.credits, **terms}
        self.app.settlements.define("rebate", records=self.records, **given)

    def note(self, error: BaseException, phase: str) -> None:
        self.told.append((type(error).__name__, phase))

    async def run(self, period: str = NOVEMBER, **options: Any) -> SettlementSummary:
        return await self.app.settlements.run("rebate", period, **options)

    async def failing(self) -> SettlementFailed:
        with pytest.raises(SettlementFailed) as caught:
            await self.run()
        return caught.value

    def counted(self, name: str) -> float:
        found = self.app.metrics.get(f"offpath_settlement_{name}", kind="rebate")
        return 0 if found is None else found.value


async def reach(condition: Callable[[], bool]) -> None:
    """Let the others run until the condition holds."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    pytest.fail("it never came to that")


def counts(summary: SettlementCounts) -> tuple[int, int, int, int]:
    return summary.attempted, summary.credited, summary.failed, summary.skipped

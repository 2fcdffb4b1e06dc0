"""A sweep in one worker: whether it leads, its pass, and its loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from offpath.model.tally import SweepResult, Tally, Turn, Verdict
from offpath.runtime.clock import Clock
from offpath.runtime.loop import FREED, LoopSpec
from offpath.runtime.metrics import Metrics
from offpath.runtime.tasks import Report
from offpath.store.protocol import Store
from offpath.sweeps.body import Body
from offpath.sweeps.bounds import Bounds
from offpath.sweeps.context import SweepContext
from offpath.sweeps.leader import SHORTEST_TERM, Lead, term_of
from offpath.sweeps.rows import RowPass
from offpath.sweeps.run_log import RunLog
from offpath.sweeps.runs import result_of

if TYPE_CHECKING:
    from offpath.sweeps.registry import Sweep

BREATH = 1.0
"""Seconds between two passes of rows when there may be more: a claim that never pushes the due
time of its rows, and so gives the same ones for ever, must not keep a worker busy."""
HANDOVER = 1.0
"""Seconds that giving the lead back may take when the worker stops: the term ends by itself too."""
OTHER_LEADS = "another worker leads it"


async def _for_good() -> bool:
    return True


class Under:
    """A sweeper whose passes are made under this lead; None asks nobody who leads."""

    def __init__(self, sweeper: Sweeper, lead: Lead | None) -> None:
        self.name = sweeper.name
        self._sweeper = sweeper
        self._lead = lead

    async def run(self, now: datetime, limit: int | None) -> Tally:
        """One pass."""
        return await self._sweeper.under(self._lead, now, limit)


class SweepParts(Struct, frozen=True):
    """The parts that the sweeps of one worker share."""

    app: Any
    store: Store
    clock: Clock
    metrics: Metrics
    report: Report
    holder: str
    """The id of this worker for the others."""
    new_id: Callable[[], str]


class Sweeper:
    """One sweep in one worker. Its passes never overlap."""

    def __init__(self, sweep: Sweep, parts: SweepParts) -> None:
        self._info = info = sweep.info
        self._parts = parts
        self._body = Body(sweep.target)
        self._bounds = Bounds(parts.clock, parts.report)
        self._passing = asyncio.Lock()
        self._lead = self._leading(term_of(info.every))
        self._driven = Under(self, self._lead)
        # A pass by hand or by cron is not followed by this process's next one: the shortest term.
        self._once = self._leading(SHORTEST_TERM)
        self._log = RunLog(info.name, parts.holder, parts.store, parts.clock, parts.new_id)

    def _leading(self, term: float) -> Lead | None:
        info, parts = self._info, self._parts
        if info.shared:
            return None
        return Lead(info.name, parts.holder, term, store=parts.store, clock=parts.clock)

    @property
    def name(self) -> str:
        """The sweep's name."""
        return self._info.name

    def loop(self) -> LoopSpec:
        """The loop that a worker drives it by."""
        info = self._info
        return LoopSpec(
            name=f"sweep:{self.name}",
            step=self.step,
            interval=info.every,
            window=info.window,
            wakes=frozenset({FREED}),
            stop=self.leave,
        )

    async def step(self) -> Turn:
        """One pass as a turn of a loop."""
        parts = self._parts
        now = parts.clock.now()
        result = await result_of(self._driven, now, None, clock=parts.clock, report=parts.report)
        self.count(result)
        await self._log.note(result, parts.report)
        return Turn(
            verdict=result.verdict,
            counts=result.tally.counts,
            again=self._again(result),
            cause=result.cause,
            skipped=result.tally.skipped,
        )

    async def leave(self, seconds: float) -> None:
        """Let another worker lead from now on, as far as nothing of a pass goes on here."""
        with suppress(TimeoutError):
            async with asyncio.timeout(min(seconds, HANDOVER)):
                await self._log.flush(self._parts.report)
        if self._lead is None or self._passing.locked() or self._bounds.abandoned:
            return
        # What there was no time for is not an error: the term ends by itself.
        with suppress(TimeoutError):
            async with asyncio.timeout(min(seconds, HANDOVER)):
                await self._lead.release()

    async def run(self, now: datetime, limit: int | None) -> Tally:
        """One pass by hand, unless another worker leads."""
        return await self.under(self._once, now, limit)

    async def under(self, lead: Lead | None, now: datetime, limit: int | None) -> Tally:
        """One pass, if it leads. Raises what the claim raises; rows raise nothing."""
        async with self._passing:
            if (reason := self._body.skip()) is not None:
                return Tally(skipped=reason)
            if lead is not None and not await lead.held():
                return Tally(skipped=OTHER_LEADS)
            return await self._pass(now, limit or self._info.limit, lead)

    async def noted(self, result: SweepResult) -> None:
        """Keep a pass that was made by hand at once: the process may end after it."""
        if self._info.own:
            return  # an action, or who asked, has its counts
        await self._log.note(result, self._parts.report)
        await self._log.flush(self._parts.report)

    def count(self, result: SweepResult) -> None:
        """Tell the metrics of a pass."""
        metrics, name = self._parts.metrics, self.name
        outcome = result.verdict.value
        metrics.counter("offpath_sweep_passes_total", sweep=name, outcome=outcome).add()
        metrics.summary("offpath_sweep_pass_seconds", sweep=name).observe(result.seconds)
        for bucket, number in result.tally.counts.items():
            metrics.counter("offpath_sweep_rows_total", sweep=name, bucket=bucket).add(number)

    async def _pass(self, now: datetime, limit: int, lead: Lead | None) -> Tally:
        info, body = self._info, self._body
        ctx = SweepContext(app=self._parts.app, sweep=self.name, id=self._parts.new_id(), now=now)
        ask = partial(body.claim if body.by_rows else body.run, ctx, now, limit)
        what = f"{'the claim' if body.by_rows else 'a pass'} of the sweep {self.name}"
        self._bounds.refuse_abandoned(what)
        answer: Any = await self._bounds.run(ask, info.claim_timeout, what)
        if isinstance(answer, Tally):
            return answer
        rows = RowPass(
            body, ctx, self._bounds, row_timeout=info.row_timeout, report=self._parts.report
        )
        return await rows.run(answer, limit, _for_good if lead is None else lead.still)

    def _again(self, result: SweepResult) -> bool | float | None:
        if not result.tally.more or result.verdict is Verdict.FAILED:
            return None
        return min(BREATH, self._info.every) if self._body.by_rows else True

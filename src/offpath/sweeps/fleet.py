"""All sweeps of one worker: run once together, or each by its loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from offpath.model import checks
from offpath.model.tally import SweepRun
from offpath.sweeps.registry import MOST_ROWS
from offpath.sweeps.runs import choose, run_sweeps
from offpath.sweeps.sweeper import Sweeper, SweepParts, Under

if TYPE_CHECKING:
    from offpath.runtime.loop import LoopSpec
    from offpath.sweeps.registry import SweepRegistry


class WorkerSweeps:
    """The sweeps of an app as one worker runs them."""

    def __init__(self, registry: SweepRegistry, parts: SweepParts) -> None:
        self._registry = registry
        self._parts = parts
        self._sweepers: dict[str, Sweeper] = {}
        self._running = asyncio.Lock()

    def loops(self, only: str | None = None) -> tuple[LoopSpec, ...]:
        """The loops of those sweeps (or of ``only``) that the jobs worker does not drive itself."""
        sweeps = [sweep.info.name for sweep in self._registry.all() if sweep.driven]
        driven = [name for name in sweeps if only in (None, name)]
        return tuple(one.loop() for one in choose(self._all(), driven))

    async def run(
        self,
        now: datetime | None = None,
        *,
        only: str | Iterable[str] | None = None,
        limit: int | None = None,
        force: bool = False,
    ) -> SweepRun:
        """One pass of each sweep; see :meth:`offpath.Worker.run_once`."""
        parts = self._parts
        self.check(only=only, limit=limit)
        given = None if now is None else checks.aware(now, "now")
        async with self._running:
            now = given or parts.clock.now()
            batch = await run_sweeps(
                [Under(one, None) for one in self._all()] if force else self._all(),
                now,
                limit,
                only=only,
                clock=parts.clock,
                report=parts.report,
                finished=lambda result: self._sweepers[result.name].count(result),
            )
            for result in batch:
                await self._sweepers[result.name].noted(result)
        return SweepRun(batch=batch, postings=tuple(p for r in batch for p in r.tally.postings))

    def check(self, *, only: str | Iterable[str] | None, limit: int | None) -> None:
        """Raise ``InvalidArgument`` for an unknown name or a limit that cannot be."""
        choose(self._all(), only)
        if limit is not None:
            checks.integer(limit, "limit", least=1, most=MOST_ROWS)

    def _all(self) -> list[Sweeper]:
        for sweep in self._registry.all():
            name = sweep.info.name
            if name not in self._sweepers:
                self._sweepers[name] = Sweeper(sweep, self._parts)
        return [self._sweepers[sweep.info.name] for sweep in self._registry.all()]

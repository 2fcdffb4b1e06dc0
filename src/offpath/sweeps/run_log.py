"""The record of passes that found something, as a worker keeps it in the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Final

from offpath.model.run import LONGEST_ERROR, RunKind, RunRecord, RunReport
from offpath.model.tally import SweepResult, Verdict
from offpath.runtime.clock import Clock
from offpath.runtime.tasks import Report
from offpath.store.protocol import Store

EVERY: Final = 10.0
"""Seconds between two rows of passes that went well: those between are told together."""


class RunLog:
    """The runs of one sweep in one worker."""

    def __init__(
        self,
        name: str,
        worker: str,
        store: Store,
        clock: Clock,
        new_id: Callable[[], str],
        *,
        every: float = EVERY,
    ) -> None:
        self._name, self._worker, self._every = name, worker, every
        self._store, self._clock, self._new_id = store, clock, new_id
        self._counts: Counter[str] = Counter()
        self._passes, self._seconds = 0, 0.0
        self._began: datetime | None = None
        self._told_at: float | None = None

    async def note(self, result: SweepResult, report: Report) -> None:
        """Keep a pass that found something; what cannot be kept is reported, and hinders nothing.

        One that went wrong is kept at once.
        """
        if result.verdict is Verdict.EMPTY or result.tally.skipped is not None:
            return
        self._counts.update(result.tally.counts)
        self._passes += 1
        self._seconds += result.seconds
        self._began = self._began or self._clock.now()
        rests = self._told_at is not None and self._clock.monotonic() - self._told_at < self._every
        if result.verdict is Verdict.CLEAN and rests:
            return
        await self._write(result.verdict, result.cause, report)

    async def flush(self, report: Report) -> None:
        """Keep what was not told yet, as the worker ends."""
        if self._passes:
            await self._write(Verdict.CLEAN, None, report)

    async def _write(self, verdict: Verdict, cause: str | None, report: Report) -> None:
        run = RunRecord(
            id=self._new_id(),
            kind=RunKind.SWEEP,
            name=self._name,
            at=self._began or self._clock.now(),
            report=RunReport(
                verdict=verdict,
                seconds=self._seconds,
                counts=dict(self._counts),
                passes=self._passes,
                worker=self._worker,
                cause=None if cause is None else cause[:LONGEST_ERROR],
            ),
        )
        self._told_at, self._began = self._clock.monotonic(), None
        self._counts, self._passes, self._seconds = Counter(), 0, 0.0
        try:
            await self._store.put_run(run)
        except Exception as error:  # noqa: BLE001 - the pass was made; its record is for people
            report(error, f"sweep:{self._name}")

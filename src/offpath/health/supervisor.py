"""The judge of a worker: from outside its loops, in whatever thread asks, by a clock of its own.

A frozen event loop cannot answer, and a frozen loop cannot vouch for itself; so both only leave
marks of what they did, and the judge reads how old those are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

if TYPE_CHECKING:
    from offpath.model.health import WorkerReport
    from offpath.runtime.clock import Clock

PULSE_EVERY = 1.0
"""Seconds between two marks that the event loop turns."""
STALLED = 30.0
"""Seconds without a mark after which it does not: as long as a default lease lasts."""


class Supervisor:
    """Judges one worker and the event loop it lives in. Ask it from any thread."""

    def __init__(self, report: Callable[[], WorkerReport], clock: Clock) -> None:
        self._report = report
        self._clock = clock
        self._turned_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to watch the running event loop."""
        self.pulse()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(PULSE_EVERY, self.start)

    def stop(self) -> None:
        """Watch it no longer."""
        if self._timer is not None:
            self._timer.cancel()

    def pulse(self) -> None:
        """Mark that the event loop turns."""
        self._turned_at = self._clock.monotonic()

    def stall(self) -> str | None:
        """The reason why the event loop does not turn, in one line; None when it does."""
        if self._turned_at is None:
            return "the event loop has not been seen yet"
        age = self._clock.monotonic() - self._turned_at
        if age <= STALLED:
            return None
        return f"the event loop has not turned for {age:.0f} s: does a handler block it?"

    def judged(self) -> WorkerReport:
        """The worker's health now."""
        report = self._report()
        stall = self.stall()
        return report if stall is None else replace(report, problems=(*report.problems, stall))


class Sibling(Struct, frozen=True, kw_only=True):
    """A worker's place among the processes that one command started."""

    number: int = 0
    """From 0; each is served on the next port."""
    count: int = 1


ALONE = Sibling()


def document(report: WorkerReport, sibling: Sibling = ALONE) -> dict[str, Any]:
    """A report as JSON for programs: all fields, and what they amount to."""
    return {
        "process": asdict(sibling),
        "ready": report.ready,
        "reasons": list(report.reasons),
        "loops": [asdict(loop) for loop in report.loops],
        "waiting": [asdict(gauge) for gauge in report.gauges],
        "running": report.running,
        "findings": list(report.findings),
        "settlements": [asdict(run) for run in report.settlements],
        "warnings": list(report.warnings),
    }

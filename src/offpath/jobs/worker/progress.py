"""Writing down how far running jobs are: about once a second, whatever they report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpath.errors import LeaseLost
from offpath.jobs.values.run import silent
from offpath.model.tally import Turn, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpath.jobs.values.run import Run
    from offpath.runtime.clock import Clock
    from offpath.store.protocol import Store

PAUSE = 1.0
"""Seconds between two rounds of writing."""


class ProgressWriter:
    """Collects what contexts report, and writes the latest of each."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        lost: Callable[[Run], None],
        report: Callable[[BaseException, str], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._lost = lost
        self._report = report
        # A set in order: who told first is written first.
        self._reported: dict[Run, None] = {}
        self.wake: Callable[[], None] = silent
        """Makes the next step come soon; set by whoever repeats it."""
        self._may_write_at = 0.0

    def note(self, run: Run) -> None:
        """``run`` has something to write."""
        self._reported[run] = None
        self.wake()

    async def step(self) -> Turn | float | None:
        """Write what was reported, unless that was done just now; returns when to come again."""
        if not self._reported:
            return _NOTHING
        wait = self._may_write_at - self._clock.monotonic()
        if wait > 0:
            return wait
        # From the beginning of a round: a slow store must not be asked more often for being slow.
        self._may_write_at = self._clock.monotonic() + PAUSE
        reported, self._reported = self._reported, {}
        written = [await self.write(run) for run in reported if not run.over]
        failed = written.count(False)
        if not failed:
            return None
        verdict = Verdict.FAILED if failed == len(written) else Verdict.DEGRADED
        counts = {"written": len(written) - failed, "failed": failed}
        return Turn(verdict=verdict, counts=counts, cause="progress could not be written")

    async def write(self, run: Run) -> bool:
        """Write what ``run`` reported last. Progress is not worth a job: errors are reported.

        Returns whether there was none.
        """
        # Before the text is taken: what is reported during the write is noted again, and not lost.
        self._reported.pop(run, None)
        text = None if run.context is None else run.context.take_progress()
        if text is None:
            return True
        try:
            await self._store.progress(run.job, text)
        except LeaseLost:
            self._lost(run)
        except Exception as error:  # noqa: BLE001 - see above
            self._report(error, "progress")
            return False
        return True


_NOTHING = Turn(verdict=Verdict.EMPTY)

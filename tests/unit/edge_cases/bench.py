"""An app on memory whose time is moved by hand and whose work runs when told."""

from __future__ import annotations

from offpath import App, JobEvent, JobRecord
from offpath.jobs.worker.terms import AttemptCounts
from offpath.runtime.clock import ManualClock


class Bench:
    """An app, its clock, and what it told."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.events: list[JobEvent] = []
        self.errors: list[tuple[BaseException, str]] = []
        self.app = App(
            auto_start=False,
            clock=self.clock,
            on_event=self.events.append,
            on_error=lambda error, phase: self.errors.append((error, phase)),
        )

    async def run(self) -> AttemptCounts:
        """Run what is due now, and what that leads to at once."""
        return await self.app.worker().run_until_idle()

    async def run_after(self, seconds: float) -> AttemptCounts:
        """Let time pass, then run what is due."""
        self.clock.advance(seconds)
        return await self.run()

    async def record(self, job_id: str) -> JobRecord:
        return await self.app.jobs.get(job_id)

    def kinds(self, job_id: str) -> list[str]:
        """The reports about a job, in order."""
        return [str(event.kind) for event in self.events if event.id == job_id]

    def reading(self, name: str, task: str) -> float:
        """A metric of one task in the default queue."""
        found = self.app.metrics.get(name, task=task, queue="default")
        return 0.0 if found is None else found.value

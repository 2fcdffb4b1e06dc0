"""Workers under judgement, over the memory store and a clock that the test moves."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from offpath.jobs.worker.terms import WorkerSettings
from offpath.jobs.worker.worker import Worker
from offpath.model.health import Condition, LoopReport
from offpath.model.tally import Tally
from offpath.runtime.loop import Loop
from tests.unit.jobs.worker.rig import Rig, breathe


class NothingIdle:
    """A redrive that finds nothing."""

    async def move(self, limit: int) -> Tally:
        assert limit > 0
        return Tally()


async def started(rig: Rig, settings: dict[str, Any] | None = None, **parts: Any) -> Worker:
    """A started worker with all of its loops, and those that ``parts`` adds."""
    made = rig.worker(redrive=NothingIdle())
    worker = Worker(replace(made._parts, **parts), rig.tasks, WorkerSettings(**(settings or {})))
    rig.workers.append(worker)
    await worker.start()
    await breathe()
    return worker


def loop_of(worker: Worker, name: str) -> Loop:
    (found,) = [loop for loop in worker._loops.values() if loop.name == name]
    return found


def report_of(worker: Worker, name: str) -> LoopReport:
    (found,) = [one for one in worker.health() if one.name == name]
    return found


def red(worker: Worker) -> set[str]:
    """The names of the loops that are unhealthy."""
    return {one.name for one in worker.health() if one.condition is Condition.UNHEALTHY}

"""An app with batch tasks, whose calls the test sees."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import offpath
from offpath import App, JobState
from offpath.runtime.clock import ManualClock
from tests.unit.jobs.worker.rig import breathe

LONG = 600.0


class Bench:
    """An app over memory whose worker the test starts, and the calls that its handler got."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.errors: list[tuple[BaseException, str]] = []
        self.app = App(
            clock=self.clock,
            auto_start=False,
            on_error=lambda error, phase: self.errors.append((error, phase)),
            retry=offpath.RetryOptions(attempts=3, base=1.0, jitter=0.0),
        )
        self.calls: list[list[int]] = []
        self.door = asyncio.Event()

    def doubling(self, size: int = 3, max_wait: float = LONG, **settings: Any) -> Any:
        async def double(numbers: list[int]) -> list[int]:
            self.calls.append(numbers)
            return [2 * number for number in numbers]

        return self.app.batch_task(size=size, max_wait=max_wait, **settings)(double)

    def held(self, size: int = 2, **settings: Any) -> Any:
        """One whose calls last until the door is opened."""

        async def held(numbers: list[int]) -> list[int]:
            self.calls.append(numbers)
            await self.door.wait()
            return [2 * number for number in numbers]

        return self.app.batch_task(size=size, max_wait=LONG, **settings)(held)

    def giving(self, *answers: Callable[[list[int]], Sequence[Any]], size: int = 2) -> Any:
        """One that answers call after call, and the last answer from then on."""
        left = list(answers)

        async def give(numbers: list[int]) -> list[Any]:
            self.calls.append(numbers)
            answer = left.pop(0) if len(left) > 1 else left[0]
            return list(answer(numbers))

        return self.app.batch_task(size=size, max_wait=LONG)(give)

    async def idle(self, **settings: Any) -> Any:
        return await self.app.worker(**settings).run_until_idle()

    async def state(self, handle: Any) -> JobState:
        record: offpath.JobRecord = await handle.status()
        return record.state

    async def pass_time(self, seconds: float, step: float = 0.25) -> None:
        await breathe()
        while seconds > 1e-9:
            self.clock.advance(min(step, seconds))
            seconds -= step
            await breathe()


def doubled(numbers: list[int]) -> list[int]:
    return [2 * number for number in numbers]

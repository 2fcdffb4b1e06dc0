"""Things that repeat, and tasks that run beside: none ends or fails without somebody knowing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct

from offpath.model.tally import Turn
from offpath.runtime.clock import Clock
from offpath.runtime.log import logger

Report = Callable[[BaseException, str], None]
"""Told of every error that the engine survives: the error, and the phase it came from."""

Iteration = Callable[[], Awaitable[Turn | bool | float | None]]
"""One turn of a loop. What it returns says when to go on: True at once, a number after so many
seconds, None after the interval. A :class:`Turn` also says how it went; the others mean clean."""

_log = logger("loop")


def reporter(on_error: Report | None = None) -> Report:
    """A report that logs and then tells ``on_error``; what that raises is logged and dropped."""

    def report(error: BaseException, phase: str) -> None:
        _log.error("%s failed: %s", phase, type(error).__name__, exc_info=error)
        if on_error is None:
            return
        try:
            on_error(error, phase)
        except Exception as second:  # noqa: BLE001 - a broken hook disturbs nothing
            _log.error("on_error raised %s", type(second).__name__, exc_info=second)

    return report


class Tasks:
    """Tasks that nobody awaits: kept alive, reported when they fail, ended together."""

    __slots__ = ("_report", "_tasks")

    def __init__(self, report: Report) -> None:
        self._report = report
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, Any], phase: str) -> asyncio.Task[Any]:
        """Start ``work``. What it raises is reported under ``phase``, unless it is cancelled."""
        task = asyncio.get_running_loop().create_task(work, name=f"offpath {phase}")
        self._tasks.add(task)
        task.add_done_callback(lambda ended: self._ended(ended, phase))
        return task

    async def stop(self, patience: float = 2.0) -> int:
        """Cancel all and wait for them at most ``patience`` seconds; how many did not end."""
        own = asyncio.current_task()
        others = {task for task in self._tasks if task is not own}
        for task in others:
            task.cancel()
        if not others:
            return 0
        _, left = await asyncio.wait(others, timeout=patience)
        return len(left)

    def _ended(self, task: asyncio.Task[Any], phase: str) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._report(error, phase)


class LoopState(StrEnum):
    """What a loop does now."""

    NEW = "new"
    WORKING = "working"
    RESTING = "resting"
    FAILING = "failing"
    """Its last turn failed; it waits before the next."""
    STOPPED = "stopped"


class LoopStatus(Struct, frozen=True, kw_only=True):
    """A loop as health sees it."""

    name: str
    state: LoopState
    iterations: int
    failures: int
    """How many of the iterations failed."""
    consecutive_failures: int
    last_success: datetime | None
    last_failure: datetime | None
    last_error: str | None
    """Type name of the last error; its text may hold secrets."""


class Pace(Struct, frozen=True, kw_only=True):
    """How fast a loop goes, in seconds."""

    interval: float
    """The longest rest between two turns when nothing wakes it."""
    first_backoff: float = 0.1
    """Wait after a first failure; doubled by each further one."""
    longest_backoff: float = 5.0
    jitter: float = 0.1
    """Share by which a rest is shortened at random, so that a fleet does not poll in step."""

    def rest(self, asked: float | None, chance: float) -> float:
        """Seconds to rest when the turn asked for so many; ``chance`` is from 0 to 1."""
        if asked is not None:
            return max(0.0, min(asked, self.interval))
        return self.interval * (1 - self.jitter * chance)

    def backoff(self, failures: int, chance: float) -> float:
        """Seconds to wait after so many failures in a row: half of it certain, half chance."""
        full = self.first_backoff * 2.0 ** min(failures - 1, 30)
        return min(full, self.longest_backoff) * (0.5 + 0.5 * chance)


class LoopSpec(Struct, frozen=True, kw_only=True):
    """A loop that somebody wants a worker to drive: what it does, how often, and how it is judged.

    It is unhealthy when more than ``budget`` iterations in a row failed or were degraded, or when
    its last success is older than ``window`` seconds (None: the larger of 60 and three intervals).
    """

    name: str
    step: Iteration
    interval: float
    budget: int = 3
    window: float | None = None
    critical: bool = True
    """Whether its health is the worker's."""
    wakes: frozenset[str] = frozenset()
    """The store's hints that bring its next turn at once."""
    stop: Callable[[float], Awaitable[None]] | None = None
    """Ends what its turns have begun, within so many seconds; called once its last turn is over."""


class Loop:
    """Repeats ``iteration`` until it is stopped: on a wake-up, else after the interval.

    A turn that raises is reported, and the next comes after a growing wait that no wake-up cuts
    short, so a broken loop cannot spin; nothing a turn raises ends the loop.
    """

    __slots__ = (
        "_chance",
        "_clock",
        "_ending",
        "_failed_turns",
        "_failures",
        "_iteration",
        "_iterations",
        "_last_error",
        "_last_failure",
        "_last_success",
        "_pace",
        "_report",
        "_state",
        "_task",
        "_woken",
        "name",
    )

    def __init__(
        self,
        name: str,
        iteration: Iteration,
        *,
        clock: Clock,
        pace: Pace,
        report: Report,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.name = name
        self._iteration = iteration
        self._clock = clock
        self._pace = pace
        self._report = report
        self._chance = chance
        self._woken = asyncio.Event()
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._state = LoopState.NEW
        self._iterations = 0
        self._failures = 0
        self._failed_turns = 0
        self._last_success: datetime | None = None
        self._last_failure: datetime | None = None
        self._last_error: str | None = None

    def start(self) -> None:
        """Begin, with a first turn at once; a loop that runs goes on as it is."""
        if self._task is None or self._task.done():
            self._ending.clear()
            self._woken.clear()
            self._task = asyncio.get_running_loop().create_task(
                self._run(), name=f"offpath loop {self.name}"
            )

    def wake(self) -> None:
        """Have the next turn now, or right after the present one. From the loop's thread."""
        self._woken.set()

    async def stop(self, patience: float = 0.0) -> bool:
        """End it: wait ``patience`` seconds for the present turn, then cancel it.

        False when the turn does not even end when cancelled (within two seconds). Idempotent.
        """
        self._ending.set()
        self._woken.set()
        task = self._task
        if task is None or task.done() or task is asyncio.current_task():
            self._state = LoopState.STOPPED
            return True
        if patience > 0:
            await asyncio.wait({task}, timeout=patience)
        task.cancel()
        ended, _ = await asyncio.wait({task}, timeout=_LAST_WAIT)
        return bool(ended)

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._task is not None and not self._task.done()

    def status(self) -> LoopStatus:
        """How it goes."""
        return LoopStatus(
            name=self.name,
            state=self._state,
            iterations=self._iterations,
            failures=self._failed_turns,
            consecutive_failures=self._failures,
            last_success=self._last_success,
            last_failure=self._last_failure,
            last_error=self._last_error,
        )

    async def _run(self) -> None:
        try:
            while not self._ending.is_set():
                await self._turn()
        finally:
            self._state = LoopState.STOPPED

    async def _turn(self) -> None:
        self._state = LoopState.WORKING
        self._woken.clear()
        try:
            asked = await self._iteration()
        except asyncio.CancelledError as error:
            # Cancelled by us, or did something the turn awaited end that way by itself?
            if _is_cancelled():
                raise
            await self._failed(error)
        except Exception as error:  # noqa: BLE001 - reported; a loop goes on
            await self._failed(error)
        else:
            await self._succeeded(asked)

    async def _succeeded(self, answer: Turn | bool | float | None) -> None:
        asked = answer.again if isinstance(answer, Turn) else answer
        self._iterations += 1
        self._failures = 0
        self._last_success = self._clock.now()
        self._state = LoopState.RESTING
        if asked is True:
            await asyncio.sleep(0)  # others must get their turn too
            return
        rest = self._pace.rest(None if asked is False else asked, self._chance())
        await self._clock.wait(self._woken, rest)

    async def _failed(self, error: BaseException) -> None:
        self._iterations += 1
        self._failures += 1
        self._failed_turns += 1
        self._last_failure = self._clock.now()
        self._last_error = type(error).__name__
        self._state = LoopState.FAILING
        try:
            self._report(error, self.name)
        except Exception as second:  # noqa: BLE001 - a report must not end the loop
            _log.error("reporting raised %s", type(second).__name__, exc_info=second)
        await self._clock.wait(self._ending, self._pace.backoff(self._failures, self._chance()))


_LAST_WAIT = 2.0


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

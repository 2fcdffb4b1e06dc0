"""Loops: things that repeat. None ends or fails without somebody knowing."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from offpath.errors import OffpathError
from offpath.model.health import BUDGET, Streak, window_of
from offpath.model.redact import redact_text
from offpath.model.tally import Turn, Verdict
from offpath.runtime.clock import Clock
from offpath.runtime.log import RateLimited, adapter, bind, logger
from offpath.runtime.loop_status import LoopState, LoopStatus
from offpath.runtime.pace import Pace
from offpath.runtime.tasks import Report

FREED: Final = "freed"
"""Brings a loop's next turn at once when this worker has found another one dead: it may have what
that one held."""

Answer = Turn | bool | float | None
Iteration = Callable[[], Awaitable[Answer]]
"""One turn of a loop. What it returns says when to go on: True at once, a number after so many
seconds, None after the interval. A :class:`Turn` also says how it went; the others mean clean."""

_log = logger("loop")

_NAMES: Final = {verdict: verdict.value for verdict in Verdict}


class LoopLimits(Struct, frozen=True, kw_only=True):
    """By what a loop is judged; see :class:`LoopSpec`."""

    budget: int = BUDGET
    window: float | None = None
    critical: bool = True
    rows: bool = False
    """True if a turn's counts are rows that may fail for good, each by itself: then only a turn
    that moved some, and failed none, is an end of the failures before it. Else any turn is in which
    nothing went wrong: it shows that the store answers again."""


class LoopSpec(Struct, frozen=True, kw_only=True):
    """A loop that somebody wants a worker to drive: what it does, how often, and how it is judged.

    It is unhealthy when more than ``budget`` iterations in a row failed or were degraded, when
    most of the last ones with rows were, or when its last success is older than ``window`` seconds
    (None: the larger of 60 and three intervals). An empty turn is not a failure, and ends none.
    """

    name: str
    step: Iteration
    interval: float
    budget: int = BUDGET
    window: float | None = None
    critical: bool = True
    """True if its health is the worker's."""
    wakes: frozenset[str] = frozenset()
    """The store's hints that bring its next turn at once, and :data:`FREED`."""
    stop: Callable[[float], Awaitable[None]] | None = None
    """Ends what its turns have begun, within so many seconds; called once its last turn is over."""


Seen = Callable[[Verdict, float], None]
"""Told of every turn: how it went, and how many seconds it took."""


def _unseen(_verdict: Verdict, _seconds: float) -> None:
    """Nobody counts this loop's turns."""


class Loop:
    """Repeats ``iteration`` until it is stopped: on a wake-up, otherwise after the interval.

    A turn that raises, or says that it failed, is reported, and the next comes after a growing
    wait that no wake-up cuts short, so a broken loop cannot spin. Nothing that a turn raises ends
    the loop, but for what is not an ``Exception``: then it is *dead*, ``died`` is called, and
    whoever keeps it starts it again once :attr:`revival` is due.

    Whoever judges it reads :meth:`status`, from any thread and by any clock but the loop's own
    doing: the loop only notes when things happened.
    """

    __slots__ = (
        "_began",
        "_budget",
        "_cause",
        "_chance",
        "_clock",
        "_critical",
        "_deaths",
        "_deaths_in_row",
        "_died",
        "_died_at",
        "_ending",
        "_failed_at",
        "_interrupted",
        "_iteration",
        "_last_error",
        "_made_at",
        "_next_at",
        "_outcomes",
        "_pace",
        "_quiet",
        "_report",
        "_rows",
        "_seen",
        "_skipped",
        "_state",
        "_streak",
        "_stumbles",
        "_succeeded_at",
        "_task",
        "_turned_at",
        "_window",
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
        limits: LoopLimits | None = None,
        seen: Seen = _unseen,
        died: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self._iteration = iteration
        self._clock = clock
        self._pace = pace
        self._report = report
        self._chance = chance
        self._seen = seen
        self._died = died
        limits = limits or LoopLimits()
        self._budget = limits.budget
        self._window = window_of(pace.interval, limits.window)
        self._critical = limits.critical
        self._rows = limits.rows
        self._quiet = RateLimited(adapter("loop", {"loop": name}), clock)
        self._woken = asyncio.Event()
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._state = LoopState.NEW
        self._outcomes = dict.fromkeys(Verdict, 0)
        # Turns in a row that could not do what they are for, and how those went that had rows.
        self._stumbles = 0
        self._streak = Streak()
        self._deaths = 0
        self._deaths_in_row = 0
        self._made_at = self._turned_at = clock.monotonic()
        self._began: float | None = None
        self._succeeded_at: float | None = None
        self._failed_at: float | None = None
        self._died_at: float | None = None
        self._interrupted: OffpathError | None = None
        self._last_error: str | None = None
        self._cause: str | None = None
        self._skipped: str | None = None
        self._next_at: float | None = None

    def start(self) -> None:
        """Begin, with a first turn at once; a loop that runs goes on as it is."""
        if self._task is None or self._task.done():
            self._ending.clear()
            self._woken.clear()
            self._died_at = None
            self._task = asyncio.get_running_loop().create_task(
                self._run(), name=f"offpath loop {self.name}"
            )
            self._task.add_done_callback(self._ended)

    def wake(self) -> None:
        """Have the next turn now, or right after the present one. From the loop's thread."""
        self._woken.set()

    def end(self) -> asyncio.Task[None] | None:
        """Take no further turn; the task that is over when the present one is, if there is one."""
        self._ending.set()
        self._woken.set()
        task = self._task
        if task is None or task.done() or task is asyncio.current_task():
            self._state = LoopState.STOPPED
            return None
        return task

    async def stop(self, patience: float = 0.0) -> bool:
        """End it: wait ``patience`` seconds for the present turn, then cancel it.

        False when the turn does not even end when cancelled (within two seconds). Idempotent.
        """
        task = self.end()
        if task is None:
            return True
        if patience > 0:
            await asyncio.wait({task}, timeout=patience)
        task.cancel()
        ended, _ = await asyncio.wait({task}, timeout=_LAST_WAIT)
        return bool(ended)

    def interrupt(self, why: OffpathError) -> None:
        """Cancel the present turn, which hangs. It dies of ``why``, and may be started again.

        One that was cancelled already and goes on regardless is left alone.
        """
        task = self._task
        if task is None or task.done() or task.cancelling() or self._ending.is_set():
            return
        self._interrupted = why
        task.cancel()

    @property
    def running(self) -> bool:
        """True if it was started and has not ended."""
        return self._task is not None and not self._task.done()

    @property
    def revival(self) -> float | None:
        """Seconds until it should be started again; None unless it is dead.

        At once after a first death, then after a growing wait, until it has succeeded again.
        """
        if self._died_at is None:
            return None
        rest = min(2.0 ** (self._deaths_in_row - 2), LONGEST_REVIVAL)
        due = self._died_at + (0.0 if self._deaths_in_row == 1 else rest)
        return max(due - self._clock.monotonic(), 0.0)

    @property
    def window(self) -> float:
        """Seconds in which it should have done something; a turn that takes longer hangs."""
        return self._window

    @property
    def hangs(self) -> bool:
        """True if its present turn has gone on for longer than it may."""
        began = self._began
        return began is not None and self._clock.monotonic() - began > self._window

    def status(self) -> LoopStatus:
        """Its facts now. May be called from any thread."""
        now, began, success = self._clock.monotonic(), self._began, self._succeeded_at
        outcomes = self._outcomes.copy()
        bad = outcomes[Verdict.DEGRADED] + outcomes[Verdict.FAILED]
        return LoopStatus(
            name=self.name,
            state=self._state,
            iterations=sum(outcomes.values()),
            failures=bad,
            consecutive_failures=self._consecutive,
            mostly_bad=self._streak.mostly_bad,
            last_success=self._date(success, now),
            last_failure=self._date(self._failed_at, now),
            last_error=self._last_error,
            cause=self._cause,
            outcomes={_NAMES[verdict]: count for verdict, count in outcomes.items()},
            success_age=None if success is None else now - success,
            waited=now - (self._made_at if success is None else success),
            unturned=now - self._turned_at,
            working_for=None if began is None else now - began,
            next_in=None if self._next_at is None else max(self._next_at - now, 0.0),
            skipped=self._skipped,
            deaths=self._deaths,
            budget=self._budget,
            window=self._window,
            critical=self._critical,
        )

    @property
    def _consecutive(self) -> int:
        return self._stumbles + self._streak.in_a_row

    def _date(self, at: float | None, now: float) -> datetime | None:
        """The wall-clock time of a reading of the monotonic clock."""
        return None if at is None else self._clock.now() - timedelta(seconds=now - at)

    async def _run(self) -> None:
        try:
            while not self._ending.is_set():
                await self._turn()
        finally:
            self._began = None
            self._state = LoopState.STOPPED if self._ending.is_set() else LoopState.DEAD

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if task is not self._task or self._ending.is_set():
            return
        self._deaths += 1
        self._deaths_in_row += 1
        self._died_at = self._failed_at = self._clock.monotonic()
        self._state = LoopState.DEAD
        error = error or self._interrupted or LoopDied(f"the loop {self.name} was cancelled")
        self._interrupted = None
        self._note_error(error)
        self._died()

    async def _turn(self) -> None:
        self._state = LoopState.WORKING
        self._woken.clear()
        self._next_at = None
        self._began = self._clock.monotonic()
        try:
            answer = await self._iteration()
        except asyncio.CancelledError as error:
            # Cancelled by us, or did something the turn awaited end that way by itself?
            if _is_cancelled():
                raise
            await self._failed(error)
        except Exception as error:  # noqa: BLE001 - reported; a loop goes on
            await self._failed(error)
        else:
            if isinstance(answer, Turn) and answer.verdict in BAD:
                await self._troubled(answer)
            else:
                await self._succeeded(answer)

    async def _succeeded(self, answer: Turn | bool | float | None) -> None:
        if isinstance(answer, Turn):
            asked, verdict = answer.again, answer.verdict
        else:
            asked, verdict = answer, Verdict.CLEAN
        self._succeeded_at = self._turned_at = self._note(verdict)
        self._skipped = answer.skipped if isinstance(answer, Turn) else None
        self._stumbles = self._deaths_in_row = 0
        if self._rows and verdict is Verdict.CLEAN and _moved(answer):
            self._streak = self._streak.after(clean=True)
        if not self._consecutive:
            self._cause = None
        self._state = LoopState.RESTING
        await self._rest(asked)

    async def _rest(self, asked: bool | float | None) -> None:
        if asked is True:
            await asyncio.sleep(0)  # others must get their turn too
            return
        now = self._clock.monotonic()
        rest = self._pace.rest(None if asked is False else asked, self._chance(), now)
        self._next_at = now + rest
        await self._clock.wait(self._woken, rest)

    async def _troubled(self, turn: Turn) -> None:
        """The turn itself says that it went badly."""
        self._failed_at = self._note(turn.verdict)
        if self._rows and any(turn.counts.values()):
            self._stumbles = 0
            self._turned_at = self._failed_at
            self._streak = self._streak.after(clean=False)
        else:
            self._stumbles += 1
        self._cause = cause = turn.cause or f"the turn was {turn.verdict}"
        with bind(verdict=turn.verdict.value, counts=turn.counts, in_a_row=self._consecutive):
            text = "loop %s %s: %s"
            self._quiet.log(logging.WARNING, cause, text, self.name, turn.verdict.value, cause)
        if turn.verdict is Verdict.FAILED:
            await self._back_off()
            if turn.again is True:
                return
        else:
            self._state = LoopState.RESTING
        await self._rest(turn.again)

    async def _failed(self, error: BaseException) -> None:
        self._failed_at = self._note(Verdict.FAILED)
        self._note_error(error)
        await self._back_off()

    def _note(self, verdict: Verdict) -> float:
        """Count the turn that is over now; returns the time."""
        now = self._clock.monotonic()
        began, self._began = self._began, None
        self._skipped = None
        self._outcomes[verdict] += 1
        self._seen(verdict, now - (now if began is None else began))
        return now

    def _note_error(self, error: BaseException) -> None:
        self._stumbles += 1
        self._last_error = type(error).__name__
        self._cause = _cause(error)
        try:
            with bind(loop=self.name, verdict="failed", in_a_row=self._consecutive):
                self._report(error, self.name)
        except Exception as second:  # noqa: BLE001 - a report must not end the loop
            _log.error("reporting raised %s", type(second).__name__, exc_info=second)

    async def _back_off(self) -> None:
        self._state = LoopState.FAILING
        wait = self._pace.backoff(self._consecutive, self._chance())
        self._next_at = self._clock.monotonic() + wait
        await self._clock.wait(self._ending, wait)


BAD = frozenset({Verdict.DEGRADED, Verdict.FAILED})
LONGEST_REVIVAL = 30.0
"""Seconds between two starts of a loop that dies again and again."""
_LAST_WAIT = 2.0
_LONGEST_CAUSE = 200


class LoopDied(OffpathError):
    """A loop's task was cancelled by somebody who did not mean to stop it."""

    code = "loop_died"


def _cause(error: BaseException) -> str:
    """One line that may be shown: a foreign error's text may hold secrets, our own does not."""
    kind = type(error).__name__
    if not isinstance(error, OffpathError):
        return kind
    text = " ".join(redact_text(str(error)).split())
    return f"{kind}: {text}"[:_LONGEST_CAUSE]


def _moved(answer: Turn | bool | float | None) -> bool:
    """True if a clean turn had rows, as far as it tells: one that waits for others had none."""
    return not isinstance(answer, Turn) or any(answer.counts.values())


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

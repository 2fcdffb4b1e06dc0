"""Running several sweeps, one after the other, none of which can stop the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from offpath.errors import InvalidArgument, OffpathError, PassFailed
from offpath.model.tally import SweepResult, Tally
from offpath.runtime.clock import Clock, SystemClock
from offpath.runtime.tasks import Report, reporter
from offpath.sweeps.rows import SweepRowCancelled, reason_of

Finished = Callable[[SweepResult], None]


class Passing(Protocol):
    """Anything that can make a pass; see :class:`offpath.sweeps.sweeper.Sweeper`."""

    @property
    def name(self) -> str:
        """The name under which its results are filed."""
        ...

    async def run(self, now: datetime, limit: int | None) -> Tally:
        """Make one pass over up to ``limit`` rows (None: its own limit). May raise."""
        ...


P = TypeVar("P", bound=Passing)


async def run_sweeps(
    sweeps: Sequence[Passing],
    now: datetime,
    limit: int | None = None,
    *,
    only: str | Iterable[str] | None = None,
    clock: Clock | None = None,
    report: Report | None = None,
    finished: Finished = lambda _: None,
) -> tuple[SweepResult, ...]:
    """Make one pass of each sweep, in their order; returns their results in that order.

    A sweep that raises is a failed result (code, retryable) of that sweep alone: the run itself
    does not raise, but for ``InvalidArgument`` when ``only`` names an unknown sweep, which it does
    before anything ran, and when it is cancelled.
    """
    clock, report = clock or SystemClock(), report or reporter()
    chosen = choose(sweeps, only)
    results: list[SweepResult] = []
    for sweep in chosen:
        results.append(await result_of(sweep, now, limit, clock=clock, report=report))
        finished(results[-1])
    return tuple(results)


def choose(sweeps: Sequence[P], only: str | Iterable[str] | None) -> list[P]:
    """The sweeps of these names, in their own order; all when ``only`` is None.

    Raises ``InvalidArgument`` that names those that there are.
    """
    if only is None:
        return list(sweeps)
    wanted = {only} if isinstance(only, str) else set(only)
    known = [sweep.name for sweep in sweeps]
    if unknown := sorted(map(repr, wanted.difference(known))):
        raise InvalidArgument(
            f"there is no sweep {', '.join(unknown)}; there are: {', '.join(known) or 'none'}"
        )
    return [sweep for sweep in sweeps if sweep.name in wanted]


async def result_of(
    sweep: Passing, now: datetime, limit: int | None, *, clock: Clock, report: Report
) -> SweepResult:
    """One sweep's pass as a result, whatever it raises."""
    began = clock.monotonic()
    error: Exception | None = None
    tally = Tally()
    try:
        tally = await sweep.run(now, limit)
    except asyncio.CancelledError as cancelled:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        error = SweepRowCancelled(str(cancelled))
    except PassFailed as failed:
        error, tally = failed, failed.tally
    except Exception as raised:  # noqa: BLE001 - reported; the others must run
        error = raised
    if error is not None:
        report(error, f"sweep:{sweep.name}")
    return SweepResult(
        name=sweep.name,
        tally=tally,
        error=None if error is None else reason_of(error),
        retryable=error is not None and _retryable(error),
        seconds=clock.monotonic() - began,
    )


def _retryable(error: Exception) -> bool:
    if isinstance(error, OffpathError):
        return error.retryable
    return isinstance(error, OSError)  # connections and time limits: the world's, not the code's

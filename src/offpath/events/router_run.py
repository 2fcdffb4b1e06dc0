"""The result of a router's run, and the step of one inside a caller's transaction."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from offpath.errors import InvalidArgument, LeaseLost, StoreBusy, StoreUnavailable
from offpath.events.router_step import Courier, decisions, tallied
from offpath.model.route import Decisions, LogEvent, RouterRecord
from offpath.model.tally import Tally, Verdict
from offpath.runtime.ids import derive_id

if TYPE_CHECKING:
    from offpath.runtime.clock import Clock

T = TypeVar("T")


BUSY = "busy"
"""Another run has the cursor."""


class RouterRun(Struct, frozen=True, kw_only=True):
    """The result of one run of a router. ``stopped`` gives the reason when it did nothing."""

    router: str
    passed: int = 0
    """Events that the cursor went by."""
    tally: Tally = Tally()
    """Ids of the events by the status of their attempts."""
    stopped: str | None = None
    """``gate: master``, ``gate: NAME``, or ``busy``: another run has some of its partitions."""
    busy: tuple[int, ...] = ()
    """The partitions that others held: they were left alone, however far the others went."""
    more: bool = False
    """True if there may be more to read at once."""
    waiting_for: tuple[str, ...] = ()
    """Open writers of the log that hold later events back."""

    @property
    def counts(self) -> dict[str, int]:
        """Attempts by status."""
        return self.tally.counts

    @property
    def failed(self) -> tuple[str, ...]:
        """Ids of the events that are dead letters now."""
        return self.tally.buckets.get("failed", ())

    @property
    def verdict(self) -> Verdict:
        """The verdict for health: failures are recorded and passed by, so they degrade."""
        verdict = self.tally.verdict
        return Verdict.DEGRADED if verdict is Verdict.FAILED else verdict


def joined(name: str, runs: Sequence[RouterRun]) -> RouterRun:
    """The runs of several partitions as one."""
    buckets: defaultdict[str, list[str]] = defaultdict(list)
    for run in runs:
        for status, ids in run.tally.buckets.items():
            buckets[status].extend(ids)
    stopped = {run.stopped for run in runs}
    # One partition that somebody holds is part of the answer: the events in it were not looked at.
    stop = stopped.pop() if len(stopped) == 1 else BUSY if BUSY in stopped else None
    return RouterRun(
        router=name,
        passed=sum(run.passed for run in runs),
        tally=Tally(buckets={status: tuple(ids) for status, ids in buckets.items()}),
        stopped=stop,
        busy=tuple(sorted({one for run in runs for one in run.busy})),
        more=any(run.more for run in runs),
        waiting_for=tuple(sorted({who for run in runs for who in run.waiting_for})),
    )


def held(name: str, partition: int) -> RouterRun:
    """The run of a partition whose cursor another run has."""
    return RouterRun(router=name, stopped=BUSY, busy=(partition,))


def closed_gate(record: RouterRecord) -> str | None:
    """The gate that is closed, the master first; None when both are open."""
    if not record.master:
        return "gate: master"
    return None if record.open else f"gate: {record.name}"


class CursorLost(LeaseLost):
    """Another run took the cursor meanwhile; nothing of this step was written."""

    code = "cursor_lost"


async def renewed(
    work: Coroutine[None, None, T],
    renew: Callable[[], Awaitable[None]],
    *,
    clock: Clock,
    every: float,
) -> T:
    """Do ``work`` while its lease is renewed every so many seconds.

    A renewal that cannot be made now is tried again: the lease outlasts some, and what is written
    in the end is fenced. One that raises anything else ends the work, and is raised.
    """
    working = asyncio.ensure_future(work)
    renewing = asyncio.ensure_future(_renewing(renew, clock, every))
    both: tuple[asyncio.Future[Any], ...] = (working, renewing)
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            await renewing
        return await working
    finally:
        for one in both:
            one.cancel()
        await asyncio.gather(*both, return_exceptions=True)


async def _renewing(renew: Callable[[], Awaitable[None]], clock: Clock, every: float) -> None:
    while True:
        await clock.sleep(every)
        with suppress(StoreUnavailable, StoreBusy):
            await renew()


class WithinStep:
    """One step in a caller's transaction: the pure part, called under the cursor's lock."""

    def __init__(self, router: str, courier: Courier, limit: int) -> None:
        self._router = router
        self._courier = courier
        self._limit = limit
        self.run = RouterRun(router=router)

    def decide(self, record: RouterRecord, events: Sequence[LogEvent]) -> Decisions:
        """The decisions to write about these events. Raises for a live route that delivers
        outside.
        """
        name, courier = self._router, self._courier
        if (gate := closed_gate(record)) is not None:
            self.run = RouterRun(router=name, stopped=gate)
            return Decisions(position=0)
        steps = [courier.stored(step) for step in courier.decided(record, events)]
        if outside := [step for step in steps if courier.goes_outside(step)]:
            raise InvalidArgument(
                f"route {outside[0].attempt.route!r} is live and delivers outside of the database, "
                "which a rollback could not undo: nothing was done"
            )
        self.run = RouterRun(
            router=name,
            passed=len(events),
            tally=tallied(steps),
            more=len(events) >= self._limit,
        )
        position = events[-1].position if events else 0
        return decisions(steps, (position, None), len(events), derive_id)

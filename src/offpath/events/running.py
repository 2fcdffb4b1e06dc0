"""What a run of a router did, and the step of one inside a caller's transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from offpath.errors import InvalidArgument, LeaseLost
from offpath.events.routing import Courier, counted, decisions
from offpath.model.route import Decisions, LogEvent, RouterRecord
from offpath.model.tally import Verdict
from offpath.runtime.ids import derive_id


class RouterRun(Struct, frozen=True, kw_only=True):
    """What one run of a router did. ``stopped`` says why it did nothing, if it did not."""

    router: str
    passed: int = 0
    """Events that the cursor went by."""
    counts: dict[str, int] = {}
    """Attempts by status."""
    failed: tuple[str, ...] = ()
    """Ids of the events that are dead letters now."""
    stopped: str | None = None
    """``gate: master``, ``gate: NAME`` or ``busy``."""
    more: bool = False
    """Whether there may be more to read at once."""
    waiting_for: tuple[str, ...] = ()
    """Open writers of the log that hold later events back."""

    @property
    def verdict(self) -> Verdict:
        """What it means for health: failures are recorded and passed, so they degrade."""
        if self.passed == 0:
            return Verdict.EMPTY
        return Verdict.DEGRADED if self.failed else Verdict.CLEAN


def joined(name: str, runs: Sequence[RouterRun]) -> RouterRun:
    """The runs of several partitions as one."""
    counts: Counter[str] = Counter()
    for run in runs:
        counts.update(run.counts)
    stopped = {run.stopped for run in runs}
    return RouterRun(
        router=name,
        passed=sum(run.passed for run in runs),
        counts=dict(counts),
        failed=tuple(event for run in runs for event in run.failed),
        stopped=stopped.pop() if len(stopped) == 1 else None,
        more=any(run.more for run in runs),
        waiting_for=tuple(sorted({who for run in runs for who in run.waiting_for})),
    )


def closed_gate(record: RouterRecord) -> str | None:
    """Which gate is closed, the master first; None when both are open."""
    if not record.master:
        return "gate: master"
    return None if record.open else f"gate: {record.name}"


class CursorLost(LeaseLost):
    """Another run took the cursor meanwhile; nothing of this step was written."""

    code = "cursor_lost"


class WithinStep:
    """One step in a caller's transaction: the pure part, called under the cursor's lock."""

    def __init__(self, router: str, courier: Courier, limit: int) -> None:
        self._router = router
        self._courier = courier
        self._limit = limit
        self.run = RouterRun(router=router)

    def decide(self, record: RouterRecord, events: Sequence[LogEvent]) -> Decisions:
        """What to write about these events. Raises for a live route that delivers outside."""
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
            counts=counted(steps),
            failed=tuple(step.event.id for step in steps if step.error is not None),
            more=len(events) >= self._limit,
        )
        position = events[-1].position if events else 0
        return decisions(steps, position, len(events), derive_id)

"""The tick: what is due is fired, schedule by schedule, and one that is broken stops no other."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from offpath.errors import OffpathError, StoreBusy, StoreUnavailable
from offpath.jobs.schedules.occurrences import plan
from offpath.jobs.schedules.times import next_time
from offpath.model.declaration import EVERY
from offpath.model.schedule import FiringStatus, Overlap
from offpath.model.tally import Tally, Turn, Verdict
from offpath.runtime.loop import LoopSpec
from offpath.store.health import DeclarationStore
from offpath.store.schedule_rules import fingerprint, keeps
from offpath.store.schedules import ScheduleStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import datetime

    from offpath.jobs.schedules.definition import Functions
    from offpath.model.job import JobRecord, NewJob
    from offpath.model.schedule import Schedule, ScheduleRecord
    from offpath.runtime.clock import Clock
    from offpath.runtime.tasks import Report

BATCH = 500
"""Schedules that are looked at in one turn."""
INTERVAL = 1.0
"""Longest seconds between two turns, in which new schedules and ended jobs are seen. What is known
to be due before then is waited for exactly."""
KEEP = 30 * 86_400.0
"""Seconds that the history of occurrences is kept."""
PRUNE_EVERY = 600.0
PRUNE_BATCH = 1_000
FAILED = "failed"
LOOP = "schedules"
KIND = "schedule"
"""The kind of what is declared."""
_LONGEST_CAUSE = 200


class OccurrenceStore(ScheduleStore, DeclarationStore, Protocol):
    """The store, as schedules need it."""

    async def get(self, ids: Sequence[str]) -> list[JobRecord]:
        """The jobs of these ids that are still there."""
        ...

    async def ping(self) -> datetime:
        """The store's time."""
        ...


class DefinedSchedules(Protocol):
    """The schedules that the code of an app defines."""

    @property
    def definitions(self) -> Mapping[str, Schedule]:
        """Its schedules."""
        ...

    @property
    def functions(self) -> Functions:
        """Its next-time functions."""
        ...

    def make(self, schedule: Schedule, at: datetime) -> NewJob:
        """The job of an occurrence. Raises ``InvalidArgument``."""
        ...


class Ticker:
    """Fires what is due, in one worker. Any number of workers may do it at once."""

    def __init__(
        self,
        book: DefinedSchedules,
        opened: Callable[[], Awaitable[OccurrenceStore]],
        clock: Clock,
        report: Report,
    ) -> None:
        self._book = book
        self._opened = opened
        self._clock = clock
        self._report = report
        self._defined: dict[str, Schedule] = {}
        self._declared: dict[str, Schedule] = {}
        self._declared_at = -math.inf
        self._watched: dict[str, datetime] = {}
        """Schedules that wait for their last job, and since which occurrence."""
        self._broken: dict[str, str] = {}
        """The schedules that could not be fired the last time, with the reasons."""
        self._stuck = 0
        """Due schedules that the last turn could not move: the next one looks past them."""
        self._pruned: float | None = None

    def loop(self) -> LoopSpec:
        """The loop that a worker drives it by."""
        # A schedule that cannot be computed is told, but restarting workers would not mend it.
        return LoopSpec(name=LOOP, step=self.step, interval=INTERVAL, critical=False)

    async def step(self) -> Turn:
        """One turn: what code defines is put, what is due is fired, old history is removed."""
        tally, wait = await self._tick(BATCH)
        await self._prune()
        verdict = tally.verdict
        if verdict is Verdict.FAILED:
            # The turn itself went well; backing off would make the healthy ones late.
            verdict = Verdict.DEGRADED
        again = True if tally.more else wait
        return Turn(verdict=verdict, counts=tally.counts, again=again, cause=_cause(tally))

    async def sweep(self, limit: int) -> Tally:
        """One pass by hand. Broken schedules are in the bucket ``failed``."""
        tally, _ = await self._tick(limit)
        return tally

    async def run_once(self, *, limit: int) -> Tally:
        """One pass; only what moved is told, since what is broken would be so again at once."""
        tally = await self.sweep(limit)
        moved = {FiringStatus.FIRED.value, FiringStatus.SKIPPED.value}
        return Tally(buckets={name: ids for name, ids in tally.buckets.items() if name in moved})

    async def stop(self, seconds: float) -> None:
        """Nothing runs beside its turns."""

    async def _tick(self, limit: int) -> tuple[Tally, float | None]:
        store = await self._opened()
        ends = _Ends()
        await self._define(store, ends)
        size = limit + self._stuck
        due, wait = await store.due_schedules(limit=size)
        # The store's time, by which they are due: this machine's clock may be wrong.
        now = await store.ping() if due else None
        for record in due:
            assert now is not None  # noqa: S101 - something is due
            await self._each(ends, record.schedule.name, self._fire(store, record, now))
        self._note({record.schedule.name for record in due}, ends)
        moved = FiringStatus.FIRED in ends.buckets or FiringStatus.SKIPPED in ends.buckets
        return ends.tally(more=moved or len(due) >= size), wait

    async def _each(self, ends: _Ends, name: str, work: Awaitable[FiringStatus | None]) -> None:
        """Do it for one schedule; what is wrong with it is told, once, and stops no other."""
        try:
            outcome = await work
        except (StoreUnavailable, StoreBusy):
            raise
        except Exception as error:  # noqa: BLE001 - reported; the others go on
            why = error.code if isinstance(error, OffpathError) else type(error).__name__
            if self._broken.get(name) != why:
                self._report(error, f"schedule {name}")
            ends.failed(name, why)
        else:
            if outcome is not None:
                ends.add(outcome, name)

    def _note(self, due: set[str], ends: _Ends) -> None:
        """Remember what this turn saw, for the next one."""
        self._watched = {name: at for name, at in self._watched.items() if name in due}
        self._broken = ends.reasons
        self._stuck = len(ends.buckets.get(FiringStatus.HELD, ())) + len(ends.reasons)

    async def _fire(
        self, store: OccurrenceStore, record: ScheduleRecord, now: datetime
    ) -> FiringStatus:
        schedule = record.schedule
        if schedule.overlap is Overlap.QUEUE and record.last_open:
            return self._hold(record)
        times = next_time(schedule.timing, self._book.functions)
        attended = schedule.overlap is Overlap.QUEUE and await self._waited(store, record)
        firing = plan(record, times, now, attended=attended, make=self._book.make)
        status = await store.fire(firing)
        return self._hold(record) if status is FiringStatus.HELD else status

    async def _waited(self, store: OccurrenceStore, record: ScheduleRecord) -> bool:
        """True if it came due while its last job was open: it waited, and was not missed."""
        if record.schedule.name in self._watched:
            return True
        last = () if record.last_job is None else await store.get((record.last_job,))
        at = record.next_at
        return any(at is not None and (job.finished_at or at) > at for job in last)

    def _hold(self, record: ScheduleRecord) -> FiringStatus:
        assert record.next_at is not None  # noqa: S101 - it is due
        self._watched.setdefault(record.schedule.name, record.next_at)
        return FiringStatus.HELD

    async def _define(self, store: OccurrenceStore, ends: _Ends) -> None:
        """Put what code defines, unless a live worker of a newer version defines it otherwise.

        It is declared and looked at again and again: an older worker may have put its own between
        its question and our declaration, and a newer version may be gone after a rollback.
        """
        given = dict(self._book.definitions)
        now = self._clock.monotonic()
        if not given or (given == self._declared and now - self._declared_at < EVERY):
            return
        marks = {name: fingerprint(schedule) for name, schedule in given.items()}
        overruled = await store.declare(KIND, marks)
        mine = [name for name in given if name not in overruled]
        known = {one.schedule.name: one.schedule for one in await store.schedules(mine or [""])}
        for name in mine:
            if self._differs(given[name], known.get(name)):
                await self._each(ends, name, self._put(store, given[name]))
        if ends.reasons.keys().isdisjoint(given):  # else the next turn tries again
            self._declared, self._declared_at = given, now

    def _differs(self, schedule: Schedule, known: Schedule | None) -> bool:
        """True if it has to be put. A schedule that was put and is gone was deleted by somebody."""
        if known is None:
            return self._defined.get(schedule.name) is not schedule
        return not keeps(known, schedule)

    async def _put(self, store: OccurrenceStore, schedule: Schedule) -> None:
        times = next_time(schedule.timing, self._book.functions)
        await store.put_schedule(schedule, next_at=times(await store.ping()))
        self._defined[schedule.name] = schedule

    async def _prune(self) -> None:
        now = self._clock.monotonic()
        if self._pruned is not None and now - self._pruned < PRUNE_EVERY:
            return
        store = await self._opened()
        before = await store.ping() - timedelta(seconds=KEEP)
        removed = await store.prune_occurrences(before=before, limit=PRUNE_BATCH)
        if removed < PRUNE_BATCH:
            self._pruned = now


class _Ends:
    """The schedules of one turn, by their fates."""

    def __init__(self) -> None:
        self.buckets: dict[str, list[str]] = {}
        self.reasons: dict[str, str] = {}

    def add(self, outcome: str, name: str) -> None:
        """Count one."""
        self.buckets.setdefault(outcome, []).append(name)

    def failed(self, name: str, why: str) -> None:
        """Count one that is broken."""
        if name not in self.reasons:
            self.add(FAILED, name)
        self.reasons[name] = why

    def tally(self, *, more: bool) -> Tally:
        """All of them."""
        buckets = {str(name): tuple(names) for name, names in self.buckets.items()}
        return Tally(buckets=buckets, reasons=self.reasons, more=more)


def _cause(tally: Tally) -> str | None:
    if not tally.reasons:
        return None
    bad = ", ".join(f"{name} ({why})" for name, why in sorted(tally.reasons.items()))
    text = f"{len(tally.reasons)} of {tally.total} schedules cannot be fired: {bad}"
    return text[:_LONGEST_CAUSE]

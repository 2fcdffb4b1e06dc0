"""The fleet's health as its store tells it: who lives, how their loops go, what waits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offpath.health.findings import economy_paused
from offpath.model.deaths import WITHIN, Dying, together
from offpath.model.declaration import Declaration
from offpath.model.finding import FindingRecord
from offpath.model.health import AgeGauge, Condition, SettlementReport, WorkerReport
from offpath.model.lease import WorkerRecord
from offpath.model.limit import ECONOMY_PAUSE, LimitRecord, QueueRecord
from offpath.model.schedule import ScheduleRecord
from offpath.store.schedule_rules import fingerprint

if TYPE_CHECKING:
    from offpath.health.thresholds import Thresholds
    from offpath.store.protocol import Backlog, Store

MOST_COUNTED = 1_000
MOST_DUE = 100
"""Due jobs of one task in a queue that are counted. Many queues may have many tasks each."""


class WorkerPresence(StrEnum):
    """The presence of a worker."""

    LIVE = "live"
    LATE = "late"
    """Out of touch for longer than its lease: others take its jobs."""
    STOPPED = "stopped"
    """It left by itself."""
    GONE = "gone"
    """It was found dead, or its lease ran out and it holds nothing any more."""

    @property
    def ended(self) -> bool:
        """True if it does not come back, however it went."""
        return self in {WorkerPresence.STOPPED, WorkerPresence.GONE}


class FleetMember(Struct, frozen=True, kw_only=True):
    """A worker of the fleet."""

    record: WorkerRecord
    presence: WorkerPresence
    report: WorkerReport | None
    """The last report of the worker; None when that is unknown."""

    @property
    def ill(self) -> str | None:
        """The reason why its loops stand still; None when they do not, or none is known."""
        if self.report is None:
            return None
        # Its first word comes before its loops' first success; what waits is judged for all.
        loops = tuple(one for one in self.report.loops if one.condition is not Condition.STARTING)
        return "; ".join(replace(self.report, loops=loops, gauges=()).reasons) or None


class FleetHealth(Struct, frozen=True, kw_only=True):
    """The health of the fleet."""

    members: tuple[FleetMember, ...]
    gauges: tuple[AgeGauge, ...]
    queues: tuple[QueueRecord, ...] = ()
    """The queues that are paused."""
    limits: tuple[LimitRecord, ...] = ()
    """Keys that are paused, cool down or hold jobs back, by name."""
    dying: tuple[Dying, ...] = ()
    """The names that had dead letters in the last quarter of an hour."""
    findings: tuple[FindingRecord, ...] = ()
    """The findings that stand, accepted ones too."""
    orphans: tuple[str, ...] = ()
    """Schedules whose task no live worker knows, one line each."""
    untaken: tuple[str, ...] = ()
    """Queues that no live worker serves and tasks of them that none knows, one line each."""
    red_findings: bool = False
    """True if one that nobody has accepted makes the fleet unhealthy."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reason why it is unhealthy, one line each; none when it is not."""
        return (
            *self._of_members(),
            *(one for gauge in self.gauges if (one := gauge.reason)),
            *(one for dying in self.dying if (one := dying.reason)),
            *(self._found if self.red_findings else ()),
        )

    @property
    def settlements(self) -> tuple[SettlementReport, ...]:
        """The last settlement run of each kind that a registered worker's process made."""
        last: dict[str, SettlementReport] = {}
        for one in self.members:
            for run in () if one.report is None else one.report.settlements:
                known = last.get(run.kind)
                if known is None or known.started_at < run.started_at:
                    last[run.kind] = run
        return tuple(last[kind] for kind in sorted(last))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for people although work moves, one line each."""
        runs = tuple(one for run in self.settlements if (one := run.warning))
        deaths = tuple(one.text for one in self.dying if one.reason is None)
        found = () if self.red_findings else self._found
        # A pause that is a finding too is told once, with since when.
        paused = (
            one
            for one in pauses(self.queues, self.limits)
            if not any(one in line for line in self._found)
        )
        # What waits for nobody stands first: it goes wrong in silence.
        first = (*self.untaken, *runs, *deaths, *found)
        return (*first, *self.orphans, *paused, *crowded(self.members))

    @property
    def healthy(self) -> bool:
        """True if a live worker's loops make progress and nothing has waited too long."""
        return not self.reasons

    @property
    def _found(self) -> tuple[str, ...]:
        return tuple(one.line for one in self.findings if one.hinders)

    def _of_members(self) -> Iterator[str]:
        live = [one for one in self.members if one.presence is WorkerPresence.LIVE]
        if not live:
            yield "no worker is live"
        elif all(one.ill for one in live):
            yield from (f"worker {one.record.info.id}: {one.ill}" for one in live)


def crowded(members: Iterable[FleetMember]) -> tuple[str, ...]:
    """Lines of live workers about the cap of metric names, each line once."""
    live = [one.report for one in members if one.presence is WorkerPresence.LIVE]
    return tuple(dict.fromkeys(line for report in live if report for line in report.crowded))


def pauses(queues: Iterable[QueueRecord], limits: Iterable[LimitRecord]) -> Iterator[str]:
    """Queues and limits that somebody has paused, and keys that cool down: one line each."""
    for queue in queues:
        if queue.paused or queue.paused_until is not None:
            counts = (queue.ready, queue.scheduled, queue.blocked)
            more = "more than " if max(counts) >= MOST_COUNTED else ""
            waiting = f"{more}{sum(counts)} jobs wait"
            yield f"queue {queue.name} is paused{_until(queue.paused_until)}: {waiting}"
    for limit in limits:
        if limit.key == ECONOMY_PAUSE:
            if limit.paused or limit.closed_until is not None:
                yield economy_paused(limit)
        elif limit.paused or limit.closed_until is not None:
            end = None if limit.paused else limit.closed_until
            yield f"limit {limit.key} is closed{_until(end)}: {limit.held} jobs are held"


def _until(end: datetime | None) -> str:
    return "" if end is None else f" until {end.isoformat(timespec='seconds')}"


def member(record: WorkerRecord) -> FleetMember:
    """A worker's record, read."""
    presence = WorkerPresence.LATE if record.late else WorkerPresence.LIVE
    if record.gone_at is not None:
        presence = WorkerPresence.STOPPED if record.left else WorkerPresence.GONE
    return FleetMember(record=record, presence=presence, report=_read(record.report))


def _read(report: str | None) -> WorkerReport | None:
    if report is None:
        return None
    try:
        return msgspec.json.decode(report, type=WorkerReport)
    except msgspec.MsgspecError:  # another version's: it says nothing that we could read
        return None


def serves(member: FleetMember, queue: str) -> bool:
    """True if a worker takes jobs of a queue; one that an operator has made quiet takes none."""
    if member.report is not None and member.report.quiet:
        return False
    return not member.record.info.queues or queue in member.record.info.queues


def untaken(
    queue: QueueRecord, backlog: Iterable[Backlog], live: Iterable[FleetMember]
) -> Iterator[str]:
    """The reasons why no live worker takes jobs of a queue, one line each."""
    serving = [one for one in live if serves(one, queue.name)]
    if not serving:
        if queue.ready or queue.scheduled or queue.blocked:
            yield f"no live worker serves the queue {queue.name}"
        return
    known = {task for one in serving for task in one.record.info.tasks}
    for due in backlog:
        if due.queue == queue.name and due.task not in known:
            yield f"no live worker of the queue {queue.name} knows the task {due.task}"


def _untaken(
    queues: Iterable[QueueRecord], backlog: Sequence[Backlog], members: Iterable[FleetMember]
) -> Iterator[str]:
    """The same of all queues; none while nobody lives at all, which is the one reason then."""
    live = [one for one in members if one.presence is WorkerPresence.LIVE]
    due: dict[str, list[Backlog]] = {}  # there may be thousands of queues
    for one in backlog:
        due.setdefault(one.queue, []).append(one)
    for queue in sorted(queues, key=lambda one: one.name) if live else ():
        yield from untaken(queue, due.get(queue.name, ()), live)


def orphans(schedules: Iterable[ScheduleRecord], members: Iterable[FleetMember]) -> Iterator[str]:
    """Schedules that make jobs which no live worker can run; none while nobody lives at all."""
    live = [one.record.info for one in members if one.presence is WorkerPresence.LIVE]
    known = {task for info in live for task in info.tasks}
    if not known:
        return
    for one in schedules:
        task, name = one.schedule.template.task, one.schedule.name
        if task not in known and not one.paused and one.next_at is not None:
            yield (
                f"schedule {name} makes jobs of task {task}, which no live worker knows; "
                f"start one that does, or: offpath schedules delete {name}"
            )


def disputed(schedules: Iterable[ScheduleRecord], declared: Iterable[Declaration]) -> Iterator[str]:
    """Schedules that the code of live workers defines otherwise than the store has them, or in
    several ways; none of those that were changed through the API.
    """
    live: dict[str, list[str]] = {}
    for one in declared:  # the newest first
        live.setdefault(one.name, []).append(one.fingerprint)
    for record in schedules:
        name, marks = record.schedule.name, live.get(record.schedule.name, [])
        if record.schedule.origin != "code" or not marks:
            continue
        if fingerprint(record.schedule) != marks[0]:
            yield (
                f"schedule {name} is not as the newest live workers define it: they put it within "
                "30 s; if not, see their log"
            )
        elif len(marks) > 1:
            yield (
                f"schedule {name} is defined in {len(marks)} ways by live workers; the newest holds"
            )


async def dying_in(
    store: Store, thresholds: Thresholds, members: Iterable[FleetMember], now: datetime
) -> list[Dying]:
    """The names that had dead letters lately, as the store has them, and the live workers' shares
    of it.
    """
    live = (one.report for one in members if one.presence is WorkerPresence.LIVE)
    ends = together(report.ends for report in live if report is not None)
    deaths = await store.deaths(since=now - timedelta(seconds=WITHIN))
    return thresholds.dying(deaths, ends)


async def examine(store: Store, thresholds: Thresholds) -> FleetHealth:
    """Ask the store, side by side where it can be. Raises what it raises."""
    asked = await asyncio.gather(
        store.ping(),
        store.workers(),
        store.backlog(limit=MOST_DUE),
        store.queues(most=MOST_COUNTED),
        store.limits(limit=MOST_COUNTED),
    )
    now, records, backlog, queues, limits = asked
    members = tuple(member(one) for one in records)
    dying, gauges, findings, schedules = await asyncio.gather(
        dying_in(store, thresholds, members, now),
        thresholds(backlog, now, queues),
        store.findings(),
        store.schedules(),
    )
    return FleetHealth(
        members=members,
        dying=tuple(dying),
        findings=tuple(findings),
        orphans=tuple(orphans(schedules, members)),
        untaken=tuple(_untaken(queues, backlog, members)),
        red_findings=thresholds.red_findings,
        gauges=tuple(gauges),
        queues=tuple(one for one in queues if one.paused or one.paused_until is not None),
        limits=tuple(one for one in limits if one.held or one.paused or one.closed_until),
    )

"""The part of the memory store that people look at."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice

from offpath.model.brief import (
    LONGEST_MESSAGE,
    BriefPage,
    DeadTally,
    FaultTally,
    GateBrief,
    GateWatch,
    GraphMember,
    GroupBrief,
    GroupGraph,
    JobBrief,
    Kind,
    SignalRecord,
    StepRecord,
)
from offpath.model.gate import GateState
from offpath.model.id_range import id_range
from offpath.model.job import JobFilter, JobRecord, JobState
from offpath.model.message import MessageFilter, MessageLook
from offpath.model.route import LogEvent
from offpath.store.browse import MOST_COUNTED_DEAD, MOST_DEAD, MOST_LOOKED_AT, MOST_MEMBERS
from offpath.store.memory import groups, messages, reads
from offpath.store.memory.gate_rows import MemoryGate
from offpath.store.memory.part import MemoryPart
from offpath.store.memory.tables import Tables
from offpath.store.protocol import MOST_ON_A_PAGE
from offpath.store.rows.faults import NOTHING as NO_FAULTS
from offpath.store.rows.faults import newest_dead, tallied
from offpath.store.rows.job_filter import tests_of

# As many as the SQL stores look at, so that all stores answer alike.
_MOST_HELD = 1_000
_NARROW = ((JobState.DEAD,), (JobState.RUNNING,))


class MemoryBrowse(MemoryPart):
    """A :class:`~offpath.store.browse.BrowseStore`. No method waits, so each is one step."""

    async def browse(
        self,
        where: JobFilter,
        *,
        text: str | None = None,
        arguments: bool = False,
        limit: int = 50,
        after: str | None = None,
        most: int = MOST_LOOKED_AT,
        newest: bool = True,
    ) -> BriefPage:
        """One page of jobs that match among the next rows, and how far it came."""
        if limit <= 0 or most <= 0:
            return BriefPage(items=(), next=after)
        size = min(limit, MOST_ON_A_PAGE)
        walk = self._walk(where, after, newest=newest)
        looked = walk[:most]
        tests = tests_of(where)
        found = [
            job
            for job in looked
            if all(test(job) for test in tests) and _says(job, text, arguments=arguments)
        ][: size + 1]
        items = tuple(_brief(self._tables, job) for job in found[:size])
        if len(found) > size:
            last = items[-1]
            return BriefPage(
                items=items, next=last.id, reached=last.id, reached_at=last.enqueued_at
            )
        if len(walk) < most:
            return BriefPage(items=items, next=None, exhausted=True)
        # The walk ended before the page was full. Its last row is where the next page goes on,
        # whether it matches or not.
        end = looked[-1]
        return BriefPage(items=items, next=end.id, reached=end.id, reached_at=end.enqueued_at)

    def _walk(self, where: JobFilter, after: str | None, *, newest: bool) -> list[JobRecord]:
        """The jobs that are looked at, in their order."""
        tables = self._tables
        if where.ids:
            jobs = reads.get(tables, where.ids)
        elif where.group_id is not None:
            jobs = reads.get(tables, tables.members(where.group_id))
        else:
            jobs = list(tables.jobs.values())
        if where.parent is not None:
            jobs = [job for job in jobs if job.parent == where.parent]
        if where.states in _NARROW:
            jobs = [job for job in jobs if job.state in where.states]
        behind = [job for job in jobs if reads.is_beyond(job.id, after, newest=newest)]
        return sorted(behind, key=lambda job: job.id, reverse=newest)

    async def look_at_messages(
        self,
        where: MessageFilter,
        *,
        limit: int = 50,
        after: str | None = None,
        most: int = MOST_LOOKED_AT,
        newest: bool = True,
    ) -> MessageLook:
        """One page of messages that match among the next rows, and how far it came."""
        return messages.look(
            self._tables,
            self._clock.now(),
            where,
            limit=limit,
            after=after,
            most=most,
            newest=newest,
        )

    async def faults(
        self,
        *,
        limit: int = 100,
        most: int = MOST_DEAD,
        task: str | None = None,
        since: datetime | None = None,
    ) -> FaultTally:
        """The faults of the newest dead jobs."""
        if limit <= 0 or most <= 0:
            return NO_FAULTS
        dead = newest_dead(self._tables.jobs.values(), since)[:most]
        keys = self._tables.fault_keys
        return tallied(
            dead, lambda job: keys.get(job.id), limit=limit, more=len(dead) >= most, task=task
        )

    async def step_records(self, job_id: str) -> list[StepRecord]:
        """The recorded steps of a job, in their order."""
        steps = self._tables.steps
        times = steps.times.get(job_id, {})
        return [
            StepRecord(name=name, result=result, at=times.get(name))
            for name, result in steps.results.get(job_id, {}).items()
        ]

    async def dead_tally(self, *, most: int = MOST_COUNTED_DEAD) -> DeadTally:
        """The number of dead jobs up to a limit, and the oldest death."""
        ends = [
            job.finished_at
            for job in self._tables.jobs.values()
            if job.state is JobState.DEAD and job.finished_at is not None
        ]
        return DeadTally(jobs=min(len(ends), max(most, 0)), oldest_at=min(ends, default=None))

    async def graph(self, group: str, *, limit: int = MOST_MEMBERS) -> GroupGraph:
        """The first members of a group, and the gates that hold them."""
        ids = sorted(set(self._tables.members(group)))
        if limit <= 0:
            return GroupGraph(members=(), watches=(), more=False)
        members = [_member(self._tables.jobs[each]) for each in ids[:limit]]
        known = {one.id for one in members}
        rows = self._tables.gates.rows
        gates = sorted({one.gate for one in members if one.gate in rows})
        watches = (
            GateWatch(
                gate=self._gate(rows[each], counted=False),
                on=tuple(job for job in rows[each].on if job in known),
            )
            for each in gates
        )
        return GroupGraph(members=tuple(members), watches=tuple(watches), more=len(ids) > limit)

    async def browse_groups(
        self, *, limit: int = 50, after: str | None = None, unended: bool | None = None
    ) -> list[GroupBrief]:
        """Groups that have a row, newest first."""
        size = min(max(limit, 0), MOST_ON_A_PAGE)
        rows = sorted(
            (each for each in self._tables.groups.rows if after is None or each < after),
            reverse=True,
        )
        looked = rows[: size if unended is None else MOST_LOOKED_AT]
        told = (
            GroupBrief(
                id=one.id,
                open=one.open,
                failed=one.failed,
                policy=one.policy,
                closing=one.closing,
                final=one.final,
                task=None if (root := self._tables.jobs.get(one.id)) is None else root.task,
                enqueued_at=None if root is None else root.enqueued_at,
            )
            for one in groups.records(self._tables, looked)
        )
        return list(islice((one for one in told if unended in {None, one.open > 0}), size))

    async def open_gates(self, *, limit: int = 50, after: str | None = None) -> list[GateBrief]:
        """Gates that wait, by id."""
        rows = (
            row
            for _, row in sorted(self._tables.gates.rows.items())
            if row.state is GateState.OPEN and (after is None or row.id > after)
        )
        return [self._gate(row) for row in islice(rows, max(limit, 0))]

    def _gate(self, row: MemoryGate, *, counted: bool = True) -> GateBrief:
        held = self._tables.gates.held.get(row.id, ()) if counted else ()
        # A gate still knows the jobs that it has let go, which do not count.
        waiting = [each for each in held if self._tables.jobs[each].state is JobState.BLOCKED]
        return GateBrief(
            id=row.id,
            state=row.state,
            need=row.need,
            of=row.of,
            watched=len(row.on),
            succeeded=row.succeeded,
            failed=row.failed,
            deadline=row.deadline,
            holds=min(len(waiting), _MOST_HELD),
            sample=min(waiting, default=None),
        )

    async def pending_signals(
        self, *, limit: int = 50, after: str | None = None
    ) -> list[SignalRecord]:
        """Signals that nobody has taken, by id."""
        now, signals = self._clock.now(), self._tables.signals
        waiting = {
            each: until
            for address in signals.waiting.values()
            for each, until in address.items()
            if now < until and (after is None or each > after)
        }
        return [
            SignalRecord(
                id=each,
                target=signals.rows[each].target,
                event=signals.rows[each].event,
                payload=signals.rows[each].payload,
                expires_at=waiting[each],
                sent_at=waiting[each] - timedelta(seconds=signals.rows[each].keep),
            )
            for each in sorted(waiting)[: max(limit, 0)]
        ]

    async def drop_signals(self, ids: Sequence[str]) -> list[str]:
        """End signals that nobody has taken."""
        signals = self._tables.signals
        dropped = []
        for each in sorted(set(ids)):
            signal = signals.rows.get(each)
            if signal is None or each not in signals.unread.get(signal.target, {}):
                continue
            signals.take(signal)
            dropped.append(each)
        return dropped

    async def next_due(self, queue: str, *, limit: int = 20) -> list[JobBrief]:
        """The ready jobs of a queue that are next."""
        jobs = self._tables.jobs
        ready = [
            jobs[each] for lane in self._tables.lanes if lane.queue == queue for each in lane.ready
        ]
        best = sorted(ready, key=lambda job: (-job.priority, job.run_at, job.id))
        return [_brief(self._tables, job) for job in best[: min(max(limit, 0), MOST_ON_A_PAGE)]]

    async def newest_events(
        self, *, domain: str | None = None, before: int | None = None, limit: int = 50
    ) -> list[LogEvent]:
        """Events of the log, newest first."""
        below = [
            row.event
            for row in self._tables.log.above(0, domain)
            if before is None or row.event.position < before
        ]
        return below[::-1][: min(max(limit, 0), MOST_ON_A_PAGE)]

    async def ids_beginning(self, kind: Kind, beginning: str, *, limit: int = 10) -> list[str]:
        """Ids of a kind that begin with a text."""
        between = id_range(beginning)
        if between is None or limit <= 0:
            return []
        first, last = between
        known = sorted(each for each in self._known(kind) if first <= each <= last)
        return known[:limit]

    def _known(self, kind: Kind) -> Sequence[str]:
        tables = self._tables
        match kind:
            case Kind.JOB:
                return tuple(tables.jobs)
            case Kind.GATE:
                return tuple(tables.gates.rows)
            case Kind.ACTION:
                return tuple(tables.actions)
            case Kind.WORKER:
                return tuple(tables.workers)
            case Kind.EVENT:
                return tuple(row.event.id for row in tables.log.above(0, None))
            case Kind.LETTER:
                return tuple(tables.routers.letters)
            case Kind.MESSAGE:
                return tuple(tables.mailbox.rows)


def _says(job: JobRecord, text: str | None, *, arguments: bool) -> bool:
    if text is None:
        return True
    failure = job.failure
    return (arguments and text in job.input) or (failure is not None and text in failure.message)


def _member(job: JobRecord) -> GraphMember:
    return GraphMember(id=job.id, task=job.task, state=job.state, parent=job.parent, gate=job.gate)


def _brief(tables: Tables, job: JobRecord) -> JobBrief:
    failure = job.failure
    return JobBrief(
        id=job.id,
        task=job.task,
        queue=job.queue,
        state=job.state,
        priority=job.priority,
        run_at=job.run_at,
        enqueued_at=job.enqueued_at,
        attempt=job.attempt,
        deliveries=job.deliveries,
        group_id=job.group_id,
        parent=job.parent,
        tags=job.tags,
        worker=job.worker,
        cancel_requested=job.cancel_requested,
        started_at=job.started_at,
        finished_at=job.finished_at,
        reason=job.reason,
        limit_key=job.limit_key,
        error_type=None if failure is None else failure.type,
        error=None if failure is None else failure.message[:LONGEST_MESSAGE],
        redriven_at=tables.redriven.get(job.id),
        options=job.options,
        ran=_ran(job),
    )


def _ran(job: JobRecord) -> timedelta | None:
    last = job.failure
    if last is None or last.attempt != job.attempt or last.at is None or last.started_at is None:
        return None
    return last.at - last.started_at

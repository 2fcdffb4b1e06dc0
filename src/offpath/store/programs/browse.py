"""Lists for people: jobs in bounded steps, groups and their graphs, gates, signals, the log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from offpath.model.brief import (
    MOST_QUEUES,
    BriefPage,
    DeadTally,
    FaultCount,
    FaultTally,
    GateBrief,
    GateWatch,
    GraphMember,
    GroupBrief,
    GroupGraph,
    JobBrief,
    Kind,
    SignalRecord,
)
from offpath.model.gate import Counting, GateState
from offpath.model.group import GroupPolicy
from offpath.model.id_range import id_range
from offpath.model.job import JobFilter, JobState
from offpath.model.route import LogEvent
from offpath.store.browse import MOST_COUNTED_DEAD, MOST_DEAD, MOST_LOOKED_AT, MOST_MEMBERS
from offpath.store.programs.answers import STATES
from offpath.store.programs.dialect import Dialect, Rows, Send, Steps, ask, one
from offpath.store.programs.events import EVENTS
from offpath.store.programs.instants import readable
from offpath.store.programs.list_rows import (
    BriefRow,
    FaultRow,
    GateBriefRow,
    GroupBriefRow,
    MemberRow,
    SignalRow,
)
from offpath.store.programs.reads import conditions
from offpath.store.protocol import MOST_ON_A_PAGE
from offpath.store.refusals import no_position
from offpath.store.unreadable import Shape, mark

_texts: Final = msgspec.json.Decoder(tuple[str, ...]).decode
_NARROW: Final = ((JobState.DEAD,), (JobState.RUNNING,))
"""States that have an index of their own, so that only jobs in them are looked at."""
_NARROWING: Final = ("ids", "group_id", "root", "parent")
"""Parameters of a filter that say which rows are looked at."""
_IDS: Final = {
    Kind.JOB: "job_ids",
    Kind.MESSAGE: "message_ids",
    Kind.EVENT: "event_ids",
    Kind.LETTER: "letter_ids",
    Kind.ACTION: "action_ids",
    Kind.WORKER: "worker_ids",
    Kind.GATE: "gate_ids",
}


def browse(
    d: Dialect,
    where: JobFilter,
    *,
    text: str | None = None,
    arguments: bool = False,
    limit: int = 50,
    after: str | None = None,
    most: int = MOST_LOOKED_AT,
    newest: bool = True,
) -> Steps[BriefPage]:
    """One page of jobs that match among the next rows, and how far it came."""
    if limit <= 0 or most <= 0:
        # Nothing was looked at, so the next page begins where this one did.
        return BriefPage(items=(), next=after)
    size = min(limit, MOST_ON_A_PAGE)
    position = None if after is None else d.id(after)
    if after is not None and position is None:
        raise no_position()
    walk = _walk(d, where, position, most)
    found = yield from ask(
        d.sql["browse_newest" if newest else "browse_oldest"](
            **{**_conditions(d, where), **walk},
            text=text,
            arguments=int(arguments),
            # One more than fits tells whether the page or the walk ended first.
            limit=size + 1,
        )
    )
    ids = [each for (each,) in found[:size]]
    if len(found) > size:
        items = yield from _briefs(d, ids)
        # All of them may have been removed since the walk: then only the id is known.
        last = items[-1] if items else None
        reached_at = None if last is None else last.enqueued_at
        return BriefPage(items=items, next=ids[-1], reached=ids[-1], reached_at=reached_at)
    # The walk ended before the page was full. Its last row is where the next page goes on, whether
    # it matches or not.
    reached = yield from ask(d.sql["reach_newest" if newest else "reach_oldest"](**walk))
    items = yield from _briefs(d, ids)
    for last_id, at in reached:
        return BriefPage(items=items, next=last_id, reached=last_id, reached_at=readable(at))
    return BriefPage(items=items, next=None, exhausted=True)


def _walk(d: Dialect, where: JobFilter, after: str | None, most: int) -> dict[str, Any]:
    """The parameters that say which rows are looked at."""
    known = conditions(d, where)
    narrowed = {name: known[name] for name in _NARROWING}
    source = d.any_of([one.value for one in where.states]) if where.states in _NARROW else None
    return {**narrowed, "source": source, "after": after, "most": most}


def _conditions(d: Dialect, where: JobFilter) -> dict[str, Any]:
    """The parameters that each row is tried by."""
    known = conditions(d, where)
    return {name: known[name] for name in known if name not in _NARROWING}


def _briefs(d: Dialect, ids: Sequence[str]) -> Steps[tuple[JobBrief, ...]]:
    """The rows of these jobs in lists, in this order; those that went meanwhile are left out."""
    if not ids:
        return ()
    rows = yield from one(d.sql["briefs"](ids=d.ids(ids)))
    known = {each.id: each for each in _BRIEFS.all(rows)}
    return tuple(known[each] for each in ids if each in known)


def next_due(d: Dialect, queue: str, *, limit: int = 20) -> Steps[list[JobBrief]]:
    """The ready jobs of a queue that are next."""
    if limit <= 0:
        return []
    rows = yield from ask(d.sql["next_due"](queue=queue, limit=min(limit, MOST_ON_A_PAGE)))
    return list((yield from _briefs(d, [each for (each,) in rows])))


def faults(
    d: Dialect,
    *,
    limit: int = 100,
    most: int = MOST_DEAD,
    task: str | None = None,
    since: datetime | None = None,
) -> Steps[FaultTally]:
    """The faults of the newest dead jobs."""
    if limit <= 0 or most <= 0:
        return FaultTally(items=(), looked_at=0, more=False)
    # Two statements, since deaths by time are in another index than those by id.
    if since is None:
        query = d.sql["faults"](most=most, limit=limit, task=task)
    else:
        query = d.sql["faults_since"](most=most, limit=limit, task=task, since=d.at(since))
    rows = yield from one(query)
    found = [FaultRow._make(row) for row in rows]
    looked = found[0].looked_at if found else 0
    return FaultTally(
        items=tuple(_fault(row) for row in found), looked_at=looked, more=looked >= most
    )


def _fault(row: FaultRow) -> FaultCount:
    return FaultCount(
        task=row.task,
        reason=row.reason,
        key=row.key,
        jobs=row.jobs,
        first_at=readable(row.first),
        last_at=readable(row.last),
        # The database gathers them in no order, and every store answers by name.
        queues=tuple(sorted(_texts(row.queues)))[:MOST_QUEUES],
        sample=row.sample,
    )


def dead_tally(d: Dialect, *, most: int = MOST_COUNTED_DEAD) -> Steps[DeadTally]:
    """The number of dead jobs up to a limit, and the oldest death."""
    ((jobs, oldest),) = yield from one(d.sql["dead_tally"](most=max(most, 0)))
    return DeadTally(jobs=jobs, oldest_at=readable(oldest))


# -- groups and gates ------------------------------------------------------------------------------


def graph(d: Dialect, group: str, *, limit: int = MOST_MEMBERS) -> Steps[GroupGraph]:
    """The first members of a group, and the gates that hold them."""
    root = d.id(group)
    if limit <= 0 or root is None:
        return GroupGraph(members=(), watches=(), more=False)
    # One more than is shown tells whether there are others.
    rows = yield from ask(d.sql["members"](root=root, group_id=group, limit=limit + 1))
    members = tuple(_member(MemberRow._make(row)) for row in rows[:limit])
    watches = yield from _watches(d, members)
    return GroupGraph(members=members, watches=watches, more=len(rows) > limit)


def _watches(d: Dialect, members: Sequence[GraphMember]) -> Steps[tuple[GateWatch, ...]]:
    gates = sorted({one.gate for one in members if one.gate is not None})
    if not gates:
        return ()
    named = d.ids(gates)
    rows, pairs = yield Send(
        (
            d.sql["member_gates"](gates=named),
            d.sql["watched_members"](gates=named, members=d.ids([one.id for one in members])),
        ),
        last=True,
    )
    # ``groupby`` joins neighbours alone: the statement orders its rows by gate.
    watched = {gate: tuple(job for _, job in each) for gate, each in groupby(pairs, _first)}
    return tuple(GateWatch(gate=one, on=watched.get(one.id, ())) for one in _gates(rows))


def _first(row: Sequence[Any]) -> str:
    gate: str = row[0]
    return gate


def _member(row: MemberRow) -> GraphMember:
    # one of no known state is listed as dead, and doctor tells of it
    state = STATES.get(row.state, JobState.DEAD)
    return GraphMember(id=row.id, task=row.task, state=state, parent=row.parent, gate=row.gate)


def browse_groups(
    d: Dialect, *, limit: int = 50, after: str | None = None, unended: bool | None = None
) -> Steps[list[GroupBrief]]:
    """Groups that have a row, newest first."""
    size = min(max(limit, 0), MOST_ON_A_PAGE)
    every = unended is None
    query = d.sql["browse_groups"](
        after=after,
        unended=None if every else int(unended or False),
        # Without a condition every row is shown, so no more are looked at than fit.
        most=size if every else MOST_LOOKED_AT,
        limit=size,
    )
    rows = yield from one(query)
    return [_group(GroupBriefRow._make(row)) for row in rows]


def _group(row: GroupBriefRow) -> GroupBrief:
    return GroupBrief(
        id=row.id,
        open=row.open,
        failed=row.failed,
        policy=GroupPolicy(row.policy),
        closing=bool(row.closing),
        final=bool(row.final),
        task=row.task,
        enqueued_at=readable(row.enqueued_at),
    )


def open_gates(d: Dialect, *, limit: int = 50, after: str | None = None) -> Steps[list[GateBrief]]:
    """Gates that wait, by id."""
    query = d.sql["open_gates"](after=_position(d, after), limit=max(limit, 0))
    return _gates((yield from one(query)))


def _gates(rows: Rows) -> list[GateBrief]:
    return [_gate(GateBriefRow._make(row)) for row in rows]


def _gate(row: GateBriefRow) -> GateBrief:
    return GateBrief(
        id=row.id,
        state=GateState(row.state),
        need=row.need,
        of=Counting(row.counting),
        watched=row.total,
        succeeded=row.succeeded,
        failed=row.failed,
        deadline=readable(row.deadline),
        holds=row.holds,
        sample=row.sample,
    )


# -- signals, the log, ids -------------------------------------------------------------------------


def pending_signals(
    d: Dialect, *, limit: int = 50, after: str | None = None
) -> Steps[list[SignalRecord]]:
    """Signals that nobody has taken, by id."""
    query = d.sql["pending_signals"](after=_position(d, after), limit=max(limit, 0), now=d.now)
    return [_signal(SignalRow._make(row)) for row in (yield from one(query))]


def _signal(row: SignalRow) -> SignalRecord:
    return SignalRecord(
        id=row.id,
        target=row.target,
        event=row.event,
        payload=row.payload,
        expires_at=readable(row.expires_at),
        sent_at=readable(row.sent_at),
    )


def drop_signals(d: Dialect, ids: Sequence[str]) -> Steps[list[str]]:
    """End signals that nobody has taken."""
    rows = yield from one(d.sql["drop_signals"](ids=d.ids(ids), now=d.now))
    # An update answers in no order, and every store answers by id.
    return sorted(each for (each,) in rows)


def newest_events(
    d: Dialect, *, domain: str | None = None, before: int | None = None, limit: int = 50
) -> Steps[list[LogEvent]]:
    """Events of the log, newest first."""
    size = min(max(limit, 0), MOST_ON_A_PAGE)
    rows = yield from one(d.sql["newest_events"](domain=domain, before=before, limit=size))
    return EVENTS.all(rows)


def ids_beginning(d: Dialect, kind: Kind, beginning: str, *, limit: int = 10) -> Steps[list[str]]:
    """Ids of a kind that begin with a text."""
    between = id_range(beginning)
    if between is None or limit <= 0:
        return []
    first, last = between
    rows = yield from one(d.sql[_IDS[kind]](first=first, last=last, limit=limit))
    return [each for (each,) in rows]


def _position(d: Dialect, after: str | None) -> str | None:
    position = None if after is None else d.id(after)
    # None is the first page, so a position that nobody gave is refused.
    if after is not None and position is None:
        raise no_position()
    return position


def _brief(row: BriefRow) -> JobBrief:
    return JobBrief(
        id=row.id,
        task=row.task,
        queue=row.queue,
        state=STATES[row.state],
        priority=row.priority,
        run_at=readable(row.run_at),
        enqueued_at=readable(row.enqueued_at),
        attempt=row.attempt,
        deliveries=row.deliveries,
        group_id=row.group_id,
        parent=row.parent,
        tags=_texts(row.tags) if row.tags else (),
        worker=row.worker,
        cancel_requested=bool(row.cancel_requested),
        started_at=readable(row.started_at),
        finished_at=readable(row.finished_at),
        reason=row.reason,
        limit_key=row.limit_key,
        error_type=row.error_type,
        error=row.error,
        redriven_at=readable(row.redriven_at),
        options=row.options,
        ran=_ran(row),
    )


def _ran(row: BriefRow) -> timedelta | None:
    """The time that the latest attempt took, where that is the one that failed last."""
    if row.failed_attempt != row.attempt or row.failed_from is None or row.failed_at is None:
        return None
    try:
        return datetime.fromisoformat(row.failed_at) - datetime.fromisoformat(row.failed_from)
    except (ValueError, TypeError):  # written by hand
        return None


_PLAIN: Final = BriefRow(
    id="",
    task="",
    queue="",
    state="dead",
    priority=0,
    run_at=0,
    enqueued_at=0,
    attempt=1,
    deliveries=0,
    group_id="",
    parent=None,
    tags=None,
    worker=None,
    cancel_requested=0,
    started_at=None,
    finished_at=None,
    reason=None,
    limit_key=None,
    error_type=None,
    error=None,
    redriven_at=None,
    options="{}",
    failed_attempt=None,
    failed_from=None,
    failed_at=None,
)
_BRIEFS: Final = Shape.of(_PLAIN, _brief, lambda job, bad: replace(job, unreadable=mark(bad)))

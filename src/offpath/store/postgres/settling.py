"""Ending attempts, and the counts of their groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple, assert_never

import msgspec
from msgspec import Struct

from offpath.model.changes import Changed
from offpath.model.effects import Effects
from offpath.model.group import Contribution
from offpath.model.job import TERMINAL, BlockReason, Enqueued, Failure, JobState, NewJob
from offpath.model.settlement import (
    Cancelled,
    Dead,
    Outcome,
    Released,
    Retry,
    Settled,
    Settlement,
    SettleStatus,
    Snoozed,
    Succeeded,
    Waiting,
)
from offpath.store.postgres.changing import dead, told
from offpath.store.postgres.effects import carry_out
from offpath.store.postgres.gates import COUNTED, count_ends, released
from offpath.store.postgres.groups import GroupWork, Left
from offpath.store.postgres.limits import cool_down_steps, cool_downs
from offpath.store.postgres.steps import (
    Announced,
    Send,
    Steps,
    ask,
    embed,
    from_micros,
    ids_json,
    moment,
    public,
    to_json,
    told_the_time,
)
from offpath.store.sql import Catalogue, Query, Row

KEPT_FAILURES: Final = 50
_SKIPPED: Final = 8
"""Batches that do not try the quick way after one that tried in vain."""


class _Success(Struct, frozen=True):
    n: int
    id: str
    worker: str
    deliveries: int
    result: str | None
    keep: float | None


class _End(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One settlement as ``settle`` takes it. ``spent``: whether the attempt counts."""

    n: int
    id: str
    worker: str
    deliveries: int
    state: str
    result: str | None = None
    reason: str | None = None
    spent: int
    delay: float | None = None
    until: datetime | None = None
    keep: float | None = None
    failure: Failure | None = None
    wait_target: str | None = None
    wait_event: str | None = None
    timeout: float | None = None


def lone_successes(settlements: Iterable[Settlement]) -> bool:
    """Whether all of these are successes without effects of jobs that are their own group."""
    return all(
        type(one.outcome) is Succeeded
        and not one.effects
        and one.job.group_id == one.job.id
        and (one.outcome.contributes or one.outcome.result is None)
        for one in settlements
    )


class Company:
    """Whether the quick way of :func:`succeed_steps` is worth a try: where none of a batch was
    alone, the next ones are mostly of the same kind, and the try is a round trip for nothing.
    """

    __slots__ = ("_skip",)

    def __init__(self) -> None:
        self._skip = 0

    def may_be_alone(self) -> bool:
        """Whether to try it with this batch."""
        self._skip = max(self._skip - 1, -1)
        return self._skip < 0

    def met(self, *, all_of_them: bool) -> None:
        """A try has shown whether all jobs of the batch have company."""
        self._skip = _SKIPPED if all_of_them else 0


def succeed_steps(
    settlements: Sequence[Settlement],
    now: datetime | None,
    announced: Announced | None = None,
    *,
    sql: Catalogue,
) -> Steps[list[Settled | None]]:
    """Settle lone successes in one round trip, COMMIT included.

    None for those that were not written: their lease is lost, or somebody counts them by now.
    """
    successes = [_success(n, one) for n, one in enumerate(settlements)]
    successes.sort(key=_by_id)
    rows = yield from ask(sql["succeed"](now=moment(now), batch=to_json(successes)), last=True)
    answers: list[Settled | None] = [None] * len(settlements)
    if announced is not None:
        announced.hear(row[2] for row in rows)
    for n, cancelled, _, redrives in rows:
        answers[n] = Settled(
            id=settlements[n].job.id,
            status=SettleStatus.APPLIED,
            state=JobState.CANCELLED if cancelled else JobState.SUCCEEDED,
            group_done=redrives == 0,
        )
    return answers


def settle_steps(
    settlements: Sequence[Settlement],
    now: datetime | None,
    announced: Announced | None = None,
    *,
    sql: Catalogue,
) -> Steps[list[Settled]]:
    """Settle anything. Jobs first, then what they enqueue, then gates, then their groups."""
    ends = [_end(n, one) for n, one in enumerate(settlements)]
    ends.sort(key=_by_id)
    first = _lock_others(settlements, sql)
    settle = sql["settle"](now=moment(now), batch=to_json(ends))
    rows = yield from told_the_time(settle, now, sql, first=first)
    batch = _Batch(settlements, {row[0]: _Ended.of(row) for row in rows})
    if announced is not None:
        announced.hear(row[4] for row in rows)
    yield from _catch_signals(batch, now, sql)
    carried = batch.carried()
    enqueued, work = yield from embed(
        carry_out(
            carried,
            now,
            settled=batch.ids(),
            ended=batch.watched(),
            joining=batch.makers(carried),
            sql=sql,
        )
    )
    yield from _trim(batch, sql)
    moved = yield from embed(count_ends(batch.watched(), batch.keep(), now, sql=sql))
    yield from cool_down_steps(cool_downs(settlements[n] for n in batch.applied()), now, sql=sql)
    batch.count(work, moved)
    if announced is not None:
        announced.moved |= released(moved)
    left = yield from work.lasting(now, sql=sql)
    return batch.answers(enqueued, work, left, dead([*work.moved, *moved]))


def _lock_others(settlements: Sequence[Settlement], sql: Catalogue) -> tuple[Query, ...]:
    """Effects that touch other jobs of the store: then all are locked first, in one order."""
    others = {each for one in settlements for each in _touched(one)}
    others -= {job.id for one in settlements for job in one.effects.jobs}
    if not others:
        return ()
    return (sql["lock_jobs"](ids=ids_json(others | {one.job.id for one in settlements})),)


def _touched(one: Settlement) -> Iterable[str]:
    """The jobs that its gates watch, and the roots of groups that its jobs name."""
    for gate in one.effects.gates:
        yield from gate.on
    for job in one.effects.jobs:
        if job.group_id is not None and job.group_id != one.job.group_id:
            yield job.group_id


class _Ended(NamedTuple):
    """What the statement says of one settlement that it applied."""

    state: JobState
    run_at: int
    group: str | None
    """The group that counts it."""
    announce: int
    watched: bool
    has_undo: bool
    redrives: int

    @classmethod
    def of(cls, row: Row) -> _Ended:
        _, state, run_at, group, announce, watched, has_undo, redrives = row
        counted = watched == COUNTED
        return cls(public(state), run_at, group, announce, counted, bool(has_undo), redrives)

    @property
    def over(self) -> bool:
        return self.state in TERMINAL

    @property
    def failed(self) -> bool:
        return self.over and self.watched and self.state is not JobState.SUCCEEDED


@dataclass(slots=True)
class _Batch:
    """Settlements, and what became of those that were applied, by their places."""

    settlements: Sequence[Settlement]
    ended: dict[int, _Ended]

    def ids(self) -> frozenset[str]:
        """The jobs."""
        return frozenset(self.settlements[n].job.id for n in self.ended)

    def applied(self) -> list[int]:
        """The places of those that came out as they wanted to, in order."""
        wanted = (Succeeded, Snoozed, Waiting)
        return [
            n
            for n, one in sorted(self.ended.items())
            if isinstance(self.settlements[n].outcome, wanted)
            and one.state is not JobState.CANCELLED
        ]

    def carried(self) -> dict[int, Effects]:
        """The effects to carry out."""
        carried = {}
        for n in self.applied():
            one = self.settlements[n]
            if one.effects:
                jobs = tuple(_member(job, one) for job in one.effects.jobs)
                carried[n] = msgspec.structs.replace(one.effects, jobs=jobs)
        return carried

    def makers(self, carried: Mapping[int, Effects]) -> list[str]:
        """Lone jobs whose group has a value other than their result: it needs a row."""
        return [
            self.settlements[n].job.id
            for n in self.applied()
            if self.ended[n].group is None
            and (
                (n in carried and carried[n].contributions) or _keeps_to_itself(self.settlements[n])
            )
        ]

    def watched(self) -> dict[str, bool]:
        """Jobs that gates watch and that have ended; whether they succeeded."""
        return {
            self.settlements[n].job.id: one.state is JobState.SUCCEEDED
            for n, one in self.ended.items()
            if one.watched and one.over
        }

    def keep(self) -> float | None:
        """How long jobs that die of these ends are kept: as the longest kept of what failed."""
        keeps = [
            self.settlements[n].keep
            for n, one in self.ended.items()
            if one.over and one.state is not JobState.SUCCEEDED
        ]
        known = [one for one in keeps if one is not None]
        return max(known) if known and len(known) == len(keeps) else None

    def count(self, work: GroupWork, moved: Sequence[Row]) -> None:
        """Note what the groups have lost, and what they were given."""
        for one in self.ended.values():
            if one.group is not None and one.over:
                work.end(one.group, failed=one.state is not JobState.SUCCEEDED)
        for n in self.applied():
            group = self._group_with_row(n, work)
            if group is not None and (given := _given(self.settlements[n])):
                work.given[group] += given
            elif group is not None and self.ended[n].group is None:
                work.given[group] += ()  # its end may be that of the group
        work.end_moved(moved)

    def answers(
        self,
        enqueued: Mapping[int, tuple[Enqueued, ...]],
        work: GroupWork,
        left: Mapping[str, Left],
        died: Sequence[Row],
    ) -> list[Settled]:
        """What is told of each. Those that died at gates are told by the last that failed."""
        groups = {n: self._group_with_row(n, work) for n in self.ended}
        last = {groups[n]: n for n, one in sorted(self.ended.items()) if one.over}
        along = self._along(told(died, left, elsewhere={one for one in last if one}), enqueued)
        answers = [_lost(one) for one in self.settlements]
        for n, one in self.ended.items():
            group = groups[n]
            there = None if group is None else left.get(group)
            answers[n] = Settled(
                id=self.settlements[n].job.id,
                status=SettleStatus.APPLIED,
                state=one.state,
                run_at=from_micros(one.run_at) if one.state is JobState.QUEUED else None,
                enqueued=enqueued.get(n, ()),
                group_done=one.over
                and (
                    one.redrives == 0
                    if group is None
                    else there is not None and there.done and last[group] == n
                ),
                closing=there is not None and there.closing,
                along=tuple(along.get(n, ())),
            )
        return answers

    def _along(
        self, died: Sequence[Changed], enqueued: Mapping[int, tuple[Enqueued, ...]]
    ) -> dict[int, list[Changed]]:
        """Who tells of those that died: who made them, or else the last that failed."""
        makers = {one.job_id: n for n, some in enqueued.items() for one in some if one.created}
        failed = max((n for n, one in self.ended.items() if one.failed), default=None)
        other = failed if failed is not None else min(makers.values(), default=None)
        along: dict[int, list[Changed]] = {}
        for one in died:
            n = makers.get(one.id, other)
            if n is not None:
                along.setdefault(n, []).append(one)
        return along

    def _group_with_row(self, n: int, work: GroupWork) -> str | None:
        # its new children keep a group open that had no row before
        group = self.settlements[n].job.group_id
        return self.ended[n].group or (group if group in work.more else None)


def _keeps_to_itself(one: Settlement) -> bool:
    """Whether its result is not its group's value."""
    outcome = one.outcome
    return isinstance(outcome, Succeeded) and not outcome.contributes and outcome.result is not None


def _given(one: Settlement) -> tuple[Contribution, ...]:
    """What it gives to its group's value, in order."""
    outcome = one.outcome
    if isinstance(outcome, Succeeded) and outcome.contributes and outcome.result is not None:
        return (*one.effects.contributions, Contribution(payload=outcome.result))
    return one.effects.contributions


def _catch_signals(batch: _Batch, now: datetime | None, sql: Catalogue) -> Steps[None]:
    """No signal is missed between a look and a wait: who sends it takes turns with who waits."""
    waits = {
        batch.settlements[n].job.id: n
        for n, one in batch.ended.items()
        if one.state is JobState.BLOCKED
    }
    if not waits:
        return
    outcomes = [batch.settlements[n].outcome for n in waits.values()]
    wanted = [
        {"target": one.target, "event": one.event} for one in outcomes if isinstance(one, Waiting)
    ]
    _, rows = yield Send(
        (
            sql["lock_signals"](batch=to_json(wanted)),
            sql["catch_signals"](now=moment(now), ids=ids_json(waits)),
        )
    )
    for job, run_at in rows:
        n = waits[job]
        batch.ended[n] = batch.ended[n]._replace(state=JobState.QUEUED, run_at=run_at)


def _success(n: int, one: Settlement) -> _Success:
    job, outcome = one.job, one.outcome
    result = outcome.result if isinstance(outcome, Succeeded) else None
    return _Success(n, job.id, job.worker, job.deliveries, result, one.keep)


def _by_id(entry: _Success | _End) -> str:
    return entry.id


def _end(n: int, one: Settlement) -> _End:
    job = one.job
    return _End(
        n=n,
        id=job.id,
        worker=job.worker,
        deliveries=job.deliveries,
        keep=one.keep,
        **_outcome(one.outcome),
    )


def _outcome(outcome: Outcome) -> dict[str, Any]:
    match outcome:
        case Succeeded(result=result):
            return {"state": "succeeded", "result": result, "spent": 0}
        case Retry(delay=delay, failure=failure):
            return {"state": "queued", "delay": delay, "failure": failure, "spent": 1}
        case Snoozed(delay=delay, until=until, reason=reason):
            return {"state": "queued", "delay": delay, "until": until, "reason": reason, "spent": 0}
        case Waiting(target=target, event=event, timeout=timeout):
            return {
                "state": "blocked",
                "reason": BlockReason.SIGNAL.value,
                "spent": 0,
                "wait_target": target,
                "wait_event": event,
                "timeout": timeout,
            }
        case Dead(reason=reason, failure=failure):
            return {"state": "dead", "reason": reason, "failure": failure, "spent": 0}
        case Cancelled(failure=failure):
            return {"state": "cancelled", "reason": "cancelled", "failure": failure, "spent": 0}
        case Released():
            return {"state": "queued", "spent": 0}
        case _ as never:
            assert_never(never)


def _member(job: NewJob, one: Settlement) -> NewJob:
    """A new job joins the group of the job that made it."""
    if job.group_id is not None:
        return job
    return msgspec.structs.replace(job, group_id=one.job.group_id)


def _trim(batch: _Batch, sql: Catalogue) -> Steps[None]:
    """Keep the history of jobs short that may have failed often; a success is not to be undone."""
    jobs = {n: batch.settlements[n].job for n in batch.ended}
    often = [job.id for job in jobs.values() if job.deliveries > KEPT_FAILURES]
    if often:
        yield from ask(sql["trim_failures"](ids=ids_json(often), keep=KEPT_FAILURES))
    well = [
        jobs[n].id
        for n, one in batch.ended.items()
        if one.has_undo and one.state is JobState.SUCCEEDED
    ]
    if well:
        yield from ask(sql["forget_undo"](ids=ids_json(well)))


def _lost(one: Settlement) -> Settled:
    return Settled(id=one.job.id, status=SettleStatus.LEASE_LOST)


def refused(one: Settlement, error: Exception) -> Settled:
    """The answer to a settlement that the store cannot take."""
    return Settled(id=one.job.id, status=SettleStatus.REFUSED, error=error)

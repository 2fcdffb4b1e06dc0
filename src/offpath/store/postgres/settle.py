"""Ending attempts, and the counts of their groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, assert_never

from msgspec import Struct

from offpath.model.effects import NOTHING
from offpath.model.job import BlockReason, Failure, JobState
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
from offpath.store.death_faults import deaths
from offpath.store.postgres import groups
from offpath.store.postgres.alike import SPLIT, can_be_split
from offpath.store.postgres.effects import carry_out
from offpath.store.postgres.ends import AppliedBatch
from offpath.store.postgres.enqueue import replacing_keys
from offpath.store.postgres.limits import (
    Nudge,
    cool_down_steps,
    cool_downs,
    hold_again_steps,
    many,
    nudge_limits,
)
from offpath.store.postgres.steps import ids_json, moment, to_json, told_the_time
from offpath.store.postgres.words import PostgresWording
from offpath.store.programs import gates
from offpath.store.programs.aftermath import KEPT_FAILURES
from offpath.store.programs.dialect import Announced, Send, Steps, ask, embed
from offpath.store.sql import Catalogue, Query, Row

# A try for nothing is a round trip, so at most each ninth batch pays for one.
_SKIPPED: Final = 8
"""Batches that do not try the quick way after one that tried without success."""


class _Success(Struct, frozen=True):
    n: int
    id: str
    worker: str
    deliveries: int
    result: str | None
    keep: float | None


class _JobEnd(Struct, frozen=True, kw_only=True, omit_defaults=True):
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


def lone_successes(settlements: Sequence[Settlement]) -> bool:
    """True if all of these are successes without effects of jobs that are their own group, whose
    results can be sent as texts that the server splits.
    """
    # The names of workers are sent with the same separator, and may be any text.
    texts = list[str]({one.job.worker for one in settlements})
    for one in settlements:
        outcome = one.outcome
        if (
            type(outcome) is not Succeeded
            or one.effects
            or one.job.group_id != one.job.id
            or not (outcome.contributes or outcome.result is None)
            or outcome.result == ""  # which stands for none there
        ):
            return False
        texts.append(outcome.result or "")
    return can_be_split("".join(texts))


class AloneTries:
    """The worth of a try with the quick way of :func:`succeed_steps`: where none of a batch was
    alone, the next ones are mostly of the same kind, and the try is a round trip for nothing.
    """

    __slots__ = ("_skip",)

    def __init__(self) -> None:
        self._skip = 0

    def may_be_alone(self) -> bool:
        """True if it is worth a try with this batch."""
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

    None for those that were not written: their lease is lost, or somebody counts them.
    """
    # The statement locks in this order, as that of other ends does.
    order = sorted(range(len(settlements)), key=lambda n: settlements[n].job.id)
    ends = [settlements[n] for n in order]
    succeed = _succeed(ends, now, sql)
    if many(one.job.limit_key for one in settlements):
        _, rows = yield Send((sql["nudge_together"](), succeed))
        yield from _free_rooms((ends[place - 1] for place, *_ in rows), sql, last=True)
    else:
        rows = yield from ask(succeed, last=True)
    # None stays where nothing was written: the other way, which sees all cases, looks at those.
    answers: list[Settled | None] = [None] * len(settlements)
    if announced is not None:
        announced.hear(announce for _, _, announce, _, _ in rows)
        _tell_waiting(announced, rows)
    for place, cancelled, _, redrives, _ in rows:
        answers[order[place - 1]] = Settled(
            id=ends[place - 1].job.id,
            status=SettleStatus.APPLIED,
            state=JobState.CANCELLED if cancelled else JobState.SUCCEEDED,
            group_done=redrives == 0,
        )
    return answers


def _succeed(ends: Sequence[Settlement], now: datetime | None, sql: Catalogue) -> Query:
    """The statement for lone successes. Their fields are texts that the server splits: it reads
    these in half the time that it takes for a document.
    """
    return sql["succeed"](
        now=moment(now),
        ids=f"{{{','.join([one.job.id for one in ends])}}}",
        workers=SPLIT.join([one.job.worker for one in ends]),
        deliveries=f"{{{','.join([str(one.job.deliveries) for one in ends])}}}",
        results=SPLIT.join([_result(one) or "" for one in ends]),
        keeps=f"{{{','.join(['NULL' if one.keep is None else repr(one.keep) for one in ends])}}}",
    )


def settle_steps(
    settlements: Sequence[Settlement],
    now: datetime | None,
    announced: Announced | None = None,
    *,
    sql: Catalogue,
) -> Steps[list[Settled]]:
    """Settle anything. Jobs first, then what they enqueue, then gates, then their groups."""
    # The turns of signals come first: their sender may wait for a unique key that these ends give
    # up. Then all rows of jobs in one statement: two batches whose effects touch the other's jobs
    # would otherwise wait for each other.
    first = (*lock_signals(settlements, sql), *_lock_others(settlements, sql))
    # The trigger on jobs writes one note for each end. For many ends of few keys one note for each
    # key is cheaper, here and for the admission that reads them.
    if together := many(one.job.limit_key for one in settlements):
        first = (*first, sql["nudge_together"]())
    rows = yield from told_the_time(_settle(settlements, now, sql), now, sql, first=first)
    batch = AppliedBatch.of(settlements, rows)
    if announced is not None:
        announced.hear(one.announce for one in batch.ended.values())
        _tell_waiting(announced, rows)
    if together:
        over = (settlements[n] for n, one in batch.ended.items() if one.over)
        yield from _free_rooms(over, sql)
    # Under the turns that were taken above: no signal can come between this look and the wait.
    yield from _catch_signals(batch, now, sql)
    carried = batch.carried()
    # New jobs come behind the ends, which have given up their unique keys: a handler may enqueue a
    # job with the key of its own.
    enqueued, work = yield from embed(
        carry_out(
            carried,
            now,
            settled=batch.ids(),
            ended=batch.watched(),
            leading=batch.leading(),
            joining=batch.makers(carried),
            sql=sql,
        )
    )
    yield from _trim(batch, sql)
    # From the first gate on no row of a job is waited for, so nothing about jobs may follow.
    w = PostgresWording(sql, now)
    moved = yield from embed(gates.count_ends(w, batch.watched(), batch.keep()))
    # Applied ones only: a worker that has lost its lease must not close a key for the fleet.
    cooled = cool_downs(settlements[n] for n in batch.applied)
    yield from cool_down_steps(cooled, now, sql=sql)
    # A job that was put back is ready at once. If its key is closed, no admission would look at it
    # again, and it would start.
    if perhaps_closed := [*batch.given_back(), *cooled]:
        batch.hold((yield from hold_again_steps(perhaps_closed, now, sql=sql)))
    batch.count(work, moved)
    if announced is not None:
        announced.moved |= gates.released(moved)
    # Rows of groups are where the members of a large group meet. They are locked last, so that they
    # are held for the shortest time.
    left = yield from groups.lasting(work, now, sql=sql)
    return batch.answers(enqueued, left, gates.dead([*work.moved, *moved]))


def _tell_waiting(announced: Announced, rows: Iterable[Row]) -> None:
    """Jobs may have waited for one of these, which the last column says, to give its key up."""
    if any(frees for *_, frees in rows):
        announced.moved.add(JobState.QUEUED)


def _settle(settlements: Sequence[Settlement], now: datetime | None, sql: Catalogue) -> Query:
    """The statement for these: where all are successes, as mostly, one that does less."""
    if all(type(one.outcome) is Succeeded for one in settlements):
        return sql["succeed_in_company"](now=moment(now), batch=_successes(settlements))
    ends = [_end(n, one) for n, one in enumerate(settlements)]
    # The statement locks in this order. A late batch of a lost worker may name the same jobs.
    ends.sort(key=_by_id)
    return sql["settle"](now=moment(now), batch=to_json(ends))


def _successes(settlements: Sequence[Settlement]) -> str:
    successes = [_success(n, one) for n, one in enumerate(settlements)]
    # The statement locks in this order, as that of other ends does.
    successes.sort(key=_by_id)
    return to_json(successes)


def _free_rooms(ended: Iterable[Settlement], sql: Catalogue, *, last: bool = False) -> Steps[None]:
    """Give back the room that these had under their limits."""
    freed = Counter(one.job.limit_key for one in ended if one.job.limit_key is not None)
    if freed:
        nudges = [Nudge(key=key, freed=count) for key, count in sorted(freed.items())]
        yield from ask(nudge_limits(nudges, sql=sql), last=last)


def _lock_others(settlements: Sequence[Settlement], sql: Catalogue) -> tuple[Query, ...]:
    """Effects that touch other jobs of the store: then all are locked first, in one order."""
    busy = [one for one in settlements if one.effects is not NOTHING]
    others = {each for one in busy for each in _touched(one)}
    # What this transaction makes has no row yet that could be locked.
    others -= {job.id for one in busy for job in one.effects.jobs}
    keys = replacing_keys(job for one in busy for job in one.effects.jobs)
    if not others and not keys:
        return ()
    ids = ids_json(others | {one.job.id for one in settlements})
    return (sql["lock_jobs_and_holders"](ids=ids, keys=to_json(keys)),)


def _touched(one: Settlement) -> Iterable[str]:
    """The jobs that its gates watch, and the roots of groups that its jobs name."""
    for gate in one.effects.gates:
        yield from gate.on
    for job in one.effects.jobs:
        if job.group_id is not None and job.group_id != one.job.group_id:
            yield job.group_id


def lock_signals(settlements: Sequence[Settlement], sql: Catalogue) -> tuple[Query, ...]:
    """No signal is missed between a look and a wait: a sender takes turns with the job that waits.

    Before all other steps: a sender may wait for a unique key that these give up.
    """
    wanted = [
        {"target": one.outcome.target, "event": one.outcome.event}
        for one in settlements
        if isinstance(one.outcome, Waiting)
    ]
    return (sql["lock_signals"](batch=to_json(wanted)),) if wanted else ()


def _catch_signals(batch: AppliedBatch, now: datetime | None, sql: Catalogue) -> Steps[None]:
    """Wake the jobs of a batch that wait for a signal that is there."""
    waits = {
        batch.settlements[n].job.id: n
        for n, one in batch.ended.items()
        if one.state is JobState.BLOCKED
    }
    if not waits:
        return
    rows = yield from ask(sql["catch_signals"](now=moment(now), ids=ids_json(waits)))
    for job, run_at in rows:
        n = waits[job]
        batch.ended[n] = batch.ended[n]._replace(state=JobState.QUEUED, run_at=run_at)


def _success(n: int, one: Settlement) -> _Success:
    job = one.job
    return _Success(n, job.id, job.worker, job.deliveries, _result(one), one.keep)


def _result(one: Settlement) -> str | None:
    return one.outcome.result if isinstance(one.outcome, Succeeded) else None


def _by_id(entry: _Success | _JobEnd) -> str:
    return entry.id


def _end(n: int, one: Settlement) -> _JobEnd:
    job = one.job
    return _JobEnd(
        n=n,
        id=job.id,
        worker=job.worker,
        deliveries=job.deliveries,
        keep=one.keep,
        **_outcome(one.outcome),
    )


def _outcome(outcome: Outcome) -> dict[str, Any]:
    # Only a retry spends an attempt: a snooze, a wait and a release are nobody's failure.
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
        case Released(reason=reason):
            return {"state": "queued", "reason": reason, "spent": 0}
        case _ as never:
            assert_never(never)


def _trim(batch: AppliedBatch, sql: Catalogue) -> Steps[None]:
    """Note the faults of deaths, keep the history of jobs short that may have failed often; a
    success is not to be undone.
    """
    faults = deaths([batch.settlements[n] for n in batch.ended])
    if faults:
        yield from ask(sql["note_faults"](batch=to_json(faults)))
    jobs = {n: batch.settlements[n].job for n in batch.ended}
    often = [job.id for job in jobs.values() if job.deliveries > KEPT_FAILURES]
    if often:
        yield from ask(sql["trim_failures"](ids=ids_json(often), keep=KEPT_FAILURES))
    # What undoes a success is never run, and would keep the job from being pruned.
    well = [
        jobs[n].id
        for n, one in batch.ended.items()
        if one.has_undo and one.state is JobState.SUCCEEDED
    ]
    if well:
        yield from ask(sql["forget_undo"](ids=ids_json(well)))


def refused(one: Settlement, error: Exception) -> Settled:
    """The answer to a settlement that the store cannot take."""
    return Settled(id=one.job.id, status=SettleStatus.REFUSED, error=error)

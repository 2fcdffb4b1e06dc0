"""Ending attempts, and the counts of their groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, assert_never

import msgspec
from msgspec import Struct

from offpath.model.effects import Effects
from offpath.model.job import TERMINAL, Failure, JobState, NewJob
from offpath.model.settlement import (
    Cancelled,
    Dead,
    Released,
    Retry,
    Settled,
    Settlement,
    SettleStatus,
    Snoozed,
    Succeeded,
)
from offpath.store.postgres.effects import carry_out
from offpath.store.postgres.enqueue import counts_json
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
from offpath.store.sql import Catalogue, Query

KEPT_FAILURES: Final = 50


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


def lone_successes(settlements: Iterable[Settlement]) -> bool:
    """Whether all of these are successes without effects of jobs that are their own group."""
    return all(
        type(one.outcome) is Succeeded and not one.effects and one.job.group_id == one.job.id
        for one in settlements
    )


def succeed_steps(
    settlements: Sequence[Settlement],
    now: datetime | None,
    announced: Announced | None = None,
    *,
    sql: Catalogue,
) -> Steps[list[Settled | None]]:
    """Settle lone successes in one round trip, COMMIT included.

    None for those that were not written: their lease is lost, or a group counts them by now.
    """
    successes = [_success(n, one) for n, one in enumerate(settlements)]
    successes.sort(key=_by_id)
    rows = yield from ask(sql["succeed"](now=moment(now), batch=to_json(successes)), last=True)
    answers: list[Settled | None] = [None] * len(settlements)
    if announced is not None:
        announced.hear(row[2] for row in rows)
    for n, cancelled, _ in rows:
        answers[n] = Settled(
            id=settlements[n].job.id,
            status=SettleStatus.APPLIED,
            state=JobState.CANCELLED if cancelled else JobState.SUCCEEDED,
            group_done=True,
        )
    return answers


def settle_steps(
    settlements: Sequence[Settlement],
    now: datetime | None,
    announced: Announced | None = None,
    *,
    sql: Catalogue,
) -> Steps[list[Settled]]:
    """Settle anything. Jobs first, then what they enqueue, then their groups."""
    ends = [_end(n, one) for n, one in enumerate(settlements)]
    ends.sort(key=_by_id)
    rows = yield from told_the_time(sql["settle"](now=moment(now), batch=to_json(ends)), now, sql)
    if announced is not None:
        announced.hear(row[4] for row in rows)
    states = {row[0]: public(row[1]) for row in rows}
    enqueued, members = yield from embed(carry_out(_carried(settlements, states), now, sql=sql))
    yield from _trim(settlements, states, sql)
    grouped = {row[0]: row[3] for row in rows if row[3] is not None}
    ended = {n: group for n, group in grouped.items() if states[n] in TERMINAL}
    done = yield from count_down(ended, members, sql=sql)
    answers = [_lost(one) for one in settlements]
    for row in rows:
        n, state = row[0], states[row[0]]
        # its new children keep a group open that had no row before
        lone = n not in grouped and settlements[n].job.group_id not in members
        answers[n] = Settled(
            id=settlements[n].job.id,
            status=SettleStatus.APPLIED,
            state=state,
            run_at=from_micros(row[2]) if state is JobState.QUEUED else None,
            enqueued=enqueued.get(n, ()),
            group_done=state in TERMINAL and (lone or n in done),
        )
    return answers


def count_down(
    ended: dict[int, str], members: Counter[str] | None = None, *, sql: Catalogue
) -> Steps[set[int]]:
    """Count new members up and ended jobs down in their groups.

    Returns the numbers of those that ended the last open job of a group. Group rows are the last
    that a transaction writes, so that nobody waits for it while it holds them.
    """
    if not ended:
        if members:
            yield from ask(sql["count_up"](batch=counts_json(members, "open")))
        return set()
    counts = Counter(ended.values())
    batch = counts_json(counts, "ended")
    first = _up(members, counts, sql) if members else ()
    answers = yield Send(
        (*first, sql["count_down"](batch=batch), sql["drop_empty_groups"](batch=batch)), last=True
    )
    last = {group: n for n, group in sorted(ended.items())}
    return {last[group] for group, is_open in answers[len(first)] if is_open == 0}


def _up(members: Counter[str], ended: Counter[str], sql: Catalogue) -> tuple[Query, ...]:
    """Count up first, or a group could seem done in between. All are locked in one order."""
    both = to_json(sorted(members.keys() | ended.keys()))
    return sql["lock_groups"](ids=both), sql["count_up"](batch=counts_json(members, "open"))


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


def _outcome(
    outcome: Succeeded | Retry | Snoozed | Dead | Cancelled | Released,
) -> dict[str, Any]:
    match outcome:
        case Succeeded(result=result):
            return {"state": "succeeded", "result": result, "spent": 0}
        case Retry(delay=delay, failure=failure):
            return {"state": "queued", "delay": delay, "failure": failure, "spent": 1}
        case Snoozed(delay=delay, until=until, reason=reason):
            return {"state": "queued", "delay": delay, "until": until, "reason": reason, "spent": 0}
        case Dead(reason=reason, failure=failure):
            return {"state": "dead", "reason": reason, "failure": failure, "spent": 0}
        case Cancelled(failure=failure):
            return {"state": "cancelled", "reason": "cancelled", "failure": failure, "spent": 0}
        case Released():
            return {"state": "queued", "spent": 0}
        case _ as never:
            assert_never(never)


def _carried(settlements: Sequence[Settlement], states: dict[int, JobState]) -> dict[int, Effects]:
    """The effects of the settlements that were applied as they wanted to be."""
    carried = {}
    for n, state in states.items():
        one = settlements[n]
        if not one.effects or state in {JobState.CANCELLED, JobState.DEAD}:
            continue
        if isinstance(one.outcome, (Succeeded, Snoozed)):
            jobs = tuple(_member(job, one) for job in one.effects.jobs)
            carried[n] = msgspec.structs.replace(one.effects, jobs=jobs)
    return carried


def _member(job: NewJob, one: Settlement) -> NewJob:
    """A new job joins the group of the job that made it."""
    if job.group_id is not None:
        return job
    return msgspec.structs.replace(job, group_id=one.job.group_id)


def _trim(
    settlements: Sequence[Settlement], states: dict[int, JobState], sql: Catalogue
) -> Steps[None]:
    """Keep the history of jobs short that may have failed often."""
    often = [settlements[n].job.id for n in states if settlements[n].job.deliveries > KEPT_FAILURES]
    if often:
        yield from ask(sql["trim_failures"](ids=ids_json(often), keep=KEPT_FAILURES))


def _lost(one: Settlement) -> Settled:
    return Settled(id=one.job.id, status=SettleStatus.LEASE_LOST)


def refused(one: Settlement, error: Exception) -> Settled:
    """The answer to a settlement that the store cannot take."""
    return Settled(id=one.job.id, status=SettleStatus.REFUSED, error=error)

"""The changes that operators and maintenance make to jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from offpath.model.job import TERMINAL, JobState, LeasedJob
from offpath.model.lease import SILENCE, Rescued
from offpath.model.suspicion import PATIENT
from offpath.store.changes import ChangedJob
from offpath.store.postgres.changing import change, dead, ended, told
from offpath.store.postgres.gates import COUNTED, count_ends
from offpath.store.postgres.groups import GroupWork, Left, drop_steps, texts
from offpath.store.postgres.limits import hold_again_steps
from offpath.store.postgres.steps import ids_json, job_id, moment, public, to_json, told_the_time
from offpath.store.programs.answers import DeletedRow, MovedRow
from offpath.store.programs.dialect import Send, Steps, ask, embed
from offpath.store.protocol import JobRedrive, Pruned
from offpath.store.sql import Catalogue
from offpath.store.unreadable import Documents

MOST_AT_ONCE: Final = 1000


class _Taken(LeasedJob, frozen=True, kw_only=True):
    """A rescued job as the statement answers it."""

    state: JobState
    grouped: bool
    watched: int
    redrives: int


_rescued = Documents(_Taken)


def cancel_steps(
    ids: Sequence[str], keep: float | None, now: datetime | None, *, sql: Catalogue
) -> Steps[list[ChangedJob]]:
    """Cancel jobs, and count those that ended down."""
    rows = yield from ask(sql["cancel"](now=moment(now), ids=ids_json(ids), keep=keep))
    moved = [MovedRow(*row) for row in rows]
    return (yield from conclude(moved, GroupWork(), keep, now, sql=sql))


def conclude(
    rows: Sequence[MovedRow],
    work: GroupWork,
    keep: float | None,
    now: datetime | None,
    *,
    sql: Catalogue,
) -> Steps[list[ChangedJob]]:
    """Count changed jobs that have ended in gates and groups, as the last of a transaction.

    Answers for them, then for those that died at gates because of it.
    """
    watched = {row.id: False for row in rows if row.watched == COUNTED and ended(row)}
    moved = yield from embed(count_ends(watched, keep, now, sql=sql))
    answered = [*rows, *dead(moved)]
    work.end_moved(answered)
    left = yield from work.lasting(now, sql=sql)
    return told(answered, left)


def redrive_steps(
    redrives: Sequence[JobRedrive], now: datetime | None, *, sql: Catalogue
) -> Steps[list[ChangedJob]]:
    """Put jobs back, and count those that are open again up."""
    known = {job: one.delay for one in redrives if (job := job_id(one.id)) is not None}
    batch = to_json([{"id": job, "delay": delay} for job, delay in sorted(known.items())])
    keys = yield from ask(sql["redrive_keys"](batch=batch))
    if keys:
        # a holder whose period is over stands in nobody's way
        given = to_json(sorted({row[0] for row in keys}))
        yield from ask(sql["release_keys"](keys=given, now=moment(now)))
    yield from ask(sql["restore_groups"](now=moment(now), ids=ids_json(known)))
    put_back = yield from told_the_time(sql["redrive"](now=moment(now), batch=batch), now, sql)
    rows = [MovedRow(*row) for row in put_back]
    reopened = [row for row in rows if public(row.was) in TERMINAL]
    if watched := [row.id for row in reopened if row.watched]:
        yield from ask(sql["uncount_gates"](ids=ids_json(watched)))
    opened = Counter(row.group_id for row in reopened if row.grouped)
    if opened:
        groups = [{"id": group, "more": count} for group, count in sorted(opened.items())]
        yield from ask(sql["reopen_groups"](batch=to_json(groups)), last=True)
    return [change(row) for row in rows]


def delete_steps(ids: Sequence[str], *, sql: Catalogue) -> Steps[list[ChangedJob]]:
    """Remove ended jobs, and groups and gates with the last of their jobs."""
    gone = yield from ask(sql["delete"](ids=ids_json(ids)))
    rows = [DeletedRow(*row) for row in gone]
    groups = {row.group_id for row in rows if row.grouped}
    gates = {row.gate for row in rows if row.gate}
    if groups or gates:
        yield from drop_steps(groups, gates, sql=sql)
    return [change(row) for row in rows]


def prune_steps(limit: int, now: datetime | None, *, sql: Catalogue) -> Steps[Pruned]:
    """Remove what has been kept long enough, and groups and gates with the last of their jobs."""
    rows, _ = yield Send(
        (
            sql["prune"](now=moment(now), limit=limit),
            sql["prune_limits"](now=moment(now), limit=limit),
        )
    )
    jobs, messages, groups, gates = rows[0]
    if groups != "[]" or gates != "[]":
        yield from drop_steps(texts(groups), texts(gates), sql=sql)
    return Pruned(jobs=jobs, messages=messages)


def rescue_steps(
    limit: int,
    max_deliveries: int,
    keep: float | None,
    now: datetime | None,
    *,
    own: Iterable[int] = (),
    sql: Catalogue,
) -> Steps[list[Rescued]]:
    """Take jobs from dead workers, and forget workers that hold nothing more.

    ``own`` are the presence locks of this process, which prove nothing about it.
    """
    rescue = sql["rescue"](
        now=moment(now),
        limit=limit,
        max_deliveries=max_deliveries,
        patient=PATIENT,
        keep=keep,
        leases=SILENCE,
        own=to_json([str(key) for key in own]),
    )
    rows = yield from told_the_time(rescue, now, sql)
    yield from ask(sql["note_gone_workers"](now=moment(now)))
    taken = _rescued.of_list(rows[0][0])
    over = [one for one in taken if one.state in TERMINAL]
    watched = {one.id: False for one in over if one.watched == COUNTED}
    moved = yield from embed(count_ends(watched, keep, now, sql=sql))
    work = GroupWork()
    for one in over:
        if one.grouped:
            work.end(one.group_id, failed=True)
    work.end_moved(moved)
    keys = [
        key for one in taken if one.state not in TERMINAL and (key := one.limit_key) is not None
    ]
    held = yield from hold_again_steps(keys, now, sql=sql)
    left = yield from work.lasting(now, sql=sql)
    last = {one.group_id: one.id for one in over}
    along = tuple(told(dead(moved), left, elsewhere=last))
    cause = max(watched, default=None)
    return [
        Rescued(
            job=_leased(one),
            state=JobState.BLOCKED if one.id in held else one.state,
            group_done=_is_done(one, last, left),
            along=along if one.id == cause else (),
        )
        for one in taken
    ]


def _is_done(one: _Taken, last: Mapping[str, str], left: Mapping[str, Left]) -> bool:
    """True if the end of this job ended its group, for the first time."""
    if one.state not in TERMINAL:
        return False
    if not one.grouped:
        return one.redrives == 0
    there = left.get(one.group_id)
    return there is not None and there.done and last[one.group_id] == one.id


def _leased(one: _Taken) -> LeasedJob:
    return LeasedJob(**{name: getattr(one, name) for name in LeasedJob.__struct_fields__})

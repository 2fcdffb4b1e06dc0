"""What operators and maintenance do to jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from offpath.model.job import TERMINAL, JobState, LeasedJob
from offpath.model.lease import Rescued
from offpath.store.changes import Changed
from offpath.store.postgres.settling import count_down
from offpath.store.postgres.steps import (
    Steps,
    ask,
    ids_json,
    job_id,
    moment,
    public,
    to_json,
    told_the_time,
)
from offpath.store.protocol import Pruned, Redrive
from offpath.store.sql import Catalogue, Row

MOST_AT_ONCE: Final = 1000


class _Taken(LeasedJob, frozen=True, kw_only=True):
    """A rescued job as the statement answers it."""

    state: JobState
    grouped: bool


_rescued = msgspec.json.Decoder(list[_Taken])


def cancel_steps(
    ids: Sequence[str], keep: float | None, now: datetime | None, *, sql: Catalogue
) -> Steps[list[Changed]]:
    """Cancel jobs, and count those that ended down."""
    rows = yield from ask(sql["cancel"](now=moment(now), ids=ids_json(ids), keep=keep))
    changes = [_changed(row) for row in rows]
    grouped = {n: row[3] for n, row in enumerate(rows) if row[8] and row[5] == "cancelled"}
    done = yield from count_down(grouped, sql=sql)
    return [
        msgspec.structs.replace(
            one, group_done=one.state in TERMINAL and (n in done or not rows[n][8])
        )
        for n, one in enumerate(changes)
    ]


def redrive_steps(
    redrives: Sequence[Redrive], now: datetime | None, *, sql: Catalogue
) -> Steps[list[Changed]]:
    """Put jobs back, and count those that are open again up."""
    known = {job: one.delay for one in redrives if (job := job_id(one.id)) is not None}
    batch = to_json([{"id": job, "delay": delay} for job, delay in sorted(known.items())])
    keys = yield from ask(sql["redrive_keys"](batch=batch))
    if keys:
        # a holder whose period is over stands in nobody's way
        given = to_json(sorted({row[0] for row in keys}))
        yield from ask(sql["release_keys"](keys=given, now=moment(now)))
    rows = yield from told_the_time(sql["redrive"](now=moment(now), batch=batch), now, sql)
    opened: dict[str, int] = {}
    for row in rows:
        if row[8] and public(row[4]) in TERMINAL:
            opened[row[3]] = opened.get(row[3], 0) + 1
    if opened:
        groups = [{"id": group, "open": count} for group, count in sorted(opened.items())]
        yield from ask(sql["count_up"](batch=to_json(groups)))
    return [_changed(row) for row in rows]


def delete_steps(ids: Sequence[str], *, sql: Catalogue) -> Steps[list[Changed]]:
    """Remove ended jobs. They are counted in no group any more."""
    rows = yield from ask(sql["delete"](ids=ids_json(ids)), last=True)
    return [_changed(row) for row in rows]


def prune_steps(limit: int, now: datetime | None, *, sql: Catalogue) -> Steps[Pruned]:
    """Remove what has been kept long enough."""
    rows = yield from ask(sql["prune"](now=moment(now), limit=limit), last=True)
    jobs, messages = rows[0]
    return Pruned(jobs=jobs, messages=messages)


def rescue_steps(
    limit: int, max_deliveries: int, keep: float | None, now: datetime | None, *, sql: Catalogue
) -> Steps[list[Rescued]]:
    """Take jobs from dead workers, and forget workers that hold nothing more."""
    rescue = sql["rescue"](now=moment(now), limit=limit, max_deliveries=max_deliveries, keep=keep)
    rows = yield from told_the_time(rescue, now, sql)
    yield from ask(sql["note_gone_workers"](now=moment(now)))
    taken = _rescued.decode(rows[0][0])
    grouped = {
        n: one.group_id for n, one in enumerate(taken) if one.grouped and one.state in TERMINAL
    }
    done = yield from count_down(grouped, sql=sql)
    return [
        Rescued(
            job=_leased(one),
            state=one.state,
            group_done=one.state in TERMINAL and (n in done or not one.grouped),
        )
        for n, one in enumerate(taken)
    ]


def _leased(one: _Taken) -> LeasedJob:
    return LeasedJob(**{name: getattr(one, name) for name in LeasedJob.__struct_fields__})


def _changed(row: Row) -> Changed:
    job, task, queue, group, was, state, attempt, parent, _ = row
    return Changed(
        id=job,
        task=task,
        queue=queue,
        group_id=group,
        was=public(was),
        state=public(state),
        attempt=attempt,
        parent=parent,
    )

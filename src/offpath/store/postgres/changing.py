"""What is told of jobs that were changed by somebody else than their worker."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from offpath.model.job import TERMINAL, DeadReason, JobState
from offpath.store.changes import Changed
from offpath.store.postgres.groups import Left
from offpath.store.postgres.steps import public
from offpath.store.sql import Row


def told(
    rows: Sequence[Row], left: Mapping[str, Left], elsewhere: Collection[str] = ()
) -> list[Changed]:
    """What is told of changed jobs; the last of a group that is done says so.

    The ends of the groups of ``elsewhere`` are told by another answer.
    """
    last = {row[3]: n for n, row in enumerate(rows) if ended(row)}
    return [
        msgspec.structs.replace(
            change(row),
            group_done=ended(row)
            and (
                _is_done(left, row[3]) and last[row[3]] == n and row[3] not in elsewhere
                if row[8]
                else row[11] == 0
            ),
            reason=None if row[12] is None else DeadReason(row[12]),
        )
        for n, row in enumerate(rows)
    ]


def change(row: Row) -> Changed:
    """A changed job by itself."""
    job, task, queue, group, was, state, attempt, parent = row[:8]
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


def ended(row: Row) -> bool:
    """Whether the change is the end of the job."""
    return row[4] != row[5] and public(row[5]) in TERMINAL


def dead(rows: Iterable[Row]) -> list[Row]:
    """Those that have died."""
    return [row for row in rows if row[5] == JobState.DEAD.value]


def _is_done(left: Mapping[str, Left], group: str) -> bool:
    there = left.get(group)
    return there is not None and there.done

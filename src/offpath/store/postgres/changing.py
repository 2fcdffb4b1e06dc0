"""The report of jobs that were changed by anyone but their worker."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from offpath.model.job import TERMINAL, DeadReason, JobState
from offpath.store.changes import ChangedJob
from offpath.store.postgres.groups import Left
from offpath.store.postgres.steps import public
from offpath.store.programs.answers import DeletedRow, MovedRow


def told(
    rows: Sequence[MovedRow], left: Mapping[str, Left], elsewhere: Collection[str] = ()
) -> list[ChangedJob]:
    """The report of changed jobs; the last of a group that is done says so.

    The ends of the groups of ``elsewhere`` are told by another answer.
    """
    last = {row.group_id: n for n, row in enumerate(rows) if ended(row)}
    return [
        msgspec.structs.replace(
            change(row),
            group_done=ended(row)
            and (
                _is_done(left, row.group_id)
                and last[row.group_id] == n
                and row.group_id not in elsewhere
                if row.grouped
                else row.redrives == 0
            ),
            reason=None if row.reason is None else DeadReason(row.reason),
        )
        for n, row in enumerate(rows)
    ]


def change(row: MovedRow | DeletedRow) -> ChangedJob:
    """A changed job by itself."""
    return ChangedJob(
        id=row.id,
        task=row.task,
        queue=row.queue,
        group_id=row.group_id,
        was=public(row.was),
        state=public(row.state),
        attempt=row.attempt,
        parent=row.parent,
    )


def ended(row: MovedRow) -> bool:
    """True if the change is the end of the job."""
    return row.was != row.state and public(row.state) in TERMINAL


def dead(rows: Iterable[MovedRow]) -> list[MovedRow]:
    """The rows of jobs that have died."""
    return [row for row in rows if row.state == JobState.DEAD.value]


def _is_done(left: Mapping[str, Left], group: str) -> bool:
    there = left.get(group)
    return there is not None and there.done

"""Groups as they are looked at: how many of their jobs are open, what has failed, their value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from offpath.model.group import GroupPolicy, GroupRecord
from offpath.store.programs.answers import GroupRow
from offpath.store.programs.dialect import Dialect, Steps, one
from offpath.store.unreadable import Shape


def listed(d: Dialect, ids: Sequence[str]) -> Steps[list[GroupRecord]]:
    """The groups of these ids that exist."""
    if not ids:
        return []
    rows = yield from one(d.sql["groups"](ids=d.batch(list(ids))))
    return _RECORDS.all(rows)


def _record(row: GroupRow) -> GroupRecord:
    return GroupRecord(
        id=row.id,
        open=row.open,
        failed=row.failed,
        policy=GroupPolicy(row.policy),
        closing=bool(row.closing),
        final=bool(row.final),
        result=row.value,
    )


_RECORDS: Final = Shape.of(
    GroupRow("", 0, 0, "settle_all", 0, 0, None), _record, lambda group, _: group
)

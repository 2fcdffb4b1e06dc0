"""Groups: who belongs to them, who is open, and the value that they make.

The members of a group are known by indexes that the tables keep. What else there is to know has
a row; the group of a lone job mostly has none, since its record says it all.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from offpath.model.group import GroupRecord
from offpath.store.memory.group_rows import FAILED, MemoryValue, row_beside, value_beside

if TYPE_CHECKING:
    from offpath.store.memory.tables import Tables


def value_of(tables: Tables, group_id: str) -> MemoryValue:
    """The value of a group so far."""
    row = tables.groups.rows.get(group_id)
    return value_beside(tables.root_of(group_id)) if row is None else row.value


def records(tables: Tables, ids: Sequence[str]) -> list[GroupRecord]:
    """The groups of these ids that exist."""
    return [each for one in dict.fromkeys(ids) if (each := _record(tables, one))]


def _record(tables: Tables, group_id: str) -> GroupRecord | None:
    root, groups = tables.root_of(group_id), tables.groups
    if root is None and group_id not in groups.members:
        return None
    row = groups.rows.get(group_id) or row_beside(root)
    return GroupRecord(
        id=group_id,
        open=len(groups.open.get(group_id, ())) + (root is not None and not root.state.terminal),
        failed=row.failed_gone
        + len(groups.failed.get(group_id, ()))
        + (root is not None and root.state in FAILED),
        policy=row.policy,
        closing=row.closing,
        final=row.value.final,
        result=row.value.payload,
    )


def mark(tables: Tables, ids: Sequence[str]) -> None:
    """Mark the groups among these that exist as closing."""
    for group_id in ids:
        root = tables.root_of(group_id)
        if root is not None or group_id in tables.groups.members:
            tables.groups.close(group_id, tables.groups.row(group_id, root))


def to_cancel(tables: Tables, groups: Sequence[str], limit: int) -> list[str]:
    """Up to ``limit`` open members of these groups that nobody has asked to end; groups without
    any are looked at no more until a member joins.
    """
    found: list[str] = []
    for group_id in groups:
        room = limit - len(found)
        if room <= 0:
            break
        left = (each for each in _open(tables, group_id) if not tables.jobs[each].cancel_requested)
        # One more than there is room for tells whether the group has others left.
        found += islice(left, room + 1)
        if len(found) <= limit:
            tables.groups.to_close.pop(group_id, None)
    return found[:limit]


def _open(tables: Tables, group_id: str) -> list[str]:
    root = tables.root_of(group_id)
    first = [group_id] if root is not None and not root.state.terminal else []
    return first + sorted(tables.groups.open.get(group_id, ()))

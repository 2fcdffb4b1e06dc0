"""Cancelling the members of groups together."""

from __future__ import annotations

from collections.abc import Sequence

from offpath.model.changes import ChangedJob
from offpath.model.job import TERMINAL, JobState
from offpath.store.redis import jobs, keys
from offpath.store.redis.unit import Unit


async def cancel(
    unit: Unit, ids: Sequence[str], *, limit: int, keep: float | None = None
) -> list[ChangedJob]:
    """Mark groups as closing, and cancel up to ``limit`` of their open members."""
    wanted = list(dict.fromkeys(ids))
    await unit.load_groups(wanted)
    there = [each for each in wanted if unit.has_group(each) or unit.root_of(each) is not None]
    for group_id in there:
        unit.close_group(group_id)
    return await _cancel(unit, there, limit, keep)


async def close(unit: Unit, *, limit: int, keep: float | None = None) -> list[ChangedJob]:
    """Cancel up to ``limit`` open members of groups that are closing."""
    # At least one, since an end of -1 stands for all of them.
    (found,) = await unit.read(["ZRANGE", unit.key(keys.CLOSING), 0, max(limit, 1) - 1])
    if not found:
        return []
    closing = [each.decode() for each in found]
    await unit.load_groups(closing)
    return await _cancel(unit, closing, limit, keep)


async def _cancel(
    unit: Unit, groups: Sequence[str], limit: int, keep: float | None
) -> list[ChangedJob]:
    """Cancel open members that nobody has asked to end; groups without any are looked at no more
    until a member joins.
    """
    chosen = list[str]()
    for group_id in groups:
        room = limit - len(chosen)
        if room <= 0:
            break
        left = await _open_members(unit, group_id)
        if len(left) <= room:
            unit.run("ZREM", keys.CLOSING, group_id)
        chosen += left[:room]
    return await jobs.cancel(unit, chosen, keep=keep)


async def _open_members(unit: Unit, group_id: str) -> list[str]:
    """The open members that nobody has asked to end, the root first."""
    (found,) = await unit.read(["ZRANGE", unit.key(keys.MEMBERS + group_id), 0, -1])
    root = [] if unit.root_of(group_id) is None else [group_id]
    ids = root + [each.decode() for each in found]
    rows = await unit.peek(ids)
    return [
        each
        for each in ids
        if each in rows
        and rows[each].record.state not in TERMINAL
        and not (rows[each].record.state is JobState.RUNNING and rows[each].record.cancel_requested)
    ]

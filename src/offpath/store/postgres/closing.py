"""Ending groups before their members have run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from offpath.store.changes import ChangedJob
from offpath.store.postgres.groups import GroupWork
from offpath.store.postgres.operating import cancel_steps, conclude
from offpath.store.postgres.steps import ids_json, moment, to_json
from offpath.store.programs.answers import MovedRow
from offpath.store.programs.dialect import Steps, ask
from offpath.store.sql import Catalogue


def cancel_groups_steps(
    ids: Sequence[str], limit: int, keep: float | None, now: datetime | None, *, sql: Catalogue
) -> Steps[list[ChangedJob]]:
    """Cancel open members of groups, and mark the groups, whose rows are written last."""
    given = sorted(set(ids))
    found = yield from ask(sql["open_members"](ids=to_json(given), limit=max(limit, 0)))
    members = [row[0] for row in found]
    yield from ask(sql["lock_jobs"](ids=ids_json([*members, *given])))
    work = GroupWork(closing=set(given))
    roots = yield from ask(sql["join_roots"](ids=ids_json(given)))
    for row in roots:
        work.join_root(row, frozenset())
    rows = yield from ask(sql["cancel"](now=moment(now), ids=ids_json(members), keep=keep))
    moved = [MovedRow(*row) for row in rows]
    return (yield from conclude(moved, work, keep, now, sql=sql))


def close_groups_steps(
    limit: int, keep: float | None, now: datetime | None, *, sql: Catalogue
) -> Steps[list[ChangedJob]]:
    """Cancel open members of groups that are closing; one look when there are none."""
    found = yield from ask(sql["members_to_close"](limit=max(limit, 0)))
    if not found:
        return []
    return (yield from cancel_steps([row[0] for row in found], keep, now, sql=sql))

"""Leases of due side rows, and checkpoints: a ledger changes by them besides by posting.

The removal of old attempts and keys is each database's own (``ledger.py``): SQLite looks for
them where that holds up no write.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from msgspec.structs import asdict

from offpath.model.ledger.records import DUE_STATES, Checkpoint, Leaf, SideRow
from offpath.store.programs.answers import DueSideRow
from offpath.store.programs.dialect import Dialect, Send, Steps, ask
from offpath.store.refusals import never_due
from offpath.store.sql import Query

CHUNK: Final = 5000
"""Leaves in one statement."""


def lease_sides(
    d: Dialect, kind: str, *, limit: int, hold: float, now: int | None = None
) -> Steps[list[SideRow]]:
    """Hand out due rows of a kind, the longest due first; each is due again after ``hold``."""
    d.span(hold)  # raises for what leads to no time
    rows = yield from ask(_due(d, kind, limit, now))
    if not rows:
        return []
    due = [DueSideRow(*row) for row in rows]
    until = due[0].now + max(round(hold * 1000), 0)
    ids = d.batch([row.id for row in due])
    yield from ask(d.sql["hold_sides"](kind=kind, ids=ids, until=until), last=True)
    return [_leased(row, until) for row in due]


def nothing_due(
    d: Dialect, kind: str, *, limit: int, hold: float, now: int | None = None
) -> Steps[list[SideRow] | None]:
    """An empty list when no row of the kind is due; else None."""
    d.span(hold)
    rows = yield from ask(_due(d, kind, min(limit, 1), now))
    return None if rows else []


def _due(d: Dialect, kind: str, limit: int, now: int | None) -> Query:
    if kind not in DUE_STATES:
        raise never_due(kind)
    at = d.milliseconds if now is None else now
    return d.sql["due_sides"](kind=kind, now=at, limit=max(limit, 0))


def _leased(row: DueSideRow, until: int) -> SideRow:
    return SideRow(
        kind=row.kind,
        id=row.id,
        owner=row.owner,
        state=row.state,
        version=row.version + 1,
        due_at=until,
        attempts=row.attempts,
        amount=row.amount,
        anchor=row.anchor,
        unique_key=row.unique_key,
        created_at=row.created_at,
        touched_at=row.touched_at,
        body=row.body,
    )


def save_checkpoint(
    d: Dialect, checkpoint: Checkpoint, leaves: Sequence[Leaf], *, anew: bool = False
) -> Steps[bool]:
    """Write a checkpoint and its leaves, unless another one was sealed meanwhile."""
    add = d.sql["add_checkpoint"](**asdict(checkpoint))
    # two that seal at once take turns, or neither would see the other's
    _, added = yield Send((d.sql["lock_checkpoints"](), add))
    if not added:
        return False
    if anew:
        yield from ask(d.sql["clear_leaves"]())
    # by account, as everybody who writes leaves takes their rows
    ordered = sorted(leaves, key=attrgetter("account"))
    for at in range(0, len(ordered), CHUNK):
        yield from ask(d.sql["put_leaves"](batch=d.batch(ordered[at : at + CHUNK])))
    return True

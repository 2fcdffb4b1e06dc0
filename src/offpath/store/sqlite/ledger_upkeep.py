"""What besides posting changes a ledger: leases of due rows, checkpoints, pruning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from offpath.model.ledger.records import DUE_STATES, Checkpoint, Leaf, SideRow
from offpath.store.refusals import never_due
from offpath.store.sqlite import ledger_rows as rows
from offpath.store.sqlite.instants import later
from offpath.store.sqlite.ledger_posting import MILLISECOND
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.session import SQL, Session

_CHUNK: Final = 5000
"""Leaves in one statement."""


class Old(NamedTuple):
    """Rows that may go, by ``seq``."""

    attempts: list[int]
    keys: list[int]


def due(session: Session, now: int, kind: str, limit: int) -> list[SideRow]:
    """Rows of a kind that are due at ``now`` (milliseconds), the longest due first."""
    if kind not in DUE_STATES:
        raise never_due(kind)
    query = SQL["ledger_due"](kind=kind, now=now, limit=max(limit, 0))
    return [rows.side_row(row) for row in session.run(query)]


def lease(session: Session, now: int, kind: str, limit: int, hold: float) -> list[SideRow]:
    """Hand out due rows; each is due again ``hold`` seconds after ``now``."""
    until = later(now * MILLISECOND, hold) // MILLISECOND
    found = due(session, now, kind, limit)
    if found:
        ids = batch([row.id for row in found])
        session.run(SQL["ledger_lease"](kind=kind, ids=ids, until=until))
    return [replace(row, due_at=until, version=row.version + 1) for row in found]


def seal(session: Session, checkpoint: Checkpoint, leaves: Sequence[Leaf], *, anew: bool) -> bool:
    """Write a checkpoint unless another one was sealed since."""
    last = session.run(SQL["ledger_checkpoint_last"]())
    if checkpoint.prev != (last[0][0] if last else None):
        return False
    session.run(SQL["ledger_checkpoint_add"](**rows.checkpoint_columns(checkpoint)))
    if anew:
        session.run(SQL["ledger_leaf_clear"]())
    for at in range(0, len(leaves), _CHUNK):
        piece = rows.leaf_columns(leaves[at : at + _CHUNK])
        session.run(SQL["ledger_leaf_put"](batch=batch(piece)))
    return True


def old(session: Session, attempts_before: int, keys_before: int | None, limit: int) -> Old:
    """What may be pruned; once it may, it always may."""
    query = SQL["ledger_attempts_old"](before=attempts_before, limit=max(limit, 0))
    attempts = [row[0] for row in session.run(query)]
    if keys_before is None:
        return Old(attempts, [])
    query = SQL["ledger_keys_old"](before=keys_before, limit=max(limit, 0))
    return Old(attempts, [row[0] for row in session.run(query)])


def forget(session: Session, gone: Old) -> int:
    """Remove it, as far as nobody else has; how many there were."""
    removed = 0
    for name, seqs in (
        ("ledger_attempts_forget", gone.attempts),
        ("ledger_keys_forget", gone.keys),
    ):
        if seqs:
            removed += len(session.run(SQL[name](seqs=batch(seqs))))
    return removed

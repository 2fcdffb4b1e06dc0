"""Leases of side rows, checkpoints, and what is not kept for ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import asdict

from offpath.model.ledger.records import DUE_STATES, Checkpoint, Leaf, SideRow
from offpath.store.postgres.steps import chunks, to_json
from offpath.store.programs.dialect import Send, Steps, ask
from offpath.store.refusals import never_due
from offpath.store.sql import Catalogue

_CHUNK: Final = 5000


def lease_sides_steps(
    kind: str, limit: int, hold: float, now: int | None, *, sql: Catalogue
) -> Steps[list[SideRow]]:
    """Hand out due rows of a kind."""
    if kind not in DUE_STATES:
        raise never_due(kind)
    query = sql["lease_sides"](
        kind=kind, now=now, limit=max(limit, 0), hold=max(round(hold * 1000), 0)
    )
    rows = yield from ask(query, last=True)
    return msgspec.json.decode(rows[0][0], type=list[SideRow])


def save_checkpoint_steps(
    checkpoint: Checkpoint, leaves: Sequence[Leaf], *, anew: bool, sql: Catalogue
) -> Steps[bool]:
    """Write a checkpoint and its leaves, unless another one was sealed meanwhile."""
    _, added = yield Send(
        (sql["lock_ledger_checkpoints"](), sql["add_ledger_checkpoint"](**asdict(checkpoint)))
    )
    if not added:
        return False
    if anew:
        yield Send((sql["clear_ledger_leaves"](),))
    ordered = sorted(leaves, key=_account)
    for piece in chunks(ordered, _CHUNK):
        yield Send((sql["put_ledger_leaves"](leaves=to_json(piece)),))
    return True


def prune_ledger_steps(
    attempts_before: int, keys_before: int | None, limit: int, *, sql: Catalogue
) -> Steps[int]:
    """Remove old attempts and keys; how many."""
    bound = max(limit, 0)
    queries = [sql["prune_ledger_attempts"](before=attempts_before, limit=bound)]
    if keys_before is not None:
        queries.append(sql["prune_ledger_keys"](before=keys_before, limit=bound))
    answers = yield Send(tuple(queries), last=True)
    return sum(rows[0][0] for rows in answers)


def _account(leaf: Leaf) -> str:
    return leaf.account

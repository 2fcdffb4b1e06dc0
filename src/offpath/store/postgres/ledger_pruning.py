"""Old attempts and keys of a ledger are removed."""

from __future__ import annotations

from offpath.store.programs.dialect import Send, Steps
from offpath.store.sql import Catalogue


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

"""Old attempts and keys of a ledger are removed."""

from __future__ import annotations

from typing import NamedTuple

from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.session import SQL, Session


class Old(NamedTuple):
    """Rows that may go, by ``seq``."""

    attempts: list[int]
    keys: list[int]


def old(session: Session, attempts_before: int, keys_before: int | None, limit: int) -> Old:
    """The rows that may be pruned; a row that once may be pruned always may be."""
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

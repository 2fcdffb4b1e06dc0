"""Unique keys that several jobs of one statement come to claim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from offpath.store.sql import Query, Row
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.session import Session

_SEQ: Final = 0
"""The column of a change that names its job's row."""


def in_turns(
    session: Session,
    changes: Sequence[tuple[Any, ...]],
    query: Callable[[str], Query],
    *,
    seq: int,
) -> list[Row]:
    """The rows of a statement that changes jobs, each of which begins with its job's ``seq``.

    Such a statement looks at each job as if it were alone. Of those that would take one unique key
    it passes over all but the first; run again, they see who has it, and go on without it. ``seq``
    is where the answer names the job.
    """
    rows: list[Row] = []
    left = list(changes)
    while left:
        moved = session.run(query(batch(left)))
        rows += moved
        known = {row[seq] for row in moved}
        left = [change for change in left if change[_SEQ] not in known] if known else []
    return rows

"""Batches of which one part may be refused: it then holds back none of the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from offpath.errors import Conflict, InvalidArgument, StoreRejected
from offpath.model.ledger.faults import LedgerError
from offpath.store.sqlite.session import SQL, Session

P = TypeVar("P")
A = TypeVar("A")


def isolating(
    session: Session,
    parts: list[P],
    attempt: Callable[[list[P]], list[A]],
    refuse: Callable[[P, Exception], A],
) -> list[A]:
    """All at once; when one of them cannot be stored, by halves until it stands alone.

    ``attempt`` writes some and raises when one of them cannot be stored; ``refuse`` is the answer
    of the one that cannot.
    """
    if not parts:
        return []
    session.control(SQL["savepoint"])
    try:
        answers = attempt(parts)
    except (Conflict, InvalidArgument, LedgerError, StoreRejected) as error:
        # Going back leaves the savepoint in place, and the halves would nest theirs in it.
        session.control(SQL["rollback_to_savepoint"])
        session.control(SQL["release_savepoint"])
        if len(parts) == 1:
            return [refuse(parts[0], error)]
        half = len(parts) // 2
        return [
            *isolating(session, parts[:half], attempt, refuse),
            *isolating(session, parts[half:], attempt, refuse),
        ]
    session.control(SQL["release_savepoint"])
    return answers

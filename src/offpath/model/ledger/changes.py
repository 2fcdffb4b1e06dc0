"""The changes that a book has decided, as the stores write it: rows, with what they were before."""

from __future__ import annotations

from msgspec import Struct

from offpath.model.ledger.posting import PostingRecord
from offpath.model.ledger.records import (
    AccountRecord,
    AttemptMove,
    KeyRecord,
    MoveAttempt,
    SideRow,
)
from offpath.model.new import NewMessage


class SideChange(Struct, frozen=True, kw_only=True, gc=False):
    """A side row to write: ``was`` is the version that it replaces, 0 for a new row."""

    row: SideRow
    was: int


class AccountChange(Struct, frozen=True, kw_only=True, gc=False):
    """An account as it is from now on: ``was`` is how many links it had, 0 for a new account."""

    account: AccountRecord
    was: int


class Changes(Struct, frozen=True, kw_only=True):
    """The changes of a batch, to be written as they are."""

    accounts: tuple[AccountChange, ...]
    """Ordered by id."""
    postings: tuple[PostingRecord, ...]
    """In the order in which they were decided; each with its links."""
    sides: tuple[SideChange, ...]
    """Ordered by kind and id."""
    messages: tuple[NewMessage, ...]
    keys: tuple[KeyRecord, ...]
    attempts: tuple[MoveAttempt, ...]
    attempt_moves: tuple[AttemptMove, ...] = ()
    """To be written after ``attempts``."""

    def __bool__(self) -> bool:
        """True if there is anything to write."""
        return bool(self.postings or self.sides or self.messages or self.keys or self.attempts)

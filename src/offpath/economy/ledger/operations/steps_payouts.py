"""The steps of the payouts sweep on single rows.

Each step is fenced by the version that the row was leased with: whoever lost the row is declined
with ``STALE``, and nothing of theirs is written.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from offpath.economy.ledger.operations.payouts import (
    CreditReturn,
    payout_needs,
    proved_open,
    return_needs,
    returned,
)
from offpath.economy.ledger.rows import PayoutBody, body, moved
from offpath.economy.ledger.rules import NewId, Rules
from offpath.model.ledger.book import Book
from offpath.model.ledger.decision import Declined, LedgerOp
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.records import Receipt, SideRow

STALE: Final = "STALE"
"""The row has moved on since it was leased: somebody else has it, or it ended."""


def current(book: Book, leased: SideRow) -> SideRow:
    """The row as it is, if nobody touched it since the lease. Declines ``STALE``."""
    row = book.side(leased.kind, leased.id)
    if row is None or row.version != leased.version or row.state != leased.state:
        raise Declined(STALE, id=leased.id)
    return row


def payout_sending(row: SideRow, *, due_at: int, now: int | None = None) -> LedgerOp:
    """Prove a RESERVED payout and note, before the provider is called, that it may have it.

    From then on only the provider, or its silence for ``max_payout_age``, lets it be reversed.
    Until an answer is recorded the call counts as unanswered. The receipt's facts have the
    ``version`` that the next step is fenced by. Raises ``ChainBroken``.
    """

    def decide(book: Book) -> Receipt:
        found = _in_state(current(book, row), "RESERVED")
        content = proved_open(book, found)
        sending = content.sending_at or book.now
        after = replace(content, sending_at=sending, unanswered=content.unanswered + 1)
        written = book.put(moved(found, found.touched_at, due_at=due_at, content=after))
        return Receipt(id=row.id, facts={"version": written.version})

    return LedgerOp(decide=decide, needs=payout_needs(row.id, row), now=now)


def payout_submitted(
    row: SideRow, provider_ref: str, *, due_at: int, now: int | None = None
) -> LedgerOp:
    """The provider took it: RESERVED to SUBMITTED. Counts an attempt."""

    def decide(book: Book) -> Receipt:
        found = _in_state(current(book, row), "RESERVED")
        content = proved_open(book, found)
        after = replace(content, provider_ref=provider_ref, unanswered=0)
        book.put(
            moved(
                found,
                book.now,
                state="SUBMITTED",
                due_at=due_at,
                attempts=found.attempts + 1,
                content=after,
            )
        )
        return Receipt(id=row.id)

    return LedgerOp(decide=decide, needs=payout_needs(row.id, row), now=now)


def payout_rescheduled(
    row: SideRow,
    *,
    due_at: int,
    attempt: bool = False,
    answered: bool = False,
    touch: bool = False,
    now: int | None = None,
) -> LedgerOp:
    """Look again later. ``attempt`` counts a failure, ``touch`` restarts its age, and ``answered``
    says that the last call of the provider was: it has not taken it then.
    """

    def decide(book: Book) -> Receipt:
        found = current(book, row)
        touched = book.now if touch else found.touched_at
        attempts = found.attempts + attempt
        content = None
        if answered:
            held = body(found, PayoutBody)
            content = replace(held, unanswered=max(0, held.unanswered - 1))
        book.put(moved(found, touched, due_at=due_at, attempts=attempts, content=content))
        return Receipt(id=row.id, facts={"attempts": attempts})

    return LedgerOp(decide=decide, needs=Needs(sides=frozenset((row.key,))), now=now)


def payout_dead_lettered(
    row: SideRow, reason: str, rules: Rules, new_id: NewId, *, now: int | None = None
) -> LedgerOp:
    """Give it up: FAILED, and the credits go back. Raises ``ChainBroken`` and moves nothing when
    the row cannot be proved.
    """
    returning = CreditReturn("payouts.dead_letter", reason, new_id())

    def decide(book: Book) -> Receipt:
        found = current(book, row)
        if found.state not in {"RESERVED", "SUBMITTED"}:
            raise Declined(STALE, id=row.id)
        content = proved_open(book, found)
        return returned(book, found, content, rules, returning)

    return LedgerOp(decide=decide, needs=return_needs(row.id, row, rules), now=now)


def payout_body(row: SideRow) -> PayoutBody:
    """The content of a leased row; not proved. Raises ``ChainBroken`` when it is not a payout's."""
    return body(row, PayoutBody)


def _in_state(row: SideRow, state: str) -> SideRow:
    if row.state != state:
        raise Declined(STALE, id=row.id)
    return row

"""The steps of the promos sweep on single rows, fenced by version as payouts' are."""

from __future__ import annotations

from offpath.economy.ledger.anchors import proved_promo
from offpath.economy.ledger.operations.steps_payouts import STALE, current
from offpath.economy.ledger.rows import moved
from offpath.economy.ledger.rules import NewId
from offpath.model.ledger import money
from offpath.model.ledger.book import Book
from offpath.model.ledger.chart import PROMO_FLOAT, promo
from offpath.model.ledger.decision import Declined, LedgerOp
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.posting import Entry, NewPosting
from offpath.model.ledger.records import Receipt, SideRow


def promo_expired(row: SideRow, new_id: NewId, *, now: int | None = None) -> LedgerOp:
    """Take back what is left of a grant whose time is over.

    Spends are not tied to grants, so the grant that expires first takes what is there. The
    receipt's facts have ``amount``, which may be ``CREDIT:0.00``. Raises ``ChainBroken`` when the
    row cannot be proved; declines ``STALE`` before its time.
    """
    posting_id = new_id()

    def decide(book: Book) -> Receipt:
        found = current(book, row)
        if found.state != "OPEN":
            raise Declined(STALE, id=row.id)
        content = proved_promo(found, book.posting(found.anchor or ""))
        if content.expires_at > book.now:
            raise Declined(STALE, id=row.id)
        wallet = promo(found.owner)
        left = min(found.amount or 0, book.balance(wallet))
        made: tuple[str, ...] = ()
        if left:
            meta = {"kind": "promos.expiry", "grantId": row.id}
            entries = (Entry(wallet, left), Entry(PROMO_FLOAT, -left))
            made = (book.post(NewPosting(id=posting_id, entries=entries, meta=meta)).id,)
        book.put(moved(found, book.posted_at, state="REVERSED", due_at=None))
        facts = {"amount": money.text("CREDIT", left)}
        return Receipt(id=row.id, postings=made, facts=facts)

    return LedgerOp(
        decide=decide,
        needs=Needs(
            accounts=frozenset((promo(row.owner), PROMO_FLOAT)),
            sides=frozenset((row.key,)),
            postings=frozenset((row.anchor or "",)),
        ),
        now=now,
    )


def promo_failed(row: SideRow, *, most: int, due_at: int, now: int | None = None) -> LedgerOp:
    """Count a failed attempt and look again at ``due_at``; the one that makes ``most`` ends it as
    DEAD, with its credits left where they are. The facts have ``state`` and ``attempts``.
    """

    def decide(book: Book) -> Receipt:
        found = current(book, row)
        attempts = found.attempts + 1
        dead = attempts >= most
        state = "DEAD" if dead else found.state
        later = None if dead else due_at
        book.put(moved(found, found.touched_at, state=state, attempts=attempts, due_at=later))
        return Receipt(id=row.id, facts={"state": state, "attempts": attempts})

    return LedgerOp(decide=decide, needs=Needs(sides=frozenset((row.key,))), now=now)

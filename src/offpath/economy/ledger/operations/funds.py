"""The checks before money moves: how much somebody moves in a while, and what they have."""

from __future__ import annotations

from typing import Literal

from offpath.economy.ledger.rules import Rules
from offpath.model.ledger import money
from offpath.model.ledger.book import Book
from offpath.model.ledger.decision import Declined
from offpath.model.ledger.needs import AttemptNeed

Way = Literal["in", "out"]


def tried(key: str, fingerprint: str) -> str:
    """The key under which an attempt is counted once.

    Not the key alone: a declined operation leaves its key free, and under it something else may be
    tried, of another amount.
    """
    return f"{fingerprint[:32]}:{key}"


def velocity_need(rules: Rules, way: Way, user: str, attempt: str) -> frozenset[AttemptNeed]:
    """The facts that the limit of velocity is decided on."""
    return frozenset((AttemptNeed(f"{way}:{user}", rules.window, attempt),))


def within_velocity(
    book: Book, rules: Rules, way: Way, user: str, attempt: str, minor: int
) -> None:
    """Count the attempt, which stays whatever becomes of it. Declines ``RISK_DENIED``.

    What is beyond the limit by itself counts as just beyond it: sums of what nobody has must not
    run out of 64 bits.
    """
    limit = rules.inflow if way == "in" else rules.outflow
    counted = min(minor, limit + 1)
    total = book.attempt(f"{way}:{user}", attempt, counted, book.now - rules.window)
    if total > limit:
        raise Declined("RISK_DENIED", window=rules.window, limitMinor=limit)


def enough(book: Book, account: str, need: int, *, debt: str | None = None) -> None:
    """Decline ``INSUFFICIENT_FUNDS`` unless the account holds so many credits, beyond a debt."""
    owes = 0 if debt is None else book.balance(debt)
    have = book.balance(account) - owes
    if have < need:
        told = {"need": money.text("CREDIT", need), "have": money.text("CREDIT", max(0, have))}
        if owes:
            told["owed"] = money.text("CREDIT", owes)
        raise Declined("INSUFFICIENT_FUNDS", account=account, **told)

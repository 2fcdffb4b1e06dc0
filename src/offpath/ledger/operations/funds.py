"""What stands before money moves: how much somebody moves in a while, and what he has."""

from __future__ import annotations

from typing import Literal

from offpath.ledger.rules import Rules
from offpath.model.ledger import money
from offpath.model.ledger.book import Book
from offpath.model.ledger.deciding import Declined
from offpath.model.ledger.needs import AttemptNeed

Way = Literal["in", "out"]


def velocity_need(rules: Rules, way: Way, user: str, key: str) -> frozenset[AttemptNeed]:
    """What the limit of velocity is decided on."""
    return frozenset((AttemptNeed(f"{way}:{user}", rules.window, key),))


def within_velocity(book: Book, rules: Rules, way: Way, user: str, key: str, minor: int) -> None:
    """Count the attempt, which stays whatever becomes of it. Declines ``RISK_DENIED``."""
    limit = rules.inflow if way == "in" else rules.outflow
    total = book.attempt(f"{way}:{user}", key, minor, book.now - rules.window)
    if total > limit:
        raise Declined("RISK_DENIED", window=rules.window, limitMinor=limit)


def enough(book: Book, account: str, need: int) -> None:
    """Decline ``INSUFFICIENT_FUNDS`` unless the account holds so many credits."""
    have = book.balance(account)
    if have < need:
        raise Declined(
            "INSUFFICIENT_FUNDS",
            account=account,
            need=money.text("CREDIT", need),
            have=money.text("CREDIT", have),
        )

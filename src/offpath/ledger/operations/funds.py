"""What stands before money moves: how much somebody moves in a while, what he has, since when."""

from __future__ import annotations

from typing import Literal, NamedTuple

from offpath.ledger.rules import Rules
from offpath.model.ledger import money
from offpath.model.ledger.book import Book
from offpath.model.ledger.deciding import Declined
from offpath.model.ledger.needs import AttemptNeed, LotsNeed

Way = Literal["in", "out"]


class Waiting(NamedTuple):
    """When enough of an account's credits can be used, and where the last of them came from."""

    source: str
    at: int


def velocity_need(rules: Rules, way: Way, user: str, key: str) -> frozenset[AttemptNeed]:
    """What the limit of velocity is decided on."""
    return frozenset((AttemptNeed(f"{way}:{user}", rules.window, key),))


def within_velocity(book: Book, rules: Rules, way: Way, user: str, key: str, minor: int) -> None:
    """Count the attempt, which stays whatever becomes of it. Declines ``RISK_DENIED``."""
    limit = rules.inflow if way == "in" else rules.outflow
    total = book.attempt(f"{way}:{user}", key, minor, book.now - rules.window)
    if total > limit:
        raise Declined("RISK_DENIED", window=rules.window, limitMinor=limit)


def lots_need(rules: Rules, account: str) -> frozenset[LotsNeed]:
    """What maturity is decided on."""
    return frozenset((LotsNeed(account, rules.longest),)) if rules.longest else frozenset()


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


def mature(book: Book, rules: Rules, account: str, need: int) -> None:
    """Decline ``FUNDS_IMMATURE`` unless so many of the account's credits can be used by now."""
    waiting = immature(book, rules, account, need)
    if waiting is not None:
        raise Declined("FUNDS_IMMATURE", source=waiting.source, availableAt=waiting.at)


def immature(book: Book, rules: Rules, account: str, need: int) -> Waiting | None:
    """None when so many of the account's credits can be used by now; else when they can.

    Spends take the oldest credits first, so an account holds the newest of what raised it. What is
    older than the longest horizon is mature without being looked at.
    """
    if not rules.longest or need <= 0:
        return None
    young = [
        (lot.at + rules.horizon(lot.source), lot.amount, lot.source)
        for lot in book.lots(account, book.now - rules.longest)
    ]
    waiting = [one for one in young if one[0] > book.now]
    usable = book.balance(account) - sum(amount for _, amount, _ in waiting)
    if usable >= need:
        return None
    for at, amount, source in sorted(waiting, key=lambda one: one[0]):
        usable += amount
        if usable >= need:
            return Waiting(source or "unknown", at)
    return None

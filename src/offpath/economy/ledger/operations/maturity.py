"""The age of credits: what came in lately waits for the horizon of its source.

Spends take the oldest credits first, so an account holds the newest of what raised it. What a
failed payout gives back is the exception: it is the newest lot, and yet it is older than
everything that was earned before it came back. So its posting seals, in its ``source``, which lots
were still waiting then; whoever meets it in an account reads the rest of the account from there.
Neither does the returned amount wait again, nor do the lots behind it get lost.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from offpath.economy.ledger.rules import RETURNED, Rules
from offpath.model.ledger.book import Book
from offpath.model.ledger.decision import Declined
from offpath.model.ledger.faults import ChainBroken
from offpath.model.ledger.needs import LotsNeed

MOST_SEALED: Final = 32
"""Waiting lots that one return tells apart; older ones are sealed as one, by their latest time."""


class Young(NamedTuple):
    """Credits that cannot be used before ``at``."""

    amount: int
    at: int
    source: str | None


class Maturity(NamedTuple):
    """The time when enough of an account's credits can be used, and the source of the last."""

    source: str
    at: int


def lots_need(rules: Rules, account: str) -> frozenset[LotsNeed]:
    """The facts that maturity is decided on. What is older than the longest horizon is mature
    unseen.
    """
    return frozenset((LotsNeed(account, rules.longest),)) if rules.longest else frozenset()


def mature(book: Book, rules: Rules, account: str, need: int) -> None:
    """Decline ``FUNDS_IMMATURE`` unless so many of the account's credits can be used already."""
    waiting = immature(book, rules, account, need)
    if waiting is not None:
        raise Declined("FUNDS_IMMATURE", source=waiting.source, availableAt=waiting.at)


def immature(book: Book, rules: Rules, account: str, need: int) -> Maturity | None:
    """The time when so many of the account's credits can be used; None: they can already."""
    if not rules.longest or need <= 0:
        return None
    waiting = young(book, rules, account)
    usable = book.balance(account) - sum(one.amount for one in waiting)
    if usable >= need:
        return None
    for one in sorted(waiting, key=lambda each: each.at):
        usable += one.amount
        if usable >= need:
            return Maturity(one.source or "unknown", one.at)
    return None


def young(book: Book, rules: Rules, account: str) -> list[Young]:
    """The account's credits that still wait, the newest first."""
    if not rules.longest:
        return []
    left = book.balance(account)
    found: list[Young] = []
    for lot in book.lots(account, book.now - rules.longest):
        if returned(lot.source):
            return found + _sealed(lot.source or "", left, book.now)
        at = lot.at + rules.horizon(lot.source)
        if at > book.now:
            found.append(Young(lot.amount, at, lot.source))
        left -= lot.amount
    return found


def returned(source: str | None) -> bool:
    """True if a lot is what a failed payout gave back."""
    return source is not None and source.partition(";")[0] == RETURNED


def return_source(waiting: list[Young]) -> str:
    """The source of what a payout gives back to an account in which these lots wait."""
    kept, rest = waiting[:MOST_SEALED], waiting[MOST_SEALED:]
    parts = [f"{one.amount}@{one.at}" for one in kept]
    if rest:
        parts.append(f"{sum(one.amount for one in rest)}@{max(one.at for one in rest)}")
    return ";".join((RETURNED, *parts))


def _sealed(source: str, left: int, now: int) -> list[Young]:
    """The waiting part of the ``left`` credits from a return backwards."""
    found: list[Young] = []
    for part in source.split(";")[1:]:
        amount, _, at = part.partition("@")
        if not (amount.isdecimal() and at.isdecimal()):
            raise ChainBroken(f"{source!r} is not a source of a returned payout")
        size = min(int(amount), left)
        if size > 0 and int(at) > now:
            found.append(Young(size, int(at), None))
        left -= size
    return found

"""Debts: what a user owes to the platform, who they are, and how it is paid.

A refund takes from sellers what they do not hold any more, a clawback from a user what they have
spent: the rest is the user's debt, in the account ``<user>:owed``. What comes in for them later
pays it first, by a posting beside the one that brought it in; until then the gate of payouts counts
it as gone. ``WriteOff`` gives it up.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from offpath.economy.ledger.actors import Actor, trusted_only
from offpath.economy.ledger.operations import checks
from offpath.economy.ledger.operations.plans import Family, Planning, fingerprint
from offpath.economy.ledger.rules import Rules
from offpath.model.ledger import money
from offpath.model.ledger.book import Book
from offpath.model.ledger.chart import REVENUE, chart, earned, owed, spendable
from offpath.model.ledger.decision import Declined, LedgerOp
from offpath.model.ledger.money import Money
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.posting import Entry, NewPosting
from offpath.model.ledger.records import Receipt


def debts_of(users: Iterable[str]) -> frozenset[str]:
    """The accounts that say what these users owe; most have none."""
    return frozenset([owed(user) for user in users])


def netted(
    book: Book, posting: str, users: Iterable[str], brought: Iterable[Entry]
) -> tuple[str, ...]:
    """Pay debts of these users from what a posting brought in; the ids of what was posted.

    Once for each posting. Their debts are among what the operation needs.
    """
    debts = {user: debt for user in users if (debt := book.balance(owed(user)))}
    if not debts:
        return ()
    entries: list[Entry] = []
    for wallet, amount in _came(brought).items():
        user = chart(wallet).owner
        if (paid := min(amount, debts.get(user, 0))) > 0:
            debts[user] -= paid
            entries += (Entry(wallet, paid), Entry(owed(user), -paid))
    if not entries:
        return ()
    meta = {"kind": "debts.net", "for": posting}
    made = book.post(NewPosting(id=net_of(posting), entries=tuple(entries), meta=meta))
    return (made.id,)


def net_of(posting: str) -> str:
    """The id of the posting that pays debts from what another one brought in."""
    return f"{posting}:net"


def _came(entries: Iterable[Entry]) -> dict[str, int]:
    """The amounts that these entries bring in, for each wallet that pays debts."""
    found: dict[str, int] = {}
    for entry in entries:
        if chart(entry.account).kind in {"spendable", "earned"}:
            found[entry.account] = found.get(entry.account, 0) - entry.amount
    return found


def turned(book: Book, kind: str | None, entries: Iterable[tuple[str, int]]) -> tuple[Entry, ...]:
    """The entries of a posting of this kind turned round.

    A debt that was paid meanwhile was paid with the user's own, so they get that back where the
    posting took from them: there is no debt below zero.
    """
    back: list[Entry] = []
    for account, amount in entries:
        still = amount
        if amount > 0 and chart(account).kind == "owed":
            still = min(amount, book.balance(account))
            back.append(Entry(_wallet(kind, account), still - amount))
        back.append(Entry(account, -still))
    return tuple(back)


def debtors(kind: str | None, entries: Iterable[tuple[str, int]]) -> frozenset[str]:
    """The wallets to which :func:`turned` may give a debt back."""
    debts = [account for account, amount in entries if amount > 0]
    return frozenset([_wallet(kind, one) for one in debts if chart(one).kind == "owed"])


def _wallet(kind: str | None, debt: str) -> str:
    user = chart(debt).owner
    return earned(user) if kind == "refund" else spendable(user)


# -- giving up ---------------------------------------------------------------------------------


class WriteOff(Struct, frozen=True, kw_only=True, gc=False, tag="writeOff", tag_field="kind"):
    """A user's debt given up, at the platform's cost. By operators and the system only."""

    key: str
    actor: Actor
    user: str
    reason: str
    amount: Money | None = None
    """So much of it; None: all."""


def check(request: WriteOff, rules: Rules) -> None:  # noqa: ARG001 - as of every family
    """Refuse what cannot be meant."""
    checks.user(request.user, "user")
    checks.text(request.reason, "reason", checks.LONGEST_REASON)
    if request.amount is not None:
        checks.amount(request.amount)
    trusted_only(request.actor, "write debts off")


def plan(request: WriteOff, planning: Planning) -> LedgerOp:
    """A posting that takes it from revenue. Declines ``NOT_OWED`` what is more than the debt."""
    posting, debt = planning.new_id(), owed(request.user)

    def decide(book: Book) -> Receipt:
        owes = book.balance(debt)
        minor = owes if request.amount is None else request.amount.minor
        if not 0 < minor <= owes:
            raise Declined("NOT_OWED", userId=request.user, owed=money.text("CREDIT", owes))
        meta = {
            "kind": "writeOff",
            "userId": request.user,
            "reason": request.reason,
            "by": request.actor.id,
        }
        entries = (Entry(REVENUE, minor), Entry(debt, -minor))
        book.post(NewPosting(id=posting, entries=entries, meta=meta))
        facts = {
            "amount": money.text("CREDIT", minor),
            "owed": money.text("CREDIT", owes - minor),
        }
        return Receipt(id=posting, postings=(posting,), facts=facts)

    return LedgerOp(
        decide=decide,
        needs=Needs(accounts=frozenset((debt, REVENUE))),
        key=request.key,
        fingerprint=fingerprint(request),
    )


FAMILY = Family(kind="writeOff", check=check, plan=plan)

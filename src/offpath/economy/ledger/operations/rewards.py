"""Rewards: credits that the house gives to a user, as a settlement run does."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from offpath.economy.ledger.actors import Actor, trusted_only
from offpath.economy.ledger.operations import checks
from offpath.economy.ledger.operations.debts import debts_of, netted
from offpath.economy.ledger.operations.events import publish
from offpath.economy.ledger.operations.plans import Family, Planning, fingerprint
from offpath.economy.ledger.rules import Rules
from offpath.model.ledger.book import Book
from offpath.model.ledger.chart import REVENUE, spendable
from offpath.model.ledger.decision import LedgerOp
from offpath.model.ledger.money import Money
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.posting import Entry, NewPosting
from offpath.model.ledger.records import Receipt

SOURCE: Final = "reward"
"""The source of these credits: they wait as the setting ``maturity_default`` says."""


class Reward(Struct, frozen=True, kw_only=True, gc=False, tag="reward", tag_field="kind"):
    """Credits for a user at the platform's cost: a rebate, cashback, a bonus that does not expire.

    By operators and the system only. No velocity limit holds for it.
    """

    key: str
    actor: Actor
    user: str
    amount: Money
    reason: str


def check(request: Reward, rules: Rules) -> None:  # noqa: ARG001 - as of every family
    """Refuse what cannot be meant."""
    checks.user(request.user, "user")
    checks.amount(request.amount)
    checks.text(request.reason, "reason", checks.LONGEST_REASON)
    trusted_only(request.actor, "give rewards")


def plan(request: Reward, planning: Planning) -> LedgerOp:
    """A posting from revenue, which may go below zero by it: the treasury tells of that."""
    posting, event, user = planning.new_id(), planning.new_id(), request.user
    minor, amount = request.amount.minor, str(request.amount)
    entries = (Entry(REVENUE, minor), Entry(spendable(user), -minor))
    meta = {
        "kind": "reward",
        "userId": user,
        "source": SOURCE,
        "reason": request.reason,
        "by": request.actor.id,
    }
    made = NewPosting(id=posting, entries=entries, meta=meta)

    def decide(book: Book) -> Receipt:
        book.post(made)
        net = netted(book, posting, (user,), entries)
        data = {"amount": amount, "reason": request.reason}
        publish(book, event, "credits.rewarded", subject=posting, key=user, data=data)
        return Receipt(id=posting, postings=(posting, *net), facts={"amount": amount})

    return LedgerOp(
        decide=decide,
        needs=Needs(accounts=frozenset((REVENUE, spendable(user))), perhaps=debts_of((user,))),
        key=request.key,
        fingerprint=fingerprint(request),
    )


FAMILY = Family(kind="reward", check=check, plan=plan)

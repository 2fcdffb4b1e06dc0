"""The continuation of an account's chain: its next link, and what forbids it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from offpath.model.ledger import money
from offpath.model.ledger.chart import chart
from offpath.model.ledger.faults import MoneyOverflow, Overdraft
from offpath.model.ledger.money import LEAST, MOST
from offpath.model.ledger.posting import LinkRecord, chained
from offpath.model.ledger.records import AccountRecord


class Seal(Struct, frozen=True, gc=False):
    """The fields that all links of a posting share; id and metadata also as the frames of their
    hash.
    """

    posting: str
    name: bytes
    meta: bytes
    source: str | None
    at: int


def next_link(account: AccountRecord, amounts: Sequence[int], seal: Seal) -> LinkRecord:
    """The link of an account for its entries in a posting.

    Raises ``MoneyOverflow``, and ``Overdraft`` when a guarded account would sink below zero.
    """
    known = chart(account.id)
    amount = sum(amounts)
    change = amount if known.debit_grows else -amount
    balance = account.balance + change
    raised = account.raised + change if change > 0 else account.raised
    if not (LEAST <= balance <= MOST and LEAST <= amount <= MOST and raised <= MOST):
        raise MoneyOverflow(f"{account.id}: a sum of minor units does not fit 64 bits")
    if balance < 0 and known.guarded and change < 0:
        raise Overdraft(
            f"{account.id} has {money.text(known.currency, account.balance)}, which is less than "
            f"{money.text(known.currency, -change)}"
        )
    if len(amounts) == 1:
        own = money.text(known.currency, amount)
    else:
        own = "\0".join(sorted([money.text(known.currency, one) for one in amounts]))
    return LinkRecord(
        account=account.id,
        number=account.number + 1,
        posting=seal.posting,
        amount=amount,
        entries=tuple(amounts),
        balance=balance,
        raised=raised,
        prev=account.head,
        hash=chained(account.head, seal.name, own, seal.meta),
        source=seal.source,
        at=seal.at,
    )

"""The outcome of an operation: it was committed, it had been before, or it was declined."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from offpath.model.ledger.decision import Decided
from offpath.model.ledger.faults import LedgerError
from offpath.model.ledger.records import Receipt


class Committed(Struct, frozen=True, gc=False, tag="committed", tag_field="status"):
    """It was done now."""

    receipt: Receipt


class Duplicate(Struct, frozen=True, gc=False, tag="duplicate", tag_field="status"):
    """It was done before; this is what came of it then. Nothing was written now."""

    receipt: Receipt


class Rejected(Struct, frozen=True, gc=False, tag="rejected", tag_field="status"):
    """It was declined: a business answer, not an error. Nothing was written but the attempt that
    velocity counts, and the key can be used again.

    ``reason`` is one of ``INSUFFICIENT_FUNDS`` {account, need, have}, ``RISK_DENIED`` {window,
    limitMinor}, ``FUNDS_IMMATURE`` {source, availableAt}, ``NOT_ENTITLED`` {userId, sku},
    ``UNKNOWN_ORDER`` {orderId}, ``DUPLICATE_ORDER`` {orderId}, ``UNKNOWN_SUBSCRIPTION``
    {subscriptionId}, ``ALREADY_SUBSCRIBED`` {userId, sku}, ``BELOW_MINIMUM`` {minimum, amount},
    ``PAYOUT_TOO_SOON`` {retryAt}, ``PAYEE_UNVERIFIED`` {userId}, ``ECONOMY_PAUSED`` {resumesAt}.
    An HTTP service also answers users ``NOT_AUTHORIZED`` {hint}, ``NOT_FOR_SALE`` {sku},
    ``PRICE_CHANGED`` {sku, price}, and whatever else its ``authorize`` returns.
    Amounts are texts such as ``CREDIT:4.00``, times and windows milliseconds.
    """

    reason: str
    fields: dict[str, Any]


Outcome: TypeAlias = Committed | Duplicate | Rejected
"""The end of an operation: posted, posted before under its key, or refused."""


def outcome_of(decided: Decided) -> Outcome:
    """The answer to whoever asked. Raises the fault that was found."""
    if decided.error is not None:
        raise decided.error
    if decided.refusal is not None:
        return Rejected(decided.refusal.reason, decided.refusal.fields)
    if decided.receipt is None:
        raise LedgerError("the store gave no answer to an operation")
    return Duplicate(decided.receipt) if decided.duplicate else Committed(decided.receipt)

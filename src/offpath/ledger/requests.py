"""What can be asked of an economy: every request, and what they are made of."""

from __future__ import annotations

from typing import TypeAlias

from offpath.ledger.actors import Actor
from offpath.ledger.operations.adjusting import Adjust
from offpath.ledger.operations.clawing_back import Clawback
from offpath.ledger.operations.entitlements import GrantEntitlement, RevokeEntitlement
from offpath.ledger.operations.families import Operation
from offpath.ledger.operations.funding import Fund
from offpath.ledger.operations.owing import WriteOff
from offpath.ledger.operations.payouts import RequestPayout, ReversePayout, SettlePayout
from offpath.ledger.operations.promos import GrantPromo
from offpath.ledger.operations.refunding import Refund
from offpath.ledger.operations.reversing import Reverse
from offpath.ledger.operations.spending import Share, Spend
from offpath.ledger.operations.subscriptions import CancelSubscription, Subscribe
from offpath.ledger.operations.topping_up import TopUp

Request: TypeAlias = Operation
"""Any of them. As JSON they are told apart by ``kind``."""

__all__ = [
    "Actor",
    "Adjust",
    "CancelSubscription",
    "Clawback",
    "Fund",
    "GrantEntitlement",
    "GrantPromo",
    "Refund",
    "Request",
    "RequestPayout",
    "Reverse",
    "ReversePayout",
    "RevokeEntitlement",
    "SettlePayout",
    "Share",
    "Spend",
    "Subscribe",
    "TopUp",
    "WriteOff",
]

"""The requests to an economy: every request, and what they are made of."""

from __future__ import annotations

from typing import TypeAlias

from offpath.economy.ledger.actors import Actor
from offpath.economy.ledger.operations.adjustments import Adjust
from offpath.economy.ledger.operations.clawbacks import Clawback
from offpath.economy.ledger.operations.debts import WriteOff
from offpath.economy.ledger.operations.entitlements import GrantEntitlement, RevokeEntitlement
from offpath.economy.ledger.operations.families import Operation
from offpath.economy.ledger.operations.funding import Fund
from offpath.economy.ledger.operations.payouts import RequestPayout, ReversePayout, SettlePayout
from offpath.economy.ledger.operations.promos import GrantPromo
from offpath.economy.ledger.operations.refunds import Refund
from offpath.economy.ledger.operations.reversals import Reverse
from offpath.economy.ledger.operations.rewards import Reward
from offpath.economy.ledger.operations.spends import Share, Spend
from offpath.economy.ledger.operations.subscriptions import CancelSubscription, Subscribe
from offpath.economy.ledger.operations.top_ups import TopUp

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
    "Reward",
    "SettlePayout",
    "Share",
    "Spend",
    "Subscribe",
    "TopUp",
    "WriteOff",
]

"""All families of operations, and the way from a request to an operation of the ledger."""

from __future__ import annotations

from typing import Final, TypeAlias

from offpath.economy.ledger.actors import checked_actor
from offpath.economy.ledger.operations import (
    adjustments,
    checks,
    clawbacks,
    debts,
    entitlements,
    funding,
    payouts,
    promos,
    refunds,
    reversals,
    rewards,
    spends,
    subscriptions,
    top_ups,
)
from offpath.economy.ledger.operations.adjustments import Adjust
from offpath.economy.ledger.operations.clawbacks import Clawback
from offpath.economy.ledger.operations.debts import WriteOff
from offpath.economy.ledger.operations.entitlements import GrantEntitlement, RevokeEntitlement
from offpath.economy.ledger.operations.funding import Fund
from offpath.economy.ledger.operations.payouts import RequestPayout, ReversePayout, SettlePayout
from offpath.economy.ledger.operations.plans import Family
from offpath.economy.ledger.operations.promos import GrantPromo
from offpath.economy.ledger.operations.refunds import Refund
from offpath.economy.ledger.operations.reversals import Reverse
from offpath.economy.ledger.operations.rewards import Reward
from offpath.economy.ledger.operations.spends import Spend
from offpath.economy.ledger.operations.subscriptions import CancelSubscription, Subscribe
from offpath.economy.ledger.operations.top_ups import TopUp
from offpath.economy.ledger.rules import Rules
from offpath.model.ledger.faults import MalformedOperation

Operation: TypeAlias = (
    TopUp
    | Spend
    | Refund
    | Clawback
    | GrantPromo
    | RequestPayout
    | SettlePayout
    | ReversePayout
    | Subscribe
    | CancelSubscription
    | GrantEntitlement
    | RevokeEntitlement
    | Adjust
    | Reverse
    | WriteOff
    | Fund
    | Reward
)
"""The requests that can be submitted."""

FAMILIES: Final[dict[type, Family]] = {
    TopUp: top_ups.FAMILY,
    Spend: spends.FAMILY,
    Refund: refunds.FAMILY,
    Clawback: clawbacks.FAMILY,
    GrantPromo: promos.FAMILY,
    RequestPayout: payouts.REQUEST,
    SettlePayout: payouts.SETTLE,
    ReversePayout: payouts.REVERSE,
    Subscribe: subscriptions.SUBSCRIBE,
    CancelSubscription: subscriptions.CANCEL,
    GrantEntitlement: entitlements.GRANT,
    RevokeEntitlement: entitlements.REVOKE,
    Adjust: adjustments.ADJUST,
    Reverse: reversals.FAMILY,
    WriteOff: debts.FAMILY,
    Fund: funding.FAMILY,
    Reward: rewards.FAMILY,
}
INTERNAL: Final = ("reversed:", "sub:", "sweep:", "posting:", "audit:")
"""The beginning of the keys that the economy itself uses."""
OF_EVENTS: Final = "whk:"
"""The beginning of the keys of inbound events: a user could keep one from being applied."""


def checked(request: object, rules: Rules) -> Family:
    """The family of a request that can be meant, by somebody who may.

    Raises ``MalformedOperation``, ``InvalidAmount``, ``Unauthorized`` and the like.
    """
    family = FAMILIES.get(type(request))
    if family is None:
        raise MalformedOperation(
            f"{type(request).__name__} is not an operation: give a TopUp, a Spend, ..."
        )
    key: object = getattr(request, "key", None)
    if checks.name(key, "key", checks.LONGEST_KEY).startswith(INTERNAL):
        raise MalformedOperation(f"a key may not begin with {', '.join(INTERNAL)}")
    actor = checked_actor(getattr(request, "actor", None))
    if not actor.trusted and str(key).startswith(OF_EVENTS):
        raise MalformedOperation(f"a user's key may not begin with {OF_EVENTS}")
    family.check(request, rules)
    return family

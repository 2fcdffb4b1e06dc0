"""The port of settlement runs to an economy: each credit is a reward, once for its key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from offpath.economy.ledger.operations.rewards import Reward
from offpath.economy.ledger.outcome import Committed, Duplicate
from offpath.economy.ledger.requests import Actor
from offpath.model.ledger.faults import OperationDeclined
from offpath.model.ledger.money import Currency, Money
from offpath.model.settlement_run import AlreadyCredited, CreditAnswer, Credited, run_kind

if TYPE_CHECKING:
    from offpath.economy.ledger.outcome import Outcome
    from offpath.health.crediting_run import Credit

KEYS: Final = "settlement:"
"""The beginning of the keys of these rewards."""


class SubmitsRewards(Protocol):
    """An economy, as far as it takes rewards."""

    async def submit(self, request: Reward, /) -> Outcome:
        """Have it decided and committed, once for its key."""
        ...


def crediting(economy: SubmitsRewards, kind: str) -> Credit:
    """The port for ``app.settlements.define(kind, credit=...)``. Raises ``InvalidArgument``."""
    named = run_kind(kind)
    actor = Actor.system(f"settlement:{named}")

    async def credit(user: str, amount: int, key: str, /) -> CreditAnswer:
        reward = Reward(
            key=f"{KEYS}{key}",
            actor=actor,
            user=user,
            amount=Money(Currency.CREDIT, amount),
            reason=named,
        )
        match await economy.submit(reward):
            case Committed(receipt=receipt):
                return Credited(id=receipt.id)
            case Duplicate(receipt=receipt):
                return AlreadyCredited(id=receipt.id)
            case declined:
                raise OperationDeclined(
                    f"the reward was declined: {declined.reason}", reason=declined.reason
                )

    return credit

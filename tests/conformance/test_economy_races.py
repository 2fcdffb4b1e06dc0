"""Two processes end the same payout at the same moment: one does, and the money moves once.
§16.29, §16.30.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from offpath.economy import (
    Committed,
    Outcome,
    Request,
    ReversePayout,
    SettlePayout,
    settle_due_payouts,
)
from offpath.model.ledger.faults import InvalidTransition
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.conftest import MakeStore
from tests.unit.sweeps.economy.rig import SYSTEM, Rig

pytestmark = pytest.mark.needs("ledger")

RACES, TIMEOUTS = 50, 15
QUOTE = 2
"""Cents that 4.00 credits are worth."""


@pytest.fixture
async def rivals_of_two(
    store: Store, make_store: MakeStore, clock: ManualClock
) -> AsyncIterator[tuple[Rig, Rig]]:
    """Two processes; one store where it cannot be shared."""
    second = await make_store() if store.capabilities.shared else store
    one, two = Rig(store=store, clock=clock), Rig(store=second, clock=clock)
    two.provider, two.ports = one.provider, one.ports
    yield one, two
    await one.app.close()
    await two.app.close()


async def _submitted(rig: Rig, count: int) -> dict[str, str]:
    """Payouts of 4.00 that the provider has: the seller of each."""
    sellers = [f"seller-{n}" for n in range(count)]
    await asyncio.gather(*(rig.earn(one, "4.00") for one in sellers))
    payouts = await asyncio.gather(*(rig.request_payout(one, "4.00") for one in sellers))
    rig.later(31)
    assert set((await settle_due_payouts(rig, limit=count)).submitted) == set(payouts)
    return dict(zip(payouts, sellers, strict=True))


async def _moved_once(rig: Rig, paid: int, cash: str) -> None:
    """The reserve is empty, and the dollars of what was paid are gone, and no others."""
    assert await rig.balance("platform:payout_reserve") == "0.00"
    left = await rig.balance("platform:trust_cash")
    assert round(float(cash) * 100) - round(float(left) * 100) == paid * QUOTE
    proof = await rig.prove()
    assert proof.holds, proof


@pytest.mark.parametrize("first_is", ["settle", "reverse"])
async def test_of_settling_and_reversing_one_wins(
    rivals_of_two: tuple[Rig, Rig], first_is: str
) -> None:
    """§16.29: the other gets SAGA.INVALID_TRANSITION."""
    one, two = rivals_of_two
    payouts = await _submitted(one, RACES)
    cash = await one.balance("platform:trust_cash")
    won: Counter[str] = Counter()
    for payout, seller in payouts.items():
        requests: dict[str, Request] = {
            "settle": SettlePayout(
                key=f"s:{payout}", actor=SYSTEM, payout_id=payout, provider_ref="ref"
            ),
            "reverse": ReversePayout(
                key=f"r:{payout}",
                actor=SYSTEM,
                user=seller,
                payout_id=payout,
                reason="x",
                provider_reported=True,
            ),
        }
        order = sorted(requests, key=lambda name: name != first_is)
        rivals = dict(zip(order, (one, two), strict=True))
        answers: dict[str, Outcome | BaseException] = dict(
            zip(
                order,
                await asyncio.gather(
                    *(rivals[name].submit(requests[name]) for name in order),
                    return_exceptions=True,
                ),
                strict=True,
            )
        )
        (winner,) = (name for name in order if isinstance(answers[name], Committed))
        (loser,) = (name for name in order if name != winner)
        assert isinstance(answers[loser], InvalidTransition), answers
        won[winner] += 1
        assert await one.balance(f"{seller}:earned") == ("0.00" if winner == "settle" else "4.00")
    assert won.total() == RACES
    await _moved_once(one, won["settle"], cash)


async def test_of_a_timeout_and_a_settlement_one_wins(rivals_of_two: tuple[Rig, Rig]) -> None:
    """§16.30."""
    one, two = rivals_of_two
    for n in range(TIMEOUTS):
        seller = f"seller-{n}"
        payout = await one.due_payout("4.00", seller)
        assert (await settle_due_payouts(one)).submitted == (payout,)
        one.later(121)
        cash = await one.balance("platform:trust_cash")
        summary, answer = await asyncio.gather(
            settle_due_payouts(one), two.settle(payout), return_exceptions=True
        )
        assert not isinstance(summary, BaseException)
        settled = isinstance(answer, Committed)
        assert settled is not bool(summary.dead_lettered), (summary, answer)
        assert settled or isinstance(answer, InvalidTransition)
        assert await one.balance(f"{seller}:earned") == ("0.00" if settled else "4.00")
        await _moved_once(one, int(settled), cash)

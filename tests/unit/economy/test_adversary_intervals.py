"""The wait between payouts, when one fails in the batch in which the next one is asked for."""

from __future__ import annotations

from offpath.economy import Actor, RequestPayout, credits
from offpath.economy.ledger.operations.steps_payouts import payout_dead_lettered, payout_submitted
from offpath.jobs.client.core import core_of
from tests.unit.economy.conftest import Opens
from tests.unit.economy.marketplace import Marketplace, committed, rejected


async def requested(market: Marketplace) -> str:
    receipt = committed(await market.request_payout("sel", "10.00"))
    return str(receipt.facts["payout_id"])


async def test_a_payout_that_fails_does_not_hide_the_one_that_was_paid(open_market: Opens) -> None:
    market = await open_market(payout_min_interval=60.0)
    await market.earns("sel", 70)
    first = await requested(market)
    await market.submitted(first)
    market.at(61_000)
    second = await requested(market)
    market.at(70_000)
    committed(await market.settle(first))
    market.at(100_000)
    row = await market.row("payout", second)
    await market.step(payout_submitted(row, "tr_2", due_at=1))
    market.at(101_000)
    row = await market.row("payout", second)
    rules, new_id = market.economy.rules, market.economy.new_id
    third = RequestPayout(key="k", actor=Actor.user("sel"), user="sel", amount=credits(10))
    gone, asked = await (await core_of(market.app).opened()).post(
        [
            payout_dead_lettered(row, "x", rules, new_id),
            await market.economy.prepare(third),
        ]
    )
    assert gone.receipt is not None
    assert asked.error is not None
    assert asked.error.code == "LEDGER.UNPLANNED"  # type: ignore[attr-defined]
    assert rejected(await market.economy.submit(third))[0] == "PAYOUT_TOO_SOON"
    market.at(130_000)
    committed(await market.economy.submit(third))

"""Credits and dollars that move by two postings are undone together: D6, G20."""

from __future__ import annotations

from datetime import timedelta

import pytest

from offpath.economy import Outcome, Receipt, Reverse, credits
from offpath.economy.ledger.reconciliation import RecordKind, Window
from offpath.economy.ledger.settled_records import recorded
from tests.unit.economy.conftest import Opens
from tests.unit.economy.marketplace import OPS, START, Marketplace, committed, duplicate
from tests.unit.economy.test_fees import CENT


async def reverse(market: Marketplace, posting: str) -> Outcome:
    request = Reverse(key=market.key(), actor=OPS, posting_id=posting, reason="a mistake")
    return await market.economy.submit(request)


@pytest.mark.parametrize("half", [0, 1])
async def test_a_top_up_is_undone_with_its_dollars(market: Marketplace, half: int) -> None:
    made = committed(await market.top_up("ann", "10.00"))
    undone = committed(await reverse(market, made.postings[half]))
    assert len(undone.postings) == 2
    assert await market.balance("ann:spendable") == 0
    for account in ("trust_cash", "usd_clearing", "revenue_usd", "stored_value"):
        assert await market.house(account) == 0
    assert (await market.economy.prove()).holds
    again = duplicate(await reverse(market, made.postings[1 - half]))
    assert again == undone
    await market.sound()


@pytest.mark.parametrize("half", [0, 1])
async def test_a_fee_sweep_is_undone_with_its_dollars(open_market: Opens, half: int) -> None:
    market = await open_market(rates=CENT)
    await market.earns("sel", 70)
    before = [await market.house(one) for one in ("revenue", "trust_cash", "usd_clearing")]
    swept: Receipt = committed(await market.economy.sweep_fees("june", credits(10)))
    committed(await reverse(market, swept.postings[half]))
    assert [await market.house(one) for one in ("revenue", "trust_cash", "usd_clearing")] == before
    assert (await market.economy.prove()).holds
    committed(await market.economy.sweep_fees("july", credits(10)))


async def test_a_top_up_that_was_undone_is_a_record_to_be_reconciled(market: Marketplace) -> None:
    made = committed(await market.top_up("ann", "10.00", key="whk:pay-1"))
    committed(await reverse(market, made.postings[0]))
    window = Window(since=START, until=START + timedelta(days=1))
    found = {
        one.kind: (one.key, str(one.amount))
        async for page in recorded(market.app.store(), window)
        for one in page
    }
    assert found == {
        RecordKind.BUY: ("pay-1", "USD:0.10"),
        RecordKind.REVERSAL: ("pay-1", "USD:0.10"),
    }

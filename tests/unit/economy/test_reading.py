"""Reads of an economy."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from offpath.economy import UnknownAccount, usd
from offpath.errors import InvalidArgument
from tests.unit.economy.marketplace import Marketplace, committed


async def test_balances_of_who_has_nothing_are_zero(market: Marketplace) -> None:
    assert not await market.economy.read.balance("nobody:earned")
    balances = await market.economy.read.balances("nobody")
    assert [bool(one) for one in (balances.spendable, balances.earned, balances.promo)] == [
        False
    ] * 3
    assert await market.economy.read.balance("platform:trust_cash") == usd(0)
    with pytest.raises(UnknownAccount):
        await market.economy.read.balance("platform:petty")


async def test_a_statement_is_read_in_pages_the_newest_first(market: Marketplace) -> None:
    committed(await market.top_up("ann", "9.00"))
    for number in range(3):
        committed(await market.spend("ann", "1.00", order_id=f"o{number}"))
    read = market.economy.read
    page = await read.statement("ann:spendable", limit=3)
    assert [str(line.change) for line in page] == ["CREDIT:-1.00"] * 3
    assert [str(line.balance) for line in page] == ["CREDIT:6.00", "CREDIT:7.00", "CREDIT:8.00"]
    assert [line.facts["orderId"] for line in page] == ["o2", "o1", "o0"]
    rest = await read.statement("ann:spendable", before=page[-1].number, limit=3)
    assert [str(line.change) for line in rest] == ["CREDIT:9.00"]
    assert await read.statement("ann:spendable", before=rest[-1].number) == []


async def test_entitlements_are_listed_by_thing(market: Marketplace) -> None:
    committed(await market.top_up("ann", "9.00"))
    for sku in ("c", "a", "b"):
        committed(await market.spend("ann", "1.00", sku=sku))
    read = market.economy.read
    assert [one.sku for one in await read.entitlements("ann", limit=2)] == ["a", "b"]
    assert [one.sku for one in await read.entitlements("ann", after="b")] == ["c"]
    assert await read.entitlements("ben") == []
    assert not await read.owns("ben", "a")


async def test_payouts_and_subscriptions_are_listed_by_user_and_state(market: Marketplace) -> None:
    payout = await market.payout("sel", 7)
    committed(await market.top_up("ann", "10.00"))
    committed(await market.subscribe("ann", "10.00"))
    read = market.economy.read
    assert [one.id for one in await read.payouts("sel")] == [payout]
    assert [one.id for one in await read.sagas(states=("RESERVED",))] == [payout]
    assert await read.payouts("sel", states=("SETTLED",)) == []
    assert await read.payout("pay_nobody") is None
    (subscription,) = await read.subscriptions("ann")
    assert (subscription.seller, subscription.sku) == ("sel", "perk")
    assert await read.subscription("sub_nobody") is None
    assert await read.sale("nothing") is None


async def test_a_state_that_there_is_not_is_refused_and_not_found_empty(
    market: Marketplace,
) -> None:
    payout, read = await market.payout("sel", 7), market.economy.read
    assert [one.id for one in await read.payouts(states="RESERVED")] == [payout]
    with pytest.raises(InvalidArgument, match="RESERVED, SUBMITTED, SETTLED, FAILED"):
        await read.payouts(states="reserved")
    with pytest.raises(InvalidArgument, match="ACTIVE, LAPSED, CANCELED"):
        await read.subscriptions(states=("ACTIVE", "PAUSED"))


@pytest.mark.parametrize("limit", [0, -1, 10_001, True, "5"])
async def test_a_page_has_a_length(market: Marketplace, limit: Any) -> None:
    read = market.economy.read
    for reading in (
        read.payouts(limit=limit),
        read.subscriptions(limit=limit),
        read.entitlements("ann", limit=limit),
        read.statement("ann:spendable", limit=limit),
    ):
        with pytest.raises(InvalidArgument, match="limit"):
            await reading
    with pytest.raises(InvalidArgument, match="before"):
        await read.statement("ann:spendable", before=-1)


async def test_a_receipt_is_read_by_its_key(market: Marketplace) -> None:
    receipt = committed(await market.top_up("ann", "9.00", key="k1"))
    record = await market.economy.read.receipt("k1")
    assert record is not None
    assert record.receipt == receipt
    assert await market.economy.read.receipt("k2") is None


async def test_the_position_compares_cash_with_what_is_owed(market: Marketplace) -> None:
    committed(await market.top_up("ann", "100.00"))
    payout = await market.payout("sel", 70)
    position = await market.economy.read.position()
    assert (position.custodial, position.earned, position.quotes) == (10_000, 0, 35)
    assert position.obligations == 50 + 35
    assert position.held == 100
    assert payout


def test_offpath_alone_does_not_load_the_economy() -> None:
    code = (
        "import sys, offpath; offpath.App();"
        "sys.exit(any(name.startswith(('offpath.economy', 'offpath.economy.ledger'))"
        " for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

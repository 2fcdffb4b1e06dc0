"""Amounts that cannot be (T2-27), from Python and over HTTP; ``tests/cli`` has the command line.

A price of minus one once gave back more than was reserved. Each of these is refused with a code;
no balance changes, and the prover holds.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from offpath.economy import (
    Actor,
    Adjust,
    Clawback,
    Currency,
    Fund,
    GrantPromo,
    LedgerError,
    Money,
    RequestPayout,
    SettlePayout,
    Share,
    Spend,
    Subscribe,
    TopUp,
    WriteOff,
    credits,
    usd,
)
from offpath.economy.web import economy_service
from offpath.jobs.client.core import core_of
from tests.unit.economy.marketplace import BANK, START, Marketplace, committed
from tests.unit.web.asgi import ask

HUGE = 2**63
MOST = HUGE - 1
"""The largest that is an amount; no operation moves so much."""
SALE: dict[str, Any] = {"buyer": "ann", "order_id": "o", "sku": "s", "price": credits(1)}
ANN = Actor.user("ann")
TO_SUE = (Share("sue", 10_000),)


def money(minor: Any, currency: Currency = Currency.CREDIT) -> Money:
    """An amount as nothing checked it."""
    return Money(currency, minor)


IMPOSSIBLE: list[Any] = [
    money(0),
    money(-1),
    money(-MOST),
    money(MOST),
    usd(1),
    1,
    1.5,
]
"""Values that no price and no amount of credits can be."""
IMPOSSIBLE += [None, "CREDIT:1.00", True]


@pytest.fixture
async def market() -> AsyncIterator[Marketplace]:
    made = Marketplace()
    async with made.app:
        committed(await made.top_up("ann", credits(100)))
        await made.earns("sue", 70)
        yield made


async def refused(market: Marketplace, *requests: Any) -> None:
    """None of it goes, and nothing has changed."""
    store = await core_of(market.app).opened()
    before = await store.ledger_accounts()
    for request in requests:
        with pytest.raises(LedgerError) as found:
            await market.economy.submit(request)
        assert found.value.code
    assert await store.ledger_accounts() == before
    assert (await market.economy.prove()).holds


@pytest.mark.parametrize("amount", IMPOSSIBLE, ids=repr)
async def test_no_operation_takes_an_amount_that_cannot_be(
    market: Marketplace, amount: Any
) -> None:
    later = START + timedelta(days=1)
    period: dict[str, Any] = {"user": "ann", "seller": "sue", "sku": "s", "period": 9.0}
    await refused(
        market,
        Spend(key="1", actor=ANN, recipients=TO_SUE, **{**SALE, "price": amount}),
        TopUp(key="2", actor=BANK, user="ann", amount=amount, source="card"),
        GrantPromo(key="3", actor=BANK, user="ann", amount=amount, expires_at=later),
        RequestPayout(key="4", actor=Actor.user("sue"), user="sue", amount=amount),
        Subscribe(key="5", actor=ANN, price=amount, **period),
        Clawback(key="6", actor=BANK, user="ann", amount=amount),
    )


@pytest.mark.parametrize("amount", [money(0), money(MOST), usd(1), 1, None], ids=repr)
async def test_nor_does_an_adjustment(market: Marketplace, amount: Any) -> None:
    """It may be below zero, as long as the account is not."""
    given: dict[str, Any] = {"actor": BANK, "account": "ann:spendable", "reason": "x"}
    await refused(
        market,
        Adjust(key="1", amount=amount, **given),
        Adjust(key="2", amount=credits(-101), **given),
    )


@pytest.mark.parametrize("amount", [usd(0), usd(-1), credits(1), money(MOST, Currency.USD), 1])
async def test_nor_do_dollars(market: Marketplace, amount: Any) -> None:
    taken: dict[str, Any] = {"actor": BANK, "user": "ann", "amount": credits(1)}
    await refused(
        market,
        Fund(key="1", actor=BANK, amount=amount, reason="x"),
        Clawback(key="2", dollars=amount, **taken),
        Clawback(key="3", fee=amount, **taken),
    )


@pytest.mark.parametrize("amount", [money(0), money(-1), money(MOST), usd(1), 1])
async def test_nor_is_a_debt_written_off_by_it(market: Marketplace, amount: Any) -> None:
    committed(
        await market.economy.submit(Clawback(key="c", actor=BANK, user="bob", amount=credits(1)))
    )
    await refused(market, WriteOff(key="w", actor=BANK, user="bob", amount=amount, reason="x"))


async def test_what_a_provider_says_that_it_paid_is_dollars(market: Marketplace) -> None:
    given: dict[str, Any] = {"actor": BANK, "payout_id": "p", "provider_ref": "r"}
    wrong: list[Any] = [credits(1), money(MOST, Currency.USD), 1]
    await refused(
        market,
        *(SettlePayout(key=f"{n}", provider_amount=one, **given) for n, one in enumerate(wrong)),
    )


@pytest.mark.parametrize(
    "shares",
    [
        (Share("sue", 10_001),),
        (Share("sue", 9_999),),
        (Share("sue", -1), Share("tom", 10_001)),
        (Share("sue", 0), Share("tom", 10_000)),
        (Share("sue", 5_000), Share("sue", 5_000)),
        (Share("ann", 10_000),),
        (Share("platform", 10_000),),
        (Share("sue", True), Share("tom", 9_999)),
        (Share("sue", 10_000.0),),  # type: ignore[arg-type]  # the mistake
        (Share("sue", HUGE), Share("tom", 10_000 - HUGE)),
        (),
        [Share("sue", 10_000)],
        None,
    ],
)
async def test_no_sale_is_shared_in_a_way_that_cannot_be(market: Marketplace, shares: Any) -> None:
    await refused(market, Spend(key="1", actor=ANN, recipients=shares, **SALE))


# -- as JSON -------------------------------------------------------------------------------------

SPEND: dict[str, Any] = {
    "kind": "spend",
    "key": "s",
    "buyer": "ann",
    "orderId": "o",
    "sku": "s",
    "price": "CREDIT:1.00",
    "recipients": [{"seller": "sue", "bps": 10_000}],
}
TOP_UP = {"kind": "topUp", "key": "t", "user": "ann", "amount": "CREDIT:1.00", "source": "card"}
PROMO = {"kind": "grantPromo", "key": "p", "user": "ann", "expiresAt": "2026-01-02T00:00Z"}
PAYOUT = {"kind": "requestPayout", "key": "r", "user": "sue"}
DISPUTE = {"kind": "clawback", "key": "c", "user": "ann", "amount": "CREDIT:1.00"}
TEXTS: list[Any] = ["0", "-1", "CREDIT:-0.01", "CREDIT:0.00", "USD:1.00", "1.5", "1e3", "NaN", ""]
TEXTS += [f"CREDIT:{HUGE}.00", "92233720368547758.08", "CREDIT:0.001", "١", 1, -1, 1.5, True, None]
WIRE: list[dict[str, Any]] = [
    *({**SPEND, "price": one} for one in TEXTS),
    *({**TOP_UP, "amount": one} for one in TEXTS),
    *({**PROMO, "amount": one} for one in TEXTS),
    *({**PAYOUT, "amount": one} for one in TEXTS),
    *({**DISPUTE, "amount": one} for one in TEXTS),
    *({"kind": "fund", "key": "f", "amount": one, "reason": "x"} for one in ("1", "USD:-1.00")),
    *({**DISPUTE, name: one} for name in ("dollars", "fee") for one in ("1", "USD:0.00")),
    *(
        {**SPEND, "recipients": shares}
        for shares in (
            [{"seller": "sue", "bps": 20_000}],
            [{"seller": "sue", "bps": -1}, {"seller": "tom", "bps": 10_001}],
            [{"seller": "sue", "bps": 5_000}, {"seller": "sue", "bps": 5_000}],
            [{"seller": "ann", "bps": 10_000}],
            [{"seller": "sue", "bps": True}],
            [{"seller": "sue", "bps": 1e4 + 0.5}],
            [{"seller": "sue", "bps": HUGE}],
        )
    ),
]


async def test_over_http_each_is_400_with_a_code(market: Marketplace) -> None:
    service = economy_service(market.economy, authenticate=lambda _: BANK)
    store = await core_of(market.app).opened()
    before = await store.ledger_accounts()
    for document in WIRE:
        answer = await ask(service, "POST", "/submit", json.dumps(document).encode())
        assert answer.code == 400, document
        assert answer.document["code"] in {"OP.MALFORMED", "MONEY.INVALID_AMOUNT"}, document
    assert await store.ledger_accounts() == before
    assert (await market.economy.prove()).holds

"""Requests that nobody would write, and names that nobody would choose."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from offpath.economy import (
    Actor,
    Adjust,
    ChainBroken,
    EconomyConfigInvalid,
    InvalidAmount,
    KeyReused,
    LedgerError,
    MalformedOperation,
    Money,
    MoneyOverflow,
    Rate,
    Rates,
    Refund,
    ReversePayout,
    Share,
    Spend,
    TopUp,
    credits,
    event_key,
    rate,
    webhook_door,
)
from offpath.economy.ledger.rows import SaleBody, body
from offpath.errors import InvalidArgument
from offpath.jobs.client.core import core_of
from offpath.model.ledger.decision import Decided, LedgerOp, OperationRefusal, raised_by
from offpath.model.ledger.money import CEILING, Currency
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.records import Receipt
from tests.unit.economy.conftest import Opens
from tests.unit.economy.marketplace import BANK, OPS, Marketplace, committed, duplicate, rejected

MARKER = "s3cr3t"
WIDE = "\U0001f680" * 200
"""An id as long as it may be, of letters of four bytes."""


# -- amounts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("minor", [True, 1.0, "1", None, 2**63, -(2**63) - 1])
def test_money_is_a_whole_number_that_fits(minor: Any) -> None:
    with pytest.raises((InvalidAmount, MoneyOverflow)):
        Money(Currency.CREDIT, minor)


@pytest.mark.parametrize("minor", [0, -1, CEILING + 1])
async def test_no_operation_moves_nothing_less_or_too_much(market: Marketplace, minor: int) -> None:
    amount = Money(Currency.CREDIT, minor)
    for attempt in (
        market.top_up("ann", amount),
        market.spend("ann", amount),
        market.promo("ann", amount),
        market.subscribe("ann", amount),
        market.request_payout("ann", amount),
    ):
        with pytest.raises(InvalidAmount):
            await attempt
    assert await market.postings() == 0


async def test_an_account_that_is_full_takes_no_more_and_harms_nobody(open_market: Opens) -> None:
    market = await open_market(velocity_limit_minor=CEILING)
    most = Money(Currency.CREDIT, CEILING)
    requests = [
        TopUp(key=f"k{n}", actor=BANK, user=f"u{n}", amount=most, source="card")
        for n in range(9_225)
    ]
    outcomes = await market.economy.submit_many(requests)
    refused = [one for one in outcomes if isinstance(one, LedgerError)]
    assert len(refused) == 2
    assert {type(one) for one in refused} == {MoneyOverflow}
    await market.economy.read.position()
    committed(await market.spend("u1", "1.00"))


# -- rates -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "scale"), [(0, 3), (-5, 3), (0.5, 3), (True, 3), (5, -1), (5, 19), (5, 1.0)]
)
def test_a_rate_made_by_hand_is_checked_too(value: Any, scale: Any) -> None:
    with pytest.raises(EconomyConfigInvalid):
        Rate(value=value, scale=scale, id="par:mine")


def test_rates_that_lose_money_are_refused() -> None:
    with pytest.raises(EconomyConfigInvalid):
        Rates(par=rate("par", 5, 3), payout=rate("payout", 51, 4))


# -- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "user", [WIDE, "a" * 200, "é", "e\u0301", "';drop/**/table/**/x;--", "%", "a\\b"]
)
async def test_any_user_can_do_everything(market: Marketplace, user: str) -> None:
    committed(await market.top_up(user, "20.00", key=WIDE + user))
    sold = committed(
        await market.spend(user, "4.00", "sel", order_id=WIDE, sku=WIDE, key=f"k{WIDE}")
    )
    committed(await market.subscribe(user, "4.00", sku=WIDE))
    assert await market.economy.read.owns(user, WIDE)
    committed(await market.refund(WIDE))
    assert sold.id
    await market.sound()


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "a:b", "platform", "a\0b", "\ud800", "a\nb", "a" * 201, 7, None]
)
async def test_what_is_no_user_is_told_so(market: Marketplace, name: Any) -> None:
    with pytest.raises(MalformedOperation):
        await market.top_up(name, "1.00")


@pytest.mark.parametrize("text", ["\0", "a\0", "\ud800", "\x1b[2J", "x" * 201, ""])
async def test_what_no_store_could_keep_is_refused_before(market: Marketplace, text: str) -> None:
    committed(await market.top_up("ann", "1.00"))
    for given in ({"order_id": text}, {"sku": text}):
        with pytest.raises(MalformedOperation):
            await market.spend("ann", "1.00", **given)
    assert await market.postings() == 2


async def test_entitlements_of_skus_with_colons_are_apart(market: Marketplace) -> None:
    committed(await market.top_up("a", "9.00"))
    committed(await market.spend("a", "1.00", sku="b:c"))
    assert await market.economy.read.owns("a", "b:c")
    assert not await market.economy.read.owns("a", "b")
    assert not await market.economy.read.owns("a", "c")


# -- keys --------------------------------------------------------------------------------------


async def test_a_user_learns_nothing_by_the_key_of_another(market: Marketplace) -> None:
    committed(await market.top_up("ann", "1.00", key="k"))
    with pytest.raises(KeyReused) as caught:
        await market.spend("eve", "1.00", key="k")
    assert "ann" not in str(caught.value)


async def test_the_same_request_in_other_hands_is_refused(market: Marketplace) -> None:
    order = market.order("ann", "1.00")
    committed(await market.top_up("ann", "1.00"))
    committed(await market.economy.submit(order))
    with pytest.raises(LedgerError, match="only for themselves"):
        await market.economy.submit(msgspec.structs.replace(order, actor=Actor.user("eve")))


def test_an_event_of_any_id_has_a_key_that_fits() -> None:
    assert event_key("acme:1") == "whk:acme:1"
    long = [f"acme:{'x' * 400}{n}" for n in range(2)]
    assert all(len(event_key(one)) <= 400 for one in long)
    assert event_key(long[0]) != event_key(long[1])


async def test_no_provider_has_a_name_that_could_be_part_of_an_id(market: Marketplace) -> None:
    with pytest.raises(InvalidArgument, match="colon"):
        webhook_door(market.economy, "acme:eu", verifier=lambda *_: None)


# -- flags and shares --------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["false", 1, None])
async def test_what_the_provider_reported_is_yes_or_no(market: Marketplace, flag: Any) -> None:
    payout = await market.payout("sel", 7, submitted=True)
    request = ReversePayout(
        key="r", actor=OPS, user="sel", payout_id=payout, reason="x", provider_reported=flag
    )
    with pytest.raises(MalformedOperation):
        await market.economy.submit(request)
    assert (await market.row("payout", payout)).state == "SUBMITTED"


@pytest.mark.parametrize(
    "recipients",
    [
        (Share("s", 10_001), Share("t", -1)),
        (Share("s", True),),
        (Share("s", 10_000.0),),  # type: ignore[arg-type]
        [Share("s", 10_000)],
        (Share("platform", 10_000),),
        (("s", 10_000),),
    ],
)
async def test_shares_that_cannot_be_meant(market: Marketplace, recipients: Any) -> None:
    with pytest.raises(MalformedOperation):
        await market.economy.submit(
            Spend(
                key="k",
                actor=BANK,
                buyer="ann",
                order_id="o",
                sku="s",
                price=Money(Currency.CREDIT, 1),
                recipients=recipients,
            )
        )


# -- what goes wrong is its own ----------------------------------------------------------------


async def test_a_decision_with_a_bug_harms_only_itself(market: Marketplace) -> None:
    def broken(_book: Any) -> Receipt:
        raise ZeroDivisionError(MARKER)

    bad = LedgerOp(decide=broken, needs=Needs(), key="bad")
    good = await market.economy.prepare(
        TopUp(key="good", actor=BANK, user="ann", amount=Money.parse("1"), source="card")
    )
    store = await core_of(market.app).opened()
    answers = await store.post([bad, good])
    assert isinstance(answers[0].error, ZeroDivisionError)
    assert answers[1].receipt is not None
    assert await market.economy.read.receipt("bad") is None


def test_what_is_told_of_a_declined_operation_has_nobodys_balance() -> None:
    declined = Decided(refusal=OperationRefusal("INSUFFICIENT_FUNDS", {"have": MARKER}))
    with pytest.raises(LedgerError, match="INSUFFICIENT_FUNDS") as caught:
        raised_by(declined)
    assert MARKER not in str(caught.value)
    with pytest.raises(LedgerError, match="ZeroDivisionError") as caught:
        raised_by(Decided(error=ZeroDivisionError(MARKER)))
    assert MARKER not in str(caught.value)


async def test_a_reason_of_any_length_is_sealed_or_refused(market: Marketplace) -> None:
    def adjust(reason: str, actor: Actor = OPS) -> Adjust:
        return Adjust(
            key=market.key(), actor=actor, account="ann:promo", amount=credits(1), reason=reason
        )

    committed(await market.economy.submit(adjust("\U0001f680" * 1_000)))
    for request in (
        adjust("x" * 1_001),
        adjust("x", Actor.operator("x" * 70_000)),
        adjust("x", Actor.operator("a\0b")),
        adjust("x", Actor.operator("\ud800")),
    ):
        with pytest.raises(MalformedOperation):
            await market.economy.submit(request)
    assert await market.balance("ann:promo") == 100


async def test_the_price_of_a_refund_is_what_was_sealed(market: Marketplace) -> None:
    committed(await market.top_up("ann", "4.00"))
    committed(await market.spend("ann", "4.00", order_id="o1"))
    row = await market.row("sale", "o1")
    content = msgspec.structs.replace(body(row, SaleBody), price=1)
    market.forge(msgspec.structs.replace(row, body=msgspec.json.encode(content).decode()))
    with pytest.raises(ChainBroken):
        await market.refund("o1")


# -- order within one batch --------------------------------------------------------------------


async def test_a_batch_is_decided_in_its_order(market: Marketplace) -> None:
    order = market.order("ann", "5.00", order_id="o1")
    outcomes = await market.economy.submit_many(
        [
            market.order("ann", "5.00", order_id="o0"),
            TopUp(key="t", actor=BANK, user="ann", amount=credits(5), source="card"),
            order,
            market.order("ann", "5.00", order_id="o1"),
            Refund(key="r", actor=OPS, order_id="o1"),
            Refund(key="r2", actor=OPS, order_id="o1"),
            market.order("ann", "5.00", order_id="o2"),
        ]
    )
    assert rejected(outcomes[0])[0] == "INSUFFICIENT_FUNDS"  # type: ignore[arg-type]
    committed(outcomes[1])  # type: ignore[arg-type]
    committed(outcomes[2])  # type: ignore[arg-type]
    assert rejected(outcomes[3])[0] == "DUPLICATE_ORDER"  # type: ignore[arg-type]
    committed(outcomes[4])  # type: ignore[arg-type]
    duplicate(outcomes[5])  # type: ignore[arg-type]
    committed(outcomes[6])  # type: ignore[arg-type]
    await market.sound()
    total = await market.balance("ann:spendable") + await market.balance("sel:earned")
    assert total + await market.house("revenue") == 500

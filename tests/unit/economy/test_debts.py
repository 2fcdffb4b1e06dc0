"""Debts: who owes what to the platform, how it is paid, and what is done about who does not."""

from __future__ import annotations

from typing import Any

import pytest

from offpath.economy import (
    Actor,
    Adjust,
    Clawback,
    Committed,
    Money,
    Outcome,
    Rejected,
    Reverse,
    ReversePayout,
    Share,
    Unauthorized,
    WriteOff,
    credits,
    usd,
)
from offpath.economy.ledger.operations.steps_subscriptions import subscription_renewed
from offpath.economy.ledger.operations.undo_keys import order_undone
from offpath.jobs.client.core import core_of
from offpath.model.ledger.chart import chart, owed
from tests.unit.economy.conftest import Opens
from tests.unit.economy.marketplace import BANK, OPS, Marketplace, committed, duplicate, rejected

TWO = (Share("sue", 5_000), Share("tom", 5_000))


async def clawback(market: Marketplace, user: str, amount: str, **given: Any) -> Outcome:
    request = {"key": market.key(), "actor": OPS, **given}
    return await market.economy.submit(Clawback(user=user, amount=credits(amount), **request))


async def write_off(market: Marketplace, user: str, amount: Money | None = None) -> Outcome:
    request: dict[str, Any] = {"key": market.key(), "actor": OPS, "reason": "he is bankrupt"}
    return await market.economy.submit(WriteOff(user=user, amount=amount, **request))


async def paid_and_undone(market: Marketplace, *, settled: bool = True) -> str:
    """sue and tom each earn 7.00 of an order; sue is paid, and the order is refunded."""
    committed(await market.top_up("ann", "20.00"))
    committed(await market.spend("ann", "20.00", *TWO, order_id="o1"))
    payout = str(committed(await market.request_payout("sue", "7.00")).facts["payout_id"])
    if settled:
        await market.submitted(payout)
        committed(await market.settle(payout))
    committed(await market.refund("o1"))
    return payout


async def stands(market: Marketplace, user: str) -> tuple[int, int, int]:
    """The sums that a user can spend, has earned, and owes."""
    await market.sound()
    found = [await market.balance(f"{user}:{kind}") for kind in ("spendable", "earned", "owed")]
    return found[0], found[1], found[2]


def test_a_debt_is_an_account_of_its_debtor() -> None:
    known = chart(owed("sue"))
    assert (known.kind, known.owner, known.debit_grows, known.guarded) == (
        "owed",
        "sue",
        True,
        True,
    )


# -- what a sale that is undone leaves -----------------------------------------------------------


async def test_of_two_sellers_only_the_one_who_was_paid_owes(market: Marketplace) -> None:
    await paid_and_undone(market)
    assert await stands(market, "sue") == (0, 0, 700)
    assert await stands(market, "tom") == (0, 0, 0)
    assert await stands(market, "ann") == (2_000, 0, 0)
    assert await market.house("receivable") == 0


async def test_what_is_earned_later_pays_it_first(market: Marketplace) -> None:
    await paid_and_undone(market)
    first = committed(await market.spend("ann", "10.00", *TWO))
    assert await stands(market, "sue") == (0, 0, 350)
    assert await stands(market, "tom") == (0, 350, 0)
    assert first.postings == (first.id, f"{first.id}:net")
    committed(await market.spend("ann", "10.00", "sue"))
    assert await stands(market, "sue") == (0, 350, 0)
    third = committed(await market.top_up("sue", "1.00"))
    assert len(third.postings) == 2


async def test_a_subscription_and_its_renewals_pay_it_too(market: Marketplace) -> None:
    await paid_and_undone(market)
    begun = committed(await market.subscribe("ann", "5.00", seller="sue"))
    assert await stands(market, "sue") == (0, 0, 400)  # the fee of 1.50 is whole credits
    market.at(5_000)
    row = await market.row("subscription", str(begun.facts["subscription_id"]))
    renewed = subscription_renewed(row, market.economy.rules, market.economy.new_id)
    receipt = await market.step(renewed)
    assert receipt.postings[1:] == (f"{receipt.id}:net",)
    assert await stands(market, "sue") == (0, 0, 100)


@pytest.mark.parametrize("order", ["undo, then the payout ends", "the payout ends, then undo"])
@pytest.mark.parametrize("end", ["settled", "returned"])
async def test_a_payout_and_the_undoing_of_its_sale_know_each_other_in_either_order(
    market: Marketplace, order: str, end: str
) -> None:
    """Nobody keeps what was paid out too much, and nothing that comes back is paid twice."""
    committed(await market.top_up("ann", "10.00"))
    committed(await market.spend("ann", "10.00", "sue", order_id="o1"))
    payout = str(committed(await market.request_payout("sue", "7.00")).facts["payout_id"])
    await market.submitted(payout)

    async def ended() -> None:
        if end == "settled":
            committed(await market.settle(payout))
            return
        failed: dict[str, Any] = {
            "payout_id": payout,
            "reason": "closed",
            "provider_reported": True,
        }
        request = ReversePayout(key=market.key(), actor=BANK, user="sue", **failed)
        committed(await market.economy.submit(request))

    if order.startswith("undo"):
        committed(await market.refund("o1"))
        assert await stands(market, "sue") == (0, 0, 700)
        await ended()
    else:
        await ended()
        committed(await market.refund("o1"))
    assert await stands(market, "sue") == (0, 0, 700 if end == "settled" else 0)
    assert await market.house("payout_reserve") == 0
    assert await market.balance("ann:spendable") == 1_000


# -- what a payment that was taken back leaves ---------------------------------------------------


async def test_a_top_up_that_was_spent_and_clawed_back_is_paid_by_the_next_one(
    market: Marketplace,
) -> None:
    committed(await market.top_up("ann", "10.00"))
    committed(await market.spend("ann", "8.00", "sue"))
    committed(await clawback(market, "ann", "10.00"))
    assert await stands(market, "ann") == (0, 0, 800)
    committed(await market.top_up("ann", "5.00"))
    assert await stands(market, "ann") == (0, 0, 300)
    assert rejected(await market.spend("ann", "1.00"))[0] == "INSUFFICIENT_FUNDS"
    committed(await market.top_up("ann", "5.00"))
    assert await stands(market, "ann") == (200, 0, 0)


async def test_the_gate_of_payouts_counts_a_debt_as_gone(market: Marketplace) -> None:
    """A buyer's debt too, when he is a seller as well."""
    await market.earns("sue", 70)
    committed(await clawback(market, "sue", "60.00"))
    assert await stands(market, "sue") == (0, 7_000, 6_000)
    refused = rejected(await market.request_payout("sue", "10.01"))
    told = {"account": "sue:earned", "need": "CREDIT:10.01", "have": "CREDIT:10.00"}
    assert refused == ("INSUFFICIENT_FUNDS", {**told, "owed": "CREDIT:60.00"})
    committed(await market.request_payout("sue", "10.00"))


async def test_a_dispute_that_was_won_gives_back_what_paid_the_debt(market: Marketplace) -> None:
    committed(await market.top_up("ann", "10.00"))
    committed(await market.spend("ann", "8.00", "sue"))
    taken = committed(await clawback(market, "ann", "10.00"))
    committed(await market.top_up("ann", "5.00"))  # pays five of the eight
    won = Reverse(key="won", actor=OPS, posting_id=str(taken.id), reason="won")
    committed(await market.economy.submit(won))
    assert await stands(market, "ann") == (700, 0, 0)


@pytest.mark.parametrize("half", [0, 1])
async def test_a_dispute_is_undone_by_either_half_when_its_debt_is_gone(
    market: Marketplace, half: int
) -> None:
    """The wallet that gets back what a debt no longer takes goes with the pair, not with the one
    posting that was named.
    """
    taken = committed(await clawback(market, "u1", "0.01", fee=usd("0.01")))
    committed(await write_off(market, "u1"))
    undone = Reverse(key="back", actor=OPS, posting_id=taken.postings[half], reason="won")
    assert len(committed(await market.economy.submit(undone)).postings) == 2
    assert (await stands(market, "u1"))[2] == 0


async def test_a_refund_that_is_undone_gives_a_seller_back_what_paid_his_debt(
    market: Marketplace,
) -> None:
    await paid_and_undone(market)
    committed(await market.spend("ann", "10.00", "sue"))
    assert await stands(market, "sue") == (0, 0, 0)
    committed(await market.top_up("ann", "20.00"))
    key = await (await core_of(market.app).opened()).ledger_key(order_undone("o1"))
    assert key is not None
    undo = Reverse(key="u", actor=OPS, posting_id=str(key.receipt.id), reason="x")
    committed(await market.economy.submit(undo))
    assert await stands(market, "sue") == (0, 700, 0)


async def test_an_adjustment_pays_no_debt(market: Marketplace) -> None:
    """It is meant as it is written."""
    committed(await clawback(market, "ann", "3.00"))
    given = Adjust(key="a", actor=OPS, account="ann:spendable", amount=credits(5), reason="x")
    committed(await market.economy.submit(given))
    assert await stands(market, "ann") == (500, 0, 300)


# -- the order of a dispute, and its dollars -------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"order_id": "o2"}, "UNKNOWN_ORDER"),
        ({"user": "eve"}, "NOT_THE_BUYER"),
        ({"amount": "4.01"}, "ABOVE_PRICE"),
    ],
)
async def test_a_dispute_is_about_an_order_of_its_user_and_no_more_than_its_price(
    market: Marketplace, given: dict[str, Any], reason: str
) -> None:
    committed(await market.top_up("ann", "10.00"))
    committed(await market.spend("ann", "4.00", order_id="o1"))
    request = {"user": "ann", "amount": "4.00", "order_id": "o1", **given}
    assert rejected(await clawback(market, **request))[0] == reason
    committed(await market.spend("ann", "1.00", order_id="o2"))
    assert isinstance(await market.refund("o1"), Committed)


async def test_dispute_won_refunded_disputed_again_is_one_reversal_at_any_time(
    market: Marketplace,
) -> None:
    """T2-26."""
    committed(await market.top_up("ann", "10.00"))
    committed(await market.spend("ann", "4.00", "sue", order_id="o1"))
    dispute = {"user": "ann", "amount": "4.00", "order_id": "o1"}
    taken = committed(await clawback(market, **dispute))
    duplicate(await clawback(market, **dispute))
    assert await stands(market, "ann") == (200, 0, 0)
    won = Reverse(key="won", actor=OPS, posting_id=str(taken.id), reason="won")
    committed(await market.economy.submit(won))
    assert await stands(market, "ann") == (600, 0, 0)
    refunded = committed(await market.refund("o1"))
    again = duplicate(await clawback(market, **dispute))
    assert (again.id, again.facts["undone_by"]) == (refunded.id, "refund")
    assert await stands(market, "ann") == (1_000, 0, 0)
    assert await stands(market, "sue") == (0, 0, 0)


async def test_the_dollars_that_a_bank_took_leave_as_they_came(market: Marketplace) -> None:
    """All is as before the top-up, but for the bank's fee, which is the platform's."""
    before = [await market.house(one) for one in ("trust_cash", "revenue_usd", "usd_clearing")]
    committed(await market.top_up("ann", "100.00"))
    done = committed(await clawback(market, "ann", "100.00", dollars=usd("1.00"), fee=usd(15)))
    after = [await market.house(one) for one in ("trust_cash", "revenue_usd", "usd_clearing")]
    assert len(done.postings) == 2
    assert [new - old for new, old in zip(after, before, strict=True)] == [0, -1_500, 1_500]
    await market.sound()


async def test_fewer_dollars_than_backed_the_credits_take_no_more(market: Marketplace) -> None:
    committed(await market.top_up("ann", "100.00"))
    cash, revenue = await market.house("trust_cash"), await market.house("revenue_usd")
    committed(await clawback(market, "ann", "100.00", dollars=usd("0.10")))
    assert await market.house("trust_cash") == cash - 10
    assert await market.house("revenue_usd") == revenue


# -- giving up -----------------------------------------------------------------------------------


async def test_a_debt_is_written_off_at_the_platforms_cost(market: Marketplace) -> None:
    await paid_and_undone(market)
    revenue = await market.house("revenue")
    some = committed(await write_off(market, "sue", credits(2)))
    assert some.facts == {"amount": "CREDIT:2.00", "owed": "CREDIT:5.00"}
    assert rejected(await write_off(market, "sue", credits("5.01"))) == (
        "NOT_OWED",
        {"userId": "sue", "owed": "CREDIT:5.00"},
    )
    committed(await write_off(market, "sue"))
    assert await stands(market, "sue") == (0, 0, 0)
    assert await market.house("revenue") == revenue - 700
    assert rejected(await write_off(market, "sue"))[0] == "NOT_OWED"


async def test_no_user_writes_off_his_debt(market: Marketplace) -> None:
    with pytest.raises(Unauthorized):
        await market.economy.submit(
            WriteOff(key="w", actor=Actor.user("sue"), user="sue", reason="please")
        )


async def test_who_owes_is_listed(open_market: Opens) -> None:
    market = await open_market()
    assert await market.economy.read.debts() == []
    for user, amount in (("zoe", "3.00"), ("bob", "1.00"), ("ann", "2.00")):
        committed(await clawback(market, user, amount))
    committed(await write_off(market, "bob"))
    found = await market.economy.read.debts()
    assert [(one.user, str(one.owed)) for one in found] == [
        ("ann", "CREDIT:2.00"),
        ("zoe", "CREDIT:3.00"),
    ]
    assert [one.user for one in await market.economy.read.debts(after="ann", limit=1)] == ["zoe"]
    assert isinstance(await market.spend("ann", "1.00"), Rejected)

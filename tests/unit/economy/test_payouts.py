"""Payouts: requested, settled, reversed; the steps of the sweep."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from offpath.economy import (
    Actor,
    ChainBroken,
    EconomyConfigInvalid,
    InvalidAmount,
    InvalidTransition,
    MalformedOperation,
    Outcome,
    ProviderFailed,
    Rates,
    ReversePayout,
    Unauthorized,
    credits,
    rate,
    usd,
)
from offpath.economy.ledger.operations.steps_payouts import (
    STALE,
    payout_dead_lettered,
    payout_rescheduled,
    payout_sending,
    payout_submitted,
)
from offpath.economy.ledger.rows import PayoutBody, body, moved
from tests.unit.economy.conftest import Opens
from tests.unit.economy.marketplace import (
    BANK,
    BASE,
    OPS,
    Marketplace,
    committed,
    duplicate,
    rejected,
)

DAY = 86_400_000


async def reverse(market: Marketplace, payout_id: str, **given: Any) -> Outcome:
    request = {"key": market.key(), "actor": OPS, "user": "sel", "reason": "why", **given}
    return await market.economy.submit(ReversePayout(payout_id=payout_id, **request))


# -- requesting --------------------------------------------------------------------------------


async def test_a_request_reserves_the_credits_at_todays_price(market: Marketplace) -> None:
    payout_id = await market.payout("sel", 7)
    assert await market.balance("sel:earned") == 0
    assert await market.house("payout_reserve") == 700
    payout = await market.economy.read.payout(payout_id)
    assert payout is not None
    assert (payout.state, str(payout.quote), payout.attempts) == ("RESERVED", "USD:0.03", 0)
    assert (await market.row("payout", payout_id)).due_at == BASE + 30_000


async def test_a_request_below_the_minimum_is_declined(open_market: Opens) -> None:
    """§16.36"""
    market = await open_market(payout_min_earned_minor=2_000)
    await market.earns("sel", 70)
    reason, fields = rejected(await market.request_payout("sel", "19.99"))
    assert reason == "BELOW_MINIMUM"
    assert fields == {"minimum": "CREDIT:20.00", "amount": "CREDIT:19.99"}
    committed(await market.request_payout("sel", "20.00"))


async def test_a_seller_waits_from_one_request_to_the_next(open_market: Opens) -> None:
    """§16.36"""
    market = await open_market(payout_min_interval=86_400.0)
    await market.earns("sel", 70)
    committed(await market.request_payout("sel", "7.00"))
    market.at(DAY - 1)
    reason, fields = rejected(await market.request_payout("sel", "7.00"))
    assert (reason, fields) == ("PAYOUT_TOO_SOON", {"retryAt": BASE + DAY})
    market.at(DAY)
    committed(await market.request_payout("sel", "7.00"))


async def test_a_failed_payout_costs_no_wait(open_market: Opens) -> None:
    """§17.12"""
    market = await open_market(payout_min_interval=86_400.0, maturity_default=10.0)
    await market.earns("sel", 7)
    market.at(10_000)
    payout_id = str(committed(await market.request_payout("sel", "7.00")).facts["payout_id"])
    market.at(20_000)
    committed(await reverse(market, payout_id))
    assert await market.balance("sel:earned") == 700
    committed(await market.request_payout("sel", "7.00"))


async def test_what_a_failed_payout_returns_does_not_ripen_what_waits(open_market: Opens) -> None:
    """§17.12"""
    market = await open_market(maturity_default=60.0)
    await market.earns("sel", 7)
    market.at(40_000)
    await market.earns("sel", 14)
    market.at(60_000)
    for _ in range(2):  # a second failure knows what the first one did
        receipt = committed(await market.request_payout("sel", "7.00"))
        rejected(await market.request_payout("sel", "2.00"))
        committed(await reverse(market, str(receipt.facts["payout_id"])))
        reason, fields = rejected(await market.request_payout("sel", "7.01"))
        assert (reason, fields["availableAt"]) == ("FUNDS_IMMATURE", BASE + 100_000)
    committed(await market.request_payout("sel", "7.00"))
    reason, fields = rejected(await market.request_payout("sel", "2.00"))
    assert (reason, fields["availableAt"]) == ("FUNDS_IMMATURE", BASE + 100_000)
    market.at(100_000)
    committed(await market.request_payout("sel", "14.00"))


async def test_a_failed_payout_does_not_hide_the_wait_of_a_later_one(open_market: Opens) -> None:
    """§17.12"""
    market = await open_market(payout_min_interval=10.0)
    await market.earns("sel", 70)
    first = str(committed(await market.request_payout("sel", "7.00")).facts["payout_id"])
    market.at(10_000)
    committed(await market.request_payout("sel", "7.00"))
    market.at(11_000)
    committed(await reverse(market, first))
    reason, fields = rejected(await market.request_payout("sel", "7.00"))
    assert (reason, fields) == ("PAYOUT_TOO_SOON", {"retryAt": BASE + 20_000})


async def test_earned_credits_wait_for_the_refund_window(open_market: Opens) -> None:
    """§16.36"""
    market = await open_market(maturity_default=60.0)
    await market.earns("sel", 7)
    market.at(30_000)
    await market.earns("sel", 7)
    reason, fields = rejected(await market.request_payout("sel", "7.00"))
    assert (reason, fields) == (
        "FUNDS_IMMATURE",
        {"source": "unknown", "availableAt": BASE + 60_000},
    )
    market.at(60_000)
    reason, fields = rejected(await market.request_payout("sel", "7.01"))
    assert (reason, fields["availableAt"]) == ("FUNDS_IMMATURE", BASE + 90_000)
    committed(await market.request_payout("sel", "7.00"))


async def test_more_than_is_earned_is_declined(market: Marketplace) -> None:
    await market.earns("sel", 7)
    reason, fields = rejected(await market.request_payout("sel", "7.01"))
    assert (reason, fields["have"]) == ("INSUFFICIENT_FUNDS", "CREDIT:7.00")


class Directory:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer: bool | Exception = False

    async def cleared(self, user: str) -> bool:
        self.asked.append(user)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def test_a_payee_who_is_not_cleared_is_not_paid(open_market: Opens) -> None:
    """§16.36"""
    directory = Directory()
    market = await open_market(directory=directory, payout_min_earned_minor=500)
    await market.earns("sel", 70)
    assert rejected(await market.request_payout("sel", "7.00")) == (
        "PAYEE_UNVERIFIED",
        {"userId": "sel"},
    )
    directory.answer = RuntimeError("secret")
    with pytest.raises(ProviderFailed) as raised:
        await market.request_payout("sel", "7.00")
    assert "secret" not in str(raised.value)
    assert raised.value.retryable
    directory.answer = True
    committed(await market.request_payout("sel", "7.00"))
    directory.asked.clear()
    rejected(await market.request_payout("sel", "2.00"))
    assert directory.asked == []


def test_a_payout_rate_above_par_is_no_configuration() -> None:
    """§16.36"""
    with pytest.raises(EconomyConfigInvalid):
        Rates(buy=rate("buy", 1, 2), par=rate("par", 5, 3), payout=rate("payout", 6, 3))


async def test_less_than_a_cent_cannot_be_paid(market: Marketplace) -> None:
    with pytest.raises(InvalidAmount):
        await market.request_payout("sel", "1.99")


async def test_nobody_asks_for_the_payout_of_another(market: Marketplace) -> None:
    from offpath.economy import RequestPayout

    with pytest.raises(Unauthorized):
        await market.economy.submit(
            RequestPayout(key="k", actor=Actor.user("eve"), user="sel", amount=credits(7))
        )


# -- settling ----------------------------------------------------------------------------------


async def test_a_settled_payout_retires_the_credits_and_pays_the_quote(open_market: Opens) -> None:
    """§16.31"""
    market = await open_market(payout_fee_bps=150, velocity_limit_minor=10**12)
    await market.earns("sel", 21_000)
    receipt = committed(await market.request_payout("sel", credits(20_000)))
    payout_id = str(receipt.facts["payout_id"])
    await market.submitted(payout_id)
    before = {name: await market.house(name) for name in ("trust_cash", "usd_clearing", "revenue")}
    stored = await market.house("stored_value")
    settled = committed(await market.settle(payout_id))
    assert await market.house("trust_cash") == before["trust_cash"] - 10_000
    assert await market.house("usd_clearing") == before["usd_clearing"] + 10_000
    assert await market.house("revenue") == before["revenue"]
    assert await market.house("stored_value") == stored - 2_000_000
    assert await market.house("payout_reserve") == 0
    paid = await market.economy.read.posting(settled.postings[1])
    assert paid is not None
    assert (paid.facts["fee"], paid.facts["net"]) == ("USD:1.50", "USD:98.50")
    await market.sound()


async def test_a_settlement_that_comes_again_is_a_duplicate(market: Marketplace) -> None:
    """§16.32"""
    payout_id = await market.payout("sel", 70, submitted=True)
    committed(await market.settle(payout_id))
    postings, topics = await market.postings(), await market.topics()
    assert duplicate(await market.settle(payout_id)).id == payout_id
    assert await market.postings() == postings
    assert await market.topics() == topics
    assert topics.count("economy.payout.settled") == 1


async def test_only_what_was_submitted_settles(market: Marketplace) -> None:
    """§16.33"""
    payout_id = await market.payout("sel", 7)
    with pytest.raises(InvalidTransition) as early:
        await market.settle(payout_id)
    assert early.value.retryable
    committed(await reverse(market, payout_id))
    with pytest.raises(InvalidTransition) as late:
        await market.settle(payout_id)
    assert not late.value.retryable
    with pytest.raises(MalformedOperation):
        await market.settle("pay_nobody")
    with pytest.raises(Unauthorized):
        await market.settle(payout_id, actor=Actor.user("sel"))


async def test_the_stored_quote_counts_and_a_row_without_one_settles_nothing(
    market: Marketplace,
) -> None:
    """§16.34"""
    payout_id = await market.payout("sel", 70, submitted=True)
    row = await market.row("payout", payout_id)
    assert row.amount == 35
    market.forge(replace(row, amount=None))
    with pytest.raises(ChainBroken):
        await market.settle(payout_id)
    market.forge(row)
    committed(await market.settle(payout_id, provider_amount=usd("0.99")))
    assert await market.house("trust_cash") == 50 - 35


@pytest.mark.parametrize(
    "change",
    [
        {"amount": 3_500},
        {"owner": "eve"},
        {"anchor": "elsewhere"},
        {"anchor": None},
        {"body": PayoutBody(reserve=1, rate_id="payout:CREDIT->USD:5/3")},
        {"body": PayoutBody(reserve=7_000, rate_id="payout:CREDIT->USD:9/3")},
    ],
)
async def test_a_forged_payout_moves_nothing(market: Marketplace, change: dict[str, Any]) -> None:
    """§16.28"""
    payout_id = await market.payout("sel", 70, submitted=True)
    row = await market.row("payout", payout_id)
    content = change.pop("body", None)
    market.forge(moved(row, row.touched_at, content=content, **change))
    postings = await market.postings()
    with pytest.raises((ChainBroken, MalformedOperation)):
        await market.settle(payout_id)
    with pytest.raises((ChainBroken, MalformedOperation)):
        await reverse(market, payout_id, provider_reported=True)
    forged = await market.row("payout", payout_id)
    decided = await market.decided(
        payout_dead_lettered(forged, "x", market.economy.rules, market.economy.new_id)
    )
    assert isinstance(decided.error, ChainBroken)
    assert await market.postings() == postings


async def test_an_id_that_points_at_another_posting_moves_nothing(market: Marketplace) -> None:
    """§16.28"""
    top_up = committed(await market.top_up("eve", "70.00"))
    payout_id = await market.payout("sel", 70, submitted=True)
    row = await market.row("payout", payout_id)
    market.forge(replace(row, anchor=top_up.id))
    with pytest.raises(ChainBroken):
        await market.settle(payout_id)


# -- reversing ---------------------------------------------------------------------------------


async def test_a_reserved_payout_can_be_reversed_once(market: Marketplace) -> None:
    """§16.35"""
    payout_id = await market.payout("sel", 7)
    committed(await reverse(market, payout_id))
    assert await market.balance("sel:earned") == 700
    assert await market.house("payout_reserve") == 0
    assert duplicate(await reverse(market, payout_id)).id == payout_id
    payout = await market.economy.read.payout(payout_id)
    assert payout is not None
    assert (payout.state, payout.reason) == ("FAILED", "why")
    await market.sound()


async def test_a_payout_that_the_provider_has_is_reversed_when_it_is_old(
    market: Marketplace,
) -> None:
    """§16.35"""
    payout_id = await market.payout("sel", 7, submitted=True)
    with pytest.raises(InvalidTransition):
        await reverse(market, payout_id)
    market.at(DAY)
    with pytest.raises(InvalidTransition):
        await reverse(market, payout_id)
    market.at(DAY + 1)
    committed(await reverse(market, payout_id))


async def test_a_payout_that_the_provider_gave_up_is_reversed_at_once(market: Marketplace) -> None:
    """§16.35"""
    payout_id = await market.payout("sel", 7, submitted=True)
    committed(await reverse(market, payout_id, provider_reported=True))
    assert await market.balance("sel:earned") == 700


async def test_what_was_paid_is_not_reversed(market: Marketplace) -> None:
    """§16.35"""
    payout_id = await market.payout("sel", 7, submitted=True)
    committed(await market.settle(payout_id))
    with pytest.raises(InvalidTransition):
        await reverse(market, payout_id, provider_reported=True)


@pytest.mark.parametrize("given", [{"user": "eve"}, {"reason": " "}])
async def test_a_reversal_that_cannot_be_meant_is_malformed(
    market: Marketplace, given: dict[str, str]
) -> None:
    """§16.35"""
    payout_id = await market.payout("sel", 7)
    with pytest.raises(MalformedOperation):
        await reverse(market, payout_id, **given)


async def test_users_do_not_reverse_payouts(market: Marketplace) -> None:
    payout_id = await market.payout("sel", 7)
    with pytest.raises(Unauthorized):
        await reverse(market, payout_id, actor=Actor.user("sel"))


# -- the steps of the sweep --------------------------------------------------------------------


async def test_a_payout_in_the_providers_hand_is_not_reversed(market: Marketplace) -> None:
    payout_id = await market.payout("sel", 7)
    row = await market.row("payout", payout_id)
    await market.step(payout_sending(row, due_at=60_000))
    with pytest.raises(InvalidTransition):
        await reverse(market, payout_id)
    market.at(DAY + 1)
    committed(await reverse(market, payout_id))


async def test_submitting_counts_an_attempt_and_posts_nothing(market: Marketplace) -> None:
    """§16.12"""
    payout_id = await market.payout("sel", 7)
    postings = await market.postings()
    market.at(5)
    row = await market.row("payout", payout_id)
    sending = await market.step(payout_sending(row, due_at=60_000))
    sent = replace(row, version=sending.facts["version"])
    await market.step(payout_submitted(sent, "tr_9", due_at=120_005))
    after = await market.row("payout", payout_id)
    assert (after.state, after.attempts, after.due_at) == ("SUBMITTED", 1, 120_005)
    assert after.touched_at == BASE + 5
    assert body(after, PayoutBody).provider_ref == "tr_9"
    assert await market.postings() == postings


async def test_a_step_of_who_lost_the_row_changes_nothing(market: Marketplace) -> None:
    payout_id = await market.payout("sel", 7)
    row = await market.row("payout", payout_id)
    await market.step(payout_rescheduled(row, due_at=7, attempt=True))
    postings = await market.postings()
    for op in (
        payout_sending(row, due_at=1),
        payout_submitted(row, "tr", due_at=1),
        payout_rescheduled(row, due_at=1),
        payout_dead_lettered(row, "late", market.economy.rules, market.economy.new_id),
    ):
        decided = await market.decided(op)
        assert decided.refusal is not None
        assert decided.refusal.reason == STALE
    after = await market.row("payout", payout_id)
    assert (after.state, after.due_at, after.attempts) == ("RESERVED", 7, 1)
    assert await market.postings() == postings


async def test_looking_again_later_touches_only_when_it_is_asked_to(market: Marketplace) -> None:
    """§16.25"""
    payout_id = await market.payout("sel", 7)
    market.at(1_000)
    row = await market.row("payout", payout_id)
    await market.step(payout_rescheduled(row, due_at=50))
    row = await market.row("payout", payout_id)
    assert (row.touched_at, row.due_at, row.attempts) == (BASE, 50, 0)
    await market.step(payout_rescheduled(row, due_at=60, touch=True))
    assert (await market.row("payout", payout_id)).touched_at == BASE + 1_000


async def test_a_dead_letter_gives_the_credits_back_and_tells_of_it(market: Marketplace) -> None:
    """§16.22"""
    payout_id = await market.payout("sel", 7, submitted=True)
    row = await market.row("payout", payout_id)
    receipt = await market.step(
        payout_dead_lettered(row, "payout.timeout", market.economy.rules, market.economy.new_id)
    )
    posting = await market.economy.read.posting(str(receipt.id))
    assert posting is not None
    assert posting.facts["kind"] == "payouts.dead_letter"
    assert posting.facts["reason"] == "payout.timeout"
    assert await market.balance("sel:earned") == 700
    assert (await market.topics()).count("economy.payout.reversed") == 1
    payout = await market.economy.read.payout(payout_id)
    assert payout is not None
    assert (payout.state, payout.reason, payout.due_at) == ("FAILED", "payout.timeout", None)


async def test_settling_and_reversing_at_once_moves_the_money_once(market: Marketplace) -> None:
    """§16.29"""
    import asyncio

    for first in (True, False):
        payout_id = await market.payout("sel", 7, submitted=True)
        jobs = [
            market.settle(payout_id, actor=BANK),
            reverse(market, payout_id, provider_reported=True),
        ]
        outcomes = await asyncio.gather(*(jobs if first else jobs[::-1]), return_exceptions=True)
        assert sum(isinstance(one, InvalidTransition) for one in outcomes) == 1
        assert await market.house("payout_reserve") == 0
        await market.sound()

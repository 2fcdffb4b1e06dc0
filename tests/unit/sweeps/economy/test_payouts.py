"""The payouts sweep: to the provider, and to an end. §16.12-§16.28, §16.37."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from offpath.economy.ledger.operations.payouts import ReversePayout
from offpath.economy.ledger.operations.steps_payouts import payout_body
from offpath.economy.ledger.ports import Ports, ProviderStatus
from offpath.economy.ledger.rows import encoded
from offpath.economy.passes import settle_due_payouts
from offpath.economy.sweeps.summaries import Coded, PayoutsSummary, Reasoned
from offpath.economy.testing import FakeProvider, Mode
from offpath.model.ledger.faults import ChainBroken, InvalidTransition, ProviderFailed
from offpath.model.ledger.money import Money, usd
from offpath.model.ledger.rates import rate
from tests.unit.sweeps.economy.rig import RATES, SYSTEM, Rig

RESERVE, EARNED = "platform:payout_reserve", "seller:earned"
IDLE = PayoutsSummary()


# -- submitting ------------------------------------------------------------------------------------


async def test_a_reserved_payout_goes_to_the_provider(rig: Rig) -> None:
    """§16.12."""
    payout = await rig.due_payout()
    posted = len(await rig.postings())
    run = await rig.sweep("payouts")
    assert run["payouts"].summary == PayoutsSummary(submitted=(payout,))
    assert run.postings == ()
    taken = rig.provider.accepted[payout]
    assert (taken.user, taken.amount) == ("seller", usd(100))
    row = await rig.row("payout", payout)
    assert (row.state, row.attempts) == ("SUBMITTED", 1)
    assert payout_body(row).provider_ref == taken.ref
    assert row.due_at == rig.ms + 120_000
    assert len(await rig.postings()) == posted


async def test_the_stored_quote_is_paid_whatever_the_rate_is_now(rig: Rig) -> None:
    """§16.13."""
    rig.rates = replace(RATES, payout=rate("payout", 45, 4))
    rig.change()
    payout = await rig.due_payout()
    rig.rates = RATES
    rig.change()
    await settle_due_payouts(rig)
    assert rig.provider.accepted[payout].amount == usd(90)


async def test_what_is_not_due_and_what_has_ended_is_left_alone(rig: Rig) -> None:
    """§16.37."""
    await rig.earn("seller", "10.00")
    payout = await rig.request_payout("seller", "10.00")
    assert await settle_due_payouts(rig) == IDLE
    rig.later(31)
    await settle_due_payouts(rig)
    await rig.settle(payout)
    rig.later(100_000)
    assert await settle_due_payouts(rig) == IDLE
    assert rig.provider.calls == [payout]


async def test_a_failure_of_the_provider_is_tried_again_later(rig: Rig) -> None:
    """§16.19, and §17.7: it waits longer each time."""
    payout = await rig.due_payout()
    rig.provider.always(Mode.REFUSE, "seller")
    waits = []
    for _ in range(3):
        summary = await settle_due_payouts(rig)
        assert summary == PayoutsSummary(retrying=(Coded(payout, "PROVIDER.FAILURE"),))
        assert await settle_due_payouts(rig) == IDLE  # not due before its time
        row = await rig.row("payout", payout)
        assert row.due_at is not None
        waits.append((row.due_at - rig.ms) / 1000)
        rig.later(waits[-1])
    row = await rig.row("payout", payout)
    assert (row.state, row.attempts, waits) == ("RESERVED", 3, [30, 60, 120])


async def test_the_last_attempt_gives_it_up_and_the_credits_go_back(rig: Rig) -> None:
    """§16.20, §16.22."""
    rig.change(max_payout_attempts=3)
    payout = await rig.due_payout()
    rig.provider.always(Mode.REFUSE, "seller")
    for attempts in (1, 2):
        await settle_due_payouts(rig)
        assert (await rig.row("payout", payout)).attempts == attempts
        rig.later(3_600)
    run = await rig.sweep("payouts")
    assert run["payouts"].summary == PayoutsSummary(
        dead_lettered=(Reasoned(payout, "PROVIDER.FAILURE"),)
    )
    assert (await rig.row("payout", payout)).state == "FAILED"
    assert await rig.balance(RESERVE) == "0.00"
    assert await rig.balance(EARNED) == "20000.00"
    assert len(run.postings) == 1
    assert (await rig.topics()).count("economy.payout.reversed") == 1
    rig.later(100_000)
    assert await settle_due_payouts(rig) == IDLE


async def test_with_one_attempt_it_is_given_up_at_once(rig: Rig) -> None:
    """§16.18."""
    rig.change(max_payout_attempts=1)
    payout = await rig.due_payout()
    rig.provider.script(Mode.REFUSE)
    summary = await settle_due_payouts(rig)
    assert summary.dead_lettered == (Reasoned(payout, "PROVIDER.FAILURE"),)


async def test_a_terminal_no_of_the_provider_gives_it_up_at_once(rig: Rig) -> None:
    class Refuses(FakeProvider):
        async def submit(self, key: str, user: str, amount: Money) -> str:
            raise ProviderFailed("that account is closed", retryable=False)

    rig.ports = Ports(provider=Refuses())
    payout = await rig.due_payout()
    summary = await settle_due_payouts(rig)
    assert summary.dead_lettered == (Reasoned(payout, "PROVIDER.FAILURE"),)
    assert await rig.balance(EARNED) == "20000.00"


async def test_a_bad_row_stops_none_of_the_others(rig: Rig) -> None:
    """§16.21."""
    rig.change(max_payout_attempts=1)
    bad = await rig.due_payout("10.00", "bad")
    good = await rig.due_payout("10.00", "good")
    rig.provider.always(Mode.REFUSE, "bad")
    summary = await settle_due_payouts(rig)
    assert summary.submitted == (good,)
    assert summary.dead_lettered == (Reasoned(bad, "PROVIDER.FAILURE"),)


# -- watching --------------------------------------------------------------------------------------


async def test_one_within_its_time_only_comes_later(rig: Rig) -> None:
    """§16.14: nothing changes but when it is due."""
    rig.change(max_payout_age=1_000.0)
    payout = await rig.taken_payout()
    before = await rig.row("payout", payout)
    assert await settle_due_payouts(rig) == IDLE
    after = await rig.row("payout", payout)
    assert after.due_at == rig.ms + 120_000
    assert replace(after, due_at=0, version=0) == replace(before, due_at=0, version=0)
    assert await rig.balance(RESERVE) == "20000.00"


async def test_silence_ends_it_only_after_its_time(rig: Rig) -> None:
    """§16.15, §16.17: at the very age it is left alone."""
    rig.change(max_payout_age=120.0)
    payout = await rig.taken_payout()
    assert await settle_due_payouts(rig) == IDLE
    rig.later(120)
    cash = await rig.balance("platform:trust_cash")
    summary = await settle_due_payouts(rig)
    assert summary.dead_lettered == (Reasoned(payout, "payout.timeout"),)
    assert (await rig.row("payout", payout)).state == "FAILED"
    assert await rig.balance(RESERVE) == "0.00"
    assert await rig.balance(EARNED) == "20000.00"
    assert await rig.balance("platform:trust_cash") == cash
    metrics = rig.app.metrics
    dead = metrics.get("offpath_economy_payouts_dead_total", reason="payout.timeout")
    ages = metrics.get("offpath_economy_payout_age_seconds", state="SUBMITTED")
    assert dead is not None
    assert ages is not None
    assert (dead.value, ages.value, ages.max) == (1, 2, 240)


class Raises(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        raise RuntimeError("no disk")


@pytest.fixture
def broken_log() -> Iterator[None]:
    log, broken = logging.getLogger("offpath.economy"), Raises()
    log.addFilter(broken)
    yield
    log.removeFilter(broken)


@pytest.mark.usefixtures("broken_log")
async def test_a_logger_that_raises_changes_nothing(rig: Rig) -> None:
    """§16.16."""
    payout = await rig.taken_payout()
    summary = await settle_due_payouts(rig)
    assert summary.dead_lettered == (Reasoned(payout, "payout.timeout"),)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (ProviderStatus.FAILED, "payout.provider_failed"),
        (ProviderStatus.RETURNED, "payout.provider_returned"),
    ],
)
async def test_what_the_provider_says_has_failed_ends_at_once(
    rig: Rig, status: ProviderStatus, reason: str
) -> None:
    """§16.23."""
    rig.change(max_payout_age=1_000.0)
    payout = await rig.taken_payout()
    rig.provider.reports(status)
    summary = await settle_due_payouts(rig)
    assert summary.dead_lettered == (Reasoned(payout, reason),)
    row = await rig.row("payout", payout)
    assert (row.state, payout_body(row).reason) == ("FAILED", reason)


async def test_what_the_provider_says_is_settled_is_never_forced(rig: Rig) -> None:
    """§16.24."""
    payout = await rig.taken_payout()
    touched = (await rig.row("payout", payout)).touched_at
    rig.provider.reports(ProviderStatus.SETTLED)
    assert await settle_due_payouts(rig) == IDLE
    row = await rig.row("payout", payout)
    assert (row.state, row.touched_at, row.due_at) == ("SUBMITTED", touched, rig.ms + 120_000)
    assert await rig.balance(RESERVE) == "20000.00"


async def test_what_is_pending_is_waited_for(rig: Rig) -> None:
    """§16.25."""
    rig.change(max_payout_age=200.0)
    payout = await rig.taken_payout()
    rig.provider.reports(ProviderStatus.PENDING)
    touched = (await rig.row("payout", payout)).touched_at
    assert await settle_due_payouts(rig) == IDLE
    assert (await rig.row("payout", payout)).touched_at == touched
    rig.later(120)
    assert await settle_due_payouts(rig) == IDLE
    row = await rig.row("payout", payout)
    assert (row.state, row.touched_at, row.due_at) == ("SUBMITTED", rig.ms, rig.ms + 120_000)


@pytest.mark.parametrize("said", [ProviderStatus.UNKNOWN, ConnectionError("down"), "gibberish"])
async def test_a_probe_that_tells_nothing_leaves_it_to_time(rig: Rig, said: Any) -> None:
    """§16.26."""
    rig.change(max_payout_age=200.0)
    payout = await rig.taken_payout()
    rig.provider.reports(said)
    assert await settle_due_payouts(rig) == IDLE
    assert (await rig.row("payout", payout)).attempts == 1
    rig.later(120)
    summary = await settle_due_payouts(rig)
    assert summary == PayoutsSummary(dead_lettered=(Reasoned(payout, "payout.timeout"),))


# -- rows that were altered ------------------------------------------------------------------------


async def test_an_altered_row_moves_nothing_and_is_told_each_time(rig: Rig) -> None:
    """§16.27, §17.6: its due time moves, so that it blocks nobody."""
    payout = await rig.due_payout()
    row = await rig.row("payout", payout)
    content = replace(payout_body(row), reserve=1)
    rig.tamper("payout", payout, body=encoded(content))
    for _ in range(2):
        summary = await settle_due_payouts(rig)
        assert summary == PayoutsSummary(retrying=(Coded(payout, "CHAIN.BROKEN"),))
        assert await settle_due_payouts(rig) == IDLE
        rig.later(61)
    assert rig.provider.calls == []
    assert (await rig.row("payout", payout)).state == "RESERVED"


@pytest.mark.parametrize("put_back", ["RESERVED", "SUBMITTED"])
@pytest.mark.parametrize("paid", [True, False])
async def test_a_payout_that_was_put_back_from_its_end_moves_nothing(
    rig: Rig, put_back: str, paid: bool
) -> None:
    """A reserved sum could be taken: but its end is a posting, and there is one."""
    payout = await rig.taken_payout("10.00")
    if paid:
        await rig.settle(payout)
    else:
        rig.provider.reports(ProviderStatus.FAILED)
        assert (await settle_due_payouts(rig)).dead_lettered != ()
    await rig.earn("other", "10.00")
    await rig.request_payout("other", "10.00")
    before = await rig.postings(), len(rig.provider.calls)
    rig.tamper("payout", payout, state=put_back, due_at=rig.ms, touched_at=1)
    assert Coded(payout, "CHAIN.BROKEN") in (await settle_due_payouts(rig)).retrying
    with pytest.raises((ChainBroken, InvalidTransition)):
        await rig.settle(payout)
    back = ReversePayout(
        key="r", actor=SYSTEM, user="seller", payout_id=payout, reason="x", provider_reported=True
    )
    with pytest.raises(ChainBroken):
        await rig.submit(back)
    assert (await rig.postings(), len(rig.provider.calls)) == before


async def test_a_forged_payout_of_a_real_posting_moves_nothing(rig: Rig) -> None:
    """§16.28: neither to the provider nor, being late, back to a seller."""
    await rig.top_up("seller", "50.00")
    (credit, _) = await rig.postings()
    payout = await rig.due_payout("10.00")
    real = await rig.row("payout", payout)
    rig.tamper("payout", payout, anchor=credit.id)
    assert (await settle_due_payouts(rig)).retrying == (Coded(payout, "CHAIN.BROKEN"),)
    rig.tamper("payout", payout, state="SUBMITTED", touched_at=1)
    rig.later(61)
    assert (await settle_due_payouts(rig)).retrying == (Coded(payout, "CHAIN.BROKEN"),)
    assert rig.provider.calls == []
    assert await rig.balance(EARNED) == "0.00"
    assert real.state == "RESERVED"

"""The payouts sweep: to the provider, and to an end. §16.12-§16.30, §16.37, cases M1, §17."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from offpath.economy.sweeping import settle_due_payouts
from offpath.errors import StoreUnavailable
from offpath.ledger.operations.payouts import ReversePayout
from offpath.ledger.operations.steps_payouts import payout_body
from offpath.ledger.outcome import Committed, Duplicate
from offpath.ledger.ports import Ports, ProviderStatus
from offpath.ledger.rows import encoded
from offpath.model.ledger.faults import InvalidTransition, LedgerError, ProviderFailed
from offpath.model.ledger.money import Money, usd
from offpath.model.ledger.rates import rate
from offpath.sweeps.economy.summaries import Coded, PayoutsSummary, Reasoned
from offpath.testing import FakeProvider, Killed, Mode
from tests.unit.jobs.worker.rig import until
from tests.unit.sweeps.economy.rig import RATES, SYSTEM, Rig

RESERVE, EARNED = "platform:payout_reserve", "seller:earned"
IDLE = PayoutsSummary()


async def requested(rig: Rig, amount: str = "20000.00", seller: str = "seller") -> str:
    """A payout that is due now."""
    await rig.earn(seller, amount)
    payout = await rig.request_payout(seller, amount)
    rig.later(31)
    return payout


async def submitted(rig: Rig, amount: str = "20000.00") -> str:
    """A payout that the provider took, and that is due now; it is 120 s old."""
    payout = await requested(rig, amount)
    summary = await settle_due_payouts(rig)
    assert summary.submitted == (payout,)
    rig.later(120)
    return payout


# -- submitting ------------------------------------------------------------------------------------


async def test_a_reserved_payout_goes_to_the_provider(rig: Rig) -> None:
    """§16.12."""
    payout = await requested(rig)
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
    payout = await requested(rig)
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
    payout = await requested(rig)
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
    payout = await requested(rig)
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
    payout = await requested(rig)
    rig.provider.script(Mode.REFUSE)
    summary = await settle_due_payouts(rig)
    assert summary.dead_lettered == (Reasoned(payout, "PROVIDER.FAILURE"),)


async def test_a_terminal_no_of_the_provider_gives_it_up_at_once(rig: Rig) -> None:
    class Refuses(FakeProvider):
        async def submit(self, key: str, user: str, amount: Money) -> str:
            raise ProviderFailed("that account is closed", retryable=False)

    rig.ports = Ports(provider=Refuses())
    payout = await requested(rig)
    summary = await settle_due_payouts(rig)
    assert summary.dead_lettered == (Reasoned(payout, "PROVIDER.FAILURE"),)
    assert await rig.balance(EARNED) == "20000.00"


async def test_a_bad_row_stops_none_of_the_others(rig: Rig) -> None:
    """§16.21."""
    rig.change(max_payout_attempts=1)
    bad = await requested(rig, "10.00", "bad")
    good = await requested(rig, "10.00", "good")
    rig.provider.always(Mode.REFUSE, "bad")
    summary = await settle_due_payouts(rig)
    assert summary.submitted == (good,)
    assert summary.dead_lettered == (Reasoned(bad, "PROVIDER.FAILURE"),)


# -- cases M1: whatever gets lost, one transfer for one payout -------------------------------------


@pytest.mark.parametrize("mode", [Mode.TIME_OUT, Mode.REFUSE])
@pytest.mark.parametrize("find", [True, False])
async def test_a_lost_answer_pays_once(mode: Mode, find: bool) -> None:
    """M1: times out after accepting; 500, then accepted."""
    rig = Rig()
    rig.provider = FakeProvider(find=find)
    rig.ports = Ports(provider=rig.provider)
    payout = await requested(rig)
    rig.provider.script(mode)
    first = await settle_due_payouts(rig)
    assert first.retrying == (Coded(payout, "PROVIDER.FAILURE"),)
    rig.later(3_600)
    assert (await settle_due_payouts(rig)).submitted == (payout,)
    assert list(rig.provider.accepted) == [payout]
    if find and mode is Mode.TIME_OUT:
        assert rig.provider.calls == [payout]  # it was asked what it has, not sent it again
    await rig.app.close()


async def test_a_process_that_ends_after_the_provider_took_it_pays_once(rig: Rig) -> None:
    """M1: accepts, and the worker is killed. The intent was written before."""
    payout = await requested(rig)
    rig.provider.script(Mode.KILL)
    with pytest.raises(Killed):
        await settle_due_payouts(rig)
    row = await rig.row("payout", payout)
    assert row.state == "RESERVED"
    assert payout_body(row).sending_at == rig.ms
    refused = ReversePayout(
        key="by-hand", actor=SYSTEM, user="seller", payout_id=payout, reason="stuck"
    )
    with pytest.raises(InvalidTransition, match="may still pay"):
        await rig.submit(refused)
    assert await settle_due_payouts(rig) == IDLE  # leased: nobody else takes it before its time
    rig.later(1_000)
    assert (await settle_due_payouts(rig)).submitted == (payout,)
    assert list(rig.provider.accepted) == [payout]
    assert rig.provider.calls == [payout]


async def test_the_webhook_may_come_before_the_call_returns(rig: Rig) -> None:
    """M1: the settlement finds it RESERVED, comes again, and moves money once."""
    payout = await requested(rig)
    answers: list[object] = []

    async def webhook(key: str, _ref: str) -> None:
        try:
            answers.append(await rig.settle(key))
        except LedgerError as error:
            answers.append((error.code, error.retryable))

    rig.provider.callback = webhook
    rig.provider.script(Mode.CALL_BACK)
    assert (await settle_due_payouts(rig)).submitted == (payout,)
    assert answers == [("SAGA.INVALID_TRANSITION", True)]
    assert isinstance(await rig.settle(payout), Committed)
    assert isinstance(await rig.settle(payout), Duplicate)
    assert await rig.balance(RESERVE) == "0.00"
    assert list(rig.provider.accepted) == [payout]


async def test_it_is_not_given_up_while_the_provider_has_it(rig: Rig) -> None:
    """M1: the last attempt's answer was lost. In the original the seller got his credits back, and
    the money as well.
    """
    rig.change(max_payout_attempts=1)
    payout = await requested(rig)
    rig.provider.script(Mode.TIME_OUT)
    assert (await settle_due_payouts(rig)).submitted == (payout,)
    assert await rig.balance(EARNED) == "0.00"


async def test_it_is_not_given_up_while_the_provider_does_not_tell(rig: Rig) -> None:
    rig.change(max_payout_attempts=1)
    payout = await requested(rig)

    async def down(_key: str) -> str | None:
        raise ConnectionError("down")

    rig.provider.find = down
    rig.provider.script(Mode.TIME_OUT)
    summary = await settle_due_payouts(rig)
    assert summary.retrying == (Coded(payout, "PROVIDER.FAILURE"),)
    assert (await rig.row("payout", payout)).attempts == 0


async def test_a_provider_that_gives_no_reference_has_failed(rig: Rig) -> None:
    class Mute(FakeProvider):
        async def submit(self, key: str, user: str, amount: Money) -> str:
            return ""

    rig.ports = Ports(provider=Mute())
    payout = await requested(rig)
    summary = await settle_due_payouts(rig)
    assert summary.retrying == (Coded(payout, "PROVIDER.FAILURE"),)


# -- watching --------------------------------------------------------------------------------------


async def test_one_within_its_time_only_comes_later(rig: Rig) -> None:
    """§16.14: nothing changes but when it is due."""
    rig.change(max_payout_age=1_000.0)
    payout = await submitted(rig)
    before = await rig.row("payout", payout)
    assert await settle_due_payouts(rig) == IDLE
    after = await rig.row("payout", payout)
    assert after.due_at == rig.ms + 120_000
    assert replace(after, due_at=0, version=0) == replace(before, due_at=0, version=0)
    assert await rig.balance(RESERVE) == "20000.00"


async def test_silence_ends_it_only_after_its_time(rig: Rig) -> None:
    """§16.15, §16.17: at the very age it is left alone."""
    rig.change(max_payout_age=120.0)
    payout = await submitted(rig)
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
    payout = await submitted(rig)
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
    payout = await submitted(rig)
    rig.provider.reports(status)
    summary = await settle_due_payouts(rig)
    assert summary.dead_lettered == (Reasoned(payout, reason),)
    row = await rig.row("payout", payout)
    assert (row.state, payout_body(row).reason) == ("FAILED", reason)


async def test_what_the_provider_says_is_settled_is_never_forced(rig: Rig) -> None:
    """§16.24."""
    payout = await submitted(rig)
    touched = (await rig.row("payout", payout)).touched_at
    rig.provider.reports(ProviderStatus.SETTLED)
    assert await settle_due_payouts(rig) == IDLE
    row = await rig.row("payout", payout)
    assert (row.state, row.touched_at, row.due_at) == ("SUBMITTED", touched, rig.ms + 120_000)
    assert await rig.balance(RESERVE) == "20000.00"


async def test_what_is_pending_is_waited_for(rig: Rig) -> None:
    """§16.25."""
    rig.change(max_payout_age=200.0)
    payout = await submitted(rig)
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
    payout = await submitted(rig)
    rig.provider.reports(said)
    assert await settle_due_payouts(rig) == IDLE
    assert (await rig.row("payout", payout)).attempts == 1
    rig.later(120)
    summary = await settle_due_payouts(rig)
    assert summary == PayoutsSummary(dead_lettered=(Reasoned(payout, "payout.timeout"),))


# -- rows that were altered ------------------------------------------------------------------------


async def test_an_altered_row_moves_nothing_and_is_told_each_time(rig: Rig) -> None:
    """§16.27, §17.6: its due time moves, so that it blocks nobody."""
    payout = await requested(rig)
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


async def test_a_forged_payout_of_a_real_posting_moves_nothing(rig: Rig) -> None:
    """§16.28: neither to the provider nor, being late, back to a seller."""
    await rig.top_up("seller", "50.00")
    (credit, _) = await rig.postings()
    payout = await requested(rig, "10.00")
    real = await rig.row("payout", payout)
    rig.tamper("payout", payout, anchor=credit.id)
    assert (await settle_due_payouts(rig)).retrying == (Coded(payout, "CHAIN.BROKEN"),)
    rig.tamper("payout", payout, state="SUBMITTED", touched_at=1)
    rig.later(61)
    assert (await settle_due_payouts(rig)).retrying == (Coded(payout, "CHAIN.BROKEN"),)
    assert rig.provider.calls == []
    assert await rig.balance(EARNED) == "0.00"
    assert real.state == "RESERVED"


# -- races -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["settle", "reverse"])
async def test_settling_and_reversing_moves_money_once(rig: Rig, first: str) -> None:
    """§16.29, over memory; on SQL it is raced in the conformance tests."""
    payout = await submitted(rig, "4.00")
    reverse = ReversePayout(
        key="r", actor=SYSTEM, user="seller", payout_id=payout, reason="x", provider_reported=True
    )
    calls: list[Any] = [rig.settle(payout), rig.submit(reverse)]
    if first == "reverse":
        calls.reverse()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(one, Committed) for one in answers] == [True, False]
    assert isinstance(answers[1], InvalidTransition)
    assert await rig.balance(RESERVE) == "0.00"
    assert await rig.balance(EARNED) == ("0.00" if first == "settle" else "4.00")


@pytest.mark.parametrize("turns", range(15))
async def test_a_timeout_beside_a_settlement_moves_money_once(rig: Rig, turns: int) -> None:
    """§16.30, §17.11: what lost is in no bucket."""
    payout = await submitted(rig, "4.00")

    async def late_settlement() -> object:
        for _ in range(turns):
            await asyncio.sleep(0)
        return await rig.settle(payout)

    summary, answer = await asyncio.gather(
        settle_due_payouts(rig), late_settlement(), return_exceptions=True
    )
    assert isinstance(summary, PayoutsSummary)
    settled = isinstance(answer, Committed)
    assert (summary == IDLE) is settled
    assert await rig.balance(RESERVE) == "0.00"
    assert await rig.balance(EARNED) == ("0.00" if settled else "4.00")
    assert (await rig.row("payout", payout)).state == ("SETTLED" if settled else "FAILED")


async def test_what_another_has_moved_on_meanwhile_is_not_told_as_submitted(rig: Rig) -> None:
    """§17.11: the original told of it although its write had been lost."""
    payout = await requested(rig)
    rig.provider.script(Mode.HANG)
    slow = asyncio.ensure_future(settle_due_payouts(rig))
    await until(lambda: rig.provider.accepted != {})
    # Longer than its lease: another process takes the row, and the provider gives the same answer.
    other = Rig(store=rig.store._wrapped)
    other.provider.accepted = rig.provider.accepted
    summary = await settle_due_payouts(other, now=rig.clock.now().replace(year=2027))
    assert summary.submitted == (payout,)
    rig.provider.heal()
    assert await slow == IDLE
    assert (await rig.row("payout", payout)).attempts == 1
    await other.app.close()


# -- faults of the original ------------------------------------------------------------------------


async def test_those_that_wait_do_not_block_those_that_are_new(rig: Rig) -> None:
    """§17.6: in the original, as many as the limit that wait blocked every new one for good."""
    rig.provider.status = None
    rig.change(max_payout_age=1_000_000.0)
    waiting = [await requested(rig, "10.00", f"old-{n}") for n in range(3)]
    assert set((await settle_due_payouts(rig)).submitted) == set(waiting)
    rig.later(1_000)
    fresh = await requested(rig, "10.00", "new")
    assert await settle_due_payouts(rig, limit=3) == IDLE
    assert (await settle_due_payouts(rig, limit=3)).submitted == (fresh,)


async def test_a_store_that_is_away_gives_no_payout_up(rig: Rig) -> None:
    """§17.9: four such errors sent the reserve back while the provider could still pay."""
    rig.change(max_payout_age=1_000_000.0, max_payout_attempts=2)
    payout = await submitted(rig)
    for _ in range(6):
        rig.store.fail("post")
        summary = await settle_due_payouts(rig)
        assert summary == PayoutsSummary(retrying=(Coded(payout, "STORE.FAILURE"),))
        rig.later(1_000)
    row = await rig.row("payout", payout)
    assert (row.state, row.attempts) == ("SUBMITTED", 1)
    assert await settle_due_payouts(rig) == IDLE


async def test_a_failure_that_cannot_be_recorded_is_the_rows_own(rig: Rig) -> None:
    """§17.8: in the original it ended the sweep, and the rows behind it were not looked at."""
    payouts = [await requested(rig, "10.00", f"seller-{n}") for n in range(3)]
    rig.store.fail("post", times=2)
    summary = await settle_due_payouts(rig)
    assert set(summary.retrying) == {Coded(one, "STORE.FAILURE") for one in payouts}
    rig.later(1_000)
    assert set((await settle_due_payouts(rig)).submitted) == set(payouts)


async def test_the_answer_of_the_store_may_get_lost_anywhere(rig: Rig) -> None:
    """A commit whose answer is lost changes nothing twice, at each of the steps."""
    payout = await requested(rig)
    for call in (1, 2):
        rig.store.lose_answer("post", call=call)
        await settle_due_payouts(rig)
        rig.store.heal()
        rig.later(1_000)
    rig.change(max_payout_age=1_000_000.0)
    await settle_due_payouts(rig)
    assert (await rig.row("payout", payout)).state == "SUBMITTED"
    assert list(rig.provider.accepted) == [payout]


async def test_a_claim_that_fails_is_told_by_its_run(rig: Rig) -> None:
    rig.store.fail("lease_sides", error=StoreUnavailable("cut"))
    result = (await rig.sweep("payouts"))["payouts"]
    assert (result.ok, result.code, result.retryable) == (False, "STORE.FAILURE", True)


async def test_a_failed_payout_costs_the_seller_no_time(rig: Rig) -> None:
    """§17.12: in the original the wait for maturity and the interval began anew."""
    rig.change(payout_min_interval=86_400.0, maturity_default=1_000.0, max_payout_attempts=1)
    await rig.earn("seller", "10.00")
    rig.later(1_001)
    payout = await rig.request_payout("seller", "10.00")
    rig.later(31)
    rig.provider.script(Mode.REFUSE)
    assert (await settle_due_payouts(rig)).dead_lettered
    again = await rig.request_payout("seller", "10.00")
    assert again != payout


async def test_the_callers_time_is_that_of_claims_and_of_decisions(rig: Rig) -> None:
    """§7.1: the original claimed by it, and decided by the clock."""
    payout = await submitted(rig)
    early = rig.now.replace(year=2025)
    assert await settle_due_payouts(rig, now=early) == IDLE
    later = rig.now.replace(year=2027)
    summary = await settle_due_payouts(rig, now=later)
    assert summary.dead_lettered == (Reasoned(payout, "payout.timeout"),)

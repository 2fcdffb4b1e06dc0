"""Payouts whatever gets lost on the way: cases M1, races, and the faults of the original.

§16.29, §16.30, §17.6-§17.9, §17.11, §17.12.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from offpath.economy.ledger.operations.payouts import ReversePayout
from offpath.economy.ledger.operations.steps_payouts import payout_body
from offpath.economy.ledger.outcome import Committed, Duplicate
from offpath.economy.ledger.ports import Ports
from offpath.economy.passes import settle_due_payouts
from offpath.economy.sweeps.summaries import Coded, PayoutsSummary, Reasoned
from offpath.economy.testing import FakeProvider, Killed, Mode
from offpath.errors import StoreUnavailable
from offpath.model.ledger.faults import InvalidTransition, LedgerError
from offpath.model.ledger.money import Money
from tests.unit.jobs.worker.rig import until
from tests.unit.sweeps.economy.rig import SYSTEM, Rig

RESERVE, EARNED = "platform:payout_reserve", "seller:earned"
IDLE = PayoutsSummary()


# -- cases M1: whatever gets lost, one transfer for one payout -------------------------------------


@pytest.mark.parametrize("mode", [Mode.TIME_OUT, Mode.REFUSE])
@pytest.mark.parametrize("find", [True, False])
async def test_a_lost_answer_pays_once(mode: Mode, find: bool) -> None:
    """M1: times out after accepting; 500, then accepted."""
    rig = Rig()
    rig.provider = FakeProvider(find=find)
    rig.ports = Ports(provider=rig.provider)
    payout = await rig.due_payout()
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
    payout = await rig.due_payout()
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
    payout = await rig.due_payout()
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
    payout = await rig.due_payout()
    rig.provider.script(Mode.TIME_OUT)
    assert (await settle_due_payouts(rig)).submitted == (payout,)
    assert await rig.balance(EARNED) == "0.00"


async def test_it_is_not_given_up_while_the_provider_does_not_tell(rig: Rig) -> None:
    rig.change(max_payout_attempts=1)
    payout = await rig.due_payout()

    async def down(_key: str) -> str | None:
        raise ConnectionError("down")

    rig.provider.find = down
    rig.provider.script(Mode.TIME_OUT)
    summary = await settle_due_payouts(rig)
    assert summary.retrying == (Coded(payout, "PROVIDER.FAILURE"),)
    assert (await rig.row("payout", payout)).attempts == 0


async def test_a_provider_that_is_silent_and_cannot_be_asked_is_waited_for(rig: Rig) -> None:
    """M1: it may have paid. Only ``max_payout_age`` of silence gives the credits back."""
    rig.change(max_payout_attempts=1, max_payout_age=200.0)
    rig.provider.find = None
    payout = await rig.due_payout()
    rig.provider.always(Mode.TIME_OUT, "seller")
    for wait in (30, 60, 120):
        summary = await settle_due_payouts(rig)
        assert summary.retrying == (Coded(payout, "PROVIDER.FAILURE"),)
        rig.later(wait)
    assert (await settle_due_payouts(rig)).dead_lettered == (Reasoned(payout, "PROVIDER.FAILURE"),)


async def test_a_provider_that_was_silent_is_sent_the_same_key_again(rig: Rig) -> None:
    rig.change(max_payout_attempts=1)
    rig.provider.find = None
    payout = await rig.due_payout()
    rig.provider.script(Mode.TIME_OUT)
    await settle_due_payouts(rig)
    rig.later(31)
    assert (await settle_due_payouts(rig)).submitted == (payout,)
    assert rig.provider.calls == [payout, payout]
    assert list(rig.provider.accepted) == [payout]


async def test_a_provider_that_gives_no_reference_has_failed(rig: Rig) -> None:
    class Mute(FakeProvider):
        async def submit(self, key: str, user: str, amount: Money) -> str:
            return ""

    rig.ports = Ports(provider=Mute())
    payout = await rig.due_payout()
    summary = await settle_due_payouts(rig)
    assert summary.retrying == (Coded(payout, "PROVIDER.FAILURE"),)


# -- races -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["settle", "reverse"])
async def test_settling_and_reversing_moves_money_once(rig: Rig, first: str) -> None:
    """§16.29, over memory; on SQL it is raced in the conformance tests."""
    payout = await rig.taken_payout("4.00")
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
    payout = await rig.taken_payout("4.00")

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
    payout = await rig.due_payout()
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
    waiting = [await rig.due_payout("10.00", f"old-{n}") for n in range(3)]
    assert set((await settle_due_payouts(rig)).submitted) == set(waiting)
    rig.later(1_000)
    fresh = await rig.due_payout("10.00", "new")
    assert await settle_due_payouts(rig, limit=3) == IDLE
    assert (await settle_due_payouts(rig, limit=3)).submitted == (fresh,)


async def test_a_store_that_is_away_gives_no_payout_up(rig: Rig) -> None:
    """§17.9: four such errors sent the reserve back while the provider could still pay."""
    rig.change(max_payout_age=1_000_000.0, max_payout_attempts=2)
    payout = await rig.taken_payout()
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
    payouts = [await rig.due_payout("10.00", f"seller-{n}") for n in range(3)]
    rig.store.fail("post", times=2)
    summary = await settle_due_payouts(rig)
    assert set(summary.retrying) == {Coded(one, "STORE.FAILURE") for one in payouts}
    rig.later(1_000)
    assert set((await settle_due_payouts(rig)).submitted) == set(payouts)


async def test_the_answer_of_the_store_may_get_lost_anywhere(rig: Rig) -> None:
    """A commit whose answer is lost changes nothing twice, at each of the steps."""
    payout = await rig.due_payout()
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
    payout = await rig.taken_payout()
    early = rig.now.replace(year=2025)
    assert await settle_due_payouts(rig, now=early) == IDLE
    later = rig.now.replace(year=2027)
    summary = await settle_due_payouts(rig, now=later)
    assert summary.dead_lettered == (Reasoned(payout, "payout.timeout"),)

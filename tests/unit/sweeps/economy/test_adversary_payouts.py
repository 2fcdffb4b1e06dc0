"""Payouts that a provider may have taken although a later answer says no: cases M1, further."""

from __future__ import annotations

import itertools
from contextlib import suppress

import pytest

from offpath.economy.ledger.operations.steps_payouts import payout_body
from offpath.economy.ledger.ports import Ports, ProviderStatus
from offpath.economy.passes import settle_due_payouts
from offpath.economy.sweeps.summaries import Coded, Reasoned
from offpath.economy.testing import FakeProvider, Killed, Mode
from offpath.model.ledger.faults import InvalidAmount
from offpath.model.ledger.money import Money
from tests.unit.sweeps.economy.rig import Rig

RESERVE, EARNED = "platform:payout_reserve", "seller:earned"


async def passes(rig: Rig, count: int) -> None:
    """Sweeps, an hour apart; the process may end in each and begin again."""
    for _ in range(count):
        with suppress(Killed):
            await settle_due_payouts(rig)
        rig.later(3_600)


async def test_refusals_after_a_lost_answer_do_not_give_it_up(rig: Rig) -> None:
    """The first call was taken and its answer lost; that later ones are refused says nothing of
    it. Given up, the seller has his credits and the money.
    """
    rig.change(max_payout_attempts=3, max_payout_age=1_000_000.0)
    rig.provider.find = None
    payout = await rig.due_payout()
    rig.provider.script(Mode.TIME_OUT, *[Mode.REFUSE] * 4)
    await passes(rig, 5)
    assert await rig.balance(EARNED) == "0.00"
    assert (await settle_due_payouts(rig)).submitted == (payout,)
    assert payout_body(await rig.row("payout", payout)).unanswered == 0


async def test_refusals_after_a_killed_call_do_not_give_it_up(rig: Rig) -> None:
    rig.change(max_payout_attempts=2, max_payout_age=1_000_000.0)
    rig.provider.find = None
    payout = await rig.due_payout()
    rig.provider.script(Mode.KILL, *[Mode.REFUSE] * 3)
    await passes(rig, 4)
    assert (await settle_due_payouts(rig)).submitted == (payout,)


async def test_refusals_alone_give_it_up(rig: Rig) -> None:
    rig.change(max_payout_attempts=3, max_payout_age=1_000_000.0)
    rig.provider.find = None
    payout = await rig.due_payout()
    rig.provider.script(*[Mode.REFUSE] * 3)
    await passes(rig, 2)
    summary = await settle_due_payouts(rig)
    assert summary.dead_lettered == (Reasoned(payout, "PROVIDER.FAILURE"),)
    assert rig.provider.accepted == {}


async def test_silence_about_a_lost_answer_ends_with_its_age(rig: Rig) -> None:
    rig.change(max_payout_attempts=2, max_payout_age=7_200.0)
    rig.provider.find = None
    payout = await rig.due_payout()
    rig.provider.script(Mode.KILL)
    rig.provider.always(Mode.REFUSE, "other")
    await passes(rig, 1)
    rig.provider.always(Mode.REFUSE, "seller")
    for _ in range(2):
        assert (await settle_due_payouts(rig)).retrying == (Coded(payout, "PROVIDER.FAILURE"),)
        rig.later(3_600)
    summary = await settle_due_payouts(rig)
    assert summary.dead_lettered == (Reasoned(payout, "PROVIDER.FAILURE"),)


async def test_a_final_no_after_a_lost_answer_does_not_give_it_up(rig: Rig) -> None:
    rig.change(max_payout_age=1_000_000.0)
    payout = await rig.due_payout()

    class Changing(FakeProvider):
        async def submit(self, key: str, user: str, amount: Money) -> str:
            if self.calls:
                self.calls.append(key)
                raise InvalidAmount("this key is in work")
            return await super().submit(key, user, amount)

    provider = Changing(find=False)
    provider.script(Mode.TIME_OUT)
    rig.ports = Ports(provider=provider)
    await passes(rig, 2)
    row = await rig.row("payout", payout)
    assert row.state == "RESERVED"
    assert await rig.balance(EARNED) == "0.00"


async def test_what_is_on_its_way_is_not_given_up_since_it_has_not_arrived(rig: Rig) -> None:
    """The provider knows nothing of it *yet*: the request waits in a queue before it."""
    rig.change(max_payout_attempts=1, max_payout_age=1_000_000.0)
    payout = await rig.due_payout()
    taken = rig.provider.accepted

    class Slow(FakeProvider):
        async def submit(self, key: str, user: str, amount: Money) -> str:
            if not self.calls:
                self.calls.append(key)
                raise TimeoutError
            return await super().submit(key, user, amount)

    provider = Slow()
    rig.ports = Ports(provider=provider)
    assert (await settle_due_payouts(rig)).retrying == (Coded(payout, "PROVIDER.FAILURE"),)
    assert not taken
    await FakeProvider.submit(provider, payout, "seller", Money.parse("USD:100.00"))  # it arrives
    rig.later(3_600)
    assert (await settle_due_payouts(rig)).submitted == (payout,)
    assert list(provider.accepted) == [payout]


MODES = (Mode.TIME_OUT, Mode.REFUSE, Mode.KILL, Mode.ACCEPT)


@pytest.mark.parametrize("find", [True, False])
@pytest.mark.parametrize("modes", list(itertools.product(MODES, repeat=3)))
async def test_no_seller_has_both_the_credits_and_the_money(
    modes: tuple[Mode, ...], find: bool
) -> None:
    """Each way in which three calls may end, with two attempts: one or the other, never both."""
    rig = Rig({"max_payout_attempts": 2, "max_payout_age": 1_000_000.0})
    rig.provider = FakeProvider(find=find)
    rig.provider.reports(ProviderStatus.SETTLED)
    rig.ports = Ports(provider=rig.provider)
    payout = await rig.due_payout("10.00")
    rig.provider.script(*modes)
    await passes(rig, 6)
    state = (await rig.row("payout", payout)).state
    assert state == ("SUBMITTED" if rig.provider.accepted else "FAILED")
    assert await rig.balance(EARNED) == ("0.00" if rig.provider.accepted else "10.00")
    await rig.app.close()

"""The treasury and the fee sweep. §16.52-§16.59, §17.1.

Par is 0.01 here, as in the spec's tests of these, unless a test says otherwise.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from offpath.economy import (
    Actor,
    Adjust,
    Commingling,
    Committed,
    Duplicate,
    InvalidAmount,
    Rates,
    check_treasury,
    credits,
    rate,
    settle_due_payouts,
    sweep_fees_due,
    usd,
)
from offpath.economy.ledger.shortfalls import Explained
from offpath.economy.sweeps.summaries import Breach, Coded, FeesSummary, TreasurySummary
from offpath.errors import StoreUnavailable
from offpath.model.ledger.faults import LedgerError
from tests.unit.sweeps.economy.rig import Rig

PAR = Rates(buy=rate("buy", 1, 2), par=rate("par", 1, 2), payout=rate("payout", 5, 3))
REVENUE, CASH = "platform:revenue", "platform:trust_cash"


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig(rates=PAR)
    yield made
    await made.app.close()


async def given(rig: Rig, account: str, amount: str) -> None:
    """Put credits there out of nothing, which no cash backs."""
    await rig.done(
        Adjust(
            key=rig.key(),
            actor=Actor.operator("test"),
            account=account,
            amount=credits(amount),
            reason="test",
        )
    )


async def standing(rig: Rig, *, cash: str, revenue: str, user: str | None = None) -> None:
    """Cash beyond what a user's credits need, and revenue of the platform."""
    if user is not None:
        await rig.top_up("fan", user)
    extra = usd(cash).minor - round(usd(await rig.balance(CASH)).minor)
    if extra > 0:
        # Credits that were bought and then taken away leave their cash behind.
        await rig.top_up("gone", f"{extra}.00")
        await given(rig, "gone:spendable", f"-{extra}.00")
    await given(rig, REVENUE, revenue)


# -- the treasury ----------------------------------------------------------------------------------


async def test_what_is_backed_is_found_so(rig: Rig) -> None:
    """§16.52."""
    await rig.top_up("fan", "100.00")
    summary = await check_treasury(rig)
    assert summary.position is not None
    assert (summary.position.held, summary.position.obligations) == (100, 100)
    assert summary.breaches == ()


async def test_what_is_not_backed_is_a_finding(rig: Rig) -> None:
    """§16.52: nothing is posted."""
    await given(rig, "fan:spendable", "75.00")
    posted = len(await rig.postings())
    result = (await rig.sweep("treasury"))["treasury"]
    assert result.ok
    assert isinstance(result.summary, TreasurySummary)
    by_hand = Explained(debts=0, receivable=0, given_away=0, by_hand=7_500, unexplained=0)
    assert result.summary.breaches == (Breach(usd("0.75"), usd("0.75"), usd(0), by_hand),)
    assert len(await rig.postings()) == posted
    metrics = rig.app.metrics
    told = metrics.get("offpath_economy_treasury_minor", what="shortfall")
    count = metrics.get("offpath_economy_breaches_total")
    assert told is not None
    assert count is not None
    assert (told.value, count.value) == (75, 1)


@pytest.mark.parametrize("again", [True, False])
async def test_what_cannot_be_read_is_told_by_whether_it_may_go_away(rig: Rig, again: bool) -> None:
    """§16.53."""
    fault = StoreUnavailable("cut") if again else LedgerError("broken")
    rig.store.fail("ledger_totals", error=fault)
    coded = (Coded("treasury", "STORE.FAILURE" if again else "LEDGER.FAILURE"),)
    summary = await check_treasury(rig)
    assert summary == TreasurySummary(
        retrying=coded if again else (), failed=() if again else coded
    )


# -- the fee sweep ---------------------------------------------------------------------------------


async def test_revenue_is_taken_as_far_as_cash_covers_it(rig: Rig) -> None:
    """§16.54."""
    await standing(rig, user="100.00", cash="1.30", revenue="30.00")
    outcome = await rig.sweep_fees("june", credits("30.00"))
    assert isinstance(outcome, Committed)
    assert await rig.balance(REVENUE) == "0.00"
    assert await rig.balance(CASH) == "1.00"
    assert await rig.balance("fan:spendable") == "100.00"


async def test_more_than_that_is_commingling(rig: Rig) -> None:
    """§16.55."""
    await standing(rig, user="100.00", cash="1.30", revenue="50.00")
    posted = len(await rig.postings())
    with pytest.raises(Commingling):
        await rig.sweep_fees("june", credits("31.00"))
    assert len(await rig.postings()) == posted


async def test_revenue_that_is_too_young_is_commingling(rig: Rig) -> None:
    """§16.56."""
    rig.change(maturity_default=1.0)
    await standing(rig, cash="1.30", revenue="50.00")
    with pytest.raises(Commingling):
        await rig.sweep_fees("june", credits("1.00"))
    assert (await sweep_fees_due(rig)).skipped
    rig.later(1)
    assert (await sweep_fees_due(rig)).swept == credits("50.00")


async def test_a_key_sweeps_once(rig: Rig) -> None:
    """§16.57."""
    await standing(rig, cash="1.00", revenue="30.00")
    first = await rig.sweep_fees("2026-06", credits("10.00"))
    second = await rig.sweep_fees("2026-06", credits("10.00"))
    assert isinstance(first, Committed)
    assert isinstance(second, Duplicate)
    assert await rig.balance(REVENUE) == "20.00"
    assert (await rig.topics()).count("economy.fees.swept") == 1


async def test_nothing_is_no_amount(rig: Rig) -> None:
    """§16.58."""
    with pytest.raises(InvalidAmount):
        await rig.sweep_fees("june", credits(0))


@pytest.mark.parametrize(
    ("revenue", "cash", "taken"), [("30.00", "1.30", "30.00"), ("20.00", "1.30", "20.00")]
)
async def test_the_sweep_takes_all_that_it_may(
    rig: Rig, revenue: str, cash: str, taken: str
) -> None:
    """§16.59."""
    await standing(rig, user="100.00", cash=cash, revenue=revenue)
    run = await rig.sweep("fee_sweep")
    assert run["fee_sweep"].summary == FeesSummary(swept=credits(taken), skipped=False)
    assert len(run.postings) == 2
    second = (await rig.sweep("fee_sweep"))["fee_sweep"].summary
    assert isinstance(second, FeesSummary)
    assert (second.swept, second.skipped) == (credits(0), True)


async def test_the_sweep_takes_nothing_when_there_is_no_surplus(rig: Rig) -> None:
    """§16.59: and tells nobody of it."""
    await standing(rig, user="100.00", cash="1.00", revenue="30.00")
    topics = await rig.topics()
    assert await sweep_fees_due(rig) == FeesSummary()
    assert await rig.topics() == topics


async def test_what_sellers_have_earned_is_never_taken() -> None:
    """§17.1: the run that took a seller's money in the original, to the cent."""
    rig = Rig()
    await rig.top_up("fan", "20000.00")
    for seller in ("a", "b"):
        await rig.sell("fan", "10000.00", seller)
    assert await rig.balance(CASH) == "100.00"
    first, second = [await rig.request_payout(one, "7000.00") for one in ("b", "a")]
    del second
    rig.later(31)
    await settle_due_payouts(rig)
    assert isinstance(await rig.settle(first), Committed)
    assert await rig.balance(CASH) == "65.00"
    assert await rig.balance(REVENUE) == "6000.00"  # a settled reserve retires
    await sweep_fees_due(rig)
    treasury = await check_treasury(rig)
    assert treasury.breaches == ()
    assert await rig.balance(CASH) == "35.00"  # what the open payout of the other seller needs
    assert await rig.balance(REVENUE) == "0.00"
    await rig.app.close()


async def test_a_sellers_credits_count_before_a_payout_is_asked_for() -> None:
    """§17.1."""
    rig = Rig()
    await rig.top_up("fan", "10000.00")
    await rig.sell("fan", "10000.00", "a")
    swept = await sweep_fees_due(rig)
    assert swept.swept == credits("3000.00")
    assert await rig.balance(CASH) == "35.00"
    assert (await check_treasury(rig)).breaches == ()
    assert (await sweep_fees_due(rig, now=rig.now.replace(year=2027))).skipped
    await rig.app.close()

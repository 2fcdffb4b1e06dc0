"""A worker whose clock is wrong: it charges nobody early, and gives no payout up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from offpath.economy.passes import renew_subscriptions, settle_due_payouts
from offpath.economy.sweeps.runs import SweepInput
from offpath.runtime.clock import ManualClock
from tests.unit.sweeps.economy.rig import Rig

Pass = Callable[[Rig, str], Awaitable[Any]]


async def alone(rig: Rig, name: str) -> Any:
    return await {"payouts": settle_due_payouts, "subscriptions": renew_subscriptions}[name](rig)


async def all_of_them(rig: Rig, _name: str) -> Any:
    return await rig.run_sweeps(SweepInput())


async def by_the_app(rig: Rig, name: str) -> Any:
    return await rig.sweeps[name].run(None, rig.app.clock.now(), 100)  # type: ignore[arg-type]


def ahead(rig: Rig) -> Rig:
    """A worker on the same store, four days ahead of it."""
    other = Rig(store=rig.store._wrapped, clock=ManualClock(rig.now + timedelta(days=4)))
    other.change(max_payout_age=200_000.0)
    return other


@pytest.mark.parametrize("sweep", [alone, all_of_them, by_the_app])
async def test_no_payout_is_given_up_before_its_time(rig: Rig, sweep: Pass) -> None:
    payout = await rig.taken_payout()
    other = ahead(rig)
    await sweep(other, "payouts")
    assert (await rig.row("payout", payout)).state == "SUBMITTED"
    await other.app.close()


@pytest.mark.parametrize("sweep", [alone, all_of_them, by_the_app])
async def test_no_period_is_charged_before_its_time(rig: Rig, sweep: Pass) -> None:
    await rig.top_up("fan", "9.00")
    subscription = await rig.subscribe("fan", "1.00")
    other = ahead(rig)
    await sweep(other, "subscriptions")
    row = await rig.row("subscription", subscription)
    assert '"number":1' in row.body
    await other.app.close()

"""Many processes use one economy while they are killed and cut off: the money is right afterwards.

Issue 6's campaign: ``OFFPATH_TEST_CAMPAIGN=1 pytest tests/integration/test_economy_campaign.py`` is
the full one, 8 processes for 60 seconds; else fewer of them do a few seconds of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from offpath import App
from offpath.economy import (
    Actor,
    Committed,
    Money,
    Receipt,
    Request,
    RequestPayout,
    Share,
    Spend,
    TopUp,
)
from offpath.economy.ledger.operations.families import FAMILIES
from offpath.economy.ledger.operations.steps_payouts import payout_dead_lettered
from offpath.model.ledger.decision import raised_by
from offpath.model.ledger.money import Currency
from offpath.runtime.clock import ManualClock
from offpath.store.memory.store import MemoryStore
from tests.integration.economy_campaign import Campaign, Fleet, storm
from tests.integration.economy_member import BANK, Ids, economy_of
from tests.integration.economy_replay import Made, Replay
from tests.integration.polling import window
from tests.integration.proxy import Proxy
from tests.integration.scale import CAMPAIGN, scaled

SECONDS = scaled(4, 60)
ENOUGH = 1_500
"""Postings of a storm in which each kind of operation, and each answer of the provider, comes. A
busy machine makes fewer."""
SWEEPS_THAT_POST = {"payouts", "subscriptions", "fee_sweep", "promos"}
MakeFleet = Callable[..., Fleet]


@pytest.fixture
def make_members(tmp_path: Path) -> Iterator[MakeFleet]:
    """Starts processes, all of which are gone after the test."""
    made: list[Fleet] = []

    def make(url: str, members: int, sweepers: int) -> Fleet:
        made.append(Fleet(url, tmp_path, members, sweepers))
        return made[-1]

    yield make
    for fleet in made:
        fleet.destroy()


async def _audited(url: str, folder: Path, fleet: Fleet) -> None:
    campaign = Campaign(url, folder, len(fleet.members))
    began = time.monotonic()
    try:
        await campaign.settled()
        await campaign.books()
        told = campaign.promises()
        states = await campaign.payments()
        events = await campaign.delivered()
        replay = await campaign.replayed()
        print(
            f"{len(campaign.postings)} postings; {dict(campaign.kinds())}; sweeps "
            f"{dict(replay.steps)}; {len(campaign.checkpoints)} checkpoints; {fleet.killed} "
            f"killed, {fleet.died} died; payouts {dict(states)}; {events} events; told "
            f"{dict(told)}; audit {time.monotonic() - began:.1f} s"
        )
        assert fleet.killed
        assert states["SETTLED"]
        if CAMPAIGN:
            assert states["FAILED"]
        if CAMPAIGN and len(campaign.postings) >= ENOUGH:
            assert states["asked again"]
            assert len(campaign.kinds()) == len(FAMILIES)
            assert len(replay.steps) == len(SWEEPS_THAT_POST)
    finally:
        await campaign.app.close()


@pytest.mark.timeout(600)
async def test_processes_that_are_killed_and_cut_off_leave_the_books_of_a_serial_replay(
    pg_url: str,
    proxy_before: Callable[[str], tuple[Proxy, str]],
    make_members: MakeFleet,
    tmp_path: Path,
) -> None:
    proxy, url = proxy_before(pg_url)
    fleet = make_members(url, scaled(4, 8), scaled(2, 3))

    async def cut() -> None:
        await asyncio.to_thread(proxy.cut)

    async def lose_an_answer() -> None:
        proxy.lose_commit(b"ledger")

    async def outage() -> None:
        await asyncio.to_thread(proxy.refuse)
        await window(0.2)
        proxy.heal()

    trouble = [cut, lose_an_answer, outage]
    await storm(fleet, SECONDS, every=scaled(8, 10) / 10, trouble=trouble)
    proxy.heal()
    await fleet.stop()
    assert proxy.lost_answers or not CAMPAIGN
    await _audited(pg_url, tmp_path, fleet)


@pytest.mark.timeout(600)
async def test_processes_on_one_file_that_are_killed_leave_the_books_of_a_serial_replay(
    make_members: MakeFleet, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'work.db'}"
    fleet = make_members(url, scaled(2, 4), 2)
    await storm(fleet, SECONDS, every=1.2, trouble=[])
    await fleet.stop()
    await _audited(url, tmp_path, fleet)


async def test_a_replay_gives_a_payout_back_by_the_time_of_its_sweep() -> None:
    """The sweep is an hour ahead: what waits by the posting's time is mature by the sweep's."""
    clock = ManualClock()
    store = MemoryStore(clock)
    economy = economy_of(App(store=store, clock=clock, auto_start=False), None, Ids("m0.0"))
    made: list[Made] = []

    async def done(request: Request) -> Receipt:
        outcome = await economy.submit(request)
        assert isinstance(outcome, Committed), outcome
        made.append(Made(request, outcome.receipt))
        return outcome.receipt

    await economy.app.open()
    await done(TopUp(key="t", actor=BANK, user="u", amount=_credits(900), source="crypto"))
    await done(_sale("old"))
    clock.advance(1)
    payout = await done(
        RequestPayout(key="p", actor=Actor.user("s"), user="s", amount=_credits(90))
    )
    await done(_sale("young"))
    (row,) = await store.ledger_sides("payout", ids=(str(payout.facts["payout_id"]),))
    later = round(clock.now().timestamp() * 1_000) + 3_600_000
    event = f"m0.0@{later}-1"
    op = payout_dead_lettered(row, "given up", economy.rules, lambda: event, now=later)
    returned = raised_by(await economy.run_op(op))
    replay = Replay(made, (), {str(returned.id): event})
    await replay.run(await store.ledger_postings(limit=100))
    assert replay.steps == {"payouts.dead_letter": 1}


def _credits(amount: int) -> Money:
    return Money(Currency.CREDIT, amount * 100)


def _sale(order: str) -> Spend:
    return Spend(
        key=order,
        actor=Actor.user("u"),
        buyer="u",
        order_id=order,
        sku="hat",
        price=_credits(200),
        recipients=(Share("s", 10_000),),
    )

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

from offpath.ledger.operations.families import FAMILIES
from tests.integration.economy_campaign import Campaign, Fleet, storm
from tests.integration.polling import window
from tests.integration.proxy import Proxy
from tests.integration.scale import CAMPAIGN, scaled

SECONDS = scaled(4, 60)
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

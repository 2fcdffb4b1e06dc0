"""Workers prove old postings again, a slice at a time, each once in the fleet."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from offpath.economy import verify_checkpoint
from offpath.economy.ledger.mismatches import mismatch
from offpath.economy.sweeps.reproof import BACK, SLICES
from tests.unit.sweeps.economy.rig import Rig

HOUR = 3_600.0
CYCLE = SLICES * HOUR


@pytest.fixture
async def old() -> Rig:
    """An economy with two weeks behind it, at the begin of a cycle."""
    rig = Rig({"prove_cycle": CYCLE})
    for name in ("ann", "bob", "cyd"):
        await rig.top_up(name, "10.00")
        rig.clock.advance(4 * 24 * HOUR)
    rig.clock.advance(CYCLE - rig.now.timestamp() % CYCLE)
    return rig


async def numbers(rig: Rig, passes: int) -> list[str | None]:
    return [(await verify_checkpoint(rig)).reproved for _ in range(passes)]


async def test_each_hour_has_its_slice_and_proves_it_once(old: Rig) -> None:
    assert await numbers(old, 2) == ["1/168", None]
    old.clock.advance(HOUR)
    assert await numbers(old, 2) == ["2/168", None]
    other = Rig({"prove_cycle": CYCLE}, store=old.store, clock=old.clock)
    assert await numbers(other, 1) == [None], "another worker of the fleet"


async def test_slices_of_a_standstill_are_made_up_for_the_oldest_first(old: Rig) -> None:
    assert await numbers(old, 1) == ["1/168"]
    old.clock.advance(3 * HOUR)
    assert await numbers(old, 4) == ["2/168", "3/168", "4/168", None]
    old.clock.advance(100 * HOUR)
    done = await numbers(old, BACK + 1)
    assert (done[0], done[-2:]) == ("81/168", ["104/168", None])


async def test_a_whole_cycle_proves_what_was_altered_long_ago(old: Rig) -> None:
    posting = old.ledger.postings[old.ledger.links["bob:spendable"][0].posting]
    links = tuple(
        replace(one, hash="0" * 64) if one.account == "bob:spendable" else one
        for one in posting.links
    )
    old.ledger.order[posting.seq - 1] = replace(posting, links=links)
    found = []
    for _ in range(SLICES):
        summary = await verify_checkpoint(old)
        if summary.mismatch:
            found.append(summary.problems)
        old.clock.advance(HOUR)
    assert any("bob:spendable" in problem for problems in found for problem in problems)
    stands = await mismatch(old.store)
    assert stands is not None
    assert stands.hinders


async def test_a_slice_that_failed_is_tried_again(old: Rig) -> None:
    old.store.fail("ledger_snapshot", times=1)
    first = await verify_checkpoint(old)
    assert (first.reproved, bool(first.retrying or first.dead_lettered)) == (None, True)
    assert await numbers(old, 1) == ["1/168"]


async def test_without_the_setting_nothing_is_proved_again() -> None:
    rig = Rig()
    await rig.top_up("ann", "10.00")
    assert await numbers(rig, 2) == [None, None]

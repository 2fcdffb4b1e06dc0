"""Proving old postings again, slice by slice, on every store."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from offpath.economy.ledger.recent_proof import prove_since
from offpath.economy.ledger.rolling_proof import ProofTurn, RollingProof, prove_turn, turn_at
from offpath.errors import InvalidArgument
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.builders import START
from tests.conformance.ledger_builders import ANN, BOB, done, plain
from tests.conformance.ledger_tamper import Tamper, tamper

pytestmark = pytest.mark.needs("ledger")

HOUR = timedelta(hours=1)


@pytest.fixture
async def hand(store: Store, backend: Backend, clock: ManualClock) -> Tamper:
    """A ledger of twelve hours with a posting in each, to two users in turn."""
    for number in range(12):
        await done(store, plain(100 + number, ANN if number % 2 else BOB))
        clock.advance(3_600)
    return tamper(store, backend)


def turns(of: int) -> list[ProofTurn]:
    """All slices of a cycle that began at the ledger's twelfth hour."""
    return [ProofTurn(number=n, of=of, begun=START + 12 * HOUR) for n in range(1, of + 1)]


async def cycle(store: Store, of: int) -> list[RollingProof]:
    return [await prove_turn(store, turn) for turn in turns(of)]


@pytest.mark.parametrize("of", [1, 4, 5, 30])
async def test_a_cycle_proves_each_old_posting_once(store: Store, hand: Tamper, of: int) -> None:
    done = await cycle(store, of)
    assert all(one.holds for one in done)
    assert sum(one.proof.postings for one in done if one.proof) == 12
    assert hand is not None


async def test_what_was_altered_is_found_by_its_slice_and_by_the_one_that_leads_to_it(
    store: Store, hand: Tamper
) -> None:
    links = [link for link, _ in await hand.links(ANN)]
    hand.change_links(ANN, [replace(links[1], amount=-1)])
    found = [one.number for one in await cycle(store, 4) if not one.holds]
    assert found == [1, 2], "the posting of the fourth hour"


async def test_a_link_between_two_slices_is_proved_by_the_first(store: Store, hand: Tamper) -> None:
    links = [link for link, _ in await hand.links(BOB)]
    hand.change_links(BOB, [replace(links[3], prev="0" * 64)])
    proof = await prove_since(store, START, START + 6 * HOUR)
    assert [one.account for one in proof.breaks] == [BOB]
    assert (await prove_since(store, START, START + 4 * HOUR)).holds, "not yet"


async def test_what_was_posted_since_the_cycle_began_waits_for_the_next(
    store: Store, hand: Tamper
) -> None:
    early = ProofTurn(number=1, of=1, begun=START + 5 * HOUR)
    proof = (await prove_turn(store, early)).proof
    assert proof is not None
    assert (proof.postings, proof.until) == (5, START + 5 * HOUR)
    before = await prove_turn(store, ProofTurn(number=1, of=2, begun=START - HOUR))
    assert (before.holds, before.proof) == (True, None)
    assert hand is not None


async def test_an_empty_ledger_holds(store: Store) -> None:
    assert (await prove_turn(store, turns(1)[0])).holds


def test_the_time_alone_says_whose_turn_it_is() -> None:
    found = [turn_at(START + n * HOUR, 7 * 24 * HOUR, HOUR) for n in range(7 * 24)]
    assert sorted(one.number for one in found) == list(range(1, 7 * 24 + 1))
    assert {one.of for one in found} == {168}
    last = turn_at(START, HOUR, timedelta(minutes=7))
    assert last.of == 9, "the last slice is shorter"


@pytest.mark.parametrize(("cycle", "every"), [(1, 2), (1, 0), (1e9, 1e-3)])
def test_a_cycle_that_cannot_be_is_refused(cycle: float, every: float) -> None:
    with pytest.raises(InvalidArgument):
        turn_at(START, cycle, every)

"""Proving what was posted since a time, on every store."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from offpath.economy.ledger.recent_proof import prove_since
from offpath.errors import InvalidArgument
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.builders import START
from tests.conformance.ledger_builders import ANN, BOB, STORED_VALUE, done, plain
from tests.conformance.ledger_tamper import Tamper, tamper

pytestmark = pytest.mark.needs("ledger")

HOUR = timedelta(hours=1)


@pytest.fixture
async def hand(store: Store, backend: Backend, clock: ManualClock) -> Tamper:
    """A ledger of five hours with a posting in each, to two users in turn."""
    for number in range(6):
        await done(store, plain(100 + number, ANN if number % 2 else BOB))
        clock.advance(3_600)
    return tamper(store, backend)


@pytest.mark.parametrize(
    ("hours", "postings", "accounts"), [(0, 6, 3), (3, 3, 3), (5, 1, 2), (9, 0, 0)]
)
async def test_only_what_came_since_is_proved(
    store: Store, hand: Tamper, hours: int, postings: int, accounts: int
) -> None:
    proof = await prove_since(store, START + hours * HOUR)
    assert (proof.holds, proof.postings, proof.accounts) == (True, postings, accounts)
    assert hand is not None


async def test_an_empty_ledger_holds(store: Store) -> None:
    proof = await prove_since(store, START)
    assert (proof.holds, proof.postings) == (True, 0)


async def test_a_link_that_was_altered_since_is_found_and_an_older_one_is_believed(
    store: Store, hand: Tamper
) -> None:
    links = [link for link, _ in await hand.links(ANN)]
    hand.change_links(ANN, [replace(links[1], amount=-1)])
    assert not (await prove_since(store, START + 3 * HOUR)).holds
    assert (await prove_since(store, START + 5 * HOUR)).holds


async def test_a_row_that_is_not_where_its_links_end_is_found(store: Store, hand: Tamper) -> None:
    hand.change_account(BOB, balance=1)
    (found,) = (await prove_since(store, START + 3 * HOUR)).breaks
    assert (found.account, found.reason) == (BOB, "wrong-balance")
    assert (await prove_since(store, START + 5 * HOUR)).holds, "it did not move since"


@pytest.mark.parametrize("backend_name", ["sqlite"])  # elsewhere there cannot be such a row
async def test_an_account_that_no_chart_knows_is_found_and_the_others_are_proved(
    store: Store, hand: Tamper
) -> None:
    hand.rename(BOB, "bob:wallet")
    proof = await prove_since(store, START + 3 * HOUR)
    assert ("bob:wallet", "unknown-account") in {(one.account, one.reason) for one in proof.breaks}
    assert (proof.postings, proof.accounts, len(proof.wrong)) == (3, 3, 1)


async def test_a_chain_that_was_cut_is_found(store: Store, hand: Tamper) -> None:
    await hand.cut(STORED_VALUE, 1)
    assert not (await prove_since(store, START + 3 * HOUR)).holds


async def test_a_time_without_a_zone_is_refused(store: Store) -> None:
    with pytest.raises(InvalidArgument, match="since"):
        await prove_since(store, START.replace(tzinfo=None))

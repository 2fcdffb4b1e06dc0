"""A mismatch that was found stands until somebody accepts it, whatever is hidden meanwhile: D2."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from offpath.economy import (
    check_treasury,
    seal_checkpoint,
    settle_due_payouts,
    sweep_fees_due,
    verify_checkpoint,
)
from offpath.economy.ledger.merkle import root_of
from offpath.economy.ledger.mismatches import BREACH, MISMATCH, UNPAID, note
from offpath.economy.ledger.signatures import signed_bytes
from offpath.economy.ledger.verification import HISTORY, LEAVES, verify_last
from offpath.economy.testing import FakeProvider, TestSigner
from offpath.model.finding import FindingRecord
from offpath.model.ledger.faults import ChainBroken, Unbalanced
from offpath.model.ledger.records import Checkpoint
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.ledger_attacks import SIGNER, attackable, sealed
from tests.conformance.ledger_builders import ANN, BOB, NOW, STORED_VALUE, done, leaves, plain
from tests.conformance.ledger_tamper import Tamper, tamper
from tests.unit.economy.marketplace import START, Marketplace, committed


@pytest.fixture
async def market(store: Store, clock: ManualClock) -> AsyncIterator[Marketplace]:
    clock.set(START)
    made = Marketplace(store=store, clock=clock, signer=TestSigner(), provider=FakeProvider())
    yield made
    await made.app.close()


@pytest.fixture
def hand(store: Store, backend: Backend) -> Tamper:
    return tamper(store, backend)


async def _standing(store: Store, name: str = MISMATCH) -> FindingRecord:
    (found,) = [one for one in await store.findings() if one.name == name]
    return found


async def test_what_was_found_stands_when_it_was_hidden_again(
    market: Marketplace, store: Store, hand: Tamper, clock: ManualClock
) -> None:
    payout = await market.payout("sel", 70)
    assert (await seal_checkpoint(market.economy)).sealed
    honest = (await store.ledger_leaves(ids=["sel:earned"]))[0]
    hand.change_leaf("sel:earned", head="ab" * 32)
    assert (await verify_checkpoint(market.economy)).mismatch
    found = await _standing(store)
    hand.change_leaf("sel:earned", head=honest.head)
    clock.advance(600)
    assert not (await verify_checkpoint(market.economy)).mismatch

    assert (await _standing(store)).since == found.since
    committed(await market.top_up("ann", "1.00"))
    assert not (await seal_checkpoint(market.economy)).sealed
    held = await settle_due_payouts(market.economy)
    assert (held.submitted, [one.id for one in held.retrying]) == ((), [payout])
    assert (await sweep_fees_due(market.economy)).skipped
    with pytest.raises(ChainBroken, match=found.id):
        await market.economy.sweep_fees("k")

    await store.accept_finding(found.id, "a leaf, restored")
    assert (await seal_checkpoint(market.economy)).sealed
    assert await store.findings() == []
    clock.advance(600)
    assert (await settle_due_payouts(market.economy)).submitted == (payout,)
    assert (await sweep_fees_due(market.economy)).swept is not None
    assert not (await verify_last(store, SIGNER, full=True)).mismatch


async def test_a_history_rewritten_with_its_leaves_gone_is_not_sealed_over(
    market: Marketplace, store: Store, hand: Tamper
) -> None:
    """Every amount a thousandfold, all hashes made to fit, and nothing left to compare with."""
    await done(store, plain(100, id="p1"), plain(5, BOB, id="p2"), plain(20, id="p3"))
    assert (await seal_checkpoint(market.economy)).sealed
    await hand.rewrite(ANN, 1, -100_000)
    await hand.rewrite(STORED_VALUE, 1, 100_000)
    hand.remove_leaves()
    verified = await verify_checkpoint(market.economy)
    assert {LEAVES, HISTORY} <= set(verified.problems)
    committed(await market.top_up("ann", "1.00"))
    for _ in range(3):
        assert not (await seal_checkpoint(market.economy)).sealed
        await verify_checkpoint(market.economy)
    assert HISTORY in (await _standing(store)).text.split("\n")


async def test_a_seal_that_is_refused_is_a_finding_by_itself(
    market: Marketplace, store: Store, hand: Tamper
) -> None:
    """No verification has looked in between."""
    committed(await market.top_up("ann", "1.00"))
    assert (await seal_checkpoint(market.economy)).sealed
    hand.change_leaf("ann:spendable", sum=-7)
    assert (await seal_checkpoint(market.economy)).dead_lettered
    assert LEAVES in (await _standing(store)).text.split("\n")


async def test_what_was_accepted_covers_nothing_else(store: Store, backend: Backend) -> None:
    hand = await attackable(store, backend)
    hand.change_leaf(BOB, sum=7)
    first = await note(store, (await verify_last(store, SIGNER)).lines, "f1")
    await store.accept_finding(first.id, "known")
    again = await note(store, (await verify_last(store, SIGNER)).lines, "f2")
    assert (again.id, again.hinders) == (first.id, False)
    hand.change_leaf(ANN, sum=7)
    other = await note(store, (await verify_last(store, SIGNER)).lines, "f3")
    assert (other.id, other.hinders) == ("f3", True)


async def test_books_that_do_not_balance_are_not_sealed_though_accepted(
    store: Store, backend: Backend
) -> None:
    hand = await attackable(store, backend)
    hand.remove_account(BOB)
    hand.remove_links(BOB)
    found = await note(store, (await verify_last(store, SIGNER)).lines, "f1")
    await store.accept_finding(found.id, "given up")
    with pytest.raises(Unbalanced):  # its other sides are still there
        await sealed(store, "c2")
    assert await store.findings() != []


async def test_a_full_verification_walks_all_checkpoints(store: Store, backend: Backend) -> None:
    hand = await attackable(store, backend)
    for name in ("c2", "c3"):
        await done(store, plain(10))
        await sealed(store, name)
    assert not (await verify_last(store, SIGNER, full=True)).mismatch
    (old,) = [one for one in await store.ledger_checkpoints() if one.id == "c2"]
    hand.change_checkpoint("c2", root="ab" * 32)
    assert not (await verify_last(store, SIGNER)).mismatch
    assert (await verify_last(store, SIGNER, full=True)).problems == ("c2: signature",)
    forged = replace(old, root="ab" * 32, signature="")
    hand.change_checkpoint("c2", signature=SIGNER.sign(signed_bytes(forged)))
    assert (await verify_last(store, SIGNER, full=True)).problems == ("c2: history",)
    hand.remove_checkpoints("c1", "c3")
    assert (await verify_last(store, SIGNER, full=True)).problems == ("c3: order",)


async def test_a_checkpoint_of_an_earlier_version_is_verified_and_followed(store: Store) -> None:
    await done(store, plain(100), plain(5, BOB))
    sides = leaves(await store.ledger_accounts())
    root = root_of(sides, 3)
    old = Checkpoint(
        id="old",
        root=root.hash,
        signature="",
        count=root.count,
        at=NOW,
        v=3,
        sum=root.sum,
        kid="test",
    )
    signed = replace(old, signature=SIGNER.sign(signed_bytes(old)))
    assert await store.save_checkpoint(signed, sides)
    await done(store, plain(-40))
    assert not (await verify_last(store, SIGNER, full=True)).mismatch
    made = await sealed(store, "c1")
    assert (made.v, made.prev, made.posting) == (4, "old", await store.ledger_last())
    assert not (await verify_last(store, SIGNER, full=True)).mismatch


async def test_a_breach_is_a_finding_until_it_is_over(store: Store, clock: ManualClock) -> None:
    clock.set(START)
    market = Marketplace(store=store, clock=clock)
    await done(store, plain(800))
    assert (await check_treasury(market.economy)).breaches
    found = await _standing(store, BREACH)
    assert "USD:0.04 is missing" in found.text
    clock.advance(60)
    await check_treasury(market.economy)
    assert (await _standing(store, BREACH)).since == found.since
    await done(store, plain(4, "platform:usd_clearing", given="platform:trust_cash"))
    assert not (await check_treasury(market.economy)).breaches
    assert await store.findings() == []
    await market.app.close()


async def test_payouts_that_nobody_takes_anywhere_are_a_finding(
    store: Store, clock: ManualClock
) -> None:
    clock.set(START)
    market = Marketplace(store=store, clock=clock)
    payout = await market.payout("sel", 70)
    await check_treasury(market.economy)
    assert await store.findings() == []
    clock.advance(3_600)
    await check_treasury(market.economy)
    assert "1 payouts of USD:0.35 are due" in (await _standing(store, UNPAID)).text
    await market.submitted(payout)
    committed(await market.settle(payout))
    await check_treasury(market.economy)
    assert await store.findings() == []
    await market.app.close()

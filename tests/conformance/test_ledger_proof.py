"""The prover's words on books that do not hold, and a file of them. §16.115, cases M3 and M4."""

from __future__ import annotations

import pytest

from offpath.economy.ledger.checkpoint import seal
from offpath.economy.ledger.export import Exported, export, verify_lines
from offpath.economy.ledger.proof import Drift, prove
from offpath.economy.testing import TestSigner
from offpath.model.ledger.faults import MalformedOperation
from offpath.model.ledger.rates import Rates
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.ledger_attacks import ATTACKS, BESIDE, SIGNER, attackable
from tests.conformance.ledger_builders import (
    ANN,
    NOW,
    TRUST_CASH,
    USD_CLEARING,
    done,
    plain,
)
from tests.conformance.ledger_tamper import Tamper, tamper

pytestmark = pytest.mark.needs("ledger")


@pytest.fixture
async def hand(store: Store, backend: Backend) -> Tamper:
    """A hand in the rows of a ledger that was sealed and went on."""
    return await attackable(store, backend)


async def exported(store: Store) -> Exported:
    return verify_lines([line async for line in export(store)], SIGNER)


async def test_credits_without_cash_are_not_backed(store: Store) -> None:
    """§16.115: 8.00 credits at par are owed, and the books balance."""
    await done(store, plain(800))
    proof = await prove(store, Rates())
    assert (proof.shortfall, proof.backed, proof.holds) == (4, False, False)
    assert (proof.conserved, proof.chain_intact, proof.consistent) == (True, True, True)
    await done(store, plain(4, USD_CLEARING, given=TRUST_CASH))
    assert (await prove(store, Rates())).holds


@pytest.mark.parametrize("full", [True, False])
async def test_a_cached_balance_that_drifted(store: Store, backend: Backend, full: bool) -> None:
    """§16.115. Who only looks at the accounts cannot see it."""
    await done(store, plain(800))
    tamper(store, backend).change_account(ANN, balance=900)
    proof = await prove(store, Rates(), full=full)
    assert (proof.consistent, proof.conserved, proof.chain_intact) == (not full, True, True)
    assert proof.drift == ((Drift(account=ANN, cached=900, summed=800),) if full else ())


async def test_a_row_that_no_posting_made(store: Store, backend: Backend) -> None:
    """§16.115."""
    await done(store, plain(800))
    tamper(store, backend).add_account("eve:promo", 5, 1)
    proof = await prove(store, Rates())
    assert proof.drift == (Drift(account="eve:promo", cached=5, summed=0),)
    assert (proof.consistent, proof.conserved) == (False, True)


async def test_a_line_that_was_altered(store: Store, backend: Backend) -> None:
    """§16.115: the books balance, the chain does not hold."""
    await done(store, plain(800, id="p1"), plain(5))
    tamper(store, backend).change_meta("p1", '{"kind":"gift"}')
    proof = await prove(store, Rates())
    assert (proof.chain_intact, proof.conserved, proof.consistent) == (False, True, True)
    assert proof.broken is not None
    assert (proof.broken.account, proof.broken.posting) == (ANN, "p1")


async def test_a_wallet_below_zero(store: Store, backend: Backend) -> None:
    await done(store, plain(800))
    if backend.name == "memory":
        tamper(store, backend).change_account(ANN, balance=-1)
        assert (await prove(store, Rates())).overdrawn == (ANN,)
        return
    with pytest.raises(backend.refusal):  # by a constraint
        tamper(store, backend).change_account(ANN, balance=-1)


async def test_a_file_of_the_ledger_holds_as_it_does(store: Store, hand: Tamper) -> None:
    found = await exported(store)
    assert (found.holds, found.accounts, found.links) == (True, 6, 22)
    made = await seal(store, TestSigner(), new_id=lambda: "c2", now=lambda: NOW)
    again = await exported(store)
    assert made is not None
    assert (again.holds, again.root, again.checkpoint) == (True, made.root, made)


@pytest.mark.parametrize("name", ATTACKS)
async def test_a_file_of_what_was_altered_does_not_hold(
    store: Store, backend: Backend, hand: Tamper, name: str
) -> None:
    attack, account = ATTACKS[name]
    await attack(hand)
    found = await exported(store)
    assert not found.holds
    if account is None or (backend.name == "memory" and name in BESIDE):
        assert "unbalanced" in found.problems
    else:
        assert account in {one.account for one in found.breaks}


async def test_a_file_without_its_checkpoint_is_no_proof(store: Store, hand: Tamper) -> None:
    lines = [line async for line in export(store)]
    bare = [b'{"type":"header","format":1}', *lines[1:]]
    assert verify_lines(bare, SIGNER).problems == ("leaves", "unsigned")
    assert verify_lines(bare, None).problems == ("leaves",)
    nothing = [bare[0], b'{"type":"end","accounts":0,"links":0}']
    assert verify_lines(nothing, SIGNER).problems == ("unsigned",)
    assert verify_lines(nothing, None).holds


@pytest.mark.parametrize("line", [b'{"type":"header","format":2}', b"[" * 100_000, b"\xff"])
def test_what_is_no_such_file_is_refused(line: bytes) -> None:
    with pytest.raises(MalformedOperation, match="line 1"):
        verify_lines([line], SIGNER)


async def test_an_account_is_in_a_file_once(store: Store, hand: Tamper) -> None:
    """A second chain of its own would hold as well as the first."""
    lines = [line async for line in export(store)]
    place = next(at for at, line in enumerate(lines) if b'"id":"cas:earned"' in line)
    twice = [*lines[: place + 2], *lines[place : place + 2], *lines[place + 2 : -1]]
    end = lines[-1].replace(b'"accounts":6,"links":22', b'"accounts":7,"links":23')
    found = verify_lines([*twice, end], SIGNER)
    assert end != lines[-1]
    assert "accounts" in found.problems
    assert found.breaks == ()

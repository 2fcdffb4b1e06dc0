"""A writer of a ledger's tables without its secret is found out, and not sealed over. Cases M4,
§16.64, §16.68, §16.70, §17.13.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from offpath.economy.ledger.chains import Break
from offpath.economy.ledger.checkpoint import seal
from offpath.economy.ledger.mismatches import note
from offpath.economy.ledger.proof import prove
from offpath.economy.ledger.verification import (
    HISTORY,
    LEAVES,
    ROLLED_BACK,
    SIGNATURE,
    UNBALANCED,
    verify_last,
)
from offpath.economy.testing import TestSigner
from offpath.model.ledger.faults import ChainBroken, LedgerError, Unbalanced
from offpath.model.ledger.rates import Rates
from offpath.model.ledger.records import Checkpoint
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.ledger_attacks import (
    ATTACKS,
    BEHIND_THE_SEAL,
    BESIDE,
    CAS,
    EVE,
    SIGNER,
    attackable,
    sealed,
)
from tests.conformance.ledger_builders import (
    ANN,
    BOB,
    NOW,
    TRUST_CASH,
    USD_CLEARING,
    done,
    plain,
)
from tests.conformance.ledger_tamper import SqlTamper, Tamper, tamper

pytestmark = pytest.mark.needs("ledger")


@pytest.fixture
async def hand(store: Store, backend: Backend) -> Tamper:
    """A hand in the rows of a ledger that was sealed and went on."""
    return await attackable(store, backend)


@pytest.mark.parametrize("name", ATTACKS)
async def test_what_was_altered_is_reported_and_not_sealed(
    store: Store, backend: Backend, hand: Tamper, name: str
) -> None:
    attack, account = ATTACKS[name]
    assert not (await verify_last(store, SIGNER)).mismatch
    await attack(hand)
    for full in (False, True):
        found = await verify_last(store, SIGNER, full=full)
        assert found.mismatch
        named = {one.account for one in found.breaks}
        if account is None or (backend.name == "memory" and name in BESIDE):
            # the chain is whole: only the other side of what was cut tells
            assert UNBALANCED in found.problems
        else:
            assert account in named
    if name not in BEHIND_THE_SEAL:
        with pytest.raises((ChainBroken, Unbalanced)):
            await sealed(store, "c2")
    assert [one.id for one in await store.ledger_checkpoints()] == ["c1"]


@pytest.mark.parametrize("name", sorted({*ATTACKS} - {"a sealed posting rewritten"}))
async def test_the_prover_finds_it_without_any_checkpoint(
    store: Store, hand: Tamper, name: str
) -> None:
    """§16.115. What fits together again in all places only a checkpoint tells from the truth."""
    attack, account = ATTACKS[name]
    assert (await prove(store, Rates())).chain_intact
    await attack(hand)
    proof = await prove(store, Rates())
    if name in ("two accounts exchanged", "an account renamed"):
        assert proof.chain_intact  # an account's name is not in its hashes
        return
    assert not proof.holds
    whole = proof.chain_intact and proof.consistent
    assert not (whole and proof.conserved)
    if proof.broken is not None and account is not None:
        assert proof.broken.account in (account, "bob:spendable", ANN, "platform:stored_value")


async def test_a_row_that_has_money_and_no_link_is_seen(
    store: Store, backend: Backend, hand: Tamper
) -> None:
    """§16.115: with number 0 it looks like one that was only made to be locked."""
    if backend.name == "postgres":
        with pytest.raises(backend.refusal):  # by a constraint, which no role turns off
            hand.add_account(EVE, 1_000, 0)
        return
    hand.add_account(EVE, 1_000, 0)
    assert (await verify_last(store, SIGNER)).breaks == (
        Break(account=EVE, reason="wrong-balance"),
    )
    proof = await prove(store, Rates())
    assert (proof.consistent, proof.conserved) == (False, True)
    assert proof.drift[0].account == EVE


@pytest.mark.parametrize("backend_name", ["sqlite"])  # elsewhere there cannot be such a row
async def test_an_account_that_is_none_is_a_finding(store: Store, hand: Tamper) -> None:
    hand.rename(BOB, "bob:wallet")
    found = await verify_last(store, SIGNER)
    assert {str(one).partition(" at ")[0] for one in found.breaks} == {
        f"{BOB}: vanished",
        "bob:wallet: unknown-account",
    }
    proof = await prove(store, Rates())
    assert proof.broken is not None
    with pytest.raises(LedgerError):
        await sealed(store, "c2")


@pytest.mark.parametrize("backend_name", ["sqlite"])
@pytest.mark.parametrize(
    "change",
    [
        "update <account> set balance = 9999, side = 0 where id = 'dan:promo'",
        "update <link> set entries = 'x' where account = 'dan:promo' and number = 1",
    ],
)
async def test_what_only_one_database_computes_or_reads_is_not_trusted(
    store: Store, hand: Tamper, change: str
) -> None:
    await done(store, plain(5, "dan:promo"), plain(-5, "dan:promo"))
    await sealed(store, "c2")
    assert isinstance(hand, SqlTamper)
    hand.run(change)
    assert [one.account for one in (await verify_last(store, SIGNER)).breaks] == ["dan:promo"]
    proof = await prove(store, Rates())
    assert (proof.chain_intact, proof.consistent) != (True, True)


@pytest.mark.parametrize("backend_name", ["sqlite", "postgres"])
async def test_a_guarded_account_that_is_said_to_be_none(store: Store, hand: Tamper) -> None:
    assert isinstance(hand, SqlTamper)
    hand.unguard(BOB)
    await _said_wrong(store, BOB)


@pytest.mark.parametrize("backend_name", ["sqlite"])  # elsewhere they are computed of the id
@pytest.mark.parametrize("change", ["kind = 'promo'", "currency = 'USD'", "side = 1"])
async def test_what_a_row_says_of_its_account_is_what_the_chart_says(
    store: Store, hand: Tamper, change: str
) -> None:
    """Money that is filed under another kind is owed to nobody: the fee sweep would take it."""
    assert isinstance(hand, SqlTamper)
    hand.run(f"update <account> set {change} where id = '{BOB}'")
    await _said_wrong(store, BOB)


async def _said_wrong(store: Store, account: str) -> None:
    told = Break(account=account, reason="wrong-chart")
    for full in (False, True):
        assert (await verify_last(store, SIGNER, full=full)).breaks == (told,)
        assert (await prove(store, Rates(), full=full)).broken == told
    with pytest.raises(ChainBroken, match=f"{account}: wrong-chart"):
        await sealed(store, "c2")


@pytest.mark.parametrize("backend_name", ["postgres"])  # elsewhere such a link is only altered
async def test_a_row_that_cannot_be_read_is_a_fault(store: Store, hand: Tamper) -> None:
    assert isinstance(hand, SqlTamper)
    where = f"account = '{BOB}' and number = 2"
    hand.run(f"update <link> set entries = array[null::bigint] where {where}")
    for prover in (verify_last(store, SIGNER), prove(store, Rates())):
        with pytest.raises(ChainBroken, match="altered beyond reading"):
            await prover


@pytest.mark.parametrize("backend_name", ["memory", "postgres"])  # SQLite takes only JSON
async def test_metadata_that_is_no_json_but_hashes_is_a_finding(store: Store, hand: Tamper) -> None:
    hand.change_meta("cas9", '"source" of what')
    await hand.rewrite(CAS, 1, -9)
    assert f"{CAS}: wrong-source at posting cas9" in [
        str(one) for one in (await verify_last(store, SIGNER)).breaks
    ]


async def test_rows_of_two_currencies_do_not_make_up_for_each_other(
    store: Store, hand: Tamper
) -> None:
    """The signature is of one sum: so each currency is looked at before."""
    await hand.rewrite(CAS, 1, -14)
    await done(store, plain(-5, USD_CLEARING, given=TRUST_CASH, id="more"))
    await hand.rewrite(TRUST_CASH, 2, 0)
    assert UNBALANCED in (await verify_last(store, SIGNER)).problems
    with pytest.raises(Unbalanced):
        await sealed(store, "c2")


@pytest.mark.parametrize("changes", [{"head": "ab" * 32}, {"sum": 7}, {"number": 2}])
async def test_a_leaf_that_was_altered_is_reported_and_heals_when_accepted(
    store: Store, hand: Tamper, changes: dict[str, object]
) -> None:
    """§16.69: whoever doubts the leaves replays what they are of, and writes them again; D2: once
    somebody has looked.
    """
    hand.change_leaf(BOB, **changes)
    found = await verify_last(store, SIGNER)
    # a number is not signed, but the link of that number has another hash than the leaf
    assert "number" in changes or LEAVES in found.problems
    assert BOB in {one.account for one in found.breaks}
    assert HISTORY not in found.problems  # the links give what was signed
    kept = await note(store, found.lines, "f1")
    with pytest.raises(ChainBroken, match=kept.id):
        await sealed(store, "c2")
    await store.accept_finding(kept.id, "leaves only")
    made = await sealed(store, "c2")
    assert made.prev == "c1"
    assert not (await verify_last(store, SIGNER)).mismatch


async def test_a_leaf_of_no_account_is_not_healed_but_told(store: Store, hand: Tamper) -> None:
    hand.rename(CAS, EVE)
    assert not (await verify_last(store, SIGNER)).mismatch  # it was never sealed
    await sealed(store, "c2")
    hand.rename(EVE, CAS)
    hand.change_leaf(BOB, sum=0)
    found = await verify_last(store, SIGNER)
    assert EVE in {one.account for one in found.breaks}
    with pytest.raises(ChainBroken, match="leaves"):
        await sealed(store, "c3")


_EDITS = [
    {"root": "ab" * 32},
    {"sum": 1},
    {"count": 1},
    {"at": 1},
    {"kid": None},
    {"prev": "c0"},
    {"v": 2},
    {"v": 1},
    {"signature": "ab" * 32},
]


@pytest.mark.parametrize("changes", _EDITS, ids="-".join)
async def test_a_checkpoint_that_was_altered_is_reported(
    store: Store, hand: Tamper, changes: dict[str, object]
) -> None:
    """§16.70, §17.13: each of its fields is signed."""
    hand.change_checkpoint("c1", **changes)
    assert SIGNATURE in (await verify_last(store, SIGNER)).problems


async def test_a_checkpoint_that_another_signed_is_none(store: Store, hand: Tamper) -> None:
    other = TestSigner("other")
    assert (await verify_last(store, other)).problems == (SIGNATURE,)
    with pytest.raises(ChainBroken, match="none of our keys signed"):  # G32
        await seal(store, other, new_id=lambda: "c2", now=lambda: NOW)
    both = TestSigner("other", "test")
    assert not (await verify_last(store, both)).mismatch
    made = await seal(store, both, new_id=lambda: "c2", now=lambda: NOW)
    assert made is not None
    assert (await verify_last(store, SIGNER)).problems == (SIGNATURE,)
    assert not (await verify_last(store, both, full=True)).mismatch


async def test_checkpoints_that_were_removed_leave_their_leaves(store: Store, hand: Tamper) -> None:
    hand.remove_checkpoints()
    assert (await verify_last(store, SIGNER)).problems == (LEAVES,)


async def _older(store: Store, hand: Tamper) -> Checkpoint:
    """A second checkpoint, and the ledger put back to what the first one sealed."""
    before = {leaf.account: leaf for leaf in await store.ledger_leaves()}
    last = await sealed(store, "c2")
    hand.remove_checkpoints("c1")
    for leaf in await store.ledger_leaves():
        old = before.get(leaf.account)
        if old is not None:
            hand.change_leaf(leaf.account, number=old.number, head=old.head, sum=old.sum)
    return last


async def test_an_older_ledger_is_found_by_the_anchor_and_not_sealed_over(
    store: Store, backend: Backend
) -> None:
    hand = tamper(store, backend)
    await done(store, plain(100), plain(5, BOB))
    await sealed(store, "c1")
    await done(store, plain(-60))
    last = await _older(store, hand)
    await hand.cut(ANN, 1)
    await hand.cut("platform:stored_value", 1)
    assert not (await verify_last(store, SIGNER)).mismatch  # it is what once was true
    assert (await verify_last(store, SIGNER, last)).problems == (ROLLED_BACK,)
    await done(store, plain(1, BOB))
    with pytest.raises(ChainBroken, match="does not follow c2"):
        await sealed(store, "c3", anchored=last)
    assert [one.id for one in await store.ledger_checkpoints()] == ["c1"]


async def test_the_anchored_checkpoint_must_be_before_the_last_one(
    store: Store, backend: Backend
) -> None:
    """It does not help to keep it in another place of the table."""
    hand = tamper(store, backend)
    await done(store, plain(100))
    await sealed(store, "c1")
    before = {leaf.account: leaf for leaf in await store.ledger_leaves()}
    await done(store, plain(-60))
    last = await sealed(store, "c2")
    for name, old in before.items():
        hand.change_leaf(name, number=old.number, head=old.head, sum=old.sum)
    hand.reverse_checkpoints()
    assert not (await verify_last(store, SIGNER)).mismatch
    assert (await verify_last(store, SIGNER, last)).problems == (ROLLED_BACK,)
    hand.change_checkpoint("c1", prev="c2")
    assert ROLLED_BACK in (await verify_last(store, SIGNER, last)).problems


async def test_an_anchor_that_is_behind_or_of_another_clock_is_no_alarm(store: Store) -> None:
    made = []
    for number, at in enumerate((NOW, NOW - 60_000, NOW + 1)):
        await done(store, plain(10))
        made.append(await sealed(store, f"c{number}", at))
        for anchored in made:
            assert not (await verify_last(store, SIGNER, anchored)).mismatch
    altered = replace(made[0], count=7)
    assert (await verify_last(store, SIGNER, altered)).problems == (ROLLED_BACK,)


async def test_a_published_checkpoint_without_any_in_the_store(store: Store) -> None:
    await done(store, plain(10))
    made = await sealed(store, "c1")
    gone = replace(made, id="c0")
    assert (await verify_last(store, SIGNER, gone)).problems == (ROLLED_BACK,)

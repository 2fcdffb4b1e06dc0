"""Roots and signatures: golden vectors of the format, and what a root must notice."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpath.economy.ledger.merkle import EMPTY, GrowingTree, root_of
from offpath.economy.ledger.signatures import (
    Ed25519Signer,
    PublicKeys,
    signed_bytes,
    verify_checkpoint,
)
from offpath.model.ledger.faults import ChainBroken, EconomyConfigInvalid
from offpath.model.ledger.records import Checkpoint, Leaf

USER = Leaf(
    account="usr_a:spendable",
    number=1,
    head="7def6af40b6aeb12ce9449d4c70ccd959c12defcbac4685fb2f5a2c33fa1ea1d",
    sum=-500,
)
HOUSE = Leaf(
    account="platform:stored_value",
    number=1,
    head="e697e757d6df63660d15bc4985595902dd16984a642b378361f3a3a28dfadc1c",
    sum=500,
)
THIRD = Leaf(account="platform:revenue", number=1, head="0" * 63 + "1", sum=0)
SECRET = "00112233" * 8
V2_ROOT = "42ec4691bf1a08e6b852ee314feee771db5581ea2d8772111f8550a01d014162"
V2_SIGNATURE = (
    "73c7f1076b95bbbc1ee01e32766db730f658f7975061a319aac563689fdb64bc"
    "e2e7a63ffa06ffead0fe4310cf8a7d078cbb382ed0a30e016f1af36097b0f10d"
)
# Pinned: whoever changes what version 3 signs must see this fail.
V3_BYTES = (
    b'{"at":1700000000000,"count":2,"id":"chk_1","kid":"f8dd74ac7cebf527","prev":null,'
    b'"root":"42ec4691bf1a08e6b852ee314feee771db5581ea2d8772111f8550a01d014162","sum":"0","v":3}'
)


def checkpoint(**changes: object) -> Checkpoint:
    fields: dict[str, object] = {
        "id": "chk_1",
        "root": V2_ROOT,
        "signature": "",
        "count": 2,
        "at": 1_700_000_000_000,
        "v": 3,
        "sum": 0,
        "kid": "f8dd74ac7cebf527",
        "prev": None,
    }
    return Checkpoint(**{**fields, **changes})  # type: ignore[arg-type]  # fields of any type


def test_the_golden_roots() -> None:
    leaves = [HOUSE, USER]
    assert root_of(leaves, 1).hash == (
        "9b7141455645c739d252b1598254d518e6c94e696b9bc83a2d0299c27aafa965"
    )
    assert root_of(leaves, 1).sum is None
    assert (root_of(leaves, 2).hash, root_of(leaves, 2).sum) == (V2_ROOT, 0)
    assert root_of([THIRD, *leaves], 2).hash == (
        "9efc03b74fa3f3889fa377656b6ab0a09f3196f3b28befa8463a9b265515c5d9"
    )


def test_nothing_has_the_empty_root() -> None:
    assert root_of([]).hash == EMPTY
    assert root_of([]).count == 0


def test_leaves_must_come_in_order() -> None:
    with pytest.raises(ValueError, match="sorted"):
        root_of([USER, HOUSE])


@given(st.integers(min_value=1, max_value=40))
def test_the_stream_gives_the_root_of_the_whole_tree(count: int) -> None:
    leaves = [
        Leaf(account=f"u{one:03}:spendable", number=1, head=f"{one:064x}", sum=one - 20)
        for one in range(count)
    ]
    level = [
        (
            sha256(
                f"\2{leaf.account}:{leaf.head}:".encode() + leaf.sum.to_bytes(8, signed=True)
            ).digest(),
            leaf.sum,
        )
        for leaf in leaves
    ]
    while len(level) > 1:
        pairs = [
            (
                sha256(b"\3" + left[0] + right[0] + (left[1] + right[1]).to_bytes(8, signed=True)),
                left[1] + right[1],
            )
            for left, right in zip(level[::2], level[1::2], strict=False)
        ]
        odd = [level[-1]] if len(level) % 2 else []
        level = [(digest.digest(), total) for digest, total in pairs] + odd
    assert root_of(leaves).hash == level[0][0].hex()
    assert root_of(leaves).sum == level[0][1]


def test_the_golden_key_and_signature() -> None:
    """Its secret is too short to sign by now, and verifies what it signed."""
    signer = Ed25519Signer(SECRET, prior=["00112233"])
    assert signer.kid == signer.public_key[:16]
    assert verify_checkpoint(checkpoint(v=2, signature=V2_SIGNATURE), signer)
    key = PublicKeys("f8dd74ac7cebf527cf22c178040f1e6fa19a20a90ae7df7686ab307de3c9787f")
    assert verify_checkpoint(checkpoint(v=2, signature=V2_SIGNATURE), key)


@pytest.mark.parametrize("secret", ["", "5e", "5e" * 31, "not hex"])
def test_a_secret_that_can_be_guessed_signs_nothing(secret: str) -> None:
    """A12, S17."""
    with pytest.raises(EconomyConfigInvalid, match="at least 32 bytes") as raised:
        Ed25519Signer(secret)
    assert not secret or secret not in str(raised.value)
    assert Ed25519Signer("5e" * 32).kid


def test_version_3_signs_these_bytes() -> None:
    assert signed_bytes(checkpoint()) == V3_BYTES


@pytest.mark.parametrize(
    "changed",
    [
        {"id": "chk_2"},
        {"root": "0" * 64},
        {"sum": 1},
        {"count": 3},
        {"at": 1_700_000_000_001},
        {"kid": None},
        {"prev": "chk_0"},
    ],
)
def test_no_field_of_version_3_can_be_changed(changed: dict[str, object]) -> None:
    """§17.13: the original signed neither kid nor count nor at."""
    signer = Ed25519Signer(SECRET)
    signed = checkpoint(signature=signer.sign(signed_bytes(checkpoint())))
    assert verify_checkpoint(signed, signer)
    signature = signed.signature
    assert not verify_checkpoint(checkpoint(signature=signature, **changed), signer)


def test_a_key_that_was_rotated_out_still_verifies() -> None:
    """§16.70."""
    old, new = Ed25519Signer("aa" * 32), Ed25519Signer("bb" * 32, prior=["aa" * 32])
    signed = checkpoint(signature=old.sign(signed_bytes(checkpoint())))
    assert verify_checkpoint(signed, new)
    assert not verify_checkpoint(signed, Ed25519Signer("bb" * 32))
    assert verify_checkpoint(signed, PublicKeys(new.public_key, old.public_key))
    first = checkpoint(v=1, sum=None)
    assert verify_checkpoint(
        checkpoint(v=1, sum=None, signature=old.sign(signed_bytes(first))), new
    )


def test_a_signature_that_is_none_is_a_fault() -> None:
    """§16.66."""
    with pytest.raises(ChainBroken, match="malformed"):
        verify_checkpoint(checkpoint(signature="zzz"), Ed25519Signer(SECRET))


def test_a_secret_that_is_none_is_refused_and_not_shown() -> None:
    with pytest.raises(EconomyConfigInvalid) as refused:
        Ed25519Signer("hunter2-not-hex")
    assert "hunter2" not in str(refused.value)
    assert SECRET not in repr(Ed25519Signer(SECRET))


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from([f"u{number:02}:earned" for number in range(24)]),
            st.integers(1, 1000),
            max_size=6,
        ),
        max_size=8,
    )
)
def test_a_tree_that_grows_has_the_root_of_its_leaves(steps: list[dict[str, int]]) -> None:
    tree, known = GrowingTree(), dict[str, Leaf]()
    for step in steps:
        fresh = {
            name: Leaf(account=name, number=number, head=f"{number:064}", sum=number)
            for name, number in step.items()
        }
        known |= fresh
        tree.put(fresh.values())
        assert tree.root() == root_of([known[name] for name in sorted(known)])

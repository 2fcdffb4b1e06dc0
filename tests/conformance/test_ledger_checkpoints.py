"""Sealing and verifying a ledger that is honest, and what it costs. §16.60, §16.61, §16.63,
§16.69, §16.70, §17.2.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from offpath.economy.ledger import chains
from offpath.economy.ledger.checkpoint import seal
from offpath.economy.ledger.merkle import root_of
from offpath.economy.ledger.proof import prove
from offpath.economy.ledger.signatures import signed_bytes
from offpath.economy.ledger.verification import verify_last
from offpath.economy.testing import TestSigner
from offpath.model.ledger.rates import Rates
from offpath.model.ledger.records import Checkpoint
from offpath.store.ledger import LedgerReads
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.ledger_builders import ANN, BOB, NOW, done, leaves, plain
from tests.conformance.ledger_tamper import tamper

pytestmark = pytest.mark.needs("ledger")

SIGNER = TestSigner()


async def sealed(store: Any, name: str) -> Checkpoint | None:
    return await seal(store, SIGNER, new_id=lambda: name, now=lambda: NOW)


_LINKS = ("ledger_since", "ledger_tails", "ledger_walk", "ledger_links", "ledger_postings")


class Counting:
    """A store that counts what is read of its snapshots."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls: list[str] = []
        self.links = 0
        self.largest = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @asynccontextmanager
    async def ledger_snapshot(self) -> AsyncIterator[Any]:
        async with self._store.ledger_snapshot() as reads:
            yield _Counted(reads, self)

    def seen(self, name: str, rows: object) -> None:
        self.calls.append(name)
        if isinstance(rows, list):
            self.largest = max(self.largest, len(rows))
            if name in _LINKS:
                self.links += len(rows)


class _Counted:
    def __init__(self, reads: LedgerReads, counting: Counting) -> None:
        self._reads = reads
        self._counting = counting

    def __getattr__(self, name: str) -> Callable[..., Any]:
        read = getattr(self._reads, name)

        async def counted(*args: object, **more: object) -> object:
            rows = await read(*args, **more)
            self._counting.seen(name, rows)
            return rows

        return counted


async def test_an_empty_ledger_has_nothing_to_seal_or_to_verify(store: Store) -> None:
    """§16.60, §16.63."""
    assert await sealed(store, "c1") is None
    found = await verify_last(store, SIGNER)
    assert (found.checkpoint, found.mismatch) == (None, False)
    assert await store.ledger_checkpoints() == []


async def test_a_seal_covers_every_head(store: Store) -> None:
    """§16.61."""
    await done(store, plain(100), plain(5, BOB))
    made = await sealed(store, "c1")
    accounts = await store.ledger_accounts()
    root = root_of(leaves(accounts))
    assert made is not None
    assert (made.root, made.sum, made.count) == (root.hash, 0, len(accounts))
    assert (made.kid, made.prev, made.v) == ("test", None, 4)
    assert await store.ledger_leaves() == leaves(accounts)
    assert (await verify_last(store, SIGNER, made, full=True)).checkpoint == made
    assert await sealed(store, "c2") is None  # nothing moved


async def test_checkpoints_are_one_line_and_each_has_a_next(store: Store) -> None:
    for number in range(1, 5):
        await done(store, plain(10), plain(10, f"u{number}:earned"))
        made = await sealed(store, f"c{number}")
        assert made is not None
        assert made.prev == (f"c{number - 1}" if number > 1 else None)
        assert made.count == number + 2
        assert not (await verify_last(store, SIGNER)).mismatch


async def test_of_sealers_at_once_one_seals(rivals: tuple[Store, ...]) -> None:
    for turn in range(5):
        await done(rivals[0], plain(10))
        made = await asyncio.gather(
            *(sealed(one, f"c{turn}{place}") for place, one in enumerate(rivals))
        )
        assert len([one for one in made if one is not None]) == 1
        assert not (await verify_last(rivals[-1], SIGNER)).mismatch
    assert len(await rivals[0].ledger_checkpoints(limit=100)) == 5


async def test_honest_postings_meanwhile_are_never_reported(rivals: tuple[Store, ...]) -> None:
    """§16.63 as it is mended, §17.2."""
    poster, other, sealer, verifier = rivals
    ended = asyncio.Event()

    async def post(store: Store, name: str) -> None:
        for number in range(25):
            await done(store, plain(10), plain(7, f"{name}{number}:promo"), plain(-3))
            await asyncio.sleep(0)

    async def watch(store: Store) -> int:
        looks = 0
        while not ended.is_set():
            found = await verify_last(store, SIGNER)
            assert not found.mismatch, found
            proof = await prove(store, Rates())
            assert proof.conserved
            assert proof.chain_intact
            assert proof.consistent
            looks += 1
            await asyncio.sleep(0)
        return looks

    async def keep_sealing(store: Store) -> int:
        seals = 0
        while not ended.is_set():
            seals += await sealed(store, f"c{seals}") is not None
            await asyncio.sleep(0)
        return seals

    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(watch(verifier))
        sealing = tasks.create_task(keep_sealing(sealer))
        async with asyncio.TaskGroup() as posting:
            posting.create_task(post(poster, "a"))
            posting.create_task(post(other, "b"))
        ended.set()
    assert watching.result() > 0
    assert sealing.result() > 0
    assert not (await verify_last(sealer, SIGNER, full=True)).mismatch


async def _history(store: Store, count: int) -> None:
    await done(store, *(plain(10) for _ in range(count)))
    await done(store, plain(5, BOB))
    await sealed(store, f"before{count}")
    await done(store, *(plain(1) for _ in range(3)))


async def test_a_seal_reads_what_was_posted_since_and_not_what_ever_was(store: Store) -> None:
    """§16.69."""
    read = []
    for count in (10, 200):
        await _history(store, count)
        counting = Counting(store)
        made = await sealed(counting, f"after{count}")
        assert made is not None
        assert made.root == root_of(leaves(await store.ledger_accounts())).hash
        read.append((counting.links, len(counting.calls)))
    # ann and stored_value moved, by three links each, and each began with the one that was sealed
    assert read[0] == read[1]
    assert read[0][0] == 8


async def test_a_verification_reads_what_was_posted_since_and_some_of_before(store: Store) -> None:
    read = []
    for count in (10, 200):
        await _history(store, count)
        counting = Counting(store)
        found = await verify_last(counting, SIGNER, again=5, chance=lambda: 0.0)
        assert not found.mismatch
        read.append((counting.links, len(counting.calls)))
        await sealed(store, f"after{count}")
    assert read[0] == read[1]
    assert read[0][0] <= 8 + 5


async def test_many_accounts_that_moved_are_proved_in_few_reads_and_written_in_pieces(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chains, "PAGE", 50)
    monkeypatch.setattr("offpath.store.programs.ledger_upkeep.CHUNK", 7)
    users = [f"u{number:02}:spendable" for number in range(40)]
    for name in ("c1", "c2", "c3"):
        await done(store, *(plain(1, user) for user in users), *(plain(1) for _ in range(30)))
        counting = Counting(store)
        assert not (await verify_last(counting, SIGNER, again=0)).mismatch
        assert await sealed(counting, name) is not None
        assert counting.calls.count("ledger_tails") <= 2 * 4
        assert counting.calls.count("ledger_since") <= 2 * 2  # stored_value has over a page
        assert counting.largest <= 50
        accounts = await store.ledger_accounts()
        assert await store.ledger_leaves() == leaves(accounts)


async def test_what_was_sealed_is_read_again_part_by_part(store: Store, backend: Backend) -> None:
    """A ledger with more links than one verification reads again is read in draws, or in full."""
    hand = tamper(store, backend)
    await done(store, *(plain(10, id=f"p{number}") for number in range(40)))
    await sealed(store, "c1")
    hand.change_meta("p7", '{"kind":"gift"}')
    assert not (await verify_last(store, SIGNER, again=0)).mismatch
    assert (await verify_last(store, SIGNER, full=True)).breaks[0].posting == "p7"
    draws = iter([0.0, 0.15, 0.9] * 9)  # ann is drawn, at her seventh link; nobody later
    found = await verify_last(store, SIGNER, again=5, chance=lambda: next(draws))
    assert [(one.account, one.posting) for one in found.breaks] == [(ANN, "p7")]
    seen = [(await verify_last(store, SIGNER, again=20)).mismatch for _ in range(60)]
    assert any(seen)


async def test_reading_again_goes_over_the_end_to_the_beginning(
    store: Store, backend: Backend
) -> None:
    hand = tamper(store, backend)
    await done(store, *(plain(10, id=f"p{number}") for number in range(6)))
    await sealed(store, "c1")
    places = [(ANN, number) for number in range(7)] + [("platform:stored_value", 6)]
    async with store.ledger_snapshot() as reads:
        for place in places:
            assert [one async for one in chains.recheck(reads, place, 12)] == []
            assert [one async for one in chains.recheck(reads, place, 5)] == []
    hand.change_meta("p0", "{}")
    async with store.ledger_snapshot() as reads:
        found = [one async for one in chains.recheck(reads, ("platform:stored_value", 3), 4)]
    assert [(one.account, one.posting) for one in found] == [(ANN, "p0")]


async def test_the_prover_holds_a_page_and_not_the_ledger(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await done(store, *(plain(1, f"u{number}:promo") for number in range(60)))
    monkeypatch.setattr(chains, "PAGE", 10)
    counting = Counting(store)
    proof = await prove(counting, Rates())
    assert (proof.accounts, proof.links) == (61, 120)
    assert (proof.conserved, proof.chain_intact, proof.consistent) == (True, True, True)
    assert counting.largest == 10
    assert counting.calls.count("ledger_walk") == 13
    found = await verify_last(store, SIGNER)
    assert found.checkpoint is None


async def test_pages_of_any_size_seal_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chains, "PAGE", 3)
    await done(store, *(plain(1, f"u{number}:promo") for number in range(7)))
    made = await sealed(store, "c1")
    assert made is not None
    assert made.root == root_of(leaves(await store.ledger_accounts())).hash
    await done(store, *(plain(1, "u3:promo") for _ in range(7)))
    assert not (await verify_last(store, SIGNER)).mismatch
    assert not (await verify_last(store, SIGNER, full=True)).mismatch
    assert await sealed(store, "c2") is not None
    assert not (await verify_last(store, SIGNER)).mismatch


async def test_a_first_version_still_verifies_and_the_next_seal_signs_sums(store: Store) -> None:
    """§16.70: its sums were not signed, so nothing is gone on from."""
    await done(store, plain(100), plain(5, BOB))
    sides = leaves(await store.ledger_accounts())
    old = Checkpoint(
        id="old", root=root_of(sides, 1).hash, signature="", count=len(sides), at=NOW, v=1
    )
    await store.save_checkpoint(
        replace(old, signature=SIGNER.sign(signed_bytes(old))),
        [replace(one, sum=0) for one in sides],
    )
    await done(store, plain(-40))
    assert not (await verify_last(store, SIGNER)).mismatch
    made = await sealed(store, "c1")
    assert made is not None
    assert (made.v, made.prev) == (4, "old")
    assert not (await verify_last(store, SIGNER)).mismatch

"""Reads of a ledger: pages, sums, checkpoints, one moment while others post, and pruning."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from offpath.model.ledger.book import Book
from offpath.model.ledger.posting import LinkRecord, hash_of
from offpath.model.ledger.records import Receipt
from offpath.runtime.clock import ManualClock
from offpath.store.ledger import Counts
from offpath.store.protocol import Store
from tests.conformance.ledger_builders import (
    ANN,
    BOB,
    NOW,
    STORED_VALUE,
    TRUST_CASH,
    USD_CLEARING,
    account,
    balance,
    checkpoint,
    done,
    heads,
    leaves,
    op,
    plain,
    put,
    side,
    tried,
)

pytestmark = pytest.mark.needs("ledger")

NAMES = ["B:spendable", "a:earned", "a:spendable", "aa:spendable", "b:spendable", "é:spendable"]


async def paged(
    page: Callable[[Any], Awaitable[Sequence[Any]]], start: Any, key: Callable[[Any], Any]
) -> list[Any]:
    """All pages together; each has at most two."""
    found: list[Any] = []
    while some := await page(start):
        assert len(some) <= 2
        found += some
        start = key(some[-1])
    return found


def place_of(walked: tuple[LinkRecord, str]) -> tuple[str, int]:
    """The place of a link of a walk."""
    return walked[0].account, walked[0].number


class TestAccounts:
    async def test_by_code_points_in_pages_and_by_prefix(self, store: Store) -> None:
        await done(store, *(plain(n + 1, name) for n, name in enumerate(NAMES)))
        every = sorted([*NAMES, STORED_VALUE])
        assert [one.id for one in await store.ledger_accounts()] == every
        found = await paged(
            lambda after: store.ledger_accounts(after=after, limit=2), "", lambda one: one.id
        )
        assert [one.id for one in found] == every
        begun = await store.ledger_accounts(prefix="a")
        assert [one.id for one in begun] == ["a:earned", "a:spendable", "aa:spendable"]
        begun = await store.ledger_accounts(prefix="a:", after="a:earned")
        assert [one.id for one in begun] == ["a:spendable"]
        assert await store.ledger_accounts(prefix="zz") == []
        assert await store.ledger_accounts(limit=0) == []

    async def test_a_prefix_is_no_pattern(self, store: Store) -> None:
        await done(store, plain(1, "a%:spendable"), plain(1, "a_:spendable"), plain(1, "ab:earned"))
        assert [one.id for one in await store.ledger_accounts(prefix="a%")] == ["a%:spendable"]
        assert [one.id for one in await store.ledger_accounts(prefix="a_")] == ["a_:spendable"]

    async def test_by_ids_those_that_exist(self, store: Store) -> None:
        await done(store, plain(5))
        found = await store.ledger_accounts(ids=[STORED_VALUE, "nobody:earned", ANN, ANN])
        assert [one.id for one in found] == [ANN, STORED_VALUE]

    async def test_reading_one_or_failing_on_it_does_not_make_it(self, store: Store) -> None:
        await done(store, op(lambda book: book.balance(BOB), accounts={BOB}))
        (decided,) = await store.post([plain(-5, BOB)])
        assert decided.error is not None
        assert await store.ledger_accounts() == []
        assert (await store.ledger_counts()) == Counts()


class TestLinks:
    async def test_in_both_directions_and_pages(self, store: Store) -> None:
        await done(store, *(plain(n) for n in range(1, 6)))
        assert [one.number for one in await store.ledger_links(ANN)] == [1, 2, 3, 4, 5]
        back = await store.ledger_links(ANN, newest=True, limit=2)
        assert [one.number for one in back] == [5, 4]
        back = await store.ledger_links(ANN, newest=True, after=4, limit=9)
        assert [one.number for one in back] == [3, 2, 1]
        assert await store.ledger_links(ANN, newest=True, after=1) == []
        there = await store.ledger_links(ANN, after=3, limit=1)
        assert [one.number for one in there] == [4]
        assert await store.ledger_links(ANN, after=5) == []
        assert await store.ledger_links(BOB) == []

    async def test_since_a_number_they_hash_with_their_metadata(self, store: Store) -> None:
        await done(store, *(plain(n, order=f"o{n}") for n in range(1, 6)))
        found = await store.ledger_since(ANN, 2)
        assert [link.number for link, _ in found] == [3, 4, 5]
        assert all(hash_of(link, meta) == link.hash for link, meta in found)
        assert [link.number for link, _ in await store.ledger_since(ANN, 2, limit=1)] == [3]
        assert await store.ledger_since(ANN, 5) == []

    async def test_tails_are_of_each_account_between_two_numbers(self, store: Store) -> None:
        await done(store, *(plain(10, ANN) for _ in range(5)), *(plain(10, BOB) for _ in range(3)))
        tails = [(BOB, 2, 9), (ANN, 1, 3), ("nobody:promo", 0, 5), (STORED_VALUE, 8, 8)]
        found = await store.ledger_tails(tails)
        assert [(link.account, link.number) for link, _ in found] == [(ANN, 2), (ANN, 3), (BOB, 3)]
        assert all(hash_of(link, meta) == link.hash for link, meta in found)
        assert await store.ledger_tails([]) == []

    async def test_a_walk_sees_every_link_once_by_account_and_number(self, store: Store) -> None:
        await done(store, *(plain(n, NAMES[n % 3]) for n in range(1, 8)))
        found = await paged(
            lambda after: store.ledger_walk(after=after, limit=2), ("", 0), place_of
        )
        places = [place_of(one) for one in found]
        assert places == sorted(places)
        assert len(places) == len(set(places)) == 14
        assert all(hash_of(link, meta) == link.hash for link, meta in found)
        assert found == await store.ledger_walk()

    async def test_postings_by_id_and_by_their_commits(self, store: Store) -> None:
        ids = ["z", "a", "m", "b", "y"]
        for name in ids:
            await done(store, plain(5, id=name))
        found = await paged(
            lambda after: store.ledger_postings(after=after, limit=2), 0, lambda one: one.seq
        )
        assert [one.id for one in found] == ids
        seqs = [one.seq for one in found]
        assert seqs == sorted(set(seqs))
        asked = await store.ledger_postings(ids=["y", "nothing", "a", "a"])
        assert sorted(one.id for one in asked) == ["a", "y"]
        assert all([link.account for link in one.links] == [ANN, STORED_VALUE] for one in asked)


class TestSides:
    async def test_by_id_owner_and_state_in_pages(self, store: Store) -> None:
        rows = [
            side("promo", f"p{n}", ("OPEN", "DEAD")[n % 2], owner=("ann", "bob")[n // 3])
            for n in range(6)
        ]
        await done(store, put(*rows), put(side("sale", "p0", "SOLD")))

        async def ids(**where: Any) -> list[str]:
            return [one.id for one in await store.ledger_sides("promo", **where)]

        assert await ids() == ["p0", "p1", "p2", "p3", "p4", "p5"]
        assert await ids(owner="ann") == ["p0", "p1", "p2"]
        assert await ids(owner="ann", states=["OPEN"]) == ["p0", "p2"]
        assert await ids(states=["OPEN", "DEAD"], after="p3") == ["p4", "p5"]
        assert await ids(ids=["p5", "p1", "x"]) == ["p1", "p5"]
        assert await ids(ids=["p5", "p1"], owner="bob", states=["DEAD"]) == ["p5"]
        assert await ids(ids=["p5", "p1"], owner="ann", states=["OPEN"]) == []
        assert await ids(limit=2, after="p0") == ["p1", "p2"]


class TestSums:
    async def test_totals_are_by_kind_and_sums_by_currency(self, store: Store) -> None:
        await done(
            store,
            plain(500),
            plain(300, BOB),
            plain(70, "ann:earned"),
            plain(9, "s:x:escrow"),
        )
        totals = await store.ledger_totals()
        assert {name: total for name, total in totals.balances.items() if total} == {
            "spendable": 800,
            "earned": 70,
            "escrow": 9,
            "stored_value": 879,
        }
        assert await store.ledger_sums() == {"CREDIT": 0}
        assert await store.ledger_counts() == Counts(accounts=5, postings=4, links=8)

    async def test_an_empty_ledger_has_nothing(self, store: Store) -> None:
        assert await store.ledger_totals() == type(await store.ledger_totals())()
        assert await store.ledger_sums() == {}
        assert await store.ledger_counts() == Counts()
        assert await store.ledger_postings() == []
        assert await store.ledger_walk() == []
        assert await store.ledger_checkpoints() == []
        assert await store.ledger_moved() == []
        assert await store.ledger_leaves() == []


class TestCheckpoints:
    async def test_each_follows_the_last_one_or_nothing_is_written(self, store: Store) -> None:
        await done(store, plain(5))
        now = leaves(await store.ledger_accounts())
        assert not await store.save_checkpoint(checkpoint("c0", prev="nothing"), now)
        assert await store.ledger_leaves() == []
        first = checkpoint("c1", sum=-5, kid=None, v=2, at=NOW + 1)
        assert await store.save_checkpoint(first, now)
        assert await store.ledger_leaves() == now
        moved = [replace(one, sum=7) for one in now]
        assert not await store.save_checkpoint(checkpoint("c2"), moved)
        assert not await store.save_checkpoint(checkpoint("c2", prev="c0"), moved)
        assert await store.ledger_leaves() == now
        second = checkpoint("c2", prev="c1")
        assert await store.save_checkpoint(second, moved[:1])
        assert await store.ledger_checkpoints() == [second, first]
        assert await store.ledger_leaves() == [moved[0], now[1]]

    async def test_of_rivals_one_seals(self, store: Store, rivals: tuple[Store, ...]) -> None:
        prev = None
        for turn in "ab":
            names = [f"{turn}{n}" for n in range(8)]
            answers = await asyncio.gather(
                *(
                    rivals[n % len(rivals)].save_checkpoint(checkpoint(each, prev=prev), ())
                    for n, each in enumerate(names)
                )
            )
            assert sum(answers) == 1
            (last,) = await store.ledger_checkpoints(limit=1)
            assert last.id == names[answers.index(True)]
            prev = last.id
        assert len(await store.ledger_checkpoints()) == 2

    async def test_they_are_read_from_the_latest_back(self, store: Store) -> None:
        prev = None
        for name in ("z", "a", "m", "b"):
            assert await store.save_checkpoint(checkpoint(name, prev=prev), ())
            prev = name

        async def ids(**where: Any) -> list[str]:
            return [one.id for one in await store.ledger_checkpoints(**where)]

        assert await ids() == ["b", "m", "a", "z"]
        assert await ids(limit=2) == ["b", "m"]
        assert await ids(before="m") == ["a", "z"]
        assert await ids(before="z") == []

    async def test_moved_are_accounts_that_are_not_as_sealed(self, store: Store) -> None:
        await done(store, plain(5), plain(5, BOB), plain(5, "c:earned"))
        assert await store.ledger_moved() == [ANN, BOB, "c:earned", STORED_VALUE]
        now = leaves(await store.ledger_accounts())
        assert await store.save_checkpoint(checkpoint("c1"), now)
        assert await store.ledger_moved() == []
        await done(store, plain(5, BOB), plain(5, "d:earned"))
        moved = [BOB, "d:earned", STORED_VALUE]
        assert await store.ledger_moved() == moved
        assert await store.ledger_moved(limit=1) == moved[:1]
        assert await store.ledger_moved(after=BOB) == moved[1:]
        gone = replace(now[0], account="gone:earned")
        forged = replace(now[0], head="f" * 64)
        assert await store.save_checkpoint(checkpoint("c2", prev="c1"), [gone, forged])
        assert await store.ledger_moved() == [ANN, BOB, "d:earned", "gone:earned", STORED_VALUE]

    async def test_leaves_by_account(self, store: Store) -> None:
        await done(store, *(plain(5, name) for name in NAMES))
        now = leaves(await store.ledger_accounts())
        assert await store.save_checkpoint(checkpoint("c1"), now)
        found = await paged(
            lambda after: store.ledger_leaves(after=after, limit=2), "", lambda one: one.account
        )
        assert found == now
        assert [one.account for one in await store.ledger_leaves(ids=["x", NAMES[0]])] == NAMES[:1]


class TestSnapshots:
    async def test_all_reads_see_one_moment(self, store: Store) -> None:
        row, sold = side("promo", "p", "OPEN"), side("sale", "s", "SOLD")
        await done(store, plain(500, id="a"), put(row), op(lambda _: Receipt(), "k"))
        await store.save_checkpoint(checkpoint("c1"), leaves(await store.ledger_accounts()))

        async def everything(reads: Any) -> list[Any]:
            return [
                await reads.ledger_accounts(),
                await reads.ledger_links(ANN),
                await reads.ledger_links(ANN, newest=True, limit=1),
                await reads.ledger_walk(),
                await reads.ledger_since(ANN, 0),
                await reads.ledger_postings(),
                await reads.ledger_postings(ids=["b"]),
                await reads.ledger_sides("promo"),
                await reads.ledger_sides("promo", owner="ann"),
                await reads.ledger_sides("sale"),
                await reads.ledger_key("k"),
                await reads.ledger_key("l"),
                await reads.ledger_totals(),
                await reads.ledger_sums(),
                await reads.ledger_counts(),
                await reads.ledger_checkpoints(),
                await reads.ledger_leaves(),
                await reads.ledger_moved(),
            ]

        before = await everything(store)
        async with store.ledger_snapshot() as reads:
            assert await everything(reads) == before
            await done(store, plain(70, id="b"), plain(5, BOB), op(lambda _: Receipt(), "l"))
            await done(store, put(replace(row, state="DEAD")), put(sold))
            await store.save_checkpoint(checkpoint("c2", prev="c1"), ())
            assert await everything(reads) == before
            await done(store, plain(-70))
            assert await everything(reads) == before
        assert await balance(store, ANN) == 500
        async with store.ledger_snapshot() as reads:
            assert await everything(reads) == await everything(store) != before

    async def test_it_does_not_wait_for_writers_nor_they_for_it(self, store: Store) -> None:
        await done(store, plain(500))
        async with store.ledger_snapshot() as one, store.ledger_snapshot() as two:
            assert await balance(one, ANN) == await balance(two, BOB) + 500 == 500
            await asyncio.gather(*(done(store, plain(1)) for _ in range(20)))
            assert await balance(one, ANN) == await balance(two, ANN) == 500
        assert await balance(store, ANN) == 520

    async def test_sums_are_zero_in_every_moment(
        self, store: Store, rivals: tuple[Store, ...]
    ) -> None:
        posting = asyncio.Event()

        async def post(one: Store, n: int) -> None:
            for amount in range(10):
                await done(one, plain(amount + 1, f"u{n}:spendable"))
            posting.set()

        async def watch() -> int:
            seen = 0
            while not posting.is_set():
                async with store.ledger_snapshot() as reads:
                    assert not any((await reads.ledger_sums()).values())
                    totals = (await reads.ledger_totals()).balances
                    assert totals.get("spendable", 0) == totals.get("stored_value", 0)
                    await asyncio.sleep(0)
                seen += 1
            return seen

        watching = asyncio.create_task(watch())
        await asyncio.gather(*(post(one, n) for n, one in enumerate(rivals)))
        await watching


class TestPruning:
    async def test_attempts_go_but_for_the_last_of_each_subject(
        self, store: Store, clock: ManualClock
    ) -> None:
        seen: list[int] = []
        for n in range(4):
            await done(store, tried("out:ann", f"a{n}", 10, 60_000, seen))
            clock.advance(1)
        await done(store, tried("out:bob", "b", 5, 60_000, seen))
        clock.advance(10)

        async def prune(before: int, limit: int = 99) -> int:
            return await store.prune_ledger(
                attempts_before=NOW + before, keys_before=None, limit=limit
            )

        assert await prune(0) == 0
        assert await prune(1_001, limit=1) == 1
        assert await prune(1_001) == 1
        assert await prune(1_001) == 0
        seen.clear()
        await done(store, tried("out:ann", "new", 1, 60_000, seen))
        assert seen == [21]
        assert await prune(99_000) == 2
        await done(store, tried("out:bob", "b", 5, 60_000, seen))
        assert seen[-1] == 5  # the last one is still known by its key

    async def test_keys_go_by_their_age_and_can_be_used_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        for n in range(3):
            await done(store, op(lambda _: Receipt(), f"k{n}"))
            clock.advance(1)

        async def prune(before: int | None, limit: int = 99) -> int:
            keys = None if before is None else NOW + before
            return await store.prune_ledger(attempts_before=0, keys_before=keys, limit=limit)

        assert await prune(None) == 0
        assert await prune(0) == 0
        assert await prune(2_000, limit=1) == 1
        assert await store.ledger_key("k0") is None
        assert await prune(2_000) == 1
        assert await prune(2_000) == 0
        assert await store.ledger_key("k2") is not None
        (decided,) = await store.post([op(lambda _: Receipt(id="again"), "k0")])
        assert decided.receipt == Receipt(id="again")
        assert not decided.duplicate

    async def test_keys_that_last_are_never_pruned_and_keep_no_other(
        self, store: Store, clock: ManualClock
    ) -> None:
        def undo(book: Book) -> Receipt:
            book.record("undone", "", Receipt(id="first"), lasting=True)
            return Receipt()

        await done(store, op(undo, "k0", keys={"undone"}), op(lambda _: Receipt(), "k1"))
        clock.advance(100_000)
        removed = await store.prune_ledger(
            attempts_before=0, keys_before=NOW + 99_000_000, limit=99
        )
        assert removed == 2
        known = await store.ledger_key("undone")
        assert known is not None
        assert known.receipt == Receipt(id="first")

    async def test_keys_that_last_are_not_pruned_with_those_of_their_batch(
        self, store: Store, clock: ManualClock
    ) -> None:
        def undo(book: Book) -> Receipt:
            book.record("undone", "", Receipt(), lasting=True)
            return Receipt()

        plain_one = op(lambda _: Receipt(), "k1")
        await done(store, plain_one, plain(5), op(undo, "k0", keys={"undone"}))
        clock.advance(100)
        await store.prune_ledger(attempts_before=0, keys_before=NOW + 99_000, limit=99)
        assert await store.ledger_key("k0") is None
        assert await store.ledger_key("k1") is None
        assert await store.ledger_key("undone") is not None

    async def test_postings_and_heads_stay(self, store: Store, clock: ManualClock) -> None:
        await done(store, plain(5))
        before = await heads(store)
        clock.advance(10)
        await store.prune_ledger(attempts_before=NOW + 99, keys_before=NOW + 99, limit=99)
        assert await heads(store) == before
        assert (await account(store, ANN)).balance == 5


async def test_dollars_and_credits_have_sums_of_their_own(store: Store) -> None:
    await done(store, plain(5), plain(-7, USD_CLEARING, given=TRUST_CASH))
    assert await store.ledger_sums() == {"CREDIT": 0, "USD": 0}

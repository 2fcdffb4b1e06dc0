"""Many at once: no fork, no double spending, one holder, one use of a key.

The cases M3 (a chain that forked where it began) and M5 (two who both saw enough).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable

import pytest

from offpath.errors import StoreBusy
from offpath.model.effects import Effects
from offpath.model.ledger.book import Book
from offpath.model.ledger.decision import Decided, Declined, LedgerOp
from offpath.model.ledger.posting import GENESIS, Entry, NewPosting, hash_of
from offpath.model.ledger.records import Receipt, SideKey
from offpath.store.ledger import LedgerReads
from offpath.store.protocol import Store
from tests.conformance.builders import fresh_id
from tests.conformance.ledger_builders import (
    ANN,
    BOB,
    STORED_VALUE,
    account,
    balance,
    done,
    op,
    plain,
    side,
    tried,
    why,
)

pytestmark = pytest.mark.needs("ledger")

Rivals = tuple[Store, ...]


async def at_once(rivals: Rivals, operations: Iterable[LedgerOp]) -> list[Decided]:
    """Each posted by a call of its own, all of them together, by turns on the stores."""

    async def post(number: int, operation: LedgerOp) -> Decided:
        while True:
            try:
                (decided,) = await rivals[number % len(rivals)].post([operation])
            except StoreBusy:
                continue
            return decided

    calls = (post(number, one) for number, one in enumerate(operations))
    return list(await asyncio.gather(*calls))


async def assert_sound(reads: LedgerReads) -> None:
    """Every chain is one line from the beginning to its head, and all entries sum to zero."""
    heads: dict[str, tuple[int, str, int]] = {}
    for link, meta in await reads.ledger_walk(limit=100_000):
        number, head, total = heads.get(link.account, (0, GENESIS, 0))
        assert (link.number, link.prev) == (number + 1, head)
        assert link.hash == hash_of(link, meta)
        heads[link.account] = (link.number, link.hash, total + link.amount)
    found = await reads.ledger_accounts(limit=100_000)
    assert {one.id: (one.number, one.head, one.sum) for one in found} == heads
    assert not any((await reads.ledger_sums()).values())


async def test_the_first_links_of_an_empty_account_do_not_fork(
    store: Store, rivals: Rivals
) -> None:
    decided = await at_once(rivals, (plain(n + 1) for n in range(40)))
    assert [why(one) for one in decided] == [None] * 40
    found = await account(store, ANN)
    assert (found.number, found.balance) == (40, sum(range(1, 41)))
    await assert_sound(store)


async def test_of_fifty_debits_one_goes_over_linked_accounts(store: Store, rivals: Rivals) -> None:
    """M5: 100 over two accounts, debits of 60 that may take from either."""
    await done(store, plain(50), plain(50, BOB))

    def debit(number: int) -> LedgerOp:
        def decide(book: Book) -> Receipt:
            if book.balance(ANN) + book.balance(BOB) < 60:
                raise Declined("INSUFFICIENT_FUNDS")
            first, second = (ANN, BOB) if number % 2 else (BOB, ANN)
            taken = min(book.balance(first), 60)
            entries = (
                Entry(first, taken),
                Entry(second, 60 - taken),
                Entry(STORED_VALUE, -60),
            )
            return Receipt(id=book.post(NewPosting(id=f"debit {number}", entries=entries)).id)

        return op(decide, f"k{number}", accounts={ANN, BOB, STORED_VALUE})

    decided = await at_once(rivals, (debit(n) for n in range(50)))
    reasons = [why(one) for one in decided]
    assert reasons.count(None) == 1
    assert reasons.count("INSUFFICIENT_FUNDS") == 49
    assert await balance(store, ANN) + await balance(store, BOB) == 40
    await assert_sound(store)


async def test_of_fifty_debits_of_one_account_as_many_go_as_it_holds(
    store: Store, rivals: Rivals
) -> None:
    await done(store, plain(100))
    decided = await at_once(rivals, (plain(-60) for _ in range(50)))
    reasons = [why(one) for one in decided]
    assert reasons.count(None) == 1
    assert reasons.count("Overdraft") == 49
    assert await balance(store, ANN) == 40
    await assert_sound(store)


async def test_a_bank_keeps_its_sum_in_every_moment(store: Store, rivals: Rivals) -> None:
    users = [f"u{n}:spendable" for n in range(6)]
    await done(store, *(plain(100, user) for user in users))
    chance = random.Random(7)

    def transfer() -> LedgerOp:
        source, target = chance.sample(users, 2)
        return plain(chance.randint(1, 90), target, given=source)

    over = asyncio.Event()

    async def watch() -> None:
        while not over.is_set():
            async with store.ledger_snapshot() as reads:
                found = await reads.ledger_accounts(ids=users)
                assert sum(one.balance for one in found) == 600
                assert all(one.balance >= 0 for one in found)
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    decided = await at_once(rivals, [transfer() for _ in range(120)])
    over.set()
    await watching
    assert {why(one) for one in decided} <= {None, "Overdraft"}
    await assert_sound(store)


async def test_one_key_is_used_once(store: Store, rivals: Rivals) -> None:
    needs = {ANN, STORED_VALUE}

    def attempt(fingerprint: str) -> LedgerOp:
        posting = NewPosting(id=fresh_id(), entries=(Entry(STORED_VALUE, 5), Entry(ANN, -5)))
        return op(
            lambda book: Receipt(id=book.post(posting).id),
            "k",
            fingerprint=fingerprint,
            accounts=needs,
        )

    decided = await at_once(rivals, (attempt("f") for _ in range(16)))
    assert sum(not one.duplicate for one in decided) == 1
    assert len({one.receipt.id for one in decided if one.receipt is not None}) == 1
    assert await balance(store, ANN) == 5
    others = await at_once(rivals, (attempt("g") for _ in range(8)))
    assert {why(one) for one in others} == {"KeyReused"}


async def test_a_key_of_operations_that_lock_nothing_is_used_once(
    store: Store, rivals: Rivals
) -> None:
    def claim(name: str) -> LedgerOp:
        return op(lambda _: Receipt(id=name), "k")

    decided = await at_once(rivals, (claim(f"n{number}") for number in range(12)))
    assert [why(one) for one in decided] == [None] * 12
    assert sum(not one.duplicate for one in decided) == 1
    record = await store.ledger_key("k")
    assert record is not None
    assert all(one.receipt == record.receipt for one in decided)


async def test_an_order_is_sold_once(store: Store, rivals: Rivals) -> None:
    """Rows that do not exist yet cannot be locked: their id and unique key still are taken once."""
    place, holder = SideKey("sale", "order"), SideKey("sale", "key")
    await done(store, *(plain(100, f"u{n}:spendable") for n in range(12)))

    def sell(number: int) -> LedgerOp:
        user = f"u{number}:spendable"
        new = side("sale", "order", "SOLD", owner=f"u{number}", unique_key="key")

        def decide(book: Book) -> Receipt:
            if book.side("sale", "order") is not None or book.holder("sale", "key") is not None:
                raise Declined("DUPLICATE_ORDER")
            book.put(new)
            entries = (Entry(user, 100), Entry("platform:revenue", -100))
            return Receipt(id=book.post(NewPosting(id=f"sale {number}", entries=entries)).id)

        return op(
            decide,
            f"k{number}",
            accounts={user, "platform:revenue"} if number % 2 else {user, "platform:revenue", ANN},
            sides={place},
            holders={holder},
        )

    decided = await at_once(rivals, (sell(n) for n in range(12)))
    reasons = [why(one) for one in decided]
    assert reasons.count(None) == 1
    assert reasons.count("DUPLICATE_ORDER") == 11
    assert await balance(store, "platform:revenue") == 100
    (sold,) = await store.ledger_sides("sale")
    assert sold.version == 1
    await assert_sound(store)


async def test_attempts_at_once_are_all_counted(store: Store, rivals: Rivals) -> None:
    seen: list[int] = []
    # as every operation of a user does, they lock his account
    operations = [tried("out:ann", f"k{n}", 10, 60_000, seen) for n in range(20)]
    locked = [op(one.decide, accounts={ANN}, attempts=one.needs.attempts) for one in operations]
    await at_once(rivals, locked)
    last: list[int] = []
    await done(store, tried("out:ann", "last", 1, 60_000, last))
    assert last == [201]


async def test_operations_in_opposite_orders_do_not_lock_each_other_out(
    store: Store, rivals: Rivals
) -> None:
    await done(store, plain(500), plain(500, BOB))
    there = [plain(1, BOB, given=ANN) for _ in range(20)]
    back = [plain(1, ANN, given=BOB) for _ in range(20)]
    calls = [
        rivals[n % len(rivals)].commit(Effects(operations=(one, other)))
        for n, (one, other) in enumerate(zip(there, back, strict=True))
    ]
    await asyncio.gather(*calls)
    assert await balance(store, ANN) == await balance(store, BOB) == 500
    await assert_sound(store)

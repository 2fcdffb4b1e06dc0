"""Everybody posts at once over accounts that cross: nobody waits for ever, and it all adds up."""

from __future__ import annotations

import asyncio
import random

import psycopg
import pytest

from offpath.errors import StoreRejected
from offpath.model.effects import Effects
from offpath.model.ledger.book import Book
from offpath.model.ledger.decision import LedgerOp
from offpath.model.ledger.posting import Entry, NewPosting
from offpath.model.ledger.records import SideKey
from offpath.store.postgres import PostgresStore
from tests.conformance.builders import fresh_id
from tests.conformance.ledger_builders import done, failed, op, plain, side, why, write
from tests.conformance.test_ledger_races import assert_sound

from .conftest import Ask, Opened, until

ROUNDS = 15
WALLETS = [f"w{n}:spendable" for n in range(12)]


_WAITING = """
    select count(*) from pg_locks
    where locktype = 'advisory' and not granted
        and database = (select oid from pg_database where datname = current_database())
"""


def _transfer(chance: random.Random) -> LedgerOp:
    """From one wallet to two others, with a row and a message, in an order of its own."""
    giver, *takers = chance.sample(WALLETS, 3)
    amount, name = chance.randrange(1, 50), fresh_id()

    def decide(book: Book) -> None:
        entries = (Entry(giver, 2 * amount), *(Entry(one, -amount) for one in takers))
        book.post(NewPosting(id=name, entries=entries))
        book.put(side("sale", name, "SOLD"))

    accounts = [giver, *takers]
    chance.shuffle(accounts)
    return op(decide, name, accounts=accounts, sides={SideKey("sale", name)})


async def _poster(store: PostgresStore, chance: random.Random) -> None:
    for _ in range(ROUNDS):
        await store.post([_transfer(chance) for _ in range(chance.randrange(1, 6))])
        if chance.random() < 0.3:
            await store.commit(Effects(operations=(plain(5, chance.choice(WALLETS)),)))


async def test_eight_posters_over_crossing_accounts_never_deadlock(
    opened: Opened, ask: Ask
) -> None:
    stores = [await opened() for _ in range(8)]
    half = WALLETS[: len(WALLETS) // 2]  # the others are made by whoever is first
    await done(stores[0], *(plain(10_000, one) for one in half))
    before = ask("select deadlocks from pg_stat_database where datname = current_database()")
    await asyncio.gather(*(_poster(one, random.Random(n)) for n, one in enumerate(stores)))
    await assert_sound(stores[0])
    assert ask("select deadlocks from pg_stat_database where datname = current_database()") == (
        before
    )
    ((postings, ids),) = ask("select count(*), count(distinct id) from offpath.ledger_posting")
    assert postings == ids


async def test_one_gets_the_unique_key_and_the_others_see_it(opened: Opened) -> None:
    stores = [await opened() for _ in range(4)]
    place = SideKey("entitlement", "song")

    def take(name: str) -> LedgerOp:
        def decide(book: Book) -> None:
            if book.holder(*place) is not None:
                raise LookupError(name)
            book.put(side("entitlement", name, "OWNED", unique_key=place.name))

        return op(decide, sides={SideKey("entitlement", name)}, holders={place})

    answers = await asyncio.gather(*(one.post([take(f"e{n}")]) for n, one in enumerate(stores * 5)))
    outcomes = sorted(str(why(one)) for (one,) in answers)
    assert outcomes == ["LookupError"] * (len(answers) - 1) + ["None"]


async def test_a_unique_key_changes_hands_within_a_batch(opened: Opened) -> None:
    store = await opened()
    rows = [side("sale", name, "SOLD", unique_key=key) for name, key in (("a", "1"), ("b", "2"))]

    def put(*changed: tuple[str, str | None]) -> LedgerOp:
        def decide(book: Book) -> None:
            for name, key in changed:
                write(book, side("sale", name, "SOLD", unique_key=key))

        return op(
            decide,
            sides={SideKey("sale", name) for name, _ in changed},
            holders={SideKey("sale", key) for key in ("1", "2", "3")},
        )

    assert await failed(store, put(*((row.id, row.unique_key) for row in rows))) == [None]
    assert await failed(store, put(("a", None), ("b", "1"), ("a", "2"))) == [None]
    found = {row.id: row.unique_key for row in await store.ledger_sides("sale")}
    assert found == {"a": "2", "b": "1"}
    assert await failed(store, put(("a", None), ("c", "2"))) == [None]
    found = {row.id: row.unique_key for row in await store.ledger_sides("sale")}
    assert found == {"a": None, "b": "1", "c": "2"}


async def test_a_new_posting_under_a_known_id_holds_back_nobody_for_long(opened: Opened) -> None:
    """Without a key nobody looks for it, so the index refuses it: each alone tells whose it is."""
    store = await opened()
    await done(store, plain(500, id="first"))

    def again(book: Book) -> None:
        book.post(NewPosting(id="first", entries=(Entry(WALLETS[1], 5), Entry(WALLETS[0], -5))))

    await done(store, plain(500, WALLETS[1]))
    with pytest.raises(StoreRejected, match="ledger_posting_id"):
        await store.post([plain(5, WALLETS[1]), op(again, accounts=set(WALLETS[:2]))])
    assert len(await store.ledger_postings()) == 2


async def test_postings_are_numbered_in_the_order_of_their_commits(
    opened: Opened, ask: Ask, url: str
) -> None:
    """A writer that has been given a number commits before anybody else is given one."""
    store = await opened()
    async with await psycopg.AsyncConnection.connect(url) as slow:
        await store.commit_within(slow, Effects(operations=(plain(5, "slow:spendable"),)))
        quick = asyncio.create_task(store.post([plain(7, "x:promo", given="platform:revenue")]))
        await until(lambda: ask(_WAITING) == [(1,)])
        assert await store.ledger_postings() == []
        await slow.commit()
    await quick
    first, second = await store.ledger_postings()
    assert {link.account for link in first.links} == {"platform:stored_value", "slow:spendable"}
    assert second.seq > first.seq

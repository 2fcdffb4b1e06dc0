"""Rows that memory refuses to file, as databases do; and that its reads cost what is asked for."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from offpath.errors import InvalidArgument, StoreRejected
from offpath.model.ledger.changes import AccountChange, Changes, SideChange
from offpath.model.ledger.faults import (
    ChainBroken,
    InvalidTransition,
    LedgerError,
    Overdraft,
    Unbalanced,
    UnknownAccount,
)
from offpath.model.ledger.posting import LinkRecord, PostingRecord
from offpath.model.ledger.records import AccountRecord, KeyRecord, Receipt, SideRow
from offpath.runtime.clock import ManualClock
from offpath.store.memory import MemoryStore
from tests.conformance import ledger_raw
from tests.conformance.builders import START
from tests.conformance.ledger_builders import (
    ANN,
    BOB,
    STORED_VALUE,
    TRUST_CASH,
    USD_CLEARING,
    balance,
    done,
    heads,
    lots,
    plain,
    put,
    raised,
    side,
)
from tests.conformance.ledger_raw import RawLink, following

EXPECTED: dict[str, type[LedgerError | StoreRejected]] = {
    "unbalanced": Unbalanced,
    "off by one": Unbalanced,
    "two currencies": Unbalanced,
    "a wallet below zero": Overdraft,
    "a fork": ChainBroken,
    "a fork at the beginning": ChainBroken,
    "a gap": ChainBroken,
    "another head before it": ChainBroken,
    "another balance": ChainBroken,
    "another sum of what raised it": ChainBroken,
    "a posting that exists": StoreRejected,
    "an account that is none": UnknownAccount,
}


def written(links: list[RawLink]) -> Changes:
    """A batch that would write these links and move their accounts."""
    records = tuple(
        LinkRecord(
            account=one.account,
            number=one.number,
            posting=one.posting,
            amount=one.amount,
            entries=(one.amount,),
            balance=one.balance,
            raised=one.raised,
            prev=one.prev,
            hash=one.hash,
            source=None,
            at=0,
        )
        for one in links
    )
    posting = PostingRecord(id=links[0].posting, meta="{}", at=0, links=records)
    accounts = tuple(
        AccountChange(
            account=AccountRecord(
                id=one.account,
                balance=one.balance,
                raised=one.raised,
                head=one.hash,
                number=one.number,
            ),
            was=one.number - 1,
        )
        for one in links
    )
    return changes(postings=(posting,), accounts=accounts)


def changes(
    *,
    postings: tuple[PostingRecord, ...] = (),
    accounts: tuple[AccountChange, ...] = (),
    sides: tuple[SideChange, ...] = (),
    keys: tuple[KeyRecord, ...] = (),
) -> Changes:
    """A batch that writes this and nothing else."""
    return Changes(
        accounts=accounts, postings=postings, sides=sides, messages=(), keys=keys, attempts=()
    )


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
async def store(clock: ManualClock) -> MemoryStore:
    store = MemoryStore(clock)
    await done(
        store,
        plain(500, id="first"),
        plain(-100),
        plain(9, BOB),
        plain(-30, USD_CLEARING, given=TRUST_CASH),
        put(side("sale", "s", "SOLD", unique_key="k"), side("sale", "t", "SOLD")),
    )
    return store


async def found(store: MemoryStore) -> dict[str, AccountRecord]:
    return {one.id: one for one in await store.ledger_accounts()}


async def test_an_honest_posting_is_filed(store: MemoryStore) -> None:
    books = await found(store)
    links = [following(books[ANN], -5), following(books[STORED_VALUE], 5)]
    store._tables.ledger.file(written(links))
    assert await balance(store, ANN) == 405


@pytest.mark.parametrize("wrong", EXPECTED)
async def test_a_posting_that_breaks_the_books_is_refused(store: MemoryStore, wrong: str) -> None:
    before = await heads(store)
    links = ledger_raw.broken_postings(await found(store))[wrong]
    with pytest.raises(EXPECTED[wrong]):
        store._tables.ledger.file(written(links))
    assert await heads(store) == before
    assert (await store.ledger_counts()).postings == 4
    await done(store, plain(5))


async def test_accounts_move_with_their_links_only(store: MemoryStore) -> None:
    books = await found(store)
    drifted = replace(books[ANN], balance=401)
    with pytest.raises(ChainBroken):
        store._tables.ledger.file(changes(accounts=(AccountChange(account=drifted, was=2),)))
    links = written([following(books[ANN], -5), following(books[STORED_VALUE], 5)])
    with pytest.raises(ChainBroken):
        store._tables.ledger.file(replace(links, accounts=links.accounts[:1]))
    late = replace(links.accounts[0], was=1)
    with pytest.raises(ChainBroken):
        store._tables.ledger.file(replace(links, accounts=(late, links.accounts[1])))


async def test_rows_are_written_by_who_read_the_last_version(store: MemoryStore) -> None:
    ledger = store._tables.ledger

    def row(name: str, version: int, **more: object) -> SideRow:
        fields = {"state": "SOLD", **more}
        return SideRow(kind="sale", id=name, owner="ann", version=version, **fields)  # type: ignore[arg-type]

    broken = [
        SideChange(row=row("s", 2), was=0),
        SideChange(row=row("s", 3), was=2),
        SideChange(row=row("s", 1), was=1),
        SideChange(row=row("new", 2), was=1),
        SideChange(row=row("t", 2, unique_key="k"), was=1),
        SideChange(row=row("t", 2, state="OPEN"), was=1),
    ]
    for one in broken:
        with pytest.raises(InvalidTransition):
            ledger.file(changes(sides=(one,)))
    both = (
        SideChange(row=row("n", 1, unique_key="l"), was=0),
        SideChange(row=row("o", 1, unique_key="l"), was=0),
    )
    with pytest.raises(InvalidTransition):
        ledger.file(changes(sides=both))
    assert [one.version for one in await store.ledger_sides("sale")] == [1, 1]


async def test_a_key_is_used_once(store: MemoryStore) -> None:
    record = KeyRecord(key="posting:first", fingerprint="x", receipt=Receipt(), at=0)
    with pytest.raises(StoreRejected):
        store._tables.ledger.file(changes(keys=(record,)))


async def test_a_snapshot_of_a_ledger_that_rests_is_no_copy(store: MemoryStore) -> None:
    ledger = store._tables.ledger
    async with store.ledger_snapshot():
        assert len(ledger.shared) == 1
    assert ledger.shared == []
    async with store.ledger_snapshot():
        await done(store, plain(1))
        assert ledger.shared == []
        await done(store, plain(1))


async def test_windows_of_a_long_chain_are_found_without_walking_it(
    store: MemoryStore, clock: ManualClock
) -> None:
    class Watched(list[LinkRecord]):
        looks = 0

        def __getitem__(self, at: Any) -> Any:
            Watched.looks += 1
            return super().__getitem__(at)

    await done(store, *(plain(1) for _ in range(2_000)))
    clock.advance(10)
    await done(store, plain(7), plain(-2))
    links = store._tables.ledger.links
    links[ANN] = Watched(links[ANN])
    assert await raised(store, ANN, 5_000) == 7
    assert sum(one.amount for one in await lots(store, ANN, 5_000)) == 7
    assert Watched.looks < 20


async def test_a_hold_of_no_kind_is_refused(store: MemoryStore) -> None:
    with pytest.raises(InvalidArgument, match="payout"):
        await store.lease_sides("entitlement", limit=1, hold=1)

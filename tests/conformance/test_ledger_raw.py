"""The database itself refuses what would break a ledger, whoever writes it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from offpath.model.ledger.records import AccountRecord
from offpath.store.protocol import Store
from tests.conformance import ledger_raw
from tests.conformance.backends import Backend
from tests.conformance.ledger_builders import (
    ANN,
    BOB,
    STORED_VALUE,
    TRUST_CASH,
    USD_CLEARING,
    balance,
    checkpoint,
    done,
    failed,
    leaves,
    plain,
    put,
    side,
)
from tests.conformance.ledger_raw import following

pytestmark = pytest.mark.needs("ledger")

BROKEN = (
    "unbalanced",
    "off by one",
    "two currencies",
    "a wallet below zero",
    "a fork",
    "a fork at the beginning",
    "a gap",
    "another head before it",
    "another balance",
    "another sum of what raised it",
    "a posting that exists",
    "an account that is none",
)


@pytest.fixture
async def books(store: Store, backend: Backend) -> dict[str, AccountRecord]:
    """Accounts with some postings, on a backend with statements."""
    if not store.capabilities.durable:
        pytest.skip("no statements: tests of memory show what it refuses")
    await done(
        store,
        plain(500, id="first"),
        plain(-100),
        plain(9, BOB),
        plain(-30, USD_CLEARING, given=TRUST_CASH),
        put(side("sale", "s", "SOLD", unique_key="k"), side("sale", "t", "SOLD")),
    )
    found = await store.ledger_accounts()
    await store.save_checkpoint(checkpoint("c1"), leaves(found))
    return {one.id: one for one in found}


async def test_every_broken_posting_is_tried(books: dict[str, AccountRecord]) -> None:
    assert tuple(ledger_raw.broken_postings(books)) == BROKEN


async def test_an_honest_posting_is_taken(
    store: Store, backend: Backend, books: dict[str, AccountRecord]
) -> None:
    links = [following(books[ANN], -5), following(books[STORED_VALUE], 5)]
    backend.execute_all(ledger_raw.posting(backend.name, links))
    assert await balance(store, ANN) == 405
    links = [following(books[USD_CLEARING], -5), following(books[TRUST_CASH], 5)]
    cash = [replace(one, posting="cash") for one in links]
    backend.execute_all(ledger_raw.posting(backend.name, cash))
    assert await balance(store, TRUST_CASH) == books[TRUST_CASH].balance + 5


@pytest.mark.parametrize("wrong", BROKEN)
async def test_a_posting_that_breaks_the_books_is_refused(
    store: Store, backend: Backend, books: dict[str, AccountRecord], wrong: str
) -> None:
    """§16.113."""
    before = backend.content()
    statements = ledger_raw.posting(backend.name, ledger_raw.broken_postings(books)[wrong])
    with pytest.raises(backend.refusal):
        backend.execute_all(statements)
    assert backend.content() == before
    await done(store, plain(5))
    assert await store.ledger_sums() == {"CREDIT": 0, "USD": 0}


@pytest.mark.parametrize("wrong", ledger_raw.WRITES)
async def test_a_write_that_breaks_the_books_is_refused(
    store: Store, backend: Backend, books: dict[str, AccountRecord], wrong: str
) -> None:
    """§16.113."""
    before = backend.content()
    with pytest.raises(backend.refusal):
        backend.execute_all([ledger_raw.write(backend.name, wrong)])
    assert backend.content() == before
    await done(store, plain(5))


async def test_what_was_tried_can_be_posted_by_the_store(
    store: Store, backend: Backend, books: dict[str, AccountRecord]
) -> None:
    links = ledger_raw.broken_postings(books)["a wallet below zero"]
    with pytest.raises(backend.refusal):
        backend.execute_all(ledger_raw.posting(backend.name, links))
    assert await failed(store, plain(-400), plain(-1)) == [None, "Overdraft"]

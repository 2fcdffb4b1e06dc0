"""Short ways to move money in tests of the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from offpath.model.ledger.book import Book
from offpath.model.ledger.chart import PROMO_FLOAT, REVENUE, STORED_VALUE, TRUST_CASH, USD_CLEARING
from offpath.model.ledger.decision import Decided, LedgerOp
from offpath.model.ledger.needs import AttemptNeed, LotsNeed, Needs, RaisedNeed
from offpath.model.ledger.plain import posting_op
from offpath.model.ledger.posting import Entry, NewPosting
from offpath.model.ledger.records import (
    AccountRecord,
    Checkpoint,
    Leaf,
    Lot,
    Receipt,
    SideKey,
    SideRow,
)
from offpath.store.ledger import LedgerReads
from offpath.store.protocol import Store
from tests.conformance.builders import START, fresh_id

__all__ = ["PROMO_FLOAT", "REVENUE", "STORED_VALUE", "TRUST_CASH", "USD_CLEARING"]

ANN = "ann:spendable"
BOB = "bob:spendable"
NOW = int(START.timestamp() * 1000)
"""The store's clock in milliseconds when a test begins."""


def move(amount: int, to: str = ANN, *, given: str = STORED_VALUE, **more: Any) -> NewPosting:
    """A posting that raises ``to``, an account that grows on credits, by minor units."""
    posting_id = more.pop("id", None) or fresh_id()
    entries = (Entry(given, amount), Entry(to, -amount))
    return NewPosting(id=posting_id, entries=entries, meta={"kind": "move", **more})


def plain(amount: int, to: str = ANN, *, given: str = STORED_VALUE, **more: Any) -> LedgerOp:
    """The operation of :func:`move`."""
    return posting_op(move(amount, to, given=given, **more))


def op(decide: Callable[[Book], object], key: str | None = None, **needs: Any) -> LedgerOp:
    """An operation that does this; what it needs is given as lists or sets."""
    fingerprint = needs.pop("fingerprint", "")
    now = needs.pop("now", None)
    frozen: dict[str, Any] = {
        name: one if isinstance(one, bool) else frozenset(one) for name, one in needs.items()
    }

    def deciding(book: Book) -> Receipt:
        made = decide(book)
        return made if isinstance(made, Receipt) else Receipt()

    return LedgerOp(
        decide=deciding, needs=Needs(**frozen), key=key, fingerprint=fingerprint, now=now
    )


def side(kind: str, name: str, state: str, **more: Any) -> SideRow:
    """A side row."""
    return SideRow(kind=kind, id=name, owner=more.pop("owner", "ann"), state=state, **more)


def write(book: Book, row: SideRow) -> SideRow:
    """Write a row in the place of the one that is there, whatever version that has."""
    found = book.side(row.kind, row.id)
    return book.put(replace(row, version=0 if found is None else found.version))


def put(*rows: SideRow) -> LedgerOp:
    """An operation that writes these rows as they are."""
    return op(
        lambda book: [write(book, row) for row in rows],
        sides={row.key for row in rows},
        holders={SideKey(row.kind, row.unique_key) for row in rows if row.unique_key},
    )


async def done(store: Store, *operations: LedgerOp) -> list[Receipt]:
    """Post these, and all of them go well."""
    return [receipt_of(one) for one in await store.post(operations)]


def receipt_of(decided: Decided) -> Receipt:
    """The receipt of an operation that went well."""
    assert decided.error is None, decided.error
    assert decided.receipt is not None, decided.refusal
    return decided.receipt


async def failed(store: Store, *operations: LedgerOp) -> list[str | None]:
    """Post these; the names of the errors or reasons, None where it went well."""
    return [why(one) for one in await store.post(operations)]


def why(decided: Decided) -> str | None:
    """The error's name or the reason; None where it went well."""
    if decided.error is not None:
        return type(decided.error).__name__
    return None if decided.refusal is None else decided.refusal.reason


async def look(store: Store, read: Callable[[Book], Any], **needs: Any) -> Any:
    """The view of an operation with these needs."""
    seen: list[Any] = []
    operation = op(lambda book: seen.append(read(book)), **needs)
    await done(store, operation)
    return seen[-1]


async def lots(store: Store, account: str, back: int, now: int | None = None) -> tuple[Lot, ...]:
    """The lots of the last milliseconds."""
    found: tuple[Lot, ...] = await look(
        store,
        lambda book: book.lots(account, book.now - back),
        accounts={account},
        lots={LotsNeed(account, back)},
        now=now,
    )
    return found


async def raised(store: Store, account: str, back: int, now: int | None = None) -> int:
    """The sum that raised an account in the last milliseconds."""
    found: int = await look(
        store,
        lambda book: book.raised(account, book.now - back),
        accounts={account},
        raised={RaisedNeed(account, back)},
        now=now,
    )
    return found


def tried(subject: str, key: str, amount: int, back: int, seen: list[int]) -> LedgerOp:
    """An operation that only counts an attempt."""
    return op(
        lambda book: seen.append(book.attempt(subject, key, amount, book.now - back)),
        attempts={AttemptNeed(subject, back, key)},
    )


async def account(reads: LedgerReads, name: str) -> AccountRecord:
    """An account; empty when there is none."""
    found = await reads.ledger_accounts(ids=(name,))
    return found[0] if found else AccountRecord(id=name)


async def balance(reads: LedgerReads, name: str) -> int:
    """An account's balance."""
    return (await account(reads, name)).balance


async def heads(reads: LedgerReads) -> dict[str, tuple[int, str, int]]:
    """Of all accounts, how many links they have, the head and the balance."""
    found = await reads.ledger_accounts()
    return {one.id: (one.number, one.head, one.balance) for one in found}


def leaves(accounts: Iterable[AccountRecord]) -> list[Leaf]:
    """The accounts as a checkpoint has them."""
    return [Leaf(account=one.id, number=one.number, head=one.head, sum=one.sum) for one in accounts]


def checkpoint(name: str, prev: str | None = None, **more: Any) -> Checkpoint:
    """A checkpoint; what is signed does not matter to a store."""
    fields: dict[str, Any] = {"root": "ab" * 32, "signature": "cd" * 64, "count": 1, "v": 3}
    return Checkpoint(id=name, prev=prev, **{"at": NOW, "sum": 0, "kid": "k", **fields, **more})

"""Rows of the ledger as values of the model, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from offpath.model.ledger.chart import chart, charted
from offpath.model.ledger.posting import MOST_ACCOUNTS, LinkRecord, PostingRecord
from offpath.model.ledger.records import (
    AccountRecord,
    Checkpoint,
    KeyRecord,
    Leaf,
    MoveAttempt,
    Receipt,
    SideRow,
)
from offpath.store.sql import Row

_entries: Final = msgspec.json.Decoder(tuple[int, ...]).decode
_receipt: Final = msgspec.json.Decoder(Receipt).decode
_encode: Final = msgspec.json.Encoder().encode

PLACES: Final = MOST_ACCOUNTS
"""Ids of links for each posting."""
_LINK: Final = 5
"""The place where a posting's row continues with a link."""


# -- out -------------------------------------------------------------------------------------------


def account_record(row: Row) -> AccountRecord:
    """Id, balance, raised, head, number."""
    return AccountRecord(id=row[0], balance=row[1], raised=row[2], head=row[3], number=row[4])


def listed_account(row: Row) -> AccountRecord:
    """The same, then kind, currency, side and guarded, which must be those of the chart."""
    return AccountRecord(
        id=row[0],
        balance=row[1],
        raised=row[2],
        head=row[3],
        number=row[4],
        charted=charted(row[0], row[5], row[6], row[8], row[7]),
    )


def side_row(row: Row) -> SideRow:
    """The columns in the order of the struct's fields."""
    return SideRow(
        kind=row[0],
        id=row[1],
        owner=row[2],
        state=row[3],
        version=row[4],
        due_at=row[5],
        attempts=row[6],
        amount=row[7],
        anchor=row[8],
        unique_key=row[9],
        created_at=row[10],
        touched_at=row[11],
        body=row[12],
    )


def link_record(row: Row, posting: str, at: int, source: str | None) -> LinkRecord:
    """Account, number, amount, entries, balance, raised, prev, hash."""
    return LinkRecord(
        account=row[0],
        number=row[1],
        posting=posting,
        amount=row[2],
        entries=(row[2],) if row[3] is None else _entries_in(row[3]),
        balance=row[4],
        raised=row[5],
        prev=row[6],
        hash=row[7],
        source=source,
        at=at,
    )


def _entries_in(text: str) -> tuple[int, ...]:
    """The entries in a text. A text that was altered beyond reading has none: the link does not
    hash to that, and is named.
    """
    try:
        return _entries(text)
    except msgspec.DecodeError:
        return ()


def chain_link(row: Row) -> LinkRecord:
    """A link, then its posting's id, time and source."""
    return link_record(row, row[8], row[9], row[10])


def postings(rows: Iterable[Row]) -> list[PostingRecord]:
    """Seq, id, time, source and, with the first link, the metadata; then the link. Where the first
    link is gone, the metadata is empty: the others do not hash to that.
    """
    found: list[tuple[Row, list[LinkRecord]]] = []
    for row in rows:
        if not found or found[-1][0][0] != row[0]:
            found.append((row, []))
        found[-1][1].append(link_record(row[_LINK:], row[1], row[2], row[3]))
    return [
        PostingRecord(
            seq=first[0], id=first[1], at=first[2], meta=first[4] or "{}", links=tuple(links)
        )
        for first, links in found
    ]


def key_record(row: Row) -> KeyRecord:
    """Key, fingerprint, receipt, time."""
    return KeyRecord(key=row[0], fingerprint=row[1], receipt=_receipt(row[2]), at=row[3])


def attempt(row: Row) -> MoveAttempt:
    """Subject, key, amount, time, total."""
    return MoveAttempt(subject=row[0], key=row[1], amount=row[2], at=row[3], total=row[4])


def checkpoint(row: Row) -> Checkpoint:
    """The columns in the order of the struct's fields."""
    return Checkpoint(
        id=row[0],
        root=row[1],
        signature=row[2],
        count=row[3],
        at=row[4],
        v=row[5],
        sum=row[6],
        kid=row[7],
        prev=row[8],
        posting=row[9],
    )


def leaf(row: Row) -> Leaf:
    """Account, number, head, sum."""
    return Leaf(account=row[0], number=row[1], head=row[2], sum=row[3])


def total(high: int, low: int) -> int:
    """A sum from the sums of its parts' upper and lower 32 bits."""
    return (high << 32) + low


def totals(found: Iterable[Row]) -> dict[str, int]:
    """Such sums by name."""
    return {name: total(high, low) for name, high, low in found}


# -- in --------------------------------------------------------------------------------------------


def new_account(account: str) -> tuple[Any, ...]:
    """The chart's fields of an account."""
    known = chart(account)
    side = 1 if known.debit_grows else -1
    return (account, known.kind, known.currency.value, side, int(known.guarded))


def drafts(number: int, posting: PostingRecord) -> Iterable[tuple[Any, ...]]:
    """The links of a posting that is to be sealed as the ``number``-th from now, from 1."""
    for place, link in enumerate(posting.links, number * PLACES):
        head = (place, link.account, link.number, link.amount, link.balance, link.hash)
        yield head if link.entries == (link.amount,) else (*head, _encode(link.entries).decode())


def sealed(posting: PostingRecord) -> tuple[Any, ...]:
    """The row that seals it."""
    return (posting.id, posting.at, posting.links[0].source, posting.meta)


def side_columns(row: SideRow) -> tuple[Any, ...]:
    """A row beside the postings."""
    return (
        row.kind,
        row.id,
        row.owner,
        row.state,
        row.version,
        row.due_at,
        row.attempts,
        row.amount,
        row.anchor,
        row.unique_key,
        row.created_at,
        row.touched_at,
        row.body,
    )


def key_columns(record: KeyRecord) -> tuple[Any, ...]:
    """A key that is used up."""
    return (record.key, record.fingerprint, _encode(record.receipt).decode(), record.at)


def attempt_columns(made: MoveAttempt) -> tuple[Any, ...]:
    """An attempt."""
    return (made.subject, made.key, made.amount, made.at, made.total)

"""From the ledger's rows in memory to the book of a batch: it costs what is wanted of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Final, TypeVar

from offpath.model.ledger.book import Book, Loaded
from offpath.model.ledger.chart import chart
from offpath.model.ledger.decision import LedgerOp, batch_wants
from offpath.model.ledger.needs import Wanted
from offpath.model.ledger.posting import LinkRecord
from offpath.model.ledger.records import (
    OPEN_PAYOUTS,
    AccountRecord,
    Lot,
    MoveAttempt,
    SideRow,
    Totals,
)
from offpath.store.memory.ledger_rows import Ledger, Tries
from offpath.store.rows.instants import milliseconds

_AT: Final = attrgetter("at")
Row = TypeVar("Row")


def book_for(ledger: Ledger, now: datetime, operations: Sequence[LedgerOp]) -> Book:
    """The book on which these operations are decided."""
    at = milliseconds(now)
    return Book(load(ledger, batch_wants(operations, at), at))


def load(ledger: Ledger, wanted: Wanted, now: int) -> Loaded:
    """Read all that is wanted."""
    tries = {subject: ledger.tries.get(subject) for subject, _ in wanted.attempts}
    return Loaded(
        wanted=wanted,
        now=now,
        accounts=_there(ledger.accounts, wanted.accounts),
        sides=tuple(_sides(ledger, wanted)),
        newest=tuple(rows[-1] for one in wanted.newest if (rows := ledger.owned.get(one))),
        postings=tuple(
            found for one in wanted.postings if (found := ledger.posting(one)) is not None
        ),
        retired=tuple(
            ledger.retired[one]
            for one in wanted.postings
            if one in ledger.retired and ledger.posting(one) is None
        ),
        keys=_there(ledger.keys, wanted.keys),
        lots={account: _lots(ledger, account, since) for account, since in wanted.lots},
        raised={one: _raised(ledger, *one) for one in wanted.raised},
        attempts={
            (subject, since): _attempted(tries[subject], since)
            for subject, since in wanted.attempts
        },
        attempted={
            (subject, key): known.at
            for subject, key in wanted.attempted
            if (made := tries[subject]) is not None and (known := made.keys.get(key)) is not None
        },
        subjects={name: made.made[-1] for name, made in tries.items() if made is not None},
        totals=totals(ledger) if wanted.totals else None,
    )


def totals(ledger: Ledger) -> Totals:
    """Sums over all accounts, by their own balances."""
    balances: dict[str, int] = {}
    for account in ledger.accounts.values():
        kind = chart(account.id).kind
        balances[kind] = balances.get(kind, 0) + account.balance
    quotes = (
        row.amount or 0 for row in ledger.sides["payout"].values() if row.state in OPEN_PAYOUTS
    )
    asked = sum(one.quote for one in ledger.requests.values())
    return Totals(balances=balances, quotes=sum(quotes), requested=asked)


def _there(rows: Mapping[str, Row], names: Sequence[str]) -> tuple[Row, ...]:
    return tuple(row for name in names if (row := rows.get(name)) is not None)


def _sides(ledger: Ledger, wanted: Wanted) -> Iterator[SideRow]:
    for kind, row_id in wanted.sides:
        row = ledger.sides.get(kind, {}).get(row_id)
        if row is not None:
            yield row
    for place in wanted.holders:
        holder = ledger.holders.get(place)
        if holder is not None:
            yield ledger.sides[place.kind][holder]


def _lots(ledger: Ledger, account: str, since: int) -> tuple[Lot, ...]:
    """The lots that raised it after a time, newest first, until its balance is covered."""
    left = ledger.accounts.get(account, AccountRecord(id=account)).balance
    change_of = chart(account).change
    found: list[Lot] = []
    for link in reversed(ledger.links.get(account, ())):
        if left <= 0 or link.at <= since:
            break
        change = change_of(link.amount)
        if change > 0:
            found.append(Lot(amount=change, at=link.at, source=link.source))
            left -= change
    return tuple(found)


def _raised(ledger: Ledger, account: str, since: int) -> int:
    """The difference of two links: the last one, and the last one that is not after the time."""
    links: Sequence[LinkRecord] = ledger.links.get(account, ())
    if not links:
        return 0
    before = bisect_right(links, since, key=_AT)
    if before:
        return links[-1].raised - links[before - 1].raised
    # What raised it before the first link that is left was before the time as well.
    first = links[0]
    return links[-1].raised - first.raised + max(chart(account).change(first.amount), 0)


def _attempted(tries: Tries | None, since: int) -> int:
    """From the first that is after the time to the last: what was before may have been replaced."""
    if tries is None:
        return 0
    made: Sequence[MoveAttempt] = tries.made
    first = bisect_right(made, since, key=_AT)
    if first == len(made):
        return 0
    return made[-1].total - made[first].total + made[first].amount

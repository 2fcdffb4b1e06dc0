"""Reads of a ledger, of its present or within a snapshot of one moment; and the rows of answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from offpath.model.ledger.chart import charted
from offpath.model.ledger.faults import ChainBroken
from offpath.model.ledger.posting import LinkRecord, PostingRecord
from offpath.model.ledger.records import (
    AccountRecord,
    Checkpoint,
    KeyRecord,
    Leaf,
    Receipt,
    SideRow,
    Totals,
)
from offpath.model.ledger.trims import Retired, Trim
from offpath.store.ledger import Counts
from offpath.store.programs.dialect import Dialect, Steps, ask, one
from offpath.store.sql import Query, Row

S = TypeVar("S", bound=Struct)

_FAR: Final = 2**63 - 1
_FIRST_HALF: Final = 0xD800
_BEHIND_HALVES: Final = 0xE000
"""Between them are halves of characters, which are not characters."""

_entries: Final = msgspec.json.Decoder(tuple[int, ...]).decode
_posting: Final = msgspec.json.Decoder(PostingRecord).decode
_receipt: Final = msgspec.json.Decoder(Receipt).decode


def accounts(
    d: Dialect, *, ids: Sequence[str] = (), prefix: str = "", after: str = "", limit: int = 1000
) -> Steps[list[AccountRecord]]:
    """Accounts by id: these, or all whose id begins so."""
    page = {"prefix": prefix, "after": after, "limit": max(limit, 0)}
    if ids:
        query = d.sql["ledger_accounts_by_id"](ids=_sorted(d, ids), **page)
    else:
        query = d.sql["ledger_accounts_by_prefix"](beyond=_beyond(prefix), **page)
    return [_account(AccountRow._make(row)) for row in (yield from one(query))]


def debts(d: Dialect, *, after: str = "", limit: int = 1000) -> Steps[list[AccountRecord]]:
    """Accounts of what users owe, by id."""
    query = d.sql["ledger_debts"](after=after, limit=max(limit, 0))
    return [_account(AccountRow._make(row)) for row in (yield from one(query))]


def links(
    d: Dialect, account: str, *, after: int = 0, limit: int = 1000, newest: bool = False
) -> Steps[list[LinkRecord]]:
    """Links of one account, forwards or backwards."""
    if newest:
        query = d.sql["ledger_links_back"](
            # 0 stands for the last link: every number is lower than this one.
            account=account,
            before=after or _FAR,
            limit=max(limit, 0),
        )
    else:
        query = d.sql["ledger_links_on"](account=account, after=after, limit=max(limit, 0))
    return [link for link, _ in (yield from _linked(query))]


def walk(
    d: Dialect, *, after: tuple[str, int] = ("", 0), limit: int = 1000
) -> Steps[list[tuple[LinkRecord, str]]]:
    """Every link with its posting's metadata, by account and number."""
    account, number = after
    query = d.sql["ledger_walk"](account=account, number=number, limit=max(limit, 0))
    return (yield from _linked(query))


def since(
    d: Dialect, account: str, number: int, *, limit: int = 1000
) -> Steps[list[tuple[LinkRecord, str]]]:
    """Links of an account behind ``number``, with their postings' metadata."""
    query = d.sql["ledger_links_on"](account=account, after=number, limit=max(limit, 0))
    return (yield from _linked(query))


def tails(d: Dialect, tails: Sequence[tuple[str, int, int]]) -> Steps[list[tuple[LinkRecord, str]]]:
    """Links of several accounts, with their postings' metadata."""
    return (yield from _linked(d.sql["ledger_tails"](tails=d.batch(sorted(tails)))))


def postings(
    d: Dialect, *, ids: Sequence[str] = (), after: int = 0, limit: int = 1000
) -> Steps[list[PostingRecord]]:
    """Postings by id, or in the order of their commits."""
    page = {"after": after, "limit": max(limit, 0)}
    if not ids:
        return posted((yield from one(d.sql["ledger_postings_on"](**page))))
    asked = set(ids)
    query = d.sql["ledger_postings_by_id"](ids=_sorted(d, asked), **page)
    found = posted((yield from ask(query)))
    missing = asked - {each.id for each in found}
    if missing and len(found) < limit:
        # A trim may have kept them whole, since rows that are open name them.
        kept = yield from retired(d, ids=sorted(missing), limit=limit - len(found))
        whole = (gone.posting for gone in kept if gone.posting is not None)
        found += [each for each in whole if each.seq > after]
    return found


def sides(
    d: Dialect,
    kind: str,
    *,
    ids: Sequence[str] = (),
    owner: str | None = None,
    states: Sequence[str] = (),
    after: str = "",
    limit: int = 1000,
) -> Steps[list[SideRow]]:
    """Side rows of a kind by id."""
    page = {
        "kind": kind,
        "states": d.batch(list(states)) if states else None,
        "after": after,
        "limit": max(limit, 0),
    }
    if ids:
        query = d.sql["ledger_sides_by_id"](ids=_sorted(d, ids), owner=owner, **page)
    elif owner is not None:
        query = d.sql["ledger_sides_of_owner"](owner=owner, **page)
    else:
        query = d.sql["ledger_sides_of_kind"](**page)
    return records(SideRow, (yield from one(query)))


def bare(d: Dialect, *, limit: int = 1000) -> Steps[list[str]]:
    """Postings without links, by id."""
    return [id_ for (id_,) in (yield from one(d.sql["ledger_bare"](limit=max(limit, 0))))]


def key(d: Dialect, key: str) -> Steps[KeyRecord | None]:
    """The record under an idempotency key."""
    for row in (yield from one(d.sql["ledger_key"](key=key))):
        return key_record(row)
    return None


def totals(d: Dialect) -> Steps[Totals]:
    """Sums over all accounts, by the accounts' own balances."""
    return summed((yield from one(d.sql["ledger_totals"]())))


def last(d: Dialect) -> Steps[int]:
    """The number of the last posting."""
    [[number]] = yield from one(d.sql["ledger_last"]())
    return int(number)


def sums(d: Dialect) -> Steps[dict[str, int]]:
    """The sum of all entries by currency."""
    rows = yield from one(d.sql["ledger_sums"]())
    return {currency: _whole(high, low) for currency, high, low in rows}


def counts(d: Dialect) -> Steps[Counts]:
    """The numbers of rows."""
    [[accounts, postings, links]] = yield from one(d.sql["ledger_counts"]())
    return Counts(accounts=accounts, postings=postings, links=links)


def checkpoints(d: Dialect, *, before: str = "", limit: int = 10) -> Steps[list[Checkpoint]]:
    """Checkpoints, the latest first."""
    query = d.sql["ledger_checkpoints"](before=before, limit=max(limit, 0))
    return records(Checkpoint, (yield from one(query)))


def leaves(
    d: Dialect, *, ids: Sequence[str] = (), after: str = "", limit: int = 1000
) -> Steps[list[Leaf]]:
    """Leaves of the last checkpoint, by account."""
    page = {"after": after, "limit": max(limit, 0)}
    if ids:
        query = d.sql["ledger_leaves_of"](ids=_sorted(d, ids), **page)
    else:
        query = d.sql["ledger_leaves"](**page)
    return records(Leaf, (yield from one(query)))


def moved(d: Dialect, *, after: str = "", limit: int = 1000) -> Steps[list[str]]:
    """Accounts that are not as the last checkpoint has them, by id."""
    query = d.sql["ledger_moved"](after=after, limit=max(limit, 0))
    return [account for (account,) in (yield from one(query))]


def trims(d: Dialect) -> Steps[list[Trim]]:
    """All trims, the latest first."""
    return records(Trim, (yield from one(d.sql["ledger_trims"]())))


def standings(
    d: Dialect, until: int, *, ids: Sequence[str] = (), after: str = "", limit: int = 1000
) -> Steps[list[LinkRecord]]:
    """The last link of each account up to a posting, by account."""
    page = {"until": until, "after": after, "limit": max(limit, 0)}
    if ids:
        query = d.sql["ledger_standings_of"](ids=_sorted(d, ids), **page)
    else:
        query = d.sql["ledger_standings"](**page)
    return [link for link, _ in (yield from _linked(query))]


def retired(
    d: Dialect, *, ids: Sequence[str] = (), trim: int = 0, after: str = "", limit: int = 1000
) -> Steps[list[Retired]]:
    """Postings that were removed, or those that a trim keeps whole, by id."""
    page = {"after": after, "limit": max(limit, 0)}
    if ids:
        query = d.sql["ledger_retired_of"](ids=_sorted(d, ids), **page)
    else:
        query = d.sql["ledger_kept"](trim=trim, **page)
    return retired_rows((yield from one(query)))


# -- rows ------------------------------------------------------------------------------------


def retired_rows(rows: Iterable[Row]) -> list[Retired]:
    """Postings that were removed. Raises ``ChainBroken`` for one that was kept and altered."""
    return [
        Retired(id=name, trim=trim, file=file, posting=None if text is None else _kept(name, text))
        for name, trim, file, text in rows
    ]


def _kept(name: str, text: str) -> PostingRecord:
    try:
        return _posting(text)
    except msgspec.MsgspecError as error:
        raise ChainBroken(f"the posting {name}, which is kept, was altered: {error}") from error


def records(kind: type[S], rows: Iterable[Row]) -> list[S]:
    """Rows whose columns are the fields of a struct of the model, in their order."""
    fields = kind.__struct_fields__
    # Strict: with a column too few, values would stand under other fields' names.
    return [kind(**dict(zip(fields, row, strict=True))) for row in rows]


def key_record(row: Row) -> KeyRecord:
    """An idempotency key that was used."""
    key, fingerprint, receipt, at = row
    return KeyRecord(key=key, fingerprint=fingerprint, receipt=_receipt(receipt), at=at)


def posted(rows: Iterable[Row]) -> list[PostingRecord]:
    """Postings of rows that repeat each for every one of its links.

    Metadata that is not with the first of them is empty: the others do not hash to that.
    """
    found: list[tuple[PostingRow, list[LinkRecord]]] = []
    for each in map(PostingRow._make, rows):
        if not found or found[-1][0].seq != each.seq:
            found.append((each, []))
        if each.account is not None:
            found[-1][1].append(_link(each))
    return [
        PostingRecord(
            seq=first.seq,
            id=first.posting,
            at=first.posted_at,
            meta=first.meta or "{}",
            links=tuple(some),
        )
        for first, some in found
    ]


def summed(rows: Iterable[Row]) -> Totals:
    """The sums of ``ledger_totals``, in rows of what they are of."""
    sums: dict[str, dict[str, int]] = {}
    for of, name, high, low in rows:
        sums.setdefault(of, {})[name] = _whole(high, low)
    return Totals(
        balances=sums.get("balances", {}),
        quotes=sums["quotes"][""],
        requested=sums["requested"][""],
    )


def _whole(high: int, low: int) -> int:
    """A sum of its parts above and below 32 bits: it may have more than 64."""
    return (high << 32) + low


def _account(row: AccountRow) -> AccountRecord:
    return AccountRecord(
        id=row.id,
        balance=row.balance,
        raised=row.raised,
        head=row.head,
        number=row.number,
        charted=charted(row.id, row.kind, row.currency, row.guarded, row.side),
    )


def _linked(query: Query) -> Steps[list[tuple[LinkRecord, str]]]:
    rows = yield from one(query)
    return [(_link(each), each.meta) for each in map(LinkRow._make, rows)]


def _link(row: LinkRow | PostingRow) -> LinkRecord:
    return LinkRecord(
        account=row.account or "",
        number=row.number,
        posting=row.posting,
        amount=row.amount,
        entries=(row.amount,) if row.entries is None else _entries_of(row.entries),
        balance=row.balance,
        raised=row.raised,
        prev=row.prev,
        hash=row.hash,
        source=row.source,
        at=row.at,
    )


def _entries_of(text: str) -> tuple[int, ...]:
    """The amounts; text that is not JSON is none, for the link does not hash to that and is named.

    Raises ``ChainBroken`` for JSON that is not a list of amounts.
    """
    try:
        return _entries(text)
    except msgspec.ValidationError as error:
        raise ChainBroken(f"a row of the ledger was altered beyond reading: {error}") from error
    except msgspec.DecodeError:
        return ()


def _sorted(d: Dialect, ids: Iterable[Any]) -> str:
    return d.batch(sorted(set(ids)))


def _beyond(prefix: str) -> str | None:
    """The first text behind all that begin so, by code points; None: there is no end."""
    # Nothing comes behind the last character of all, so the one before it is raised.
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(_BEHIND_HALVES if following == _FIRST_HALF else following)


class AccountRow(NamedTuple):
    """An account, and what its row says of it besides: all that the chart of accounts knows too."""

    id: str
    balance: int
    raised: int
    head: str
    number: int
    kind: str
    currency: str
    guarded: int
    side: int | None


class LinkRow(NamedTuple):
    """A link with its posting's metadata. Entries are a JSON list; None: the amount is its one."""

    account: str
    number: int
    posting: str
    amount: int
    entries: str | None
    balance: int
    raised: int
    prev: str
    hash: str
    source: str | None
    at: int
    meta: str


class PostingRow(NamedTuple):
    """A posting, with one of its links; its link has no account where there is none."""

    seq: int
    posted_at: int
    account: str | None
    number: int
    posting: str
    amount: int
    entries: str | None
    balance: int
    raised: int
    prev: str
    hash: str
    source: str | None
    at: int
    meta: str | None


class DueSideRow(NamedTuple):
    """A due row beside the ledger, behind the store's time in milliseconds."""

    now: int
    kind: str
    id: str
    owner: str
    state: str
    version: int
    due_at: int
    attempts: int
    amount: int | None
    anchor: str | None
    unique_key: str | None
    created_at: int
    touched_at: int
    body: str

"""Reading the ledger: each method is one statement that answers with one JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

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
    SideRow,
    Totals,
)
from offpath.store.ledger import Counts
from offpath.store.postgres.steps import to_json
from offpath.store.programs.dialect import Rows
from offpath.store.sql import Catalogue, Query

T = TypeVar("T")

_FAR: Final = 2**63 - 1
_FIRST_HALF: Final = 0xD800
_BEHIND_HALVES: Final = 0xE000
"""Between them are halves of characters, which are no characters."""


class _Listed(Struct, frozen=True, gc=False):
    """An account with what its row says of it besides: all that the chart of accounts knows too."""

    id: str
    balance: int
    raised: int
    head: str
    number: int
    kind: str
    currency: str
    guarded: bool

    def record(self) -> AccountRecord:
        return AccountRecord(
            id=self.id,
            balance=self.balance,
            raised=self.raised,
            head=self.head,
            number=self.number,
            charted=charted(self.id, self.kind, self.currency, self.guarded),
        )


class LedgerReading:
    """The reads of a ledger, wherever :meth:`_ask_ledger` asks it."""

    _sql: Catalogue

    async def _ask_ledger(self, query: Query) -> Rows:
        """Run one statement."""
        raise NotImplementedError

    async def ledger_accounts(
        self, *, ids: Sequence[str] = (), prefix: str = "", after: str = "", limit: int = 1000
    ) -> list[AccountRecord]:
        """Accounts by id."""
        if ids:
            query = self._sql["ledger_accounts_by_id"](
                ids=to_json(sorted(set(ids))), prefix=prefix, after=after, limit=max(limit, 0)
            )
        else:
            query = self._sql["ledger_accounts_by_prefix"](
                prefix=prefix, beyond=_beyond(prefix), after=after, limit=max(limit, 0)
            )
        return [one.record() for one in await self._document(query, list[_Listed])]

    async def ledger_debts(self, *, after: str = "", limit: int = 1000) -> list[AccountRecord]:
        """The accounts of users' debts, by id."""
        query = self._sql["ledger_debts"](after=after, limit=max(limit, 0))
        return [one.record() for one in await self._document(query, list[_Listed])]

    async def ledger_links(
        self, account: str, *, after: int = 0, limit: int = 1000, newest: bool = False
    ) -> list[LinkRecord]:
        """Links of one account, forwards or backwards."""
        if not newest:
            pairs = await self.ledger_since(account, after, limit=limit)
            return [link for link, _ in pairs]
        query = self._sql["ledger_links_back"](
            account=account, before=after or _FAR, limit=max(limit, 0)
        )
        return await self._document(query, list[LinkRecord])

    async def ledger_walk(
        self, *, after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> list[tuple[LinkRecord, str]]:
        """Every link with its posting's metadata, by account and number."""
        account, number = after
        query = self._sql["ledger_walk"](account=account, number=number, limit=max(limit, 0))
        return await self._document(query, list[tuple[LinkRecord, str]])

    async def ledger_since(
        self, account: str, number: int, *, limit: int = 1000
    ) -> list[tuple[LinkRecord, str]]:
        """Links behind ``number``, with their postings' metadata."""
        query = self._sql["ledger_links_on"](account=account, after=number, limit=max(limit, 0))
        return await self._document(query, list[tuple[LinkRecord, str]])

    async def ledger_tails(
        self, tails: Sequence[tuple[str, int, int]]
    ) -> list[tuple[LinkRecord, str]]:
        """Links of several accounts, with their postings' metadata."""
        asked = [{"account": one, "after": after, "until": until} for one, after, until in tails]
        query = self._sql["ledger_tails"](tails=to_json(asked))
        return await self._document(query, list[tuple[LinkRecord, str]])

    async def ledger_postings(
        self, *, ids: Sequence[str] = (), after: int = 0, limit: int = 1000
    ) -> list[PostingRecord]:
        """Postings by id, or in the order of their commits."""
        if ids:
            query = self._sql["ledger_postings_by_id"](
                ids=to_json(sorted(set(ids))), after=after, limit=max(limit, 0)
            )
        else:
            query = self._sql["ledger_postings_on"](after=after, limit=max(limit, 0))
        return await self._document(query, list[PostingRecord])

    async def ledger_sides(
        self,
        kind: str,
        *,
        ids: Sequence[str] = (),
        owner: str | None = None,
        states: Sequence[str] = (),
        after: str = "",
        limit: int = 1000,
    ) -> list[SideRow]:
        """Side rows of a kind by id."""
        wanted, bound = to_json(list(states)) if states else None, max(limit, 0)
        if ids:
            query = self._sql["ledger_sides_by_id"](
                kind=kind,
                ids=to_json(sorted(set(ids))),
                owner=owner,
                states=wanted,
                after=after,
                limit=bound,
            )
        elif owner is not None:
            query = self._sql["ledger_sides_of_owner"](
                kind=kind, owner=owner, states=wanted, after=after, limit=bound
            )
        else:
            query = self._sql["ledger_sides_of_kind"](
                kind=kind, states=wanted, after=after, limit=bound
            )
        return await self._document(query, list[SideRow])

    async def ledger_bare(self, *, limit: int = 1000) -> list[str]:
        """Postings without links."""
        return await self._document(self._sql["ledger_bare"](limit=max(limit, 0)), list[str])

    async def ledger_key(self, key: str) -> KeyRecord | None:
        """The record under a key."""
        rows = await self._ask_ledger(self._sql["ledger_key"](key=key))
        return msgspec.json.decode(rows[0][0], type=KeyRecord) if rows else None

    async def ledger_totals(self) -> Totals:
        """Sums over all accounts."""
        return await self._document(self._sql["ledger_totals"](), Totals)

    async def ledger_last(self) -> int:
        """The number of the last posting."""
        ((number,),) = await self._ask_ledger(self._sql["ledger_last"]())
        return int(number)

    async def ledger_sums(self) -> dict[str, int]:
        """The sum of all entries by currency."""
        return await self._document(self._sql["ledger_sums"](), dict[str, int])

    async def ledger_counts(self) -> Counts:
        """The numbers of rows."""
        ((accounts, postings, links),) = await self._ask_ledger(self._sql["ledger_counts"]())
        return Counts(accounts=accounts, postings=postings, links=links)

    async def ledger_checkpoints(self, *, before: str = "", limit: int = 10) -> list[Checkpoint]:
        """Checkpoints, the latest first."""
        query = self._sql["ledger_checkpoints"](before=before, limit=max(limit, 0))
        return await self._document(query, list[Checkpoint])

    async def ledger_leaves(
        self, *, ids: Sequence[str] = (), after: str = "", limit: int = 1000
    ) -> list[Leaf]:
        """Leaves of the last checkpoint by account."""
        bound = max(limit, 0)
        if ids:
            named = to_json(sorted(set(ids)))
            query = self._sql["ledger_leaves_of"](ids=named, after=after, limit=bound)
        else:
            query = self._sql["ledger_leaves"](after=after, limit=bound)
        return await self._document(query, list[Leaf])

    async def ledger_moved(self, *, after: str = "", limit: int = 1000) -> list[str]:
        """Accounts that are not as the last checkpoint has them."""
        query = self._sql["ledger_moved"](after=after, limit=max(limit, 0))
        return await self._document(query, list[str])

    async def _document(self, query: Query, kind: type[T]) -> T:
        rows = await self._ask_ledger(query)
        try:
            return msgspec.json.decode(rows[0][0], type=kind)
        except msgspec.ValidationError as error:
            raise ChainBroken(f"a row of the ledger was altered beyond reading: {error}") from error


def _beyond(prefix: str) -> str | None:
    """The first text behind all that begin so, by code points; None: there is no end."""
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(_BEHIND_HALVES if following == _FIRST_HALF else following)

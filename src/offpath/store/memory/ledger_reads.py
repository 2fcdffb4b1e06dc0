"""Reads of the ledger in memory, of its present or of a moment that is kept."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Final

from msgspec.structs import replace

from offpath.model.ledger.chart import chart
from offpath.model.ledger.posting import LinkRecord, PostingRecord
from offpath.model.ledger.records import (
    AccountRecord,
    Checkpoint,
    KeyRecord,
    Leaf,
    SideKey,
    SideRow,
    Totals,
)
from offpath.model.ledger.trims import Retired, Trim
from offpath.store.ledger import Counts
from offpath.store.memory import ledger_book
from offpath.store.memory.ledger_rows import Ledger, View

_NUMBER: Final = attrgetter("number")
_SEQ: Final = attrgetter("seq")


class LedgerReading:
    """The part of a :class:`~offpath.store.ledger.LedgerStore` that reads. No method waits."""

    def _ledger(self) -> Ledger:
        """The ledger that is read."""
        raise NotImplementedError

    async def ledger_accounts(
        self, *, ids: Sequence[str] = (), prefix: str = "", after: str = "", limit: int = 1000
    ) -> list[AccountRecord]:
        """Accounts by id."""
        ledger = self._ledger()
        names = sorted(set(ids) & ledger.accounts.keys()) if ids else ledger.ids
        first = max(bisect_right(names, after), bisect_left(names, prefix))
        found: list[AccountRecord] = []
        for name in islice(names, first, None):
            if len(found) >= limit or not name.startswith(prefix):
                break
            found.append(ledger.accounts[name])
        return found

    async def ledger_debts(self, *, after: str = "", limit: int = 1000) -> list[AccountRecord]:
        """The accounts of users' debts, by id."""
        ledger = self._ledger()
        later = islice(ledger.ids, bisect_right(ledger.ids, after), None)
        debts = (ledger.accounts[name] for name in later if name.endswith(":owed"))
        return list(islice((one for one in debts if one.balance), max(limit, 0)))

    async def ledger_links(
        self, account: str, *, after: int = 0, limit: int = 1000, newest: bool = False
    ) -> list[LinkRecord]:
        """The links of one account."""
        links = _chain(self._ledger(), account)
        if newest:
            last = bisect_left(links, after, key=_NUMBER) if after else len(links)
            return links[max(last - max(limit, 0), 0) : last][::-1]
        first = bisect_right(links, after, key=_NUMBER)
        return links[first : first + max(limit, 0)]

    async def ledger_walk(
        self, *, after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> list[tuple[LinkRecord, str]]:
        """Every link with its posting's metadata."""
        ledger = self._ledger()
        walked = ((link, ledger.postings[link.posting].meta) for link in _walk(ledger, *after))
        return list(islice(walked, max(limit, 0)))

    async def ledger_since(
        self, account: str, number: int, *, limit: int = 1000
    ) -> list[tuple[LinkRecord, str]]:
        """The links of an account behind a number, with metadata."""
        ledger = self._ledger()
        links = await self.ledger_links(account, after=number, limit=limit)
        return [(link, ledger.postings[link.posting].meta) for link in links]

    async def ledger_tails(
        self, tails: Sequence[tuple[str, int, int]]
    ) -> list[tuple[LinkRecord, str]]:
        """Links of several accounts, with metadata."""
        found: list[tuple[LinkRecord, str]] = []
        for account, after, until in sorted(tails):
            found += await self.ledger_since(account, after, limit=until - after)
        return found

    async def ledger_postings(
        self, *, ids: Sequence[str] = (), after: int = 0, limit: int = 1000
    ) -> list[PostingRecord]:
        """Postings by id, or by their commits."""
        ledger = self._ledger()
        if not ids:
            first = bisect_right(ledger.order, max(after, ledger.trimmed), key=_SEQ)
            # A view shares the list with the present, which may have grown.
            last = bisect_right(ledger.order, ledger.count, key=_SEQ)
            return ledger.order[first : min(last, first + max(limit, 0))]
        found = (ledger.posting(one) for one in dict.fromkeys(ids))
        there = (one for one in found if one is not None and after < one.seq)
        return list(islice(there, max(limit, 0)))

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
        ledger = self._ledger()
        rows = ledger.sides.get(kind, {})
        if ids:
            found = [row for one in set(ids) if (row := rows.get(one)) is not None]
        elif owner is not None:
            found = list(ledger.owned.get(SideKey(kind, owner), ()))
        else:
            found = list(rows.values())
        matching = (
            row
            for row in found
            if row.id > after
            and (owner is None or row.owner == owner)
            and (not states or row.state in states)
        )
        return sorted(matching, key=lambda row: row.id)[: max(limit, 0)]

    async def ledger_bare(self, *, limit: int = 1000) -> list[str]:
        """Postings without links."""
        ledger = self._ledger()
        bare = (one.id for one in ledger.order if not one.links and one.seq <= ledger.count)
        return sorted(bare)[: max(limit, 0)]

    async def ledger_key(self, key: str) -> KeyRecord | None:
        """The record under a key."""
        return self._ledger().keys.get(key)

    async def ledger_totals(self) -> Totals:
        """Sums over all accounts."""
        return ledger_book.totals(self._ledger())

    async def ledger_last(self) -> int:
        """The number of the last posting."""
        return self._ledger().count

    async def ledger_sums(self) -> dict[str, int]:
        """The sum of all entries by currency."""
        sums: dict[str, int] = {}
        before = ""
        for link in _walk(self._ledger()):
            known = chart(link.account)
            # The first link of a trimmed chain stands for all that were removed before it.
            begins = link.account != before and link.number > 1
            amount = known.entry(link.balance) if begins else link.amount
            sums[known.currency.value] = sums.get(known.currency.value, 0) + amount
            before = link.account
        return sums

    async def ledger_counts(self) -> Counts:
        """The numbers of rows."""
        ledger = self._ledger()
        return Counts(
            accounts=len(ledger.accounts),
            postings=ledger.count - sum(one.postings for one in ledger.trims),
            links=sum(account.number for account in ledger.accounts.values())
            - sum(one.links for one in ledger.trims),
        )

    async def ledger_checkpoints(self, *, before: str = "", limit: int = 10) -> list[Checkpoint]:
        """Checkpoints, the latest first."""
        known = self._ledger().checkpoints
        end = next((at for at, one in enumerate(known) if one.id == before), len(known))
        return known[:end][::-1][: max(limit, 0)]

    async def ledger_leaves(
        self, *, ids: Sequence[str] = (), after: str = "", limit: int = 1000
    ) -> list[Leaf]:
        """The leaves of the last checkpoint, by account."""
        leaves = self._ledger().leaves
        names = sorted(name for name in (set(ids) & leaves.keys() if ids else leaves))
        first = bisect_right(names, after)
        return [leaves[name] for name in names[first : first + max(limit, 0)]]

    async def ledger_moved(self, *, after: str = "", limit: int = 1000) -> list[str]:
        """Accounts that are not as their leaves have them."""
        ledger = self._ledger()
        names = sorted(ledger.accounts.keys() | ledger.leaves.keys())
        later = islice(names, bisect_right(names, after), None)
        moved = (name for name in later if _moved(ledger, name))
        return list(islice(moved, max(limit, 0)))

    async def ledger_trims(self) -> list[Trim]:
        """All trims, the latest first."""
        return self._ledger().trims[::-1]

    async def ledger_standings(
        self, until: int, *, ids: Sequence[str] = (), after: str = "", limit: int = 1000
    ) -> list[LinkRecord]:
        """The last link of each account up to a posting."""
        ledger = self._ledger()
        names = sorted(set(ids) & ledger.accounts.keys()) if ids else ledger.ids
        later = islice(names, bisect_right(names, after), None)
        found = (standing(ledger, name, until) for name in later)
        return list(islice((one for one in found if one is not None), max(limit, 0)))

    async def ledger_retired(
        self, *, ids: Sequence[str] = (), trim: int = 0, after: str = "", limit: int = 1000
    ) -> list[Retired]:
        """Postings that were removed, or those that a trim keeps."""
        ledger = self._ledger()
        known, files = ledger.retired, {one.number: one.file for one in ledger.trims}
        if ids:
            found = [known[one] for one in set(ids) if one in known]
        else:
            found = [one for one in known.values() if one.trim == trim and one.posting is not None]
        later = sorted((one for one in found if one.id > after), key=lambda one: one.id)
        page = later[: max(limit, 0)]
        return [replace(one, file=files.get(one.trim, "")) for one in page]


class MemoryLedgerMoment(LedgerReading):
    """The ledger at one moment, whatever is posted meanwhile."""

    def __init__(self, view: View) -> None:
        self._view = view

    def _ledger(self) -> Ledger:
        return self._view.ledger


def _chain(ledger: Ledger, account: str) -> list[LinkRecord]:
    """An account's links at the ledger's moment. The list may have later ones."""
    known = ledger.accounts.get(account)
    links = ledger.links.get(account, [])
    if known is None or not links or links[-1].number <= known.number:
        return links if known is not None else []
    return links[: bisect_right(links, known.number, key=_NUMBER)]


def standing(ledger: Ledger, account: str, until: int) -> LinkRecord | None:
    """The last link of an account up to a posting."""
    back = reversed(_chain(ledger, account))
    return next((one for one in back if ledger.postings[one.posting].seq <= until), None)


def _walk(ledger: Ledger, account: str = "", number: int = 0) -> Iterator[LinkRecord]:
    """All links by account and number, from behind this one on."""
    for name in islice(ledger.ids, bisect_left(ledger.ids, account), None):
        links = _chain(ledger, name)
        yield from links[bisect_right(links, number, key=_NUMBER) if name == account else 0 :]


def _moved(ledger: Ledger, name: str) -> bool:
    account, leaf = ledger.accounts.get(name), ledger.leaves.get(name)
    if account is None or leaf is None:
        return True
    links = _chain(ledger, name)
    at = bisect_left(links, leaf.number, key=_NUMBER)
    there = at < len(links) and links[at].number == leaf.number
    sealed = links[at].hash if there else None
    return sealed != leaf.head or (account.number, account.head, account.sum) != (
        leaf.number,
        leaf.head,
        leaf.sum,
    )

"""The reads of a ledger: of its present, and within a snapshot of one moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from offpath.errors import StoreUnavailable
from offpath.model.ledger.posting import LinkRecord, PostingRecord
from offpath.model.ledger.records import (
    AccountRecord,
    Checkpoint,
    KeyRecord,
    Leaf,
    SideRow,
    Totals,
)
from offpath.runtime.threads import in_own_thread
from offpath.store.ledger import Counts
from offpath.store.sql import Query, Row
from offpath.store.sqlite import ledger_rows as rows
from offpath.store.sqlite.ledger_loading import totals_steps
from offpath.store.sqlite.parameters import batch
from offpath.store.sqlite.session import SQL, Session

T = TypeVar("T")

_LAST: Final = 2**63 - 1


class LedgerReading:
    """The part of the store that implements :class:`~offpath.store.ledger.LedgerReads`."""

    async def _read(self, work: Callable[[Session], T]) -> T:
        """Run a read."""
        raise NotImplementedError

    async def _rows(self, query: Query) -> Sequence[Row]:
        return await self._read(lambda session: session.run(query))

    async def ledger_accounts(
        self, *, ids: Sequence[str] = (), prefix: str = "", after: str = "", limit: int = 1000
    ) -> list[AccountRecord]:
        """Accounts by id, or by how their ids begin."""
        query = (
            SQL["ledger_accounts_some"](ids=batch(list(ids)), after=after, limit=_most(limit))
            if ids
            else SQL["ledger_accounts_all"](prefix=prefix, after=after, limit=_most(limit))
        )
        return [rows.listed_account(row) for row in await self._rows(query)]

    async def ledger_debts(self, *, after: str = "", limit: int = 1000) -> list[AccountRecord]:
        """The accounts of users' debts, by id."""
        query = SQL["ledger_debts"](after=after, limit=_most(limit))
        return [rows.listed_account(row) for row in await self._rows(query)]

    async def ledger_links(
        self, account: str, *, after: int = 0, limit: int = 1000, newest: bool = False
    ) -> list[LinkRecord]:
        """The links of one account, forwards or backwards."""
        query = (
            SQL["ledger_links_back"](account=account, before=after or _LAST, limit=_most(limit))
            if newest
            else SQL["ledger_links_on"](account=account, after=after, limit=_most(limit))
        )
        return [rows.chain_link(row) for row in await self._rows(query)]

    async def ledger_walk(
        self, *, after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> list[tuple[LinkRecord, str]]:
        """Every link with its posting's metadata."""
        account, number = after
        query = SQL["ledger_links_walk"](account=account, number=number, limit=_most(limit))
        return [(rows.chain_link(row), row[-1]) for row in await self._rows(query)]

    async def ledger_since(
        self, account: str, number: int, *, limit: int = 1000
    ) -> list[tuple[LinkRecord, str]]:
        """The links of an account behind a number, with their postings' metadata."""
        query = SQL["ledger_links_on"](account=account, after=number, limit=_most(limit))
        return [(rows.chain_link(row), row[-1]) for row in await self._rows(query)]

    async def ledger_tails(
        self, tails: Sequence[tuple[str, int, int]]
    ) -> list[tuple[LinkRecord, str]]:
        """Links of several accounts, with their postings' metadata."""
        query = SQL["ledger_links_tails"](batch=batch(sorted(tails)))
        return [(rows.chain_link(row), row[-1]) for row in await self._rows(query)]

    async def ledger_postings(
        self, *, ids: Sequence[str] = (), after: int = 0, limit: int = 1000
    ) -> list[PostingRecord]:
        """Postings by id, or in the order of their commits."""
        query = (
            SQL["ledger_postings_of"](ids=batch(sorted(set(ids))[: _most(limit)]))
            if ids
            else SQL["ledger_postings_on"](after=after, limit=_most(limit))
        )
        return rows.postings(await self._rows(query))

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
        """Rows of a kind by id."""
        page = {
            "kind": kind,
            "after": after,
            "limit": _most(limit),
            "states": batch(list(states)) if states else None,
        }
        if ids:
            query = SQL["ledger_sides_some"](ids=batch(list(ids)), owner=owner, **page)
        elif owner is not None:
            query = SQL["ledger_sides_owned"](owner=owner, **page)
        else:
            query = SQL["ledger_sides_all"](**page)
        return [rows.side_row(row) for row in await self._rows(query)]

    async def ledger_bare(self, *, limit: int = 1000) -> list[str]:
        """Postings without links."""
        found = await self._rows(SQL["ledger_bare"](limit=max(limit, 0)))
        return [str(row[0]) for row in found]

    async def ledger_key(self, key: str) -> KeyRecord | None:
        """The record under an idempotency key."""
        found = await self._rows(SQL["ledger_keys_of"](keys=batch([key])))
        return rows.key_record(found[0]) if found else None

    async def ledger_totals(self) -> Totals:
        """Sums over all accounts, by their own balances."""
        return await self._read(lambda session: session.drive(totals_steps()))

    async def ledger_last(self) -> int:
        """The number of the last posting."""
        [[number]] = await self._rows(SQL["ledger_seen"]())
        return int(number or 0)

    async def ledger_sums(self) -> dict[str, int]:
        """The sum of all entries by currency."""
        return rows.totals(await self._rows(SQL["ledger_sums"]()))

    async def ledger_counts(self) -> Counts:
        """The numbers of rows."""
        [[accounts, postings, links]] = await self._rows(SQL["ledger_counts"]())
        return Counts(accounts=accounts, postings=postings, links=links)

    async def ledger_checkpoints(self, *, before: str = "", limit: int = 10) -> list[Checkpoint]:
        """Checkpoints, the latest first."""
        query = SQL["ledger_checkpoints"](before=before, limit=_most(limit))
        return [rows.checkpoint(row) for row in await self._rows(query)]

    async def ledger_leaves(
        self, *, ids: Sequence[str] = (), after: str = "", limit: int = 1000
    ) -> list[Leaf]:
        """The leaves of the last checkpoint, by account."""
        query = (
            SQL["ledger_leaves_some"](ids=batch(list(ids)), after=after, limit=_most(limit))
            if ids
            else SQL["ledger_leaves_all"](after=after, limit=_most(limit))
        )
        return [rows.leaf(row) for row in await self._rows(query)]

    async def ledger_moved(self, *, after: str = "", limit: int = 1000) -> list[str]:
        """Accounts that are not as their leaf has them."""
        query = SQL["ledger_moved"](after=after, limit=_most(limit))
        return [row[0] for row in await self._rows(query)]


class LedgerSnapshot(LedgerReading):
    """Reads of one moment, on a connection of their own that is in a read transaction."""

    def __init__(self, session: Session, block: Callable[[Callable[[], Any]], Any]) -> None:
        self._session = session
        self._block = block
        self._using = threading.Lock()
        self._closed = False

    async def begin(self) -> None:
        """From now on nothing that is committed is seen."""
        await self._read(_begin)

    async def close(self) -> None:
        """End it. A read that is still running, since its caller was cancelled, is aborted."""
        self._closed = True
        self._session.interrupt()
        await in_own_thread(self._end)

    def _end(self) -> None:
        with self._using:
            self._session.close()

    async def _read(self, work: Callable[[Session], T]) -> T:
        answer: T = await self._block(lambda: self._alone(work))
        return answer

    def _alone(self, work: Callable[[Session], T]) -> T:
        with self._using:
            if self._closed:
                message = "the snapshot has ended: read within its `async with`"
                raise StoreUnavailable(message)
            return work(self._session)


def _begin(session: Session) -> None:
    session.control(SQL["ledger_snapshot"])
    session.run(SQL["ledger_seen"]())


def _most(limit: int) -> int:
    return max(limit, 0)

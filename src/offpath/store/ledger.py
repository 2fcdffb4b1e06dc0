"""The part of the store that keeps a ledger.

There is one way to move money: an operation (:class:`~offpath.model.ledger.decision.LedgerOp`),
given to :meth:`LedgerStore.post` or as an effect. This is the one place where the store calls a
decision instead of applying it: heads and balances are known only under the lock.

Every write transaction of a ledger does the same, in this order:

1. rows named by :class:`~offpath.model.ledger.needs.Wanted` are locked: side rows (by id and by
   unique key) ordered by kind and id, then accounts ordered by id. An account that does not exist
   is made first, so that there is something to lock, and removed again if nothing was posted to it;
2. in statements of their own, after the last lock, everything wanted is read into a
   :class:`~offpath.model.ledger.book.Book`, with the store's clock;
3. :func:`~offpath.model.ledger.decision.decide_all` decides, in order;
4. the book's changes are written in bulk. A version or a number of links that is not what was
   read, a unique key or an idempotency key taken meanwhile: all of it is rolled back and done again
   (at most ten times, then ``StoreBusy``).

The databases enforce by themselves, also against a raw write: entries of a posting sum to zero per
currency, an account's entries are in its currency, a guarded account is never below zero, each
link follows the one before it (number, prev, balance), an account's balance, head and number are
those of its last link, side rows have a known kind and state, one row per unique key, one record
per idempotency key, and postings, links and checkpoints are neither changed nor removed
by an UPDATE or a DELETE (a trigger).

A trim alone removes postings, those that a signed archive has (:meth:`LedgerStore.begin_trim`). Of
each chain the last link up to the trim's boundary stays, with the metadata of its posting: so each
chain goes on from a link that the checkpoint at the boundary signed. The id of what was removed is
kept, and never used again. The chain of the audit is never shortened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from offpath.store.absence import refused, refused_at_once
from offpath.store.capabilities import Profile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from offpath.model.ledger.decision import Decided, LedgerOp
    from offpath.model.ledger.posting import LinkRecord, PostingRecord
    from offpath.model.ledger.records import (
        AccountRecord,
        Checkpoint,
        KeyRecord,
        Leaf,
        SideRow,
        Totals,
    )
    from offpath.model.ledger.trims import Retired, Trim


class Counts(Struct, frozen=True, kw_only=True):
    """The numbers of rows in a ledger, without what trims have removed."""

    accounts: int = 0
    postings: int = 0
    links: int = 0


class LedgerReads(Protocol):
    """The reads of a ledger: of its present, or within a snapshot of one moment.

    Every list is limited; ``after`` is the key of the last one of the page before.
    """

    async def ledger_accounts(
        self, *, ids: Sequence[str] = (), prefix: str = "", after: str = "", limit: int = 1000
    ) -> list[AccountRecord]:
        """Accounts by id: these (those that exist), or all whose id begins with ``prefix``."""
        ...

    async def ledger_debts(self, *, after: str = "", limit: int = 1000) -> list[AccountRecord]:
        """Accounts by id of what users owe, those that owe something."""
        ...

    async def ledger_links(
        self,
        account: str,
        *,
        after: int = 0,
        limit: int = 1000,
        newest: bool = False,
    ) -> list[LinkRecord]:
        """The links of one account from number ``after`` + 1 on; with ``newest`` backwards, from
        ``after`` - 1 down (0: from the last).
        """
        ...

    async def ledger_walk(
        self, *, after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> list[tuple[LinkRecord, str]]:
        """Every link with its posting's metadata, ordered by account and number: for a proof."""
        ...

    async def ledger_since(
        self, account: str, number: int, *, limit: int = 1000
    ) -> list[tuple[LinkRecord, str]]:
        """The links of an account behind ``number``, with their postings' metadata."""
        ...

    async def ledger_tails(
        self, tails: Sequence[tuple[str, int, int]]
    ) -> list[tuple[LinkRecord, str]]:
        """Links of several accounts with their postings' metadata, by account and number: of each
        account, named once, those behind the first number and up to the second one.
        """
        ...

    async def ledger_postings(
        self, *, ids: Sequence[str] = (), after: int = 0, limit: int = 1000
    ) -> list[PostingRecord]:
        """The postings of these ids (in no order), or all in the order of their commits from
        ``after`` on. Of those that a trim has removed, only what it kept whole, and by id alone.

        Two that share no account may stand either way round, and the first of them may come to be
        seen after the second: who pages while others post may pass over it. Done again in this
        order, they give the same balances and heads.
        """
        ...

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
        """Side rows of a kind by id; each condition that is given narrows it."""
        ...

    async def ledger_bare(self, *, limit: int = 1000) -> list[str]:
        """Postings without links, by id: there are none, unless what refuses them was put aside."""
        ...

    async def ledger_key(self, key: str) -> KeyRecord | None:
        """The record under an idempotency key."""
        ...

    async def ledger_totals(self) -> Totals:
        """Sums over all accounts, by the accounts' own balances."""
        ...

    async def ledger_last(self) -> int:
        """The number of the last posting; 0: there is none."""
        ...

    async def ledger_sums(self) -> dict[str, int]:
        """The sum of all entries (not of cached balances) by currency: 0 each, or something is
        wrong. Of a chain that was trimmed, what its first link goes on from counts too.
        """
        ...

    async def ledger_counts(self) -> Counts:
        """The numbers of rows."""
        ...

    async def ledger_checkpoints(self, *, before: str = "", limit: int = 10) -> list[Checkpoint]:
        """Checkpoints, the latest first; with ``before`` only those sealed before that id's."""
        ...

    async def ledger_leaves(
        self, *, ids: Sequence[str] = (), after: str = "", limit: int = 1000
    ) -> list[Leaf]:
        """The leaves of the last checkpoint, by account: of these accounts, or all."""
        ...

    async def ledger_moved(self, *, after: str = "", limit: int = 1000) -> list[str]:
        """Accounts, by id, that are not as the last checkpoint's leaf has them: moved on, new,
        gone, or whose link of the leaf's number is missing or has another hash than the leaf.
        """
        ...

    async def ledger_trims(self) -> list[Trim]:
        """All trims, the latest first."""
        ...

    async def ledger_standings(
        self, until: int, *, ids: Sequence[str] = (), after: str = "", limit: int = 1000
    ) -> list[LinkRecord]:
        """The last link of each account up to the posting of number ``until``, by account: of these
        accounts, or of all.
        """
        ...

    async def ledger_retired(
        self, *, ids: Sequence[str] = (), trim: int = 0, after: str = "", limit: int = 1000
    ) -> list[Retired]:
        """Postings that were removed, by id: these, or those that a trim keeps whole."""
        ...


class LedgerStore(LedgerReads, Protocol):
    """Accounts, postings, side rows and checkpoints."""

    async def post(self, operations: Sequence[LedgerOp]) -> list[Decided]:
        """Decide operations in order and commit what they did, in one transaction.

        The answers are in their order. One that is declined or faulty costs the others nothing and
        leaves only its attempts. Messages of the book are written to the outbox as by ``commit``.
        Raises ``StoreBusy`` and ``StoreUnavailable`` as ``commit`` does: the outcome is unknown
        then, and repeating operations with keys changes nothing twice. ``StoreRejected`` when the
        store refuses the whole: nothing was written, and halves may do better.
        """
        ...

    async def lease_sides(
        self, kind: str, *, limit: int, hold: float, now: int | None = None
    ) -> list[SideRow]:
        """Due rows of a kind (``payout``, ``subscription``, ``promo``), the longest due first, in
        the states of ``DUE_STATES``; each is due again in ``hold`` seconds and a version older.

        ``now``: the time to be due by, in milliseconds; None: the store's clock. Rows that somebody
        else has locked are passed over, so two callers never get the same row; the new version
        fences every write by whoever leased it before.
        """
        ...

    async def save_checkpoint(
        self, checkpoint: Checkpoint, leaves: Sequence[Leaf], *, anew: bool = False
    ) -> bool:
        """Write a checkpoint, and the leaves that differ from the last one's, in one commit.

        ``anew``: these are all leaves, and those of before go.

        False, and nothing is written, unless ``checkpoint.prev`` is the id of the last one (None
        for the first): somebody else sealed in the meantime.
        """
        ...

    async def prune_ledger(
        self, *, attempts_before: int, keys_before: int | None, limit: int
    ) -> int:
        """Remove attempts dated before a time (ms), keeping each subject's last one, and
        idempotency keys recorded before a time (None: none); at most ``limit`` of each. Returns
        how many. A key that is gone can be used again.
        """
        ...

    async def keep_postings(self, trim: int, ids: Sequence[str]) -> None:
        """Keep these postings whole for a trim that is about to begin: rows that are open name
        them. A repeat does nothing, and neither does an id that no posting has. Nothing is kept for
        a trim that was begun: what it keeps is signed.
        """
        ...

    async def begin_trim(self, trim: Trim, *, keeps: int) -> bool:
        """Write a trim of which nothing is done yet.

        False, and nothing is written, unless its number follows that of the last one, which must be
        finished and end before it, and its checkpoint is there and covers its posting. The same
        when more than ``keeps`` postings are kept for it: somebody else is about to begin one.
        """
        ...

    async def trim_postings(self, *, limit: int) -> int:
        """Look at the next postings of the trim that is under way, at most ``limit``, and remove
        their links, but for the last one of each account up to the boundary, and those postings of
        which no link is left. Returns how many it looked at: 0 when the trim is finished, or there
        is none. Each call is one transaction.
        """
        ...

    def ledger_snapshot(self) -> AbstractAsyncContextManager[LedgerReads]:
        """All reads within see the ledger as it was at one moment, whatever is posted meanwhile.

        It holds a connection: short, and never across a call of the network.
        """
        ...


class WithoutLedger:
    """A store without a ledger."""

    post = refused(Profile.LEDGER, LedgerStore.post)
    lease_sides = refused(Profile.LEDGER, LedgerStore.lease_sides)
    save_checkpoint = refused(Profile.LEDGER, LedgerStore.save_checkpoint)
    prune_ledger = refused(Profile.LEDGER, LedgerStore.prune_ledger)
    keep_postings = refused(Profile.LEDGER, LedgerStore.keep_postings)
    begin_trim = refused(Profile.LEDGER, LedgerStore.begin_trim)
    trim_postings = refused(Profile.LEDGER, LedgerStore.trim_postings)
    ledger_snapshot = refused_at_once(Profile.LEDGER, LedgerStore.ledger_snapshot)
    ledger_accounts = refused(Profile.LEDGER, LedgerStore.ledger_accounts)
    ledger_debts = refused(Profile.LEDGER, LedgerStore.ledger_debts)
    ledger_links = refused(Profile.LEDGER, LedgerStore.ledger_links)
    ledger_walk = refused(Profile.LEDGER, LedgerStore.ledger_walk)
    ledger_since = refused(Profile.LEDGER, LedgerStore.ledger_since)
    ledger_tails = refused(Profile.LEDGER, LedgerStore.ledger_tails)
    ledger_postings = refused(Profile.LEDGER, LedgerStore.ledger_postings)
    ledger_sides = refused(Profile.LEDGER, LedgerStore.ledger_sides)
    ledger_bare = refused(Profile.LEDGER, LedgerStore.ledger_bare)
    ledger_key = refused(Profile.LEDGER, LedgerStore.ledger_key)
    ledger_totals = refused(Profile.LEDGER, LedgerStore.ledger_totals)
    ledger_last = refused(Profile.LEDGER, LedgerStore.ledger_last)
    ledger_sums = refused(Profile.LEDGER, LedgerStore.ledger_sums)
    ledger_counts = refused(Profile.LEDGER, LedgerStore.ledger_counts)
    ledger_checkpoints = refused(Profile.LEDGER, LedgerStore.ledger_checkpoints)
    ledger_leaves = refused(Profile.LEDGER, LedgerStore.ledger_leaves)
    ledger_moved = refused(Profile.LEDGER, LedgerStore.ledger_moved)
    ledger_trims = refused(Profile.LEDGER, LedgerStore.ledger_trims)
    ledger_standings = refused(Profile.LEDGER, LedgerStore.ledger_standings)
    ledger_retired = refused(Profile.LEDGER, LedgerStore.ledger_retired)

"""The book: the part of the ledger that a batch has locked, as a value that decisions write on.

A store loads a book under its locks, has every operation decided on it in turn, and writes what
changed in bulk. Within the batch each decision sees what those before it did; one that is declined
or fails leaves no trace but its attempts. Everything here is pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from offpath.model.ledger.changes import AccountChange, Changes, SideChange
from offpath.model.ledger.chart import chart
from offpath.model.ledger.faults import (
    InvalidTransition,
    KeyReused,
    MalformedOperation,
    Unplanned,
)
from offpath.model.ledger.link import Seal, next_link
from offpath.model.ledger.money import checked
from offpath.model.ledger.needs import LoadedRows, Wanted
from offpath.model.ledger.posting import (
    LinkRecord,
    NewPosting,
    PostingRecord,
    balanced,
    canonical,
    framed,
    identified,
    verified,
)
from offpath.model.ledger.records import (
    LASTING,
    STATES,
    AccountRecord,
    AttemptMove,
    KeyRecord,
    Lot,
    MoveAttempt,
    Receipt,
    SideKey,
    SideRow,
    Totals,
)
from offpath.model.ledger.requested import END, quote_of, requested
from offpath.model.ledger.trims import Retired, archived
from offpath.model.new import NewMessage

_NO_HEADERS: Final = "{}"
_Pair: TypeAlias = tuple[str, str]
_Since: TypeAlias = tuple[str, int]
_ABSENT: Final[Any] = object()
_QUOTES: Final = "quotes"
_REQUESTED: Final = "requested"
_PAYOUT: Final = "payout"
_LAST: Final[Any] = object()
"""The row that was appended last, in place of a key."""


class Loaded(Struct, frozen=True, kw_only=True):
    """The rows that a store read under its locks for a :class:`Wanted`."""

    wanted: Wanted
    now: int
    """The store's clock in milliseconds, read after the locks were taken."""
    accounts: tuple[AccountRecord, ...] = ()
    """The accounts that exist."""
    sides: tuple[SideRow, ...] = ()
    """The rows asked for by id or by unique key, in any order; repeats do no harm."""
    newest: tuple[SideRow, ...] = ()
    postings: tuple[PostingRecord, ...] = ()
    retired: tuple[Retired, ...] = ()
    """Of the postings asked for those that were archived, and removed here."""
    keys: tuple[KeyRecord, ...] = ()
    lots: dict[str, tuple[Lot, ...]] = {}
    """Lots by account, newest first."""
    raised: dict[tuple[str, int], int] = {}
    """By account and time: what raised it after that."""
    attempts: dict[tuple[str, int], int] = {}
    """By subject and time: the sum of its attempts after that."""
    attempted: dict[tuple[str, str], int] = {}
    """The times at which the subjects and keys asked for were recorded, where they were."""
    subjects: dict[str, MoveAttempt] = {}
    """The last attempt of each subject."""
    totals: Totals | None = None


class Book:
    """Accounts, rows and keys under the batch's locks; see the module.

    What was not asked for raises :class:`Unplanned`: a decision never reads what is not locked.
    """

    def __init__(self, loaded: Loaded) -> None:
        wanted = loaded.wanted
        self.now = loaded.now
        """The time by which the current operation decides, in milliseconds."""
        self.posted_at = loaded.now
        """The store's clock: when postings are dated."""
        self.headers = _NO_HEADERS
        """The fields that the current operation's messages carry."""
        accounts = {account.id: account for account in loaded.accounts}
        accounts.update(
            {one: AccountRecord(id=one) for one in wanted.accounts if one not in accounts}
        )
        self._accounts: LoadedRows[str, AccountRecord] = LoadedRows("account", accounts)
        self._before = accounts
        # Plain pairs find what is under a SideKey, and are made in a fraction of the time.
        self._sides: LoadedRows[_Pair, SideRow | None] = LoadedRows(
            "side row", dict.fromkeys(wanted.sides)
        )
        self._sides.update({row.key: row for row in loaded.sides})
        self._sides_before = dict(self._sides)
        held = {
            (row.kind, row.unique_key): row.key
            for row in loaded.sides
            if row.unique_key is not None
        }
        self._holders: LoadedRows[_Pair, SideKey | None] = LoadedRows(
            "unique key", {**dict.fromkeys(wanted.holders), **held}
        )
        newest = {(row.kind, row.owner): row for row in loaded.newest}
        self._newest: LoadedRows[_Pair, SideRow | None] = LoadedRows(
            "newest row", {**dict.fromkeys(wanted.newest), **newest}
        )
        postings = {posting.id: posting for posting in loaded.postings}
        self._archived = {one.id: one for one in loaded.retired}
        self._postings: LoadedRows[str, PostingRecord | None] = LoadedRows(
            "posting", {**dict.fromkeys(wanted.postings), **postings}
        )
        self._keys: LoadedRows[str, KeyRecord | None] = LoadedRows(
            "key", dict.fromkeys(wanted.keys)
        )
        self._keys.update({record.key: record for record in loaded.keys})
        lots = dict.fromkeys((account for account, _ in wanted.lots), ())
        self._lots: LoadedRows[str, tuple[Lot, ...]] = LoadedRows(
            "lots of", {**lots, **loaded.lots}
        )
        self._raised: LoadedRows[_Since, int] = LoadedRows("sum of", loaded.raised)
        self._raised_since = _by_name(self._raised)
        self._attempts: LoadedRows[_Since, int] = LoadedRows("attempts of", loaded.attempts)
        self._attempts_since = _by_name(self._attempts)
        self._attempted: LoadedRows[_Pair, int | None] = LoadedRows(
            "attempt", {**dict.fromkeys(wanted.attempted), **loaded.attempted}
        )
        self._subjects = dict(loaded.subjects)
        self._balances = None if loaded.totals is None else dict(loaded.totals.balances)
        sums = Totals() if loaded.totals is None else loaded.totals
        self._owed = {_QUOTES: sums.quotes, _REQUESTED: sums.requested}
        self._new_postings: list[PostingRecord] = []
        self._new_messages: list[NewMessage] = []
        self._new_keys: dict[str, KeyRecord] = {}
        self._new_attempts: list[MoveAttempt] = []
        self._attempt_moves: dict[_Pair, AttemptMove] = {}
        self._depth = 0
        self._undo: list[tuple[Any, Any, Any]] = []
        """The place where something was written, under which key, and what was there before."""

    # -- reading -----------------------------------------------------------------------------

    def account(self, account: str) -> AccountRecord:
        """An account as it is now; empty when no posting has touched it."""
        return self._accounts[account]

    def balance(self, account: str) -> int:
        """An account's balance in minor units, on the side on which it grows."""
        return self.account(account).balance

    def side(self, kind: str, row_id: str) -> SideRow | None:
        """A side row; None when there is none."""
        return self._sides[kind, row_id]

    def holder(self, kind: str, unique_key: str) -> SideRow | None:
        """The row of the kind that holds the unique key; None when it is free."""
        key = self._holders[kind, unique_key]
        return None if key is None else self._sides[key]

    def newest(self, kind: str, owner: str) -> SideRow | None:
        """The owner's row of the kind that was touched last; None when it has none."""
        return self._newest[kind, owner]

    def posting(self, posting_id: str) -> PostingRecord | None:
        """A posting that still hashes to its links; None when there is none.

        Raises ``ChainBroken``: whatever derives money from history reads it here. Raises
        ``Archived`` for one that is not here any more.
        """
        found = self._postings[posting_id]
        if found is None and (gone := self._archived.get(posting_id)) is not None:
            raise archived(gone)
        return None if found is None else verified(found)

    def recorded(self, key: str) -> Receipt | None:
        """The operation that was done under an idempotency key; None when it is free."""
        found = self.key(key)
        return None if found is None else found.receipt

    def key(self, key: str) -> KeyRecord | None:
        """The whole record of an idempotency key; None when it is free."""
        return self._keys[key]

    def lots(self, account: str, since: int) -> tuple[Lot, ...]:
        """The lots that raised the account after a time, newest first, as far as its balance
        reaches.

        The last lot may be cut, so that they never sum to more than the balance.
        """
        left = self.balance(account)
        kept: list[Lot] = []
        for lot in self._lots[account]:
            if lot.at <= since or left <= 0:
                break
            kept.append(
                lot if lot.amount <= left else Lot(amount=left, at=lot.at, source=lot.source)
            )
            left -= lot.amount
        return tuple(kept)

    def raised(self, account: str, since: int) -> int:
        """The sum that raised the account after a time, in minor units."""
        return self._raised[account, since]

    def totals(self) -> Totals:
        """Sums over all accounts, with what this batch did."""
        if self._balances is None:
            raise Unplanned("the totals were not loaded")
        return Totals(balances=dict(self._balances), **self._owed)

    # -- writing -----------------------------------------------------------------------------

    def post(self, posting: NewPosting) -> PostingRecord:
        """Make a posting: balances, chains and lots follow.

        Raises ``Unbalanced``, ``UnknownAccount``, ``MoneyOverflow``, ``MalformedOperation``,
        ``KeyReused`` for an id that is known to be another posting's, and ``Overdraft`` when a
        guarded account would sink below zero.
        """
        if identified(posting.id) in self._archived or self._postings.get(posting.id) is not None:
            raise KeyReused(f"there is a posting {posting.id!r} already: a new one needs a new id")
        entries = balanced(posting.entries)
        meta = canonical(posting.meta)
        parts: dict[str, list[int]] = {}
        for entry in entries:
            if (amounts := parts.get(entry.account)) is None:
                parts[entry.account] = [entry.amount]
            else:
                amounts.append(entry.amount)
        source = posting.meta.get("source")
        named = source if isinstance(source, str) else None
        seal = Seal(posting.id, framed(posting.id), framed(meta), named, self.posted_at)
        links = tuple([next_link(self.account(one), parts[one], seal) for one in sorted(parts)])
        record = PostingRecord(id=posting.id, meta=meta, at=self.posted_at, links=links)
        for link in links:
            self._follow(link)
        self._append(self._new_postings, record)
        self._set(self._postings, posting.id, record)
        if self._balances is not None:
            self._owe(_REQUESTED, self._request_of(record))
        return record

    def put(self, row: SideRow) -> SideRow:
        """Write a side row, as changed from what :meth:`side` gave; returns it as it is now.

        Raises ``MalformedOperation`` for a kind or a state that there is not, and
        ``InvalidTransition`` when the row is of another version (0: not there), or another
        one holds its unique key. A key that the row did not have before must be among the
        ``holders`` that were asked for (``Unplanned``).
        """
        if row.state not in STATES.get(row.kind, ()):
            raise MalformedOperation(f"{row.kind} {row.id}: there is no state {row.state!r}")
        key = row.kind, row.id
        before = self._sides[key]
        if row.version != _version(before):
            raise InvalidTransition(
                f"{row.kind} {row.id} is of version {_version(before)} already, not {row.version}"
            )
        written = msgspec.structs.replace(
            row,
            version=row.version + 1,
            created_at=self.posted_at if before is None else before.created_at,
            touched_at=row.touched_at or self.posted_at,
        )
        self._set(self._sides, key, written)
        self._hold(before, written)
        if self._newest:
            self._touch(written)
        if row.kind == _PAYOUT:
            self._owe(_QUOTES, quote_of(written) - quote_of(before))
        return written

    def publish(self, message: NewMessage) -> None:
        """Write a message to the outbox with the rest, with the operation's headers."""
        if self.headers != _NO_HEADERS and message.headers == _NO_HEADERS:
            message = msgspec.structs.replace(message, headers=self.headers)
        self._append(self._new_messages, message)

    def record(
        self, key: str, fingerprint: str, receipt: Receipt, *, lasting: bool = False
    ) -> None:
        """Use up an idempotency key. Whoever asks for it from now on gets the receipt.

        A ``lasting`` one is never pruned: it is dated :data:`LASTING`. Raises ``KeyReused`` when it
        is not free.
        """
        if self._keys[key] is not None:
            raise KeyReused(f"the key {key!r} was used before")
        at = LASTING if lasting else self.posted_at
        record = KeyRecord(key=key, fingerprint=fingerprint, receipt=receipt, at=at)
        self._set(self._keys, key, record)
        self._set(self._new_keys, key, record)

    def attempt(self, subject: str, key: str, amount: int, since: int) -> int:
        """Count an attempt, and give the sum of the subject's attempts after ``since`` with it.

        It stays counted when the operation is declined or fails. A repeat under the same key counts
        once: at its first time while it is declined, at the present when it commits or when the
        first is no longer after ``since``. Raises ``MoneyOverflow`` when the sum of all does not
        fit 64 bits.
        """
        window, before = self._attempts[subject, since], self._attempted[subject, key]
        if before is not None and (before > since or before >= self.posted_at):
            self._move_attempt(subject, key, amount, before)
            return window
        last = self._subjects.get(subject)
        made = MoveAttempt(
            subject=subject,
            key=key,
            amount=amount,
            at=self.posted_at if last is None else max(self.posted_at, last.at),
            total=checked(amount + (0 if last is None else last.total)),
        )
        self._subjects[subject] = made
        self._attempted[subject, key] = made.at
        self._new_attempts.append(made)
        for other in self._attempts_since[subject]:
            self._attempts[subject, other] += amount
        return window + amount

    def _move_attempt(self, subject: str, key: str, amount: int, before: int) -> None:
        """It counts from now on, if the operation is not undone."""
        if before >= self.posted_at:
            return
        place = subject, key
        move = AttemptMove(subject=subject, key=key, at=self.posted_at)
        self._set(self._attempt_moves, place, move)
        self._set(self._attempted, place, self.posted_at)
        for since in self._attempts_since[subject]:
            if since >= before:
                self._set(self._attempts, (subject, since), self._attempts[subject, since] + amount)

    # -- for whoever decides -----------------------------------------------------------------------

    def begin(self, now: int | None) -> tuple[int, int]:
        """Begin a decision by this time (ms), perhaps within another; gives what it ends with."""
        kept = self.now, len(self._undo)
        self.now = self.posted_at if now is None else now
        self._depth += 1
        return kept

    def end(self, kept: tuple[int, int], *, undo: bool) -> None:
        """End the decision that began last; ``undo`` it with all in it, but not its attempts."""
        outer, mark = kept
        if undo:
            self._back_to(mark)
        self.now = outer
        self._depth -= 1
        if not self._depth:
            self._undo.clear()

    def changes(self) -> Changes:
        """The changes that are to be written."""
        return Changes(
            accounts=tuple(
                AccountChange(account=account, was=self._before[name].number)
                for name, account in sorted(self._accounts.items())
                if account is not self._before[name]
            ),
            postings=tuple(self._new_postings),
            sides=tuple(
                SideChange(row=row, was=_version(self._sides_before.get(key)))
                for key, row in sorted(self._sides.items())
                if row is not None and row is not self._sides_before.get(key)
            ),
            messages=tuple(self._new_messages),
            keys=tuple(self._new_keys.values()),
            attempts=tuple(self._new_attempts),
            attempt_moves=tuple(self._attempt_moves.values()),
        )

    # -- within ------------------------------------------------------------------------------

    def _follow(self, link: LinkRecord) -> None:
        """The account and all that is known of it move on with its new link."""
        moved = AccountRecord(
            id=link.account,
            balance=link.balance,
            raised=link.raised,
            head=link.hash,
            number=link.number,
        )
        self._set(self._accounts, link.account, moved)
        if link.account in self._lots or link.account in self._raised_since:
            self._came_in(link, chart(link.account).change(link.amount))
        if self._balances is not None:
            known = chart(link.account)
            before = self._balances.get(known.kind, 0)
            self._set(self._balances, known.kind, before + known.change(link.amount))

    def _came_in(self, link: LinkRecord, change: int) -> None:
        """Lots and sums of what raised the account follow."""
        if change > 0 and link.account in self._lots:
            lot = Lot(amount=change, at=link.at, source=link.source)
            self._set(self._lots, link.account, (lot, *self._lots[link.account]))
        if change > 0:
            for since in self._raised_since.get(link.account, ()):
                if link.at > since:
                    key = link.account, since
                    self._set(self._raised, key, self._raised[key] + change)

    def _touch(self, row: SideRow) -> None:
        """It is its owner's newest, if no other is newer.

        One that was the newest and is dated back leaves a place that only the store can fill.
        """
        owner = row.kind, row.owner
        if owner not in self._newest:
            return
        latest = self._newest[owner]
        if latest is None or latest.touched_at <= row.touched_at:
            self._set(self._newest, owner, row)
        elif latest.id == row.id:
            self._undo.append((self._newest, owner, latest))
            del self._newest[owner]

    def _hold(self, before: SideRow | None, row: SideRow) -> None:
        if before is not None and before.unique_key not in (None, row.unique_key):
            self._set(self._holders, SideKey(row.kind, before.unique_key or ""), None)
        if row.unique_key is not None:
            place = SideKey(row.kind, row.unique_key)
            holder = self._holders[place]
            if holder not in (None, row.key):
                raise InvalidTransition(
                    f"{row.kind} {row.id}: {holder.name} holds the key {row.unique_key!r}"
                )
            self._set(self._holders, place, row.key)

    def _owe(self, sum_of: str, quote: int) -> None:
        if quote:
            self._set(self._owed, sum_of, self._owed[sum_of] + quote)

    def _request_of(self, posting: PostingRecord) -> int:
        """The share of a posting in the sum of what was asked for and has no end. A posting whose
        request is not loaded takes nothing off: the sum of debts is then too high, and never too
        low.
        """
        if (asked := requested(posting)) is not None:
            return asked.quote
        row = self._sides.get((_PAYOUT, posting.id.removesuffix(END)))
        request = None if row is None else self._postings.get(row.anchor or "")
        asked = None if request is None else requested(request)
        return -asked.quote if asked is not None and asked.ended_by(posting) else 0

    def _set(self, where: dict[Any, Any], key: object, value: object) -> None:
        self._undo.append((where, key, where.get(key, _ABSENT)))
        where[key] = value

    def _append(self, where: list[Any], value: object) -> None:
        self._undo.append((where, _LAST, None))
        where.append(value)

    def _back_to(self, mark: int) -> None:
        while len(self._undo) > mark:
            where, key, before = self._undo.pop()
            if key is _LAST:
                where.pop()
            elif before is _ABSENT:
                del where[key]
            else:
                where[key] = before


def _by_name(sums: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """The times of each name."""
    found: dict[str, list[int]] = {}
    for name, since in sums:
        found.setdefault(name, []).append(since)
    return found


def _version(row: SideRow | None) -> int:
    return 0 if row is None else row.version

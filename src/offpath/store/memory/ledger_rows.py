"""The ledger's rows in memory, and what refuses to write what does not follow from them.

As with jobs, filing is the only write and keeps every index. What the databases refuse by
constraints and triggers is refused here before the first row is written.
"""

from __future__ import annotations

import copy
from bisect import insort
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final, TypeAlias

from msgspec.structs import replace

from offpath.model.ledger.changes import AccountChange, Changes, SideChange
from offpath.model.ledger.chart import Chart, chart
from offpath.model.ledger.faults import (
    ChainBroken,
    InvalidTransition,
    Overdraft,
    Unbalanced,
)
from offpath.model.ledger.posting import GENESIS, LinkRecord, PostingRecord
from offpath.model.ledger.records import (
    DUE_STATES,
    STATES,
    AccountRecord,
    AttemptMove,
    Checkpoint,
    KeyRecord,
    Leaf,
    MoveAttempt,
    SideKey,
    SideRow,
)
from offpath.model.ledger.requested import END, Requested, requested
from offpath.model.ledger.trims import Retired, Trim
from offpath.store.memory.indexes import LazyHeap
from offpath.store.refusals import ledger_has

_Place: TypeAlias = tuple[int, str, int, int]
"""The place of a chain: how many links, the head, the balance, all that ever raised it."""
_TOUCHED: Final = attrgetter("touched_at")


class Tries:
    """The attempts of one subject, oldest first."""

    __slots__ = ("keys", "made")

    def __init__(self) -> None:
        self.made: list[MoveAttempt] = []
        self.keys: dict[str, MoveAttempt] = {}


class Ledger:
    """Accounts, chains, side rows, keys, attempts and checkpoints of one store."""

    __slots__ = (
        "accounts",
        "checkpoints",
        "count",
        "due",
        "holders",
        "ids",
        "keys",
        "leaves",
        "links",
        "order",
        "owned",
        "postings",
        "requests",
        "retired",
        "shared",
        "sides",
        "stale",
        "tries",
        "trims",
    )

    def __init__(self) -> None:
        self.accounts: dict[str, AccountRecord] = {}
        self.ids: list[str] = []
        """The ids of accounts, sorted."""
        self.links: dict[str, list[LinkRecord]] = {}
        """Links by account, in the order of their numbers, which begin where a trim has ended."""
        self.postings: dict[str, PostingRecord] = {}
        self.order: list[PostingRecord] = []
        """Postings by their commits."""
        self.count = 0
        """The number of the last posting: in a view, of the last one that it sees."""
        self.requests: dict[str, Requested] = {}
        """Payouts that were asked for and have no end, by their ids."""
        self.sides: dict[str, dict[str, SideRow]] = {kind: {} for kind in STATES}
        self.owned: dict[tuple[str, str], list[SideRow]] = {}
        """Rows by kind and owner, in the order in which they were touched."""
        self.holders: dict[SideKey, str] = {}
        self.due: dict[str, LazyHeap[tuple[int, str]]] = {kind: LazyHeap() for kind in DUE_STATES}
        self.keys: dict[str, KeyRecord] = {}
        self.tries: dict[str, Tries] = {}
        self.stale: LazyHeap[int] = LazyHeap()
        """Subjects by the time of their oldest attempt; only those that have another."""
        self.checkpoints: list[Checkpoint] = []
        self.leaves: dict[str, Leaf] = {}
        self.trims: list[Trim] = []
        self.retired: dict[str, Retired] = {}
        """The postings that trims have removed, or keep whole, by id."""
        self.shared: list[View] = []
        """The views that still read these very tables, and need a copy before they change."""

    @property
    def trimmed(self) -> int:
        """The number of the last posting that a trim has looked at."""
        return max((one.done for one in self.trims), default=0)

    def posting(self, name: str) -> PostingRecord | None:
        """A posting by its id, if it is whole."""
        live, gone = self.postings.get(name), self.retired.get(name)
        if gone is not None and (live is None or live.seq <= self.trimmed):
            return gone.posting
        return live if live is not None and live.seq <= self.count else None

    # -- writing ---------------------------------------------------------------------------

    def check(self, changes: Changes) -> None:
        """Raise the ``LedgerError`` for which these cannot be written."""
        self._refuse_broken_chains(changes)
        self._refuse_taken(changes)

    def file(self, changes: Changes) -> None:
        """Write what a batch did. Raises as :meth:`check` does, and then nothing is written."""
        self.check(changes)
        self.apply(changes)

    def apply(self, changes: Changes) -> None:
        """Write what was checked: that cannot fail."""
        # Copies are made when something changes and not when a view begins: most views end before.
        self.about_to_change()
        for posting in changes.postings:
            self._file_posting(posting)
        for change in changes.accounts:
            self._file_account(change.account)
        # All old rows go first: a unique key may pass from one of them to another.
        for side in changes.sides:
            if side.was:
                self._drop_side(side.row.key)
        for side in changes.sides:
            self._file_side(side.row)
        for record in changes.keys:
            self.keys[record.key] = record
        for attempt in changes.attempts:
            self._file_attempt(attempt)
        for move in changes.attempt_moves:
            self._move_attempt(move)

    def put_side(self, row: SideRow) -> None:
        """Write a side row in the place of the one before."""
        self.about_to_change()
        self._drop_side(row.key)
        self._file_side(row)

    def about_to_change(self) -> None:
        """Give everybody who still reads these tables as they are a copy of their own."""
        if self.shared:
            kept = self._copied()
            for view in self.shared:
                view.ledger = kept
            self.shared = []

    def _copied(self) -> Ledger:
        """A copy of the present state. Lists of links and postings are shared: they only ever
        grow.
        """
        kept = copy.copy(self)
        kept.accounts = dict(self.accounts)
        kept.ids = list(self.ids)
        kept.sides = {kind: dict(rows) for kind, rows in self.sides.items()}
        kept.owned = {}
        for rows in kept.sides.values():
            for row in rows.values():
                kept.owned.setdefault(SideKey(row.kind, row.owner), []).append(row)
        kept.requests = dict(self.requests)
        kept.keys = dict(self.keys)
        kept.checkpoints = list(self.checkpoints)
        kept.leaves = dict(self.leaves)
        kept.trims = list(self.trims)
        kept.retired = dict(self.retired)
        kept.shared = []
        return kept

    def _file_posting(self, posting: PostingRecord) -> None:
        self.count += 1
        stored = replace(posting, seq=self.count)
        self.postings[stored.id] = stored
        self.order.append(stored)
        for link in stored.links:
            chain = self.links.get(link.account)
            if chain is None:
                chain = self.links[link.account] = []
            chain.append(link)
        self._follow_payout(stored)

    def _follow_payout(self, posting: PostingRecord) -> None:
        if (asked := requested(posting)) is not None:
            self.requests[asked.payout] = asked
        known = self.requests.get(posting.id.removesuffix(END))
        if known is not None and known.ended_by(posting):
            del self.requests[known.payout]

    def _file_account(self, account: AccountRecord) -> None:
        if account.id not in self.accounts:
            insort(self.ids, account.id)
        self.accounts[account.id] = account

    def _drop_side(self, key: SideKey) -> None:
        before = self.sides[key.kind].get(key.name)
        if before is None:
            return
        self.owned[SideKey(before.kind, before.owner)].remove(before)
        if before.unique_key is not None:
            del self.holders[SideKey(before.kind, before.unique_key)]
        if before.kind in self.due:
            self.due[before.kind].remove(before.id)

    def _file_side(self, row: SideRow) -> None:
        self.sides[row.kind][row.id] = row
        owned = self.owned.get((row.kind, row.owner))
        if owned is None:
            self.owned[SideKey(row.kind, row.owner)] = [row]
        elif owned[-1].touched_at <= row.touched_at if owned else True:
            owned.append(row)
        else:
            insort(owned, row, key=_TOUCHED)
        if row.unique_key is not None:
            self.holders[SideKey(row.kind, row.unique_key)] = row.id
        if row.due_at is not None and row.state in DUE_STATES.get(row.kind, ()):
            self.due[row.kind].push(row.id, (row.due_at, row.id))

    def _file_attempt(self, attempt: MoveAttempt) -> None:
        tries = self.tries.get(attempt.subject)
        if tries is None:
            tries = self.tries[attempt.subject] = Tries()
        if (before := tries.keys.get(attempt.key)) is not None:
            tries.made.remove(before)
        tries.made.append(attempt)
        tries.keys[attempt.key] = attempt
        # Of a single attempt nothing can be pruned: the last total stays.
        if len(tries.made) == 2:  # noqa: PLR2004 - with more the oldest is known
            self.stale.push(attempt.subject, tries.made[0].at)

    def _move_attempt(self, move: AttemptMove) -> None:
        """Forget an attempt. Those after it no longer count it in their totals; the last total
        stays.
        """
        tries = self.tries[move.subject]
        old, last = tries.keys[move.key], tries.made[-1]
        place = tries.made.index(old)
        later = [replace(one, total=one.total - old.amount) for one in tries.made[place + 1 :]]
        later.append(replace(old, at=max(move.at, last.at), total=last.total))
        tries.made[place:] = later
        tries.keys.update((one.key, one) for one in later)

    # -- refusing --------------------------------------------------------------------------

    def _refuse_broken_chains(self, changes: Changes) -> None:
        now = dict[str, _Place]()
        for posting in changes.postings:
            sums: dict[str, int] = {}
            for link in posting.links:
                name, known = link.account, chart(link.account)
                sums[known.currency] = sums.get(known.currency, 0) + link.amount
                before = now.get(name)
                now[name] = _followed(self._place(name) if before is None else before, link, known)
            if any(sums.values()) or not sums:
                raise Unbalanced(f"posting {posting.id} does not sum to zero")
        for change in changes.accounts:
            one = change.account
            last = now.pop(one.id, None)
            moved = (one.number, one.head, one.balance, one.raised)
            if last != moved or not self._is_at(change):
                raise ChainBroken(f"{one.id} is not as its last link says")
        if now:
            raise ChainBroken(f"{', '.join(now)}: a link without its account's balance")

    def _place(self, account: str) -> _Place:
        known = self.accounts.get(account)
        if known is None:
            return 0, GENESIS, 0, 0
        return known.number, known.head, known.balance, known.raised

    def _is_at(self, change: AccountChange) -> bool:
        known = self.accounts.get(change.account.id)
        return change.was == (0 if known is None else known.number)

    def _refuse_taken(self, changes: Changes) -> None:
        for posting in changes.postings:
            if posting.id in self.postings or posting.id in self.retired:
                raise ledger_has(f"there is a posting {posting.id} already")
        for record in changes.keys:
            if record.key in self.keys:
                raise ledger_has(f"the key {record.key!r} was used before")
        # Of the whole batch: two new rows may ask for one key that nobody has yet.
        taken = set(self._held_besides(changes.sides))
        for change in changes.sides:
            self._refuse_side(change, taken)

    def _held_besides(self, sides: Sequence[SideChange]) -> Iterator[SideKey]:
        """Unique keys asked for that rows hold which do not change."""
        asking = [change.row for change in sides if change.row.unique_key is not None]
        leaving = {change.row.key for change in sides} if asking else set()
        for row in asking:
            place = SideKey(row.kind, row.unique_key or "")
            holder = self.holders.get(place)
            if holder is not None and SideKey(place.kind, holder) not in leaving:
                yield place

    def _refuse_side(self, change: SideChange, taken: set[SideKey]) -> None:
        row = change.row
        if row.state not in STATES.get(row.kind, ()):
            raise InvalidTransition(f"{row.kind} {row.id}: there is no state {row.state!r}")
        known = self.sides[row.kind].get(row.id)
        if change.was != (0 if known is None else known.version) or row.version <= change.was:
            raise InvalidTransition(f"{row.kind} {row.id} is not of version {change.was} any more")
        if row.unique_key is not None:
            place = SideKey(row.kind, row.unique_key)
            if place in taken:
                raise InvalidTransition(f"{row.kind} {row.id}: another row has its unique key")
            taken.add(place)


class View:
    """The ledger as it was when this was made; see :meth:`Ledger.about_to_change`."""

    __slots__ = ("_live", "ledger")

    def __init__(self, live: Ledger) -> None:
        self._live = live
        self.ledger = live
        live.shared.append(self)

    def close(self) -> None:
        """Nobody reads it any more."""
        # A ledger that has changed meanwhile gave it a copy and does not list it any more.
        if self in self._live.shared:
            self._live.shared.remove(self)


def _followed(before: _Place, link: LinkRecord, known: Chart) -> _Place:
    """The place of the chain after its next link. Raises the fault of the link."""
    number, head, balance, raised = before
    change = link.amount if known.debit_grows else -link.amount
    if link.number != number + 1 or link.prev != head:
        raise ChainBroken(f"{link.account}: link {link.number} does not follow the last one")
    if link.balance != balance + change or sum(link.entries) != link.amount:
        raise ChainBroken(f"{link.account}: link {link.number} has another balance than its sum")
    if link.raised != (raised + change if change > 0 else raised):
        raise ChainBroken(f"{link.account}: link {link.number} raises it by something else")
    if link.balance < 0 and known.guarded and change < 0:
        raise Overdraft(f"{link.account} would be below zero")
    return link.number, link.hash, link.balance, link.raised

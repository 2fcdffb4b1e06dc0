"""The needs of a decision, locked and read: named before, resolved for a whole batch at once.

An operation names it from what cannot change (ids, the rows of sales and payouts that name their
accounts), so that a store can lock everything of a batch once, in one order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from msgspec import Struct

from offpath.model.ledger.faults import Unplanned
from offpath.model.ledger.records import SideKey

T = TypeVar("T", SideKey, str)
K = TypeVar("K")
V = TypeVar("V")


class LotsNeed(NamedTuple):
    """The lots of an account of the last ``back`` milliseconds, newest first.

    They stop once they cover its balance. ``back`` 0 needs nothing.
    """

    account: str
    back: int


class RaisedNeed(NamedTuple):
    """The sum that raised an account in the last ``back`` ms: one number, from two rows."""

    account: str
    back: int


class AttemptNeed(NamedTuple):
    """The sum that a subject tried to move in the last ``back`` ms, and whether under this key."""

    subject: str
    back: int
    key: str


class Needs(Struct, frozen=True, kw_only=True, gc=False):
    """The rows that must be locked (accounts, sides) and what must be read with it."""

    accounts: frozenset[str] = frozenset()
    """Locked, also when they are only read; those that do not exist yet count as empty."""
    perhaps: frozenset[str] = frozenset()
    """Accounts that seldom exist, and are only posted to where they do. Whoever makes one holds an
    account that is locked here too, so that none comes to be unseen."""
    sides: frozenset[SideKey] = frozenset()
    """Rows by kind and id; locked."""
    holders: frozenset[SideKey] = frozenset()
    """Rows by kind and unique key; locked."""
    newest: frozenset[SideKey] = frozenset()
    """Of a kind and an owner the row with the latest ``touched_at``; read."""
    postings: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()
    """Idempotency keys besides the operation's own."""
    lots: frozenset[LotsNeed] = frozenset()
    raised: frozenset[RaisedNeed] = frozenset()
    attempts: frozenset[AttemptNeed] = frozenset()
    totals: bool = False
    """Sums over all accounts, read after every lock was taken."""

    def __or__(self, other: Needs) -> Needs:
        """Both together."""
        return Needs(
            accounts=self.accounts | other.accounts,
            perhaps=self.perhaps | other.perhaps,
            sides=self.sides | other.sides,
            holders=self.holders | other.holders,
            newest=self.newest | other.newest,
            postings=self.postings | other.postings,
            keys=self.keys | other.keys,
            lots=self.lots | other.lots,
            raised=self.raised | other.raised,
            attempts=self.attempts | other.attempts,
            totals=self.totals or other.totals,
        )


class Wanted(Struct, frozen=True, kw_only=True):
    """The needs of a batch: merged, absolute in time, each list sorted and without repeats.

    Locks are taken in the order of the fields: ``sides`` (with ``holders``) by kind and id, then
    ``accounts`` by id.
    """

    sides: tuple[SideKey, ...]
    holders: tuple[SideKey, ...]
    accounts: tuple[str, ...]
    must: tuple[str, ...]
    """The accounts that are made, if need be, to be locked."""
    newest: tuple[SideKey, ...]
    postings: tuple[str, ...]
    keys: tuple[str, ...]
    lots: tuple[tuple[str, int], ...]
    """Account, and the time after which its lots are wanted."""
    raised: tuple[tuple[str, int], ...]
    """Account, and the time after which what raised it counts."""
    attempts: tuple[tuple[str, int], ...]
    """Subject, and the time after which its attempts count."""
    attempted: tuple[tuple[str, str], ...]
    """Subject and key, of which it is wanted whether they were recorded."""
    totals: bool


class LoadedRows(dict[K, V]):
    """The rows of a kind that a decision asked for. Any other row is :class:`Unplanned`."""

    __slots__ = ("_what",)

    def __init__(self, what: str, entries: Mapping[K, V]) -> None:
        super().__init__(entries)
        self._what = what

    def __missing__(self, key: K) -> V:
        """Refuse to decide by what is not locked."""
        raise Unplanned(f"the {self._what} {key} was not loaded for this decision")


def wanted(needs: Iterable[tuple[Needs, int]], keys: Iterable[str] = ()) -> Wanted:
    """The rows that a batch wants of the store; each operation's needs come with its time (ms).

    ``keys`` are wanted besides those that are needed.
    """
    pairs = list(needs)
    each = [need for need, _ in pairs]
    lots: dict[str, int] = {}
    for need, now in pairs:
        for account, back in need.lots:
            if back > 0:
                lots[account] = min(now - back, lots.get(account, now))
    raised = {(one.account, now - one.back) for need, now in pairs for one in need.raised}
    tried = [(one.subject, now - one.back, one.key) for need, now in pairs for one in need.attempts]
    must = _merged([need.accounts for need in each])
    perhaps = frozenset().union(*[need.perhaps for need in each])
    return Wanted(
        sides=_merged([need.sides for need in each]),
        holders=_merged([need.holders for need in each]),
        accounts=tuple(sorted({*must, *perhaps})) if perhaps else must,
        must=must,
        newest=_merged([need.newest for need in each]),
        postings=_merged([need.postings for need in each]),
        keys=_merged([need.keys for need in each] + [frozenset(keys)]),
        lots=tuple(sorted(lots.items())),
        raised=tuple(sorted(raised)),
        attempts=tuple(sorted({(subject, since) for subject, since, _ in tried})),
        attempted=tuple(sorted({(subject, key) for subject, _, key in tried})),
        totals=any(need.totals for need in each),
    )


def _merged(sets: Iterable[frozenset[T]]) -> tuple[T, ...]:
    """All of them, sorted."""
    return tuple(sorted(set().union(*sets)))

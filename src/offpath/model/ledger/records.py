"""The rows that the store keeps of a ledger besides postings. Times are milliseconds since 1970."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from msgspec import Struct

from offpath.model.ledger.chart import chart
from offpath.model.ledger.posting import GENESIS
from offpath.model.quiet import Quiet


class SideKey(NamedTuple):
    """The key of a side row: its kind, and an id, an owner or a unique key."""

    kind: str
    name: str


STATES: Final[dict[str, tuple[str, ...]]] = {
    "payout": ("RESERVED", "SUBMITTED", "SETTLED", "FAILED"),
    "subscription": ("ACTIVE", "LAPSED", "CANCELED"),
    "promo": ("OPEN", "REVERSED", "DEAD"),
    "sale": ("SOLD",),
    "entitlement": ("OWNED", "REVOKED"),
}
"""The kinds of side rows and the states of each; the databases check the same."""
OPEN_PAYOUTS: Final = ("RESERVED", "SUBMITTED")
"""Payouts whose quote is owed."""
DUE_STATES: Final = {"payout": OPEN_PAYOUTS, "subscription": ("ACTIVE",), "promo": ("OPEN",)}
"""The kinds that sweeps lease, and the states in which a row may be due."""


class SideRow(Quiet, frozen=True, kw_only=True, gc=False):
    """Money-bearing state beside the postings: a payout, a subscription, a sale, ...

    Nothing in it is believed before it was compared with the sealed metadata of the posting that
    made it, its ``anchor``.
    """

    kind: str
    id: str
    owner: str
    """The user that it belongs to."""
    state: str
    version: int = 0
    """Rises by one with every write and with every lease: a fence."""
    due_at: int | None = None
    """The time when a sweep looks at it; None: never (again)."""
    attempts: int = 0
    amount: int | None = None
    """A payout's quote in USD minor units, a promo's grant in credit minor units."""
    anchor: str | None = None
    unique_key: str | None = None
    """One row of the kind holds it; None gives it up."""
    created_at: int = 0
    touched_at: int = 0
    body: str = "{}"
    """The rest, as JSON."""

    @property
    def key(self) -> SideKey:
        """The key by which it is found."""
        return SideKey(self.kind, self.id)


class AccountRecord(Struct, frozen=True, kw_only=True, gc=False):
    """An account as it is now. Accounts that no posting has touched are not stored."""

    id: str
    balance: int = 0
    raised: int = 0
    """All that ever raised it."""
    head: str = GENESIS
    number: int = 0
    """The number of links that its chain has."""
    charted: bool = True
    """True if its row says what the chart of accounts does; told where accounts are listed."""

    @property
    def sum(self) -> int:
        """The sum of its entries, debit positive."""
        return chart(self.id).entry(self.balance)


class Receipt(Struct, frozen=True, kw_only=True, gc=False):
    """The result of an operation: kept under its key, and returned to a caller that repeats it."""

    id: str | None = None
    """The operation's main posting, or the id of the row that it is about."""
    postings: tuple[str, ...] = ()
    facts: dict[str, Any] = {}


LASTING: Final = 253_402_300_799_000
"""The time of keys that are kept for ever: the last second of the year 9999."""


class KeyRecord(Struct, frozen=True, kw_only=True, gc=False):
    """An idempotency key that was used, and what came of it."""

    key: str
    fingerprint: str
    receipt: Receipt
    at: int


class Lot(Struct, frozen=True, kw_only=True, gc=False):
    """An amount that raised an account, and when."""

    amount: int
    at: int
    source: str | None = None


class MoveAttempt(Struct, frozen=True, kw_only=True, gc=False):
    """An amount that somebody tried to move, committed or not: what velocity limits count."""

    subject: str
    key: str
    amount: int
    at: int
    """Never before the subject's attempt before it, whatever the clock says."""
    total: int
    """The sum of all the subject's attempts with this one: the sum of a window is a difference."""


class AttemptMove(Struct, frozen=True, kw_only=True, gc=False):
    """An attempt that was declined before and went through now: from now on it counts at ``at``.

    Else who was declined early could move as much again as soon as that early time has passed.
    """

    subject: str
    key: str
    at: int


class Totals(Struct, frozen=True, kw_only=True):
    """Sums over all accounts."""

    balances: dict[str, int] = {}
    """By an account's kind (``spendable``, ``earned``, ...; the platform's by name)."""
    quotes: int = 0
    """The debt by the rows of open payouts, in USD minor units."""
    requested: int = 0
    """The debt by postings that asked for payouts and have no end, in USD minor units."""

    @property
    def owed(self) -> int:
        """The cost of open payouts: the larger of both, since rows are not hashed and a debt does
        not vanish with its row.
        """
        return max(self.quotes, self.requested)


class Leaf(Struct, frozen=True, kw_only=True, gc=False):
    """An account in a checkpoint: where its chain stood."""

    account: str
    number: int
    head: str
    sum: int


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A signed snapshot of all chains. ``prev`` is the id of the checkpoint before (version 3)."""

    id: str
    root: str
    signature: str
    count: int
    at: int
    v: int
    sum: int | None = None
    """The sum of all entries; None in version 1."""
    kid: str | None = None
    prev: str | None = None
    posting: int | None = None
    """The number of the last posting that it covers (version 4): so what it signed can be made
    again from the links, whatever became of the leaves.
    """

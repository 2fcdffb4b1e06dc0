"""The two sides of a reconciliation: what a payment processor cleared and what the ledger has, and
the report of their comparison.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Final

from msgspec import Struct

from offpath.errors import InvalidArgument
from offpath.model import checks
from offpath.model.ledger.money import Money

LISTED: Final = 10_000
"""Discrepancies of each difference that a report names. A file of another month differs in every
line; all of them are counted."""


class RecordKind(StrEnum):
    """The subject of a record; a purchase never matches a payout."""

    BUY = "buy"
    PAYOUT = "payout"
    REVERSAL = "reversal"
    """A purchase whose money went back: a ``Reverse`` of its top-up."""
    DISPUTE = "dispute"
    """A purchase that a bank took back: the dollars of a ``Clawback``, its fee with them."""

    __hash__ = str.__hash__
    """Enum's own is a Python function."""


class Difference(StrEnum):
    """The kinds of disagreement between two sides."""

    PROCESSOR_ORPHAN = "processor_orphan"
    """The processor cleared it, the ledger does not have it."""
    LEDGER_ORPHAN = "ledger_orphan"
    """The ledger has it, the processor does not."""
    AMOUNT_DRIFT = "amount_drift"
    """Both have it, with other amounts or currencies."""

    __hash__ = str.__hash__
    """Enum's own is a Python function."""


class Window(Struct, frozen=True, kw_only=True):
    """A stretch of time, ``since`` included and ``until`` not.

    Raises ``InvalidArgument`` for times without a zone and for a window that is empty.
    """

    since: datetime
    until: datetime

    def __post_init__(self) -> None:
        """Refuse what is not a window."""
        since, until = checks.aware(self.since, "since"), checks.aware(self.until, "until")
        if since >= until:
            raise InvalidArgument(
                f"a window begins before it ends: since={since.isoformat()}, "
                f"until={until.isoformat()}"
            )

    def __contains__(self, moment: datetime) -> bool:
        """True if a moment is in it."""
        return self.since <= moment < self.until

    def __str__(self) -> str:
        """Show both ends."""
        return f"{self.since.isoformat()}/{self.until.isoformat()}"


class ReconcileRecord(Struct, frozen=True, kw_only=True):
    """A movement of money as one side knows it. Records of both sides pair by kind and key."""

    kind: RecordKind
    key: str
    """The name that both sides have for it: a provider's reference, an idempotency key."""
    amount: Money
    ref: str
    """The name that this side has for it."""
    at: datetime


class Pulled(Struct, frozen=True, kw_only=True):
    """Both sides of a window, as a feed gives them. What is outside of the window is left out."""

    processor: Iterable[ReconcileRecord] = ()
    """Read once, in a thread: an iterator that reads a file as it goes keeps memory small."""
    ledger: Iterable[ReconcileRecord] | None = None
    """Our side; None: what the ledger itself has in the window."""


class Discrepancy(Struct, frozen=True, kw_only=True):
    """One disagreement; the side that lacks the record is None."""

    difference: Difference
    kind: RecordKind
    key: str
    processor: ReconcileRecord | None = None
    ledger: ReconcileRecord | None = None


class KindCounts(Struct, frozen=True, kw_only=True):
    """The numbers of one kind of record."""

    kind: RecordKind
    processor_count: int
    ledger_count: int
    matched: int


class ReconcileReport(Struct, frozen=True, kw_only=True):
    """The comparison of the two sides of a window.

    ``matched + drifts + processor_orphans`` is ``processor_count``, and likewise for the ledger.
    """

    window: Window
    matched: int
    processor_count: int
    ledger_count: int
    processor_orphans: int = 0
    """The number that only the processor has."""
    ledger_orphans: int = 0
    """The number that only the ledger has."""
    amount_drifts: int = 0
    """The number that both have, with other amounts."""
    discrepancies: tuple[Discrepancy, ...] = ()
    """Ordered by difference, key and kind; at most 10,000 of each difference."""
    kinds: tuple[KindCounts, ...] = ()
    """The same by kind, for each that there is."""

    @property
    def reconciled(self) -> bool:
        """True if both sides agree on everything."""
        return not self.differing

    @property
    def differing(self) -> int:
        """The number of all disagreements, also of those that are not listed."""
        return self.processor_orphans + self.ledger_orphans + self.amount_drifts

"""Comparing what a payment processor cleared with what the ledger has: pure, and the same for any
order of the records.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import zip_longest

from msgspec import Struct

from offpath.errors import InvalidArgument
from offpath.model import checks
from offpath.model.ledger.money import Money


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

    processor: tuple[ReconcileRecord, ...] = ()
    ledger: tuple[ReconcileRecord, ...] | None = None
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
    discrepancies: tuple[Discrepancy, ...] = ()
    """Ordered by difference, key and kind."""
    kinds: tuple[KindCounts, ...] = ()
    """The same by kind, for each that there is."""

    @property
    def reconciled(self) -> bool:
        """True if both sides agree on everything."""
        return not self.discrepancies

    @property
    def processor_orphans(self) -> int:
        """The number that only the processor has."""
        return self._count(Difference.PROCESSOR_ORPHAN)

    @property
    def ledger_orphans(self) -> int:
        """The number that only the ledger has."""
        return self._count(Difference.LEDGER_ORPHAN)

    @property
    def amount_drifts(self) -> int:
        """The number that both have, with other amounts."""
        return self._count(Difference.AMOUNT_DRIFT)

    def _count(self, difference: Difference) -> int:
        return sum(one.difference is difference for one in self.discrepancies)


def reconcile(window: Window, pulled: Pulled) -> ReconcileReport:
    """Compare both sides of a window.

    Records of the same kind and key are paired: equal amounts first, then what is left in order
    of amount, reference and time, so that the order in which a feed gives them makes no difference.
    """
    processor = [one for one in pulled.processor if one.at in window]
    ledger = [one for one in pulled.ledger or () if one.at in window]
    ours, theirs = _by_key(ledger), _by_key(processor)
    matched, found = Counter[RecordKind](), list[Discrepancy]()
    for place in sorted({*ours, *theirs}):
        same, rest = _paired(theirs.get(place, ()), ours.get(place, ()))
        matched[place[0]] += same
        found += [_discrepancy(place, one, other) for one, other in rest]
    return ReconcileReport(
        window=window,
        matched=matched.total(),
        processor_count=len(processor),
        ledger_count=len(ledger),
        discrepancies=tuple(sorted(found, key=_place)),
        kinds=_counted(processor, ledger, matched),
    )


def _counted(
    processor: Sequence[ReconcileRecord],
    ledger: Sequence[ReconcileRecord],
    matched: Counter[RecordKind],
) -> tuple[KindCounts, ...]:
    theirs, ours = (Counter(one.kind for one in side) for side in (processor, ledger))
    return tuple(
        KindCounts(
            kind=kind, processor_count=theirs[kind], ledger_count=ours[kind], matched=matched[kind]
        )
        for kind in RecordKind
        if theirs[kind] or ours[kind]
    )


_Place = tuple[RecordKind, str]


def _by_key(records: Iterable[ReconcileRecord]) -> dict[_Place, list[ReconcileRecord]]:
    found: dict[_Place, list[ReconcileRecord]] = defaultdict(list)
    for record in sorted(records, key=_order):
        found[record.kind, record.key].append(record)
    return dict(found)


def _paired(
    processor: Sequence[ReconcileRecord], ledger: Sequence[ReconcileRecord]
) -> tuple[int, list[tuple[ReconcileRecord | None, ReconcileRecord | None]]]:
    """The number of equal ones, and the others in pairs as far as they go."""
    twins = Counter(one.amount for one in processor) & Counter(one.amount for one in ledger)
    unmatched = zip_longest(_without(processor, twins), _without(ledger, twins))
    return twins.total(), list(unmatched)


def _without(records: Sequence[ReconcileRecord], twins: Counter[Money]) -> list[ReconcileRecord]:
    """The records but for the first so many of each amount."""
    left, rest = twins.copy(), list[ReconcileRecord]()
    for record in records:
        if left[record.amount]:
            left[record.amount] -= 1
        else:
            rest.append(record)
    return rest


def _discrepancy(
    place: _Place, processor: ReconcileRecord | None, ledger: ReconcileRecord | None
) -> Discrepancy:
    if ledger is None:
        difference = Difference.PROCESSOR_ORPHAN
    elif processor is None:
        difference = Difference.LEDGER_ORPHAN
    else:
        difference = Difference.AMOUNT_DRIFT
    return Discrepancy(
        difference=difference, kind=place[0], key=place[1], processor=processor, ledger=ledger
    )


def _order(record: ReconcileRecord) -> tuple[str, int, str, datetime]:
    return (record.amount.currency, record.amount.minor, record.ref, record.at)


def _place(one: Discrepancy) -> tuple[str, str, str]:
    return (one.difference, one.key, one.kind)

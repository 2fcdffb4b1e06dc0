"""The reports of an economy's sweeps: a summary of its own shape, the same on every pass."""

from __future__ import annotations

from typing import Any, Final, Protocol

from msgspec import Struct, to_builtins

from offpath.economy.ledger.obligations import Position
from offpath.economy.ledger.reconciliation import ReconcileReport, Window
from offpath.economy.ledger.shortfalls import Explained
from offpath.model.ledger.money import Currency, Money
from offpath.model.tally import Tally

_BAD = frozenset({"failed", "dead_lettered", "retrying"})
"""Buckets that count as failures for health. What a sweep *finds* (a breach, a mismatch, a drift)
is none: it did its work, and restarting a worker mends no books. Logs and counters tell of it.
"""


class Coded(Struct, frozen=True):
    """A row that comes again, and the code of what went wrong."""

    id: str
    code: str


class Reasoned(Struct, frozen=True):
    """A row that will not come again unaided, and why."""

    id: str
    reason: str


class FailedMessage(Struct, frozen=True):
    """A message that was not delivered or applied this time."""

    id: str
    code: str
    retryable: bool


class Expired(Struct, frozen=True):
    """A grant that was taken back; ``amount`` may be zero."""

    id: str
    amount: Money


class Breach(Struct, frozen=True):
    """The cash that is missing: a finding, not an error."""

    shortfall: Money
    required: Money
    held: Money
    explained: Explained
    """The causes of the shortfall."""


class FailedWindow(Struct, frozen=True):
    """A window whose records could not be pulled."""

    window: Window
    code: str
    retryable: bool


class SweepSummary(Protocol):
    """The base of every summary."""

    def tally(self) -> Tally:
        """The same as rows by bucket, for health and metrics."""
        ...


class RowsSummary(Struct, frozen=True, kw_only=True):
    """A summary whose fields are the buckets of its rows."""

    def tally(self) -> Tally:
        """Rows by bucket."""
        return _tally(**{name: getattr(self, name) for name in self.__struct_fields__})


class PayoutsSummary(RowsSummary, frozen=True, kw_only=True):
    """The outcome of due payouts. Those that only wait are in no bucket."""

    submitted: tuple[str, ...] = ()
    dead_lettered: tuple[Reasoned, ...] = ()
    retrying: tuple[Coded, ...] = ()


WAITING = frozenset({"FUNDS_IMMATURE"})
"""Codes of rows that wait for a known time: nothing is wrong with them."""


class SubscriptionsSummary(Struct, frozen=True, kw_only=True):
    """The outcome of due subscriptions."""

    charged: tuple[str, ...] = ()
    lapsed: tuple[str, ...] = ()
    dead_lettered: tuple[Coded, ...] = ()
    retrying: tuple[Coded, ...] = ()

    def tally(self) -> Tally:
        """Rows by bucket."""
        waits = tuple(one for one in self.retrying if one.code in WAITING)
        return _tally(
            charged=self.charged,
            lapsed=self.lapsed,
            dead_lettered=self.dead_lettered,
            retrying=tuple(one for one in self.retrying if one.code not in WAITING),
            waiting=waits,
        )


class TreasurySummary(Struct, frozen=True, kw_only=True):
    """The position of the platform; ``position`` is None when it could not be read."""

    position: Position | None = None
    breaches: tuple[Breach, ...] = ()
    retrying: tuple[Coded, ...] = ()
    failed: tuple[Coded, ...] = ()

    def tally(self) -> Tally:
        """Rows by bucket; there is one."""
        found = {} if self.position is None else _plain(self.position)
        return _tally(
            backed=("treasury",) if self.position is not None and not self.breaches else (),
            breaches=("treasury",) * len(self.breaches),
            retrying=self.retrying,
            failed=self.failed,
            facts=found,
        )


class FeesSummary(Struct, frozen=True, kw_only=True):
    """The fees that were realised as the platform's own."""

    swept: Money = Money(Currency.CREDIT, 0)
    skipped: bool = True
    """There was nothing to take."""
    duplicate: bool = False
    """The same sweep had been made before."""

    def tally(self) -> Tally:
        """Rows by bucket; there is one when something was swept."""
        return _tally(swept=("fees",) if self.swept else (), facts={"swept": str(self.swept)})


class VerifySummary(Struct, frozen=True, kw_only=True):
    """The result of a verification of the last checkpoint; ``mismatch`` is a finding."""

    verified: str | None = None
    """The checkpoint's id."""
    skipped: bool = True
    """Nothing was sealed yet, or there is no signer."""
    mismatch: bool = False
    problems: tuple[str, ...] = ()
    """The breaks, with the account's name where it is one."""
    reproved: str | None = None
    """The slice of the old postings that was proved again, as ``5/168`` of the cycle."""
    dead_lettered: tuple[Coded, ...] = ()
    retrying: tuple[Coded, ...] = ()

    def tally(self) -> Tally:
        """Rows by bucket; there is one."""
        one = () if self.skipped else (self.verified or "checkpoint",)
        return _tally(
            verified=() if self.mismatch else one,
            mismatch=one if self.mismatch else (),
            dead_lettered=self.dead_lettered,
            retrying=self.retrying,
        )


SEALED: Final = "sealed"
"""The bucket of a checkpoint that was sealed where there is no anchor."""
ANCHORED: Final = "anchored"
"""The bucket of a checkpoint that was sealed, and published at the anchor."""
ANCHOR_FAILED: Final = "anchor_failed"
"""The bucket of a checkpoint that was sealed, and that the anchor did not take."""


class SealSummary(Struct, frozen=True, kw_only=True):
    """The result of a seal: whether a checkpoint was sealed."""

    sealed: str | None = None
    """Its id."""
    skipped: bool = True
    """There was nothing to seal, or there is no signer."""
    anchored: bool | None = None
    """True if the anchor took it, False if it failed; None: nothing was published."""
    dead_lettered: tuple[Coded, ...] = ()
    retrying: tuple[Coded, ...] = ()

    def tally(self) -> Tally:
        """Rows by bucket; there is one. Its run is kept, and tells by it what the anchor did."""
        one = () if self.sealed is None else (self.sealed,)
        return _tally(
            sealed=one if self.anchored is None else (),
            anchored=one if self.anchored else (),
            anchor_failed=one if self.anchored is False else (),
            dead_lettered=self.dead_lettered,
            retrying=self.retrying,
        )


class RelaySummary(RowsSummary, frozen=True, kw_only=True):
    """The outcome of due events."""

    relayed: tuple[str, ...] = ()
    failed: tuple[FailedMessage, ...] = ()
    dead_lettered: tuple[Reasoned, ...] = ()


class InboxSummary(RowsSummary, frozen=True, kw_only=True):
    """The outcome of inbound operations; duplicates count as applied."""

    applied: tuple[str, ...] = ()
    failed: tuple[FailedMessage, ...] = ()
    dead_lettered: tuple[Reasoned, ...] = ()


class ReconcileSummary(Struct, frozen=True, kw_only=True):
    """The comparison of the windows; drift is a finding."""

    reconciled: tuple[ReconcileReport, ...] = ()
    drifted: tuple[ReconcileReport, ...] = ()
    failed: tuple[FailedWindow, ...] = ()

    def tally(self) -> Tally:
        """Windows by bucket."""
        return Tally(
            buckets=_kept(
                reconciled=tuple(str(one.window) for one in self.reconciled),
                drifted=tuple(str(one.window) for one in self.drifted),
                failed=tuple(str(one.window) for one in self.failed),
            ),
            bad=_BAD,
            reasons={str(one.window): one.code for one in self.failed},
        )


class PromosSummary(RowsSummary, frozen=True, kw_only=True):
    """The outcome of expired grants."""

    reversed: tuple[Expired, ...] = ()
    failed: tuple[Coded, ...] = ()
    dead_lettered: tuple[Coded, ...] = ()


_Row = str | Coded | Reasoned | FailedMessage | Expired | Breach


def _tally(*, facts: dict[str, Any] | None = None, **buckets: tuple[_Row, ...]) -> Tally:
    reasons = {
        one.id: one.code if isinstance(one, Coded | FailedMessage) else one.reason
        for rows in buckets.values()
        for one in rows
        if isinstance(one, Coded | FailedMessage | Reasoned)
    }
    ids = {name: tuple(map(_id, rows)) for name, rows in buckets.items()}
    return Tally(buckets=_kept(**ids), bad=_BAD, reasons=reasons, facts=facts or {})


def _kept(**buckets: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return {name: ids for name, ids in buckets.items() if ids}


def _id(row: _Row) -> str:
    match row:
        case str():
            return row
        case Breach():
            return "treasury"
        case _:
            return row.id


def _plain(value: Struct) -> dict[str, Any]:
    plain: dict[str, Any] = to_builtins(value)
    return plain

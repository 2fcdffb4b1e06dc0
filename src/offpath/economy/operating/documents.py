"""Documents of an economy: its books, accounts, postings, checkpoints, payouts, subscriptions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from offpath.economy.ledger.audit import AuditRecord, Phase
from offpath.economy.ledger.obligations import Position
from offpath.economy.ledger.reads import Payout, Subscription
from offpath.economy.sweeps.summaries import ANCHOR_FAILED, ANCHORED
from offpath.model.finding import FindingRecord
from offpath.model.ledger import money
from offpath.model.ledger.chart import chart
from offpath.model.ledger.posting import LinkRecord, PostingRecord
from offpath.model.ledger.records import AccountRecord, Checkpoint
from offpath.model.redact import redact_text
from offpath.model.run import RunRecord
from offpath.operating.documents.actions import ActionDocument
from offpath.operating.documents.fields import filled
from offpath.operating.documents.pages import DocumentPage
from offpath.operating.panels import PanelledDocument
from offpath.operating.redaction import PLAIN, Redaction


class CheckpointDocument(Struct, frozen=True, kw_only=True):
    """A signed snapshot of where every chain stood."""

    id: str
    at: datetime
    count: int
    """The number of accounts that it covers."""
    root: str
    key: str | None
    """The id of the key that signed it."""
    version: int
    prev: str | None
    """The id of the checkpoint before."""


class CheckpointPage(DocumentPage[CheckpointDocument], frozen=True, kw_only=True):
    """Checkpoints, the latest first; ``next`` is given back as ``after``."""


class BookFinding(Struct, frozen=True, kw_only=True):
    """A finding about the books that stands."""

    id: str
    name: str
    text: str
    since: datetime
    seen_at: datetime
    accepted_at: datetime | None
    reason: str | None


class SweepStanding(Struct, frozen=True, kw_only=True):
    """A sweep of the economy, by the newest report of a live worker."""

    name: str
    condition: str
    last_success_age: float | None
    worker: str


class StateCount(Struct, frozen=True, kw_only=True):
    """The payouts of a state, counted up to a limit."""

    state: str
    count: int
    more: bool
    """True if there are more than were counted."""
    oldest_at: datetime | None
    """The time when the first of those that were counted was asked for."""


class AnchorStanding(Struct, frozen=True, kw_only=True):
    """The anchor's part in the last seals whose run was kept."""

    at: datetime
    """The time when that run began, by the clock of who made it."""
    outcome: str
    """``published``; ``failed``: the anchor did not take one; ``absent``: there is no anchor."""


class LedgerDocument(PanelledDocument, frozen=True, kw_only=True):
    """The books: when they were proved, verified and sealed, and what stands against them.

    Nothing of it is proved by looking: a proof is as old as it says.
    """

    proof: ActionDocument | None
    """The last proof that somebody asked for."""
    verification: ActionDocument | None
    """The last verification that somebody asked for."""
    checkpoint: CheckpointDocument | None
    """The last one; None: nothing was sealed yet."""
    anchor: AnchorStanding | None
    """The outcome of publishing; None: no seal is among the runs that are kept."""
    sweeps: tuple[SweepStanding, ...]
    """The sweeps that seal, verify and compare, as live workers tell of them."""
    findings: tuple[BookFinding, ...]
    paused: bool
    """True if the economy's sweeps rest."""
    resting: tuple[str, ...]
    """The ways of money that rest since a finding is contained: ``fees``, ``payouts``."""
    payouts: tuple[StateCount, ...]
    """The open ones, by state."""


class BackingDocument(Struct, frozen=True, kw_only=True):
    """The platform's cash against what it owes, added up when it was asked for."""

    held: str
    obligations: str
    surplus: str
    shortfall: str
    users: str
    """Credits of users."""
    sellers: str
    """Credits that were earned."""
    open_payouts: str
    backed: bool


class AccountDocument(Struct, frozen=True, kw_only=True):
    """An account."""

    id: str
    kind: str
    owner: str
    balance: str
    postings: int
    """The number of links of its chain."""
    head: str
    charted: bool
    """False: its row contradicts the chart of accounts."""
    last_at: datetime | None
    """The time of its last posting; None where that was archived and removed."""


class AccountPage(DocumentPage[AccountDocument], frozen=True, kw_only=True):
    """Accounts by id; ``next`` is given back as ``after``."""


class StatementLine(Struct, frozen=True, kw_only=True):
    """One posting as an account saw it."""

    number: int
    at: datetime
    kind: str
    """The operation that made it."""
    change: str
    balance: str
    """After it."""
    posting: str
    hash: str


class AccountShown(AccountDocument, frozen=True, kw_only=True):
    """An account with its statement, the latest first; ``next`` is given back as ``after``."""

    items: tuple[StatementLine, ...]
    next: str | None
    archived: str | None = None
    """On the last page: the archive that has this and what was before; None: nothing was."""


class PostingEntry(Struct, frozen=True, kw_only=True):
    """An account's part of a posting, with its link in the account's chain."""

    account: str
    change: str
    """The change of the account's balance."""
    balance: str
    number: int
    prev: str
    hash: str


class PostingDocument(Struct, frozen=True, kw_only=True):
    """A posting as it is stored, not verified."""

    id: str
    at: datetime
    seq: int
    kind: str
    entries: tuple[PostingEntry, ...]
    facts: Any
    """Its sealed metadata: the operation that made it."""


class PayoutDocument(Struct, frozen=True, kw_only=True):
    """A payout as it is now."""

    id: str
    user: str
    state: str
    amount: str
    quote: str
    """The amount that the seller gets."""
    attempts: int
    due: datetime | None
    ref: str | None
    """The provider's own reference."""
    reason: str | None
    requested_at: datetime
    touched_at: datetime


class PayoutPage(DocumentPage[PayoutDocument], frozen=True, kw_only=True):
    """Payouts by id; ``next`` is given back as ``after``."""

    counts: tuple[StateCount, ...]
    """The open ones, and the failed ones, by state."""
    findings: tuple[BookFinding, ...]
    """The findings about payouts and the feed of the provider that nobody has accepted."""


class SubscriptionDocument(Struct, frozen=True, kw_only=True):
    """A subscription as it is now."""

    id: str
    user: str
    seller: str
    sku: str
    state: str
    price: str
    period: float | str
    """Seconds, or a period of the calendar such as ``P1M``."""
    number: int
    """The period that was paid last."""
    paid_until: datetime
    attempts: int


class SubscriptionPage(DocumentPage[SubscriptionDocument], frozen=True, kw_only=True):
    """Subscriptions by id; ``next`` is given back as ``after``."""


class AuditLine(Struct, frozen=True, kw_only=True):
    """A record of what was found and done about it: a link of a hash chain."""

    number: int
    at: datetime
    phase: Phase
    subject: str
    detail: str
    by: str
    hash: str


class AuditPage(DocumentPage[AuditLine], frozen=True, kw_only=True):
    """The audit, the newest first; ``next`` is given back as ``after``."""


def moment(millis: int) -> datetime:
    """A time of the ledger."""
    return datetime.fromtimestamp(millis // 1_000, UTC).replace(microsecond=millis % 1_000 * 1_000)


def describe_checkpoint(one: Checkpoint) -> CheckpointDocument:
    """The document of a checkpoint."""
    return filled(CheckpointDocument, one, at=moment(one.at), key=one.kid, version=one.v)


def describe_anchor(seals: RunRecord) -> AnchorStanding:
    """The document of a run that sealed: of several seals one that failed is told."""
    counts = seals.report.counts
    published = "published" if counts.get(ANCHORED) else "absent"
    return AnchorStanding(at=seals.at, outcome="failed" if counts.get(ANCHOR_FAILED) else published)


def describe_finding(one: FindingRecord) -> BookFinding:
    """The document of a finding."""
    return filled(BookFinding, one, text=redact_text(one.text))


def describe_backing(one: Position) -> BackingDocument:
    """The document of a position."""
    return BackingDocument(
        held=money.text("USD", one.held),
        obligations=money.text("USD", one.obligations),
        surplus=money.text("USD", one.surplus),
        shortfall=money.text("USD", one.shortfall),
        users=money.text("CREDIT", one.custodial),
        sellers=money.text("CREDIT", one.earned),
        open_payouts=money.text("USD", one.quotes),
        backed=one.shortfall == 0,
    )


def describe_account(one: AccountRecord, last: LinkRecord | None) -> AccountDocument:
    """The document of an account."""
    known = chart(one.id)
    return AccountDocument(
        id=one.id,
        kind=known.kind,
        owner=known.owner,
        balance=money.text(known.currency, one.balance),
        postings=one.number,
        head=one.head,
        charted=one.charted,
        last_at=None if last is None else moment(last.at),
    )


def describe_line(link: LinkRecord, kind: str) -> StatementLine:
    """The document of a line of a statement."""
    known = chart(link.account)
    return StatementLine(
        number=link.number,
        at=moment(link.at),
        kind=kind,
        change=money.text(known.currency, known.change(link.amount)),
        balance=money.text(known.currency, link.balance),
        posting=link.posting,
        hash=link.hash,
    )


def describe_posting(one: PostingRecord, seen: Redaction = PLAIN) -> PostingDocument:
    """The document of a posting."""
    return PostingDocument(
        id=one.id,
        at=moment(one.at),
        seq=one.seq,
        kind=str(one.facts.get("kind", "")),
        entries=tuple(map(_entry, one.links)),
        facts=seen.payload(one.meta),
    )


def _entry(link: LinkRecord) -> PostingEntry:
    known = chart(link.account)
    return PostingEntry(
        account=link.account,
        change=money.text(known.currency, known.change(link.amount)),
        balance=money.text(known.currency, link.balance),
        number=link.number,
        prev=link.prev,
        hash=link.hash,
    )


def describe_payout(one: Payout) -> PayoutDocument:
    """The document of a payout."""
    return filled(
        PayoutDocument,
        one,
        amount=str(one.amount),
        quote=str(one.quote),
        due=one.due_at,
        ref=one.provider_ref,
        reason=None if one.reason is None else redact_text(one.reason),
    )


def describe_subscription(one: Subscription) -> SubscriptionDocument:
    """The document of a subscription."""
    return filled(SubscriptionDocument, one, price=str(one.price))


def describe_audit(one: AuditRecord) -> AuditLine:
    """The document of a record of the audit."""
    return filled(AuditLine, one, detail=redact_text(one.detail))

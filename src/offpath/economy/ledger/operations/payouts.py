"""Payouts: a seller's credits are reserved, the provider pays in real money, the credits retire.

``RESERVED -> SUBMITTED -> SETTLED``, and to ``FAILED`` from the first two, which gives the credits
back. A failed payout costs the seller no time: what comes back is mature at once, and the wait
until the next payout forgets it.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from offpath.economy.ledger.actors import Actor, owner_or_trusted, trusted_only
from offpath.economy.ledger.anchors import proved_payout
from offpath.economy.ledger.operations import checks
from offpath.economy.ledger.operations.debts import debts_of, netted
from offpath.economy.ledger.operations.events import publish
from offpath.economy.ledger.operations.funds import enough, tried, velocity_need, within_velocity
from offpath.economy.ledger.operations.maturity import lots_need, mature, return_source, young
from offpath.economy.ledger.operations.plans import Family, Lookup, Planning, fingerprint
from offpath.economy.ledger.rows import PayoutBody, encoded, moved
from offpath.economy.ledger.rules import Rules, millis
from offpath.model.ledger import money
from offpath.model.ledger.book import Book
from offpath.model.ledger.chart import (
    PAYOUT_RESERVE,
    STORED_VALUE,
    TRUST_CASH,
    USD_CLEARING,
    earned,
    owed,
    spendable,
)
from offpath.model.ledger.decision import Declined, LedgerOp, Repeat
from offpath.model.ledger.faults import (
    ChainBroken,
    InvalidAmount,
    InvalidTransition,
    MalformedOperation,
)
from offpath.model.ledger.money import Currency, Money
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.posting import Entry, NewPosting
from offpath.model.ledger.rates import BPS
from offpath.model.ledger.records import Receipt, SideKey, SideRow
from offpath.model.ledger.requested import END


class RequestPayout(
    Struct, frozen=True, kw_only=True, gc=False, tag="requestPayout", tag_field="kind"
):
    """Earned credits that a seller wants as money. Its price is fixed now."""

    key: str
    actor: Actor
    user: str
    amount: Money


class SettlePayout(
    Struct, frozen=True, kw_only=True, gc=False, tag="settlePayout", tag_field="kind"
):
    """The provider paid. By operators and the system only."""

    key: str
    actor: Actor
    payout_id: str
    provider_ref: str
    provider_amount: Money | None = None
    """The amount that the provider says it paid: kept for audits, never posted."""


class ReversePayout(
    Struct, frozen=True, kw_only=True, gc=False, tag="reversePayout", tag_field="kind"
):
    """A payout will not happen: the seller gets the credits back. By operators and the system
    only.
    """

    key: str
    actor: Actor
    user: str
    payout_id: str
    reason: str
    provider_reported: bool = False
    """True if the provider says so: then also one that it took a moment ago."""


# -- requesting --------------------------------------------------------------------------------


def check_request(request: RequestPayout, rules: Rules) -> None:
    """Refuse what cannot be meant, and who asks for somebody else."""
    checks.user(request.user, "user")
    amount = checks.amount(request.amount)
    if rules.rates.payout.floor(amount.minor) <= 0:
        raise InvalidAmount(f"{amount} is worth less than a cent: nothing could be paid")
    owner_or_trusted(request.actor, request.user, "request payouts")


def look_request(request: RequestPayout, rules: Rules) -> Lookup | None:
    """The directory is asked about who would be paid."""
    if request.amount.minor < rules.settings.payout_min_earned_minor:
        return None
    return Lookup(payee=request.user)


def plan_request(request: RequestPayout, planning: Planning) -> LedgerOp:
    """A posting that reserves the credits, and the row that sweeps move on."""
    posting, payout, event = planning.new_id(), f"pay_{planning.new_id()}", planning.new_id()
    print_ = fingerprint(request)
    attempt = tried(request.key, print_)
    requesting = _Requesting(request, planning, posting, payout, event, attempt)
    rules, user = planning.rules, request.user
    return LedgerOp(
        decide=requesting.decide,
        needs=Needs(
            accounts=frozenset((earned(user), spendable(user), PAYOUT_RESERVE, owed(user))),
            sides=frozenset((SideKey("payout", payout),)),
            newest=frozenset((SideKey("payout", user),)),
            lots=lots_need(rules, earned(user)),
            attempts=velocity_need(rules, "out", user, attempt),
        ),
        key=request.key,
        fingerprint=print_,
    )


class _Requesting:
    __slots__ = ("_attempt", "_cleared", "_event", "_payout", "_posting", "_request", "_rules")

    def __init__(
        self,
        request: RequestPayout,
        planning: Planning,
        posting: str,
        payout: str,
        event: str,
        attempt: str,
    ) -> None:
        self._request = request
        self._attempt = attempt
        self._rules = planning.rules
        self._cleared = planning.seen.cleared
        self._posting = posting
        self._payout = payout
        self._event = event

    def decide(self, book: Book) -> Receipt:
        """The gates in the order of the spec, then the price."""
        request, rules = self._request, self._rules
        user, minor = request.user, request.amount.minor
        within_velocity(book, rules, "out", user, self._attempt, minor)
        self._gates(book, user, minor)
        enough(book, earned(user), minor, debt=owed(user))
        mature(book, rules, earned(user), minor)
        quote = rules.rates.payout.floor(minor)
        book.post(self._reserved(minor, quote))
        book.put(self._row(book, minor, quote))
        shown = {"amount": str(request.amount), "payoutUsd": money.text("USD", quote)}
        publish(
            book,
            self._event,
            "payout.requested",
            subject=self._posting,
            key=user,
            data={"sagaId": self._payout, **shown},
        )
        facts = {"payout_id": self._payout, "quote": shown["payoutUsd"]}
        return Receipt(id=self._posting, postings=(self._posting,), facts=facts)

    def _gates(self, book: Book, user: str, minor: int) -> None:
        settings = self._rules.settings
        least = settings.payout_min_earned_minor
        if minor < least:
            raise Declined(
                "BELOW_MINIMUM",
                minimum=money.text("CREDIT", least),
                amount=str(self._request.amount),
            )
        last, interval = book.newest("payout", user), millis(settings.payout_min_interval)
        waits = last is not None and last.state != "FAILED"
        if last is not None and waits and book.now - last.touched_at < interval:
            raise Declined("PAYOUT_TOO_SOON", retryAt=last.touched_at + interval)
        if not self._cleared:
            raise Declined("PAYEE_UNVERIFIED", userId=user)

    def _reserved(self, minor: int, quote: int) -> NewPosting:
        user = self._request.user
        return NewPosting(
            id=self._posting,
            entries=(Entry(earned(user), minor), Entry(PAYOUT_RESERVE, -minor)),
            meta={
                "kind": "requestPayout",
                "sagaId": self._payout,
                "userId": user,
                "rateId": self._rules.rates.payout.id,
                "payoutUsd": money.text("USD", quote),
            },
        )

    def _row(self, book: Book, minor: int, quote: int) -> SideRow:
        content = PayoutBody(reserve=minor, rate_id=self._rules.rates.payout.id)
        return SideRow(
            kind="payout",
            id=self._payout,
            owner=self._request.user,
            state="RESERVED",
            due_at=book.posted_at + millis(self._rules.settings.sla_pending),
            amount=quote,
            anchor=self._posting,
            body=encoded(content),
        )


# -- settling ----------------------------------------------------------------------------------


def check_settle(request: SettlePayout, rules: Rules) -> None:  # noqa: ARG001 - as of every family
    """Refuse what cannot be meant."""
    checks.text(request.payout_id, "payout_id")
    checks.name(request.provider_ref, "provider_ref")
    said = request.provider_amount
    if said is not None and checks.money(said, "provider_amount").currency is not Currency.USD:
        raise InvalidAmount(f"provider_amount is in dollars, not {said}")
    trusted_only(request.actor, "settle payouts")


def look_payout(request: SettlePayout | ReversePayout, rules: Rules) -> Lookup:  # noqa: ARG001 - as of every family
    """The row names the seller and the posting."""
    return Lookup(side=SideKey("payout", request.payout_id))


def plan_settle(request: SettlePayout, planning: Planning) -> LedgerOp:
    """Two postings: the reserved credits retire, and the dollars of the quote leave."""
    rules, ids = planning.rules, (end_of(request.payout_id), planning.new_id())
    event = planning.new_id()

    def decide(book: Book) -> Receipt:
        row = known_payout(book, request.payout_id)
        if row.state == "SETTLED":
            raise Repeat(Receipt(id=row.id, facts={"payout_id": row.id}))
        if row.state != "SUBMITTED":
            raise InvalidTransition(
                f"payout {row.id} is {row.state}: only one that was submitted can settle",
                retryable=row.state == "RESERVED",
            )
        content = proved_open(book, row)
        return _settled(book, row, content, request, _Settling(rules, *ids, event))

    needs = payout_needs(request.payout_id, planning.seen.side)
    house = frozenset((STORED_VALUE, USD_CLEARING, TRUST_CASH))
    return LedgerOp(
        decide=decide,
        needs=replace(needs, accounts=needs.accounts | house),
        key=request.key,
        fingerprint=fingerprint(request),
    )


class _Settling(Struct, frozen=True):
    rules: Rules
    credit_id: str
    dollars_id: str
    event_id: str


def _settled(
    book: Book, row: SideRow, content: PayoutBody, request: SettlePayout, made: _Settling
) -> Receipt:
    quote = row.amount or 0
    fee = quote * made.rules.settings.payout_fee_bps // BPS
    told = {
        "payoutUsd": money.text("USD", quote),
        "fee": money.text("USD", fee),
        "net": money.text("USD", quote - fee),
        "providerRef": request.provider_ref,
    }
    meta = {"kind": "settlePayout", "sagaId": row.id, "rateId": content.rate_id}
    said = request.provider_amount
    audit = {} if said is None else {"providerAmount": str(said)}
    retired = (Entry(PAYOUT_RESERVE, content.reserve), Entry(STORED_VALUE, -content.reserve))
    paid = (Entry(USD_CLEARING, quote), Entry(TRUST_CASH, -quote))
    book.post(NewPosting(id=made.credit_id, entries=retired, meta=meta))
    book.post(NewPosting(id=made.dollars_id, entries=paid, meta={**meta, **told, **audit}))
    after = replace(content, provider_ref=request.provider_ref, ended_at=book.posted_at)
    book.put(moved(row, book.posted_at, state="SETTLED", due_at=None, content=after))
    data = {
        "sagaId": row.id,
        "userId": row.owner,
        "reserve": money.text("CREDIT", content.reserve),
        **told,
    }
    publish(book, made.event_id, "payout.settled", subject=made.credit_id, key=row.owner, data=data)
    facts = {"payout_id": row.id, "quote": told["payoutUsd"]}
    return Receipt(id=made.credit_id, postings=(made.credit_id, made.dollars_id), facts=facts)


# -- reversing ---------------------------------------------------------------------------------


def check_reverse(request: ReversePayout, rules: Rules) -> None:  # noqa: ARG001 - as of every family
    """Refuse what cannot be meant."""
    checks.user(request.user, "user")
    checks.text(request.payout_id, "payout_id")
    checks.text(request.reason, "reason", checks.LONGEST_REASON)
    checks.flag(request.provider_reported, "provider_reported")
    trusted_only(request.actor, "reverse payouts")


def plan_reverse(request: ReversePayout, planning: Planning) -> LedgerOp:
    """The reserved credits go back to the seller, unless the provider may still pay."""
    event = planning.new_id()

    def decide(book: Book) -> Receipt:
        row = known_payout(book, request.payout_id)
        if row.owner != request.user:
            raise MalformedOperation(f"payout {row.id} is not of user {request.user}")
        if row.state == "FAILED":
            raise Repeat(Receipt(id=row.id, facts={"payout_id": row.id}))
        if row.state == "SETTLED":
            raise InvalidTransition(f"payout {row.id} was paid: it cannot be reversed")
        content = proved_open(book, row)
        _reversible(book, row, content, request, planning.rules)
        returning = CreditReturn("reversePayout", request.reason, event)
        return returned(book, row, content, planning.rules, returning)

    return LedgerOp(
        decide=decide,
        needs=return_needs(request.payout_id, planning.seen.side, planning.rules),
        key=request.key,
        fingerprint=fingerprint(request),
    )


def _reversible(
    book: Book, row: SideRow, content: PayoutBody, request: ReversePayout, rules: Rules
) -> None:
    sent = row.touched_at if row.state == "SUBMITTED" else content.sending_at
    if sent is None or request.provider_reported:
        return
    if book.now - sent <= millis(rules.settings.max_payout_age):
        raise InvalidTransition(
            f"the provider may still pay payout {row.id}: reverse it when the provider says that "
            "it failed (provider_reported), or when it is older than max_payout_age"
        )


class CreditReturn(Struct, frozen=True):
    """The way in which reserved credits go back."""

    kind: str
    """The name of the kind in the posting's metadata."""
    reason: str
    event_id: str


def returned(
    book: Book, row: SideRow, content: PayoutBody, rules: Rules, how: CreditReturn
) -> Receipt:
    """Give a payout's credits back and end it. The row must have been proved."""
    source = return_source(young(book, rules, earned(row.owner)))
    posting = NewPosting(
        id=end_of(row.id),
        entries=(
            Entry(PAYOUT_RESERVE, content.reserve),
            Entry(earned(row.owner), -content.reserve),
        ),
        meta={"kind": how.kind, "sagaId": row.id, "reason": how.reason, "source": source},
    )
    book.post(posting)
    net = netted(book, posting.id, (row.owner,), posting.entries)
    after = replace(content, reason=how.reason, ended_at=book.posted_at)
    # Touched when it was requested: the wait until the next payout goes by the newest row, and
    # one that failed must not be newer than those that came after it.
    book.put(moved(row, row.created_at, state="FAILED", due_at=None, content=after))
    data = {
        "sagaId": row.id,
        "userId": row.owner,
        "reserve": money.text("CREDIT", content.reserve),
        "reason": how.reason,
    }
    publish(book, how.event_id, "payout.reversed", subject=posting.id, key=row.owner, data=data)
    return Receipt(id=posting.id, postings=(posting.id, *net), facts={"payout_id": row.id})


def end_of(payout_id: str) -> str:
    """The id of the posting that ends a payout, settled or given back: there can only be one."""
    return payout_id + END


def proved_open(book: Book, row: SideRow) -> PayoutBody:
    """The body of a payout that has not ended, whatever its row says. Raises ``ChainBroken``."""
    content = proved_payout(row, book.posting(row.anchor or ""))
    if book.posting(end_of(row.id)) is not None:
        raise ChainBroken(f"the payout {row.id} was altered: it has ended; nothing was moved")
    return content


def known_payout(book: Book, payout_id: str) -> SideRow:
    """A payout's row. Raises ``MalformedOperation`` when there is none."""
    row = book.side("payout", payout_id)
    if row is None:
        raise MalformedOperation(f"there is no payout {payout_id!r}")
    return row


def payout_needs(payout_id: str, row: SideRow | None) -> Needs:
    """The needs of a step of a payout; without a row only to see that there is none."""
    sides = frozenset((SideKey("payout", payout_id),))
    if row is None:
        return Needs(sides=sides)
    return Needs(
        sides=sides,
        accounts=frozenset((PAYOUT_RESERVE, earned(row.owner))),
        postings=frozenset((row.anchor or "", end_of(payout_id))),
    )


def return_needs(payout_id: str, row: SideRow | None, rules: Rules) -> Needs:
    """The needs of a step that may give a payout's credits back."""
    needs = payout_needs(payout_id, row)
    if row is None:
        return needs
    lots = lots_need(rules, earned(row.owner))
    return replace(needs, lots=lots, perhaps=debts_of((row.owner,)))


REQUEST = Family(kind="requestPayout", check=check_request, look=look_request, plan=plan_request)
SETTLE = Family(kind="settlePayout", check=check_settle, look=look_payout, plan=plan_settle)
REVERSE = Family(kind="reversePayout", check=check_reverse, look=look_payout, plan=plan_reverse)

"""Subscriptions: paid for a period now, and by a sweep for each period after it."""

from __future__ import annotations

from datetime import timedelta

from msgspec import Struct

from offpath.economy.ledger import periods
from offpath.economy.ledger.actors import Actor, owner_or_trusted
from offpath.economy.ledger.operations import checks, unexpired
from offpath.economy.ledger.operations.debts import debts_of, netted
from offpath.economy.ledger.operations.events import publish
from offpath.economy.ledger.operations.funds import enough, tried, velocity_need, within_velocity
from offpath.economy.ledger.operations.maturity import lots_need, mature
from offpath.economy.ledger.operations.ownership import grant
from offpath.economy.ledger.operations.plans import Family, Lookup, Planning, fingerprint
from offpath.economy.ledger.operations.unexpired import promo_part, with_grants
from offpath.economy.ledger.periods import Overdue
from offpath.economy.ledger.rows import (
    SubscriptionBody,
    body,
    encoded,
    entitlement_key,
    moved,
    subscription_holder,
)
from offpath.economy.ledger.rules import Rules, millis
from offpath.model.ledger.book import Book
from offpath.model.ledger.chart import PROMO_FLOAT, REVENUE, earned, promo, spendable
from offpath.model.ledger.decision import Declined, LedgerOp
from offpath.model.ledger.faults import MalformedOperation
from offpath.model.ledger.money import Money
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.posting import Entry, NewPosting
from offpath.model.ledger.rates import fee_of
from offpath.model.ledger.records import Receipt, SideKey, SideRow


class Subscribe(Struct, frozen=True, kw_only=True, gc=False, tag="subscribe", tag_field="kind"):
    """A thing of a seller for as long as it is paid; the first period is paid now."""

    key: str
    actor: Actor
    user: str
    seller: str
    sku: str
    price: Money
    period: float | timedelta | str
    """Seconds, or a timedelta: whole milliseconds, at most ten years. Or a period of the calendar,
    which keeps its day: ``P1D``, ``P1W``, ``P1M``, ``P3M``, ``P1Y``."""
    promo: bool = True
    """True if their promo credits pay the first period first, as far as they go."""
    zone: str = "UTC"
    """The IANA zone whose wall clock a period of the calendar goes by."""
    grace: float | timedelta | None = None
    """The time after a period's end for which the thing is owned still, and for which a renewal
    that is not covered waits; None: the setting ``subscription_grace``."""
    overdue: Overdue = "charge"
    """The treatment of periods that have ended before a renewal came: ``charge`` each, ``skip``
    them and charge the one that runs now, or ``one`` charge for a whole period from now on."""


class CancelSubscription(
    Struct, frozen=True, kw_only=True, gc=False, tag="cancelSubscription", tag_field="kind"
):
    """No more renewals. Nothing is paid back, and the thing is owned until the period ends."""

    key: str
    actor: Actor
    subscription_id: str


def check_subscribe(request: Subscribe, rules: Rules) -> None:
    """Refuse what cannot be meant, and who subscribes for somebody else."""
    checks.user(request.user, "user")
    checks.user(request.seller, "seller")
    if request.seller == request.user:
        raise MalformedOperation("nobody can subscribe to himself")
    checks.name(request.sku, "sku")
    periods.checked(
        request.period, request.zone, request.grace, request.overdue, zone_of=rules.zone_of
    )
    checks.flag(request.promo, "promo")
    price, settings = checks.amount(request.price, "price").minor, rules.settings
    least, most = settings.subscription_price_min_minor, settings.subscription_price_max_minor
    if not least <= price <= most:
        raise MalformedOperation(
            f"the price of a subscription is from {least} to {most} minor units, not {price}"
        )
    owner_or_trusted(request.actor, request.user, "subscribe")


def look_subscribe(request: Subscribe, rules: Rules) -> Lookup | None:  # noqa: ARG001 - as of every family
    """The promo credits that the user may still spend."""
    return unexpired.look(request.user, pays=request.promo)


def plan_subscribe(request: Subscribe, planning: Planning) -> LedgerOp:
    """A posting, the row that a sweep renews, and the thing until the period ends."""
    rules, user, seller = planning.rules, request.user, request.seller
    posting, event = planning.new_id(), planning.new_id()
    print_ = fingerprint(request)
    attempt = tried(request.key, print_)
    named = f"sub_{planning.new_id()}"
    subscribing = _Subscribing(request, planning, posting, event, attempt, named)
    accounts = (spendable(user), promo(user), earned(seller), PROMO_FLOAT, REVENUE)
    holder = subscription_holder(user, seller, request.sku)
    return LedgerOp(
        decide=subscribing.decide,
        needs=with_grants(
            Needs(
                accounts=frozenset(accounts),
                perhaps=debts_of((seller,)),
                sides=frozenset(
                    (SideKey("subscription", subscribing.id), entitlement_key(user, request.sku))
                ),
                holders=frozenset((SideKey("subscription", holder),)),
                lots=lots_need(rules, spendable(user)),
                attempts=velocity_need(rules, "out", user, attempt),
            ),
            planning.seen,
        ),
        key=request.key,
        fingerprint=print_,
    )


class _Subscribing:
    __slots__ = ("_attempt", "_event", "_posting", "_request", "_rules", "_seen", "_terms", "id")

    def __init__(
        self,
        request: Subscribe,
        planning: Planning,
        posting: str,
        event: str,
        attempt: str,
        subscription: str,
    ) -> None:
        self._request = request
        self._attempt = attempt
        self._rules = planning.rules
        self._seen = planning.seen
        self._posting = posting
        self._event = event
        self._terms = _terms(request)
        self.id = subscription

    def decide(self, book: Book) -> Receipt:
        """One active subscription of a user, seller and thing; then the money, promo first."""
        request, rules, user = self._request, self._rules, self._request.user
        price = request.price.minor
        holder = subscription_holder(user, request.seller, request.sku)
        within_velocity(book, rules, "out", user, self._attempt, price)
        if book.holder("subscription", holder) is not None:
            raise Declined("ALREADY_SUBSCRIBED", userId=user, sku=request.sku)
        from_promo = promo_part(book, user, price, self._seen, pays=request.promo)
        enough(book, spendable(user), price - from_promo)
        mature(book, rules, spendable(user), price - from_promo)
        paying = self._paid(from_promo)
        book.post(paying)
        net = netted(book, paying.id, (request.seller,), paying.entries)
        content = periods.first(self._terms, book.posted_at, rules.zone_of)
        until = content.paid_until
        book.put(self._row(content, holder))
        owned_until = until + grace_of(content, rules)
        grant(book, user, request.sku, source=self.id, expires_at=owned_until)
        data = {
            "subscriptionId": self.id,
            "sku": request.sku,
            "price": str(request.price),
            "nextDueAt": until,
        }
        publish(
            book,
            self._event,
            "subscription.started",
            subject=self._posting,
            key=user,
            data=data,
        )
        facts = {"subscription_id": self.id, "paid_until": until}
        return Receipt(id=self._posting, postings=(self._posting, *net), facts=facts)

    def _paid(self, from_promo: int) -> NewPosting:
        request = self._request
        bought = request.price.minor - from_promo
        entries = (
            Entry(promo(request.user), from_promo),
            Entry(PROMO_FLOAT, -from_promo),
            Entry(REVENUE, from_promo),
            Entry(earned(request.seller), -from_promo),
            *paid(request.user, request.seller, bought, self._rules),
        )
        meta = {
            "kind": "subscribe",
            "subscriptionId": self.id,
            "userId": request.user,
            "sellerId": request.seller,
            "sku": request.sku,
            "price": str(request.price),
            "periodMs": self._terms.period,
            **_sealed(self._terms),
        }
        return NewPosting(id=self._posting, entries=entries, meta=meta)

    def _row(self, content: SubscriptionBody, holder: str) -> SideRow:
        return SideRow(
            kind="subscription",
            id=self.id,
            owner=self._request.user,
            state="ACTIVE",
            due_at=content.paid_until,
            anchor=self._posting,
            unique_key=holder,
            body=encoded(content),
        )


def _terms(request: Subscribe) -> SubscriptionBody:
    """The body as far as the request says it."""
    by_calendar = isinstance(request.period, str)
    return SubscriptionBody(
        seller=request.seller,
        sku=request.sku,
        price=request.price.minor,
        period=0 if by_calendar else checks.duration(request.period, "period", periods.LONGEST),
        number=1,
        paid_until=0,
        calendar=request.period if isinstance(request.period, str) else None,
        zone=request.zone if by_calendar else None,
        grace=_grace(request.grace),
        overdue=request.overdue,
    )


def _grace(given: float | timedelta | None) -> int | None:
    if given is None or given in {0, timedelta(0)}:
        return None if given is None else 0
    return checks.duration(given, "grace", periods.LONGEST)


def _sealed(terms: SubscriptionBody) -> dict[str, str | int]:
    """The terms that a posting seals besides the period, where they are not the usual ones."""
    usual = {"calendar": None, "zone": None, "graceMs": None, "overdue": "charge"}
    said = {
        "calendar": terms.calendar,
        "zone": terms.zone,
        "graceMs": terms.grace,
        "overdue": terms.overdue,
    }
    return {name: said[name] for name in said if said[name] != usual[name]}  # type: ignore[misc]


def grace_of(content: SubscriptionBody, rules: Rules) -> int:
    """The time after a period's end for which the thing is owned still, in milliseconds."""
    own = content.grace
    return millis(rules.settings.subscription_grace) if own is None else own


def paid(user: str, seller: str, minor: int, rules: Rules) -> tuple[Entry, ...]:
    """The entries by which a user pays a seller with credits that they bought."""
    fee = fee_of(minor, rules.settings.platform_fee_bps)
    return (
        Entry(spendable(user), minor),
        Entry(earned(seller), fee - minor),
        Entry(REVENUE, -fee),
    )


def check_cancel(request: CancelSubscription, rules: Rules) -> None:  # noqa: ARG001 - as of every family
    """Refuse what cannot be meant; whose it is shows when it is decided."""
    checks.text(request.subscription_id, "subscription_id")


def look_cancel(request: CancelSubscription, rules: Rules) -> Lookup | None:  # noqa: ARG001 - as of every family
    """The subject of it: whose, and which thing, never change."""
    return Lookup(side=SideKey("subscription", request.subscription_id))


def plan_cancel(request: CancelSubscription, planning: Planning) -> LedgerOp:
    """The row, and the thing: without its grace, since no renewal is to come."""
    event, seen = planning.new_id(), planning.seen.side
    sides = {SideKey("subscription", request.subscription_id)}
    if seen is not None:
        sides.add(entitlement_key(seen.owner, body(seen, SubscriptionBody).sku))

    def decide(book: Book) -> Receipt:
        row = book.side("subscription", request.subscription_id)
        if row is None:
            raise Declined("UNKNOWN_SUBSCRIPTION", subscriptionId=request.subscription_id)
        owner_or_trusted(request.actor, row.owner, "cancel subscriptions")
        if row.state == "CANCELED":
            raise Declined("UNKNOWN_SUBSCRIPTION", subscriptionId=request.subscription_id)
        held = body(row, SubscriptionBody)
        canceled(book, row, held.sku, event)
        if row.state == "ACTIVE" and seen is not None:
            grant(book, row.owner, held.sku, source=row.id, expires_at=held.paid_until)
        return Receipt(id=row.id, facts={"subscription_id": row.id})

    return LedgerOp(
        decide=decide,
        needs=Needs(sides=frozenset(sides)),
        key=request.key,
        fingerprint=fingerprint(request),
    )


def canceled(book: Book, row: SideRow, sku: str, event: str) -> None:
    """No more renewals, and the event that says so."""
    book.put(moved(row, book.posted_at, state="CANCELED", due_at=None, unique_key=None))
    data = {"subscriptionId": row.id, "sku": sku}
    publish(book, event, "subscription.canceled", subject=row.id, key=row.owner, data=data)


SUBSCRIBE = Family(
    kind="subscribe", check=check_subscribe, look=look_subscribe, plan=plan_subscribe, late=True
)
CANCEL = Family(kind="cancelSubscription", check=check_cancel, look=look_cancel, plan=plan_cancel)

"""Spending: a buyer pays an order with credits, sellers earn, the platform takes its fee."""

from __future__ import annotations

from msgspec import Struct

from offpath.economy.ledger.actors import Actor, owner_or_trusted
from offpath.economy.ledger.operations import checks, unexpired
from offpath.economy.ledger.operations.debts import debts_of, netted
from offpath.economy.ledger.operations.events import publish
from offpath.economy.ledger.operations.funds import enough, tried, velocity_need, within_velocity
from offpath.economy.ledger.operations.maturity import lots_need, mature
from offpath.economy.ledger.operations.ownership import grant
from offpath.economy.ledger.operations.plans import Family, Lookup, Planning, fingerprint
from offpath.economy.ledger.operations.unexpired import promo_part, with_grants
from offpath.economy.ledger.rows import SaleBody, encoded, entitlement_key
from offpath.economy.ledger.rules import Rules
from offpath.model.ledger import money
from offpath.model.ledger.book import Book
from offpath.model.ledger.chart import PROMO_FLOAT, REVENUE, earned, promo, spendable
from offpath.model.ledger.decision import Declined, LedgerOp
from offpath.model.ledger.faults import MalformedOperation
from offpath.model.ledger.money import Money
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.posting import Entry, NewPosting
from offpath.model.ledger.rates import BPS, fee_of, share_of
from offpath.model.ledger.records import Receipt, SideKey, SideRow

MOST_SHARES = 500


class Share(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A seller's part of what is left after the fee, in basis points."""

    seller: str
    bps: int


class Spend(Struct, frozen=True, kw_only=True, gc=False, tag="spend", tag_field="kind"):
    """An order that a buyer pays: promo credits first, then those that they bought."""

    key: str
    actor: Actor
    buyer: str
    order_id: str
    sku: str
    price: Money
    recipients: tuple[Share, ...]
    """The sellers that earn; the shares sum to 10,000 basis points."""
    gift_to: str | None = None
    """The user that gets it, if not the buyer."""
    promo: bool = True
    """True if their promo credits are spent first. The platform pays sellers for these."""


class Split(Struct, frozen=True, gc=False):
    """The parts of a price. Every part is whole minor units, and they sum to the price."""

    entries: tuple[Entry, ...]
    fee: int
    """The fee with what was left over of the shares."""
    promo: int
    spendable: int


def check(request: Spend, rules: Rules) -> None:  # noqa: ARG001 - as of every family
    """Refuse what cannot be meant, and who spends for somebody else."""
    checks.user(request.buyer, "buyer")
    checks.name(request.order_id, "order_id")
    checks.flag(request.promo, "promo")
    checks.name(request.sku, "sku")
    checks.amount(request.price, "price")
    if request.gift_to is not None:
        checks.user(request.gift_to, "gift_to")
    _checked_shares(request)
    owner_or_trusted(request.actor, request.buyer, "spend")


def _checked_shares(request: Spend) -> None:
    shares = request.recipients
    given: object = shares
    if not isinstance(given, tuple) or not 0 < len(shares) <= MOST_SHARES:
        raise MalformedOperation(f"recipients must be a tuple of 1 to {MOST_SHARES} Share")
    total = sum(_checked_bps(share) for share in shares)
    sellers = {checks.user(share.seller, "seller") for share in shares}
    if len(sellers) != len(shares):
        raise MalformedOperation("a seller is named once: give one share with the sum")
    if request.buyer in sellers:
        raise MalformedOperation("buyers cannot earn from what they buy")
    if total != BPS:
        raise MalformedOperation(f"shares must sum to {BPS} basis points, not {total}")


def _checked_bps(share: object) -> int:
    if not isinstance(share, Share):
        raise MalformedOperation("each recipient is a Share(seller, bps)")
    bps: object = share.bps
    if isinstance(bps, bool) or not isinstance(bps, int) or bps <= 0:
        raise MalformedOperation(f"a share is a whole number of basis points above zero: {bps!r}")
    return bps


def look(request: Spend, rules: Rules) -> Lookup | None:  # noqa: ARG001 - as of every family
    """The promo credits that the buyer may still spend."""
    return unexpired.look(request.buyer, pays=request.promo)


def plan(request: Spend, planning: Planning) -> LedgerOp:
    """One posting, the sale's row, and the thing for whoever gets it."""
    posting_id, event = planning.new_id(), planning.new_id()
    print_ = fingerprint(request)
    attempt = tried(request.key, print_)
    spending = _Spending(request, planning, posting_id, event, attempt)
    rules, buyer = planning.rules, request.buyer
    wallet = spendable(buyer)
    accounts = [wallet, promo(buyer), PROMO_FLOAT, REVENUE]
    accounts += [earned(share.seller) for share in request.recipients]
    return LedgerOp(
        decide=spending.decide,
        needs=with_grants(
            Needs(
                accounts=frozenset(accounts),
                perhaps=debts_of(share.seller for share in request.recipients),
                sides=frozenset(
                    (
                        SideKey("sale", request.order_id),
                        entitlement_key(spending.recipient, request.sku),
                    )
                ),
                lots=lots_need(rules, wallet),
                attempts=velocity_need(rules, "out", buyer, attempt),
            ),
            planning.seen,
        ),
        key=request.key,
        fingerprint=print_,
    )


class _Spending:
    __slots__ = ("_attempt", "_event", "_posting", "_request", "_rules", "_seen", "recipient")

    def __init__(
        self, request: Spend, planning: Planning, posting: str, event: str, attempt: str
    ) -> None:
        self._request = request
        self._attempt = attempt
        self._rules = planning.rules
        self._seen = planning.seen
        self._posting = posting
        self._event = event
        self.recipient = request.gift_to or request.buyer

    def decide(self, book: Book) -> Receipt:
        """The order in which the answers come is the order of the spec."""
        request, rules, buyer = self._request, self._rules, self._request.buyer
        if book.side("sale", request.order_id) is not None:
            raise Declined("DUPLICATE_ORDER", orderId=request.order_id)
        price = request.price.minor
        within_velocity(book, rules, "out", buyer, self._attempt, price)
        from_promo = promo_part(book, buyer, price, self._seen, pays=request.promo)
        parts = split(request, rules, from_promo)
        wallet = spendable(buyer)
        enough(book, wallet, parts.spendable)
        mature(book, rules, wallet, parts.spendable)
        shown = money.text("CREDIT", parts.fee)
        self._write(book, parts, shown)
        sellers = [share.seller for share in request.recipients]
        net = netted(book, self._posting, sellers, parts.entries)
        return Receipt(
            id=self._posting,
            postings=(self._posting, *net),
            facts={"order_id": request.order_id, "fee": shown},
        )

    def _write(self, book: Book, parts: Split, fee: str) -> None:
        request, price = self._request, str(self._request.price)
        meta = {
            "kind": "spend",
            "orderId": request.order_id,
            "sku": request.sku,
            "buyer": request.buyer,
            "recipient": self.recipient,
            "price": price,
            "fee": fee,
        }
        if parts.promo:
            meta["promo"] = money.text("CREDIT", parts.promo)
        book.post(NewPosting(id=self._posting, entries=parts.entries, meta=meta))
        book.put(self._row(parts))
        grant(
            book,
            self.recipient,
            request.sku,
            source=sale_source(request.order_id),
            expires_at=None,
        )
        publish(
            book,
            self._event,
            "sale.completed",
            subject=self._posting,
            key=request.buyer,
            data={"orderId": request.order_id, "sku": request.sku, "price": price},
        )

    def _row(self, parts: Split) -> SideRow:
        request = self._request
        content = SaleBody(
            recipient=self.recipient,
            sku=request.sku,
            price=request.price.minor,
            fee=parts.fee,
            entries=tuple([(one.account, one.amount) for one in parts.entries]),
        )
        return SideRow(
            kind="sale",
            id=request.order_id,
            owner=request.buyer,
            state="SOLD",
            anchor=self._posting,
            body=encoded(content),
        )


def split(request: Spend, rules: Rules, from_promo: int) -> Split:
    """The parts of the price when so much of it is paid with promo credits.

    The platform takes no fee of these: what sellers get for them is paid from revenue. Each share
    is rounded down; what is left over stays in revenue.
    """
    price = request.price.minor
    bought = price - from_promo
    fee = fee_of(bought, rules.settings.platform_fee_bps)
    moved = [(spendable(request.buyer), bought), (promo(request.buyer), from_promo)]
    given = shared = 0
    for share in request.recipients:
        gift, part = share_of(from_promo, share.bps), share_of(bought - fee, share.bps)
        given += gift
        shared += part
        moved += (earned(share.seller), -gift), (earned(share.seller), -part)
    kept = bought - shared
    moved += (PROMO_FLOAT, -from_promo), (REVENUE, given), (REVENUE, -kept)
    entries = tuple([Entry(account, amount) for account, amount in moved if amount])
    return Split(entries, kept, from_promo, bought)


def sale_source(order_id: str) -> str:
    """The source of a thing that was bought by an order."""
    return f"sale:{order_id}"


FAMILY = Family(kind="spend", check=check, look=look, plan=plan, late=True)

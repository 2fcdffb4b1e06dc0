"""Anchors: side rows proved against the posting that made them, before any money moves by them.

Rows are not hashed; postings are. So what a row says is compared with what its posting sealed, and
whoever altered a row gets ``ChainBroken`` instead of money. ``Book.posting`` gives only postings
that still hash to their links; for one that a store read, call ``verified`` on it first.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from offpath.economy.ledger.rows import PayoutBody, PromoBody, SaleBody, SubscriptionBody, body
from offpath.model.ledger import money
from offpath.model.ledger.chart import PAYOUT_RESERVE, earned, promo
from offpath.model.ledger.faults import ChainBroken
from offpath.model.ledger.posting import PostingRecord
from offpath.model.ledger.records import SideRow

GIVE_BACK: Final = ("refund", "reverse")
"""Kinds of postings that may grant promo credits anew."""


def proved_payout(row: SideRow, posting: PostingRecord | None) -> PayoutBody:
    """A payout's body, when row and request agree on id, seller, rate, quote and reserve."""
    content = body(row, PayoutBody)
    facts = _facts(row, posting, "requestPayout")
    _same(row, "sagaId", row.id, facts.get("sagaId"))
    _same(row, "userId", row.owner, facts.get("userId"))
    _same(row, "rateId", content.rate_id, facts.get("rateId"))
    if row.amount is None:
        _broken(row, "its quote is gone")
    _same(row, "payoutUsd", money.text("USD", row.amount), facts.get("payoutUsd"))
    _same(row, "reserve", content.reserve, _amount(posting, earned(row.owner)))
    _same(row, "reserve", -content.reserve, _amount(posting, PAYOUT_RESERVE))
    return content


def proved_subscription(row: SideRow, posting: PostingRecord | None) -> SubscriptionBody:
    """A subscription's body, when row and first payment agree on who pays whom what, and when."""
    content = body(row, SubscriptionBody)
    facts = _facts(row, posting, "subscribe")
    _same(row, "subscriptionId", row.id, facts.get("subscriptionId"))
    _same(row, "userId", row.owner, facts.get("userId"))
    _same(row, "sellerId", content.seller, facts.get("sellerId"))
    _same(row, "sku", content.sku, facts.get("sku"))
    _same(row, "price", money.text("CREDIT", content.price), facts.get("price"))
    _same(row, "periodMs", content.period, facts.get("periodMs"))
    _same(row, "calendar", content.calendar, facts.get("calendar"))
    _same(row, "zone", content.zone, facts.get("zone"))
    _same(row, "graceMs", content.grace, facts.get("graceMs"))
    _same(row, "overdue", content.overdue, facts.get("overdue", "charge"))
    return content


def proved_promo(row: SideRow, posting: PostingRecord | None) -> PromoBody:
    """A promo's body, when row and grant agree on who got how much until when."""
    content = body(row, PromoBody)
    facts = _granted(row, posting)
    if row.anchor != row.id:
        _broken(row, "it is not its grant's row")
    _same(row, "userId", row.owner, facts.get("userId"))
    _same(row, "expiresAt", content.expires_at, facts.get("expiresAt"))
    if row.amount is None or row.amount <= 0:
        _broken(row, "its amount is gone")
    _same(row, "amount", money.text("CREDIT", row.amount), facts.get("amount"))
    return content


def _granted(row: SideRow, posting: PostingRecord | None) -> dict[str, Any]:
    """The facts that were sealed of a grant: by itself, or by what gave promo credits back."""
    if posting is not None and posting.id == row.anchor:
        given = posting.facts.get("promoGrant")
        if posting.facts.get("kind") in GIVE_BACK and isinstance(given, dict):
            return given
    facts = _facts(row, posting, "grantPromo")
    amount = money.text("CREDIT", -_amount(posting, promo(row.owner)))
    return {**facts, "amount": amount}


def proved_sale(row: SideRow, posting: PostingRecord | None) -> SaleBody:
    """A sale's body, when row and posting agree on the order, who got what, and each entry."""
    content = body(row, SaleBody)
    facts = _facts(row, posting, "spend")
    _same(row, "orderId", row.id, facts.get("orderId"))
    _same(row, "buyer", row.owner, facts.get("buyer"))
    _same(row, "recipient", content.recipient, facts.get("recipient"))
    _same(row, "sku", content.sku, facts.get("sku"))
    _same(row, "price", money.text("CREDIT", content.price), facts.get("price"))
    sealed = [] if posting is None else [(one.account, one.amount) for one in posting.entries]
    _same(row, "entries", sorted(content.entries), sorted(sealed))
    return content


def _facts(row: SideRow, posting: PostingRecord | None, kind: str) -> dict[str, Any]:
    if posting is None or posting.id != row.anchor:
        _broken(row, f"there is no posting {row.anchor} that made it")
    facts = posting.facts
    if facts.get("kind") != kind:
        _broken(row, f"posting {posting.id} made something else")
    return facts


def _amount(posting: PostingRecord | None, account: str) -> int:
    links = () if posting is None else posting.links
    return sum(link.amount for link in links if link.account == account)


def _same(row: SideRow, what: str, found: object, sealed: object) -> None:
    if found != sealed or type(found) is not type(sealed):
        _broken(row, f"its {what} is not what was sealed")


def _broken(row: SideRow, what: str) -> NoReturn:
    raise ChainBroken(f"the {row.kind} {row.id} was altered: {what}; nothing was moved")

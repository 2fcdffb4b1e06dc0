"""Events of an economy: written to the outbox with the postings that they tell of."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from offpath.model.ledger.book import Book
from offpath.model.new import Box, NewMessage

STREAM: Final = "default"
VERSION: Final = 1
_encode = msgspec.json.Encoder().encode

Audience = Literal["internal", "client"]
ALLOWED: Final[dict[str, tuple[Audience, frozenset[str]]]] = {
    "credits.topped_up": ("client", frozenset({"amount", "source"})),
    "credits.rewarded": ("client", frozenset({"amount", "reason"})),
    "promo.granted": ("client", frozenset({"amount", "expiresAt"})),
    "sale.completed": ("client", frozenset({"orderId", "sku", "price"})),
    "sale.refunded": ("client", frozenset({"orderId", "sku", "price"})),
    "credits.clawed_back": (
        "internal",
        frozenset({"userId", "amount", "collected", "receivable", "orderId", "dollars", "fee"}),
    ),
    "payout.requested": ("client", frozenset({"sagaId", "amount", "payoutUsd"})),
    "payout.settled": (
        "internal",
        frozenset({"sagaId", "userId", "reserve", "payoutUsd", "fee", "net", "providerRef"}),
    ),
    "payout.reversed": ("internal", frozenset({"sagaId", "userId", "reserve", "reason"})),
    "subscription.started": (
        "client",
        frozenset({"subscriptionId", "sku", "price", "nextDueAt"}),
    ),
    "subscription.renewed": (
        "client",
        frozenset({"subscriptionId", "sku", "price", "period", "nextDueAt"}),
    ),
    "subscription.lapsed": ("client", frozenset({"subscriptionId", "sku"})),
    "subscription.canceled": ("client", frozenset({"subscriptionId", "sku"})),
    "fees.swept": ("internal", frozenset({"amount", "usd"})),
}
"""The audience of each event, and the fields that it may have: nothing else leaves, and nothing by
which a client of a client learns a name.
"""


def publish(
    book: Book, event_id: str, name: str, *, subject: str, key: str, data: dict[str, Any]
) -> None:
    """Write an event with the rest of the batch; ``key`` keeps the order of one user's events."""
    audience, allowed = ALLOWED[name]
    if not data.keys() <= allowed:
        raise ValueError(f"{name} may not tell {sorted(data.keys() - allowed)}")
    topic = f"economy.{name}"
    payload = {
        "id": f"evt_{event_id}",
        "type": topic,
        "version": VERSION,
        "occurredAt": book.posted_at,
        "subject": subject,
        "data": data,
        "audience": audience,
    }
    book.publish(
        NewMessage(
            id=event_id,
            box=Box.OUT,
            stream=STREAM,
            topic=topic,
            payload=_encode(payload).decode(),
            key=key,
        )
    )

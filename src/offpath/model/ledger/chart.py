"""The chart of accounts: what an account's id says about it.

User wallets are ``<user>:<kind>``, what a user owes ``<user>:owed``, a session's escrow
``<user>:<session>:escrow``, and the platform's own accounts ``platform:<name>``. Ids are ordered by
their code points everywhere.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final

from msgspec import Struct

from offpath.model.ledger.faults import UnknownAccount
from offpath.model.ledger.money import Currency

LONGEST_ID: Final = 300
PLATFORM: Final = "platform"


class Backing(StrEnum):
    """The meaning of an account for the dollars that the platform must hold."""

    CUSTODIAL = "custodial"
    """Users' credits: backed at par."""
    EARNED = "earned"
    """Sellers' credits: owed at the payout rate."""
    HOUSE = "house"
    EXCLUDED = "excluded"

    __hash__ = str.__hash__


class Chart(Struct, frozen=True, kw_only=True, gc=False):
    """The facts of an account that its id alone tells."""

    id: str
    kind: str
    """``spendable``, ``earned``, ``promo``, ``escrow``, ``owed``; for the platform's, its name."""
    owner: str
    """The user; ``platform``."""
    currency: Currency
    debit_grows: bool
    """True if a debit (a positive entry) raises its balance; a credit does otherwise."""
    guarded: bool
    """True if its balance may never be below zero."""
    backing: Backing

    @property
    def wallet(self) -> bool:
        """True if it is a user's."""
        return self.owner != PLATFORM

    def change(self, amount: int) -> int:
        """The change of the balance by an entry of this signed amount."""
        return amount if self.debit_grows else -amount

    def entry(self, change: int) -> int:
        """The signed amount of the entry that changes the balance so."""
        return change if self.debit_grows else -change


_WALLETS = {
    "spendable": Backing.CUSTODIAL,
    "escrow": Backing.CUSTODIAL,
    "earned": Backing.EARNED,
    "promo": Backing.EXCLUDED,
    "owed": Backing.EXCLUDED,
}
_OWED: Final = "owed"
# name: currency, a debit grows it, guarded, backing
_HOUSE: dict[str, tuple[Currency, bool, bool, Backing]] = {
    "payout_reserve": (Currency.CREDIT, False, True, Backing.EXCLUDED),
    "settlement_accrual": (Currency.CREDIT, False, True, Backing.EXCLUDED),
    "trust_cash": (Currency.USD, True, False, Backing.HOUSE),
    "usd_clearing": (Currency.USD, True, False, Backing.HOUSE),
    "revenue_usd": (Currency.USD, True, False, Backing.HOUSE),
    "stored_value": (Currency.CREDIT, True, False, Backing.HOUSE),
    "receivable": (Currency.CREDIT, True, False, Backing.HOUSE),
    "opening_equity": (Currency.CREDIT, True, False, Backing.HOUSE),
    "promo_float": (Currency.CREDIT, True, False, Backing.HOUSE),
    "revenue": (Currency.CREDIT, False, False, Backing.HOUSE),
    "netting_clearing": (Currency.CREDIT, False, False, Backing.EXCLUDED),
}

TRUST_CASH: Final = "platform:trust_cash"
USD_CLEARING: Final = "platform:usd_clearing"
REVENUE_USD: Final = "platform:revenue_usd"
STORED_VALUE: Final = "platform:stored_value"
RECEIVABLE: Final = "platform:receivable"
OPENING_EQUITY: Final = "platform:opening_equity"
PROMO_FLOAT: Final = "platform:promo_float"
REVENUE: Final = "platform:revenue"
PAYOUT_RESERVE: Final = "platform:payout_reserve"

# Letters of a user's or session's id: no colon (it parts the id), no blank, no control character,
# no half of a surrogate pair (no store takes it).
_PART = re.compile(r"[^\s:\x00-\x1f\x7f\ud800-\udfff]+")


def spendable(user: str) -> str:
    """The wallet of what a user has paid for."""
    return f"{user}:spendable"


def earned(user: str) -> str:
    """The wallet of what a seller has earned."""
    return f"{user}:earned"


def promo(user: str) -> str:
    """The wallet of what a user was given to try."""
    return f"{user}:promo"


def owed(user: str) -> str:
    """The account of a user's debt to the platform. A debit raises it; it is never below zero."""
    return f"{user}:{_OWED}"


@lru_cache(maxsize=65_536)
def chart(account: str) -> Chart:
    """The facts in an account's id. Raises ``UnknownAccount`` for what is not an account's id."""
    parts = account.split(":") if len(account) <= LONGEST_ID else []
    if len(parts) == 2 and parts[0] == PLATFORM and parts[1] in _HOUSE:  # noqa: PLR2004
        return _house(account, parts[1])
    kind = parts[-1] if parts else ""
    length = 3 if kind == "escrow" else 2
    owned = kind in _WALLETS and len(parts) == length and parts[0] != PLATFORM
    if not owned or not all(_PART.fullmatch(part) for part in parts[:-1]):
        raise UnknownAccount(
            f"{account[:LONGEST_ID]!r} is not an account: wallets are <user>:spendable, :earned, "
            f":promo or :owed, the platform's are platform:<name> with {', '.join(sorted(_HOUSE))}"
        )
    return Chart(
        id=account,
        kind=kind,
        owner=parts[0],
        currency=Currency.CREDIT,
        debit_grows=kind == _OWED,
        guarded=True,
        backing=_WALLETS[kind],
    )


def _house(account: str, name: str) -> Chart:
    currency, debit_grows, guarded, backing = _HOUSE[name]
    return Chart(
        id=account,
        kind=name,
        owner=PLATFORM,
        currency=currency,
        debit_grows=debit_grows,
        guarded=guarded,
        backing=backing,
    )


def charted(
    account: str, kind: str, currency: str, guarded: object, side: int | None = None
) -> bool:
    """True if a store's row says of an account what the chart does; ``side`` is 1 where a debit
    raises it and -1 where a credit does.
    """
    try:
        known = chart(account)
    except UnknownAccount:
        return False
    grows = 1 if known.debit_grows else -1
    return (
        (kind, currency) == (known.kind, known.currency)
        and guarded == known.guarded
        and side in (None, grows)
    )

"""Promo credits that come back, by a refund or by a posting that is undone: they have an end again.

Spends are not tied to grants. As long as the grants that are open cover what the user holds, what
comes back ends with them: as if it had not been spent. What they do not cover has outlived its own
grant; it is granted anew by the posting that gives it back, for the setting ``promo_grace``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from offpath.economy.ledger.operations.plans import Planning
from offpath.economy.ledger.rows import PromoBody, body, encoded
from offpath.economy.ledger.rules import millis
from offpath.model.ledger import money
from offpath.model.ledger.book import Book
from offpath.model.ledger.chart import promo
from offpath.model.ledger.faults import Unplanned
from offpath.model.ledger.needs import Needs
from offpath.model.ledger.records import SideKey, SideRow


class PromoReturn(Struct, frozen=True, kw_only=True):
    """So much comes back to a user by a posting."""

    owner: str
    amount: int
    posting: str
    grants: tuple[str, ...]
    """Their grants that were open when it was planned."""
    grace: int
    """Milliseconds."""

    def needs(self) -> Needs:
        """Their grants, and the row of a new one."""
        sides = {SideKey("promo", one) for one in (*self.grants, self.posting)}
        return Needs(
            accounts=frozenset((promo(self.owner),)),
            sides=frozenset(sides),
            newest=frozenset((SideKey("promo", self.owner),)),
        )

    def granted(self, book: Book) -> SideRow | None:
        """The row of a new grant, to be put once the posting is made; None: it needs none.

        Raises ``Unplanned`` when the user's grants have changed since.
        """
        latest = book.newest("promo", self.owner)
        rows = [book.side("promo", one) for one in self.grants]
        still = [row for row in rows if row is not None and row.state == "OPEN"]
        # One that has ended since may be their newest, and hide that they were given another
        # before.
        ended = len(still) < len(rows)
        if ended or (latest and latest.state == "OPEN" and latest.id not in self.grants):
            raise Unplanned(f"the promos of {self.owner} are others since this was planned")
        covered = sum(row.amount or 0 for row in still)
        held = book.balance(promo(self.owner)) + self.amount
        uncovered = min(self.amount, held - covered)
        if uncovered <= 0:
            return None
        expires = book.posted_at + self.grace
        return SideRow(
            kind="promo",
            id=self.posting,
            owner=self.owner,
            state="OPEN",
            due_at=expires,
            amount=uncovered,
            anchor=self.posting,
            body=encoded(PromoBody(expires_at=expires)),
        )


def returning(
    entries: Iterable[tuple[str, int]], posting: str, planning: Planning
) -> PromoReturn | None:
    """The return of promo credits by a posting with these entries turned round; None: no promo
    credits.
    """
    parts = list(entries)
    owner = who_gets_promo(parts)
    if owner is None:
        return None
    wallet = promo(owner)
    return PromoReturn(
        owner=owner,
        amount=sum(amount for account, amount in parts if account == wallet),
        posting=posting,
        grants=planning.seen.grants,
        grace=millis(planning.rules.settings.promo_grace),
    )


def who_gets_promo(entries: Iterable[tuple[str, int]]) -> str | None:
    """The user who paid with promo credits by these entries."""
    paid = (account for account, amount in entries if amount > 0)
    users = (account.rpartition(":") for account in paid)
    return next((user for user, _, kind in users if kind == "promo"), None)


def sealed(row: SideRow | None) -> dict[str, Any]:
    """The posting's words about the grant, read by ``anchors.proved_promo``."""
    if row is None:
        return {}
    return {
        "promoGrant": {
            "userId": row.owner,
            "amount": money.text("CREDIT", row.amount or 0),
            "expiresAt": body(row, PromoBody).expires_at,
        }
    }

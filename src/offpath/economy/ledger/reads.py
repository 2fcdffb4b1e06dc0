"""The reads of an economy: balances, statements, payouts, subscriptions, who owns what."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import Struct

from offpath.economy.ledger.obligations import Position, position
from offpath.economy.ledger.rows import (
    EntitlementBody,
    PayoutBody,
    SaleBody,
    SubscriptionBody,
    body,
    entitlement_id,
    owned,
)
from offpath.economy.ledger.statements import ArchivedLines, archived_lines, facts_of
from offpath.errors import InvalidArgument
from offpath.model import checks
from offpath.model.ledger.chart import chart, owed
from offpath.model.ledger.money import Currency, Money
from offpath.model.ledger.posting import PostingRecord
from offpath.model.ledger.rates import Rates
from offpath.model.ledger.records import STATES, KeyRecord, SideRow
from offpath.model.ledger.trims import archived
from offpath.store.ledger import LedgerReads

Wallet = Literal["spendable", "earned", "promo"]
PAGE = 100


class Line(Struct, frozen=True, kw_only=True):
    """One posting as an account saw it."""

    number: int
    posting: str
    change: Money
    """The change of the balance."""
    balance: Money
    """After it."""
    at: datetime
    facts: dict[str, Any]
    """The posting's sealed metadata."""


class Balances(Struct, frozen=True, kw_only=True):
    """A user's wallets."""

    spendable: Money
    earned: Money
    promo: Money


class Debt(Struct, frozen=True, kw_only=True):
    """The debt of a user to the platform."""

    user: str
    owed: Money


class Payout(Struct, frozen=True, kw_only=True):
    """A payout as it is now."""

    id: str
    user: str
    state: str
    amount: Money
    """The credits that it took."""
    quote: Money
    """The amount that the seller gets, before the rail's fee."""
    attempts: int
    requested_at: datetime
    touched_at: datetime
    due_at: datetime | None
    provider_ref: str | None
    reason: str | None


class Subscription(Struct, frozen=True, kw_only=True):
    """A subscription as it is now."""

    id: str
    user: str
    seller: str
    sku: str
    state: str
    price: Money
    period: float | str
    """Seconds, or a period of the calendar such as ``P1M``."""
    number: int
    """The period that was paid last; 1 is the first."""
    paid_until: datetime
    attempts: int


class Sale(Struct, frozen=True, kw_only=True):
    """An order that was paid."""

    order_id: str
    buyer: str
    recipient: str
    sku: str
    price: Money
    fee: Money
    posting: str | None
    at: datetime


class Entitlement(Struct, frozen=True, kw_only=True):
    """The thing that a user has, from where, until when."""

    user: str
    sku: str
    owned: bool
    """True if it was owned when it was read."""
    source: str
    expires_at: datetime | None


class EconomyReading:
    """``economy.read``. Nothing here is cached: each call reads the store."""

    def __init__(
        self,
        opened: Callable[[], Awaitable[LedgerReads]],
        rates: Rates,
        now: Callable[[], datetime],
    ) -> None:
        self._opened = opened
        self._rates = rates
        self._now = now

    async def balance(self, account: str) -> Money:
        """An account's balance; zero for one that was never used. Raises ``UnknownAccount``."""
        known = chart(account)
        found = await (await self._opened()).ledger_accounts(ids=(account,), limit=1)
        return Money(known.currency, found[0].balance if found else 0)

    async def balances(self, user: str) -> Balances:
        """A user's wallets, read at one moment."""
        names: Sequence[Wallet] = ("spendable", "earned", "promo")
        ids = [chart(f"{user}:{name}").id for name in names]
        found = await (await self._opened()).ledger_accounts(ids=ids, limit=len(ids))
        held = {account.id: account.balance for account in found}
        spendable, earned, promo = (Money(Currency.CREDIT, held.get(one, 0)) for one in ids)
        return Balances(spendable=spendable, earned=earned, promo=promo)

    async def debts(self, *, after: str = "", limit: int = PAGE) -> list[Debt]:
        """The debts by user; ``after`` is the last user of the page before.

        Raises ``InvalidArgument`` for what is not a page.
        """
        store, page = await self._opened(), _page(limit)
        found = await store.ledger_debts(after=owed(after) if after else "", limit=page)
        return [
            Debt(user=chart(one.id).owner, owed=Money(Currency.CREDIT, one.balance))
            for one in found
        ]

    async def statement(self, account: str, *, before: int = 0, limit: int = PAGE) -> list[Line]:
        """An account's postings, the newest first; ``before`` is the number of the last line of
        the page before. Lines before the last one may be in an archive: :meth:`archived` says so.
        Raises ``UnknownAccount``, and ``InvalidArgument`` for what is not a page.
        """
        known, page = chart(account), _page(limit)
        if checks.integer(before, "before", least=0, most=1 << 62) == 1:
            return []
        store = await self._opened()
        links = await store.ledger_links(account, after=before, limit=page, newest=True)
        facts = await facts_of(store, links)
        return [
            Line(
                number=link.number,
                posting=link.posting,
                change=Money(known.currency, known.change(link.amount)),
                balance=Money(known.currency, link.balance),
                at=_moment(link.at),
                facts=facts.get(link.posting, {}),
            )
            for link in links
        ]

    async def archived(self, account: str) -> ArchivedLines | None:
        """The part of an account's statement that was archived and removed, and the archive that
        has it; None: the ledger has all of it. Raises ``UnknownAccount``.
        """
        return await archived_lines(await self._opened(), chart(account).id)

    async def posting(self, posting_id: str) -> PostingRecord | None:
        """A posting as it is stored, not verified. Raises ``Archived`` for one that was removed."""
        store = await self._opened()
        found = await store.ledger_postings(ids=(posting_id,), limit=1)
        if not found and (gone := await store.ledger_retired(ids=(posting_id,), limit=1)):
            raise archived(gone[0])
        return found[0] if found else None

    async def receipt(self, key: str) -> KeyRecord | None:
        """The operation that was done under an idempotency key; None while it is free."""
        return await (await self._opened()).ledger_key(key)

    async def position(self) -> Position:
        """The platform's cash against what it owes."""
        return position(await (await self._opened()).ledger_totals(), self._rates)

    async def owns(self, user: str, sku: str) -> bool:
        """True if a user owns a thing now."""
        return owned(await self._side("entitlement", entitlement_id(user, sku)), self._at())

    async def entitlements(
        self, user: str, *, after: str = "", limit: int = PAGE
    ) -> list[Entitlement]:
        """The things that a user has or had, by sku; ``after`` is the sku of the last one before.
        Raises ``InvalidArgument`` for what is not a page.
        """
        last = entitlement_id(user, after) if after else ""
        rows = await self._sides("entitlement", user, (), last, limit)
        return [_entitlement(row, self._at()) for row in rows]

    async def sale(self, order_id: str) -> Sale | None:
        """An order that was paid; None when there is none."""
        row = await self._side("sale", order_id)
        return None if row is None else _sale(row)

    async def payout(self, payout_id: str) -> Payout | None:
        """A payout; None when there is none."""
        row = await self._side("payout", payout_id)
        return None if row is None else _payout(row)

    async def payouts(
        self,
        user: str | None = None,
        *,
        states: str | Sequence[str] = (),
        after: str = "",
        limit: int = PAGE,
    ) -> list[Payout]:
        """Payouts by id: of a user, in these states. Raises ``InvalidArgument`` for a state that
        there is not, and for what is not a page.
        """
        return [_payout(row) for row in await self._sides("payout", user, states, after, limit)]

    sagas = payouts

    async def subscription(self, subscription_id: str) -> Subscription | None:
        """A subscription; None when there is none."""
        row = await self._side("subscription", subscription_id)
        return None if row is None else _subscription(row)

    async def subscriptions(
        self,
        user: str | None = None,
        *,
        states: str | Sequence[str] = (),
        after: str = "",
        limit: int = PAGE,
    ) -> list[Subscription]:
        """Subscriptions by id: of the payer, in these states. Raises as :meth:`payouts` does."""
        rows = await self._sides("subscription", user, states, after, limit)
        return [_subscription(row) for row in rows]

    async def _side(self, kind: str, name: str) -> SideRow | None:
        rows = await (await self._opened()).ledger_sides(kind, ids=(name,), limit=1)
        return rows[0] if rows else None

    async def _sides(
        self, kind: str, owner: str | None, states: str | Sequence[str], after: str, limit: int
    ) -> list[SideRow]:
        known, page = _states(kind, states), _page(limit)
        store = await self._opened()
        return await store.ledger_sides(kind, owner=owner, states=known, after=after, limit=page)

    def _at(self) -> int:
        return round(self._now().timestamp() * 1_000)


def _page(limit: int) -> int:
    return checks.integer(limit, "limit", least=1, most=checks.MOST_LISTED)


def _states(kind: str, states: str | Sequence[str]) -> tuple[str, ...]:
    given = (states,) if isinstance(states, str) else tuple(states)
    if unknown := [one for one in given if one not in STATES[kind]]:
        raise InvalidArgument(
            f"a {kind} has no state {unknown[0]!r}; it has: {', '.join(STATES[kind])}"
        )
    return given


def _moment(at: int) -> datetime:
    return datetime.fromtimestamp(at // 1_000, UTC).replace(microsecond=at % 1_000 * 1_000)


def _credits(minor: int) -> Money:
    return Money(Currency.CREDIT, minor)


def _payout(row: SideRow) -> Payout:
    content = body(row, PayoutBody)
    return Payout(
        id=row.id,
        user=row.owner,
        state=row.state,
        amount=_credits(content.reserve),
        quote=Money(Currency.USD, row.amount or 0),
        attempts=row.attempts,
        requested_at=_moment(row.created_at),
        touched_at=_moment(content.ended_at or row.touched_at),
        due_at=None if row.due_at is None else _moment(row.due_at),
        provider_ref=content.provider_ref,
        reason=content.reason,
    )


def _subscription(row: SideRow) -> Subscription:
    content = body(row, SubscriptionBody)
    return Subscription(
        id=row.id,
        user=row.owner,
        seller=content.seller,
        sku=content.sku,
        state=row.state,
        price=_credits(content.price),
        period=content.calendar or content.period / 1_000,
        number=content.number,
        paid_until=_moment(content.paid_until),
        attempts=row.attempts,
    )


def _sale(row: SideRow) -> Sale:
    content = body(row, SaleBody)
    return Sale(
        order_id=row.id,
        buyer=row.owner,
        recipient=content.recipient,
        sku=content.sku,
        price=_credits(content.price),
        fee=_credits(content.fee),
        posting=row.anchor,
        at=_moment(row.created_at),
    )


def _entitlement(row: SideRow, at: int) -> Entitlement:
    content = body(row, EntitlementBody)
    expires = content.expires_at
    return Entitlement(
        user=row.owner,
        sku=content.sku,
        owned=owned(row, at),
        source=content.source,
        expires_at=None if expires is None else _moment(expires),
    )

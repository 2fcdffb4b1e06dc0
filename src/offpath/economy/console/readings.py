"""Readings of an economy: its books, accounts, postings, checkpoints, payouts, subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offpath.economy.operating import views
from offpath.economy.operating.documents import (
    AccountPage,
    AccountShown,
    AuditPage,
    BackingDocument,
    CheckpointPage,
    LedgerDocument,
    PayoutPage,
    PostingDocument,
    SubscriptionPage,
)
from offpath.errors import NotFound
from offpath.jobs.client.core import core_of
from offpath.web.console.document_row import Asking, DocumentReading
from offpath.web.console.wing_pages import WingPages

if TYPE_CHECKING:
    from offpath.app import App

_PAGE: Final = ("after", "limit")
_ROWS: Final = ("state", "user", *_PAGE)


async def _ledger(app: App, asking: Asking) -> LedgerDocument:
    return await views.ledger(app, asking.seen, asking.panels)


async def _backing(app: App, asking: Asking) -> BackingDocument:
    economies = core_of(asking.home).economies if asking.home is not None else ()
    if not economies:
        raise NotFound("the app has no economy, by whose rates its cash is counted")
    return await views.backing(app, economies[0].rates)


async def _accounts(app: App, asking: Asking) -> AccountPage:
    query = asking.query
    prefix, after = query.one("q") or "", query.one("after") or ""
    return await views.accounts(app, prefix=prefix, after=after, limit=query.limit())


async def _account(app: App, asking: Asking) -> AccountShown:
    query, name = asking.query, asking.path["account"]
    return await views.account(app, name, after=query.one("after"), limit=query.limit())


async def _posting(app: App, asking: Asking) -> PostingDocument:
    return await views.posting(app, asking.path["posting"], asking.seen)


async def _checkpoints(app: App, asking: Asking) -> CheckpointPage:
    query = asking.query
    return await views.checkpoints(app, after=query.one("after") or "", limit=query.limit())


async def _audit(app: App, asking: Asking) -> AuditPage:
    query = asking.query
    return await views.audit(app, after=query.one("after"), limit=query.limit())


async def _payouts(app: App, asking: Asking) -> PayoutPage:
    query = asking.query
    return await views.payouts(
        app,
        user=query.one("user"),
        states=query.many("state"),
        after=query.one("after") or "",
        limit=query.limit(),
    )


async def _subscriptions(app: App, asking: Asking) -> SubscriptionPage:
    query = asking.query
    return await views.subscriptions(
        app,
        user=query.one("user"),
        states=query.many("state"),
        after=query.one("after") or "",
        limit=query.limit(),
    )


READINGS: Final[tuple[DocumentReading, ...]] = (
    DocumentReading(
        name="ledger",
        path="/ledger",
        summary="The books: when they were proved, verified and sealed, and what was found.",
        document=LedgerDocument,
        read=_ledger,
    ),
    DocumentReading(
        name="backing",
        path="/ledger/backing",
        summary="The platform's cash against what it owes, added up now over all accounts.",
        document=BackingDocument,
        read=_backing,
        within="ledger",
    ),
    DocumentReading(
        name="accounts",
        path="/ledger/accounts",
        summary="Accounts by id, with their balances.",
        document=AccountPage,
        read=_accounts,
        names=("q", *_PAGE),
        within="ledger",
    ),
    DocumentReading(
        name="account",
        path="/ledger/accounts/{account}",
        summary="One account and its statement, the latest first.",
        document=AccountShown,
        read=_account,
        names=_PAGE,
        within="ledger",
    ),
    DocumentReading(
        name="posting",
        path="/ledger/postings/{posting}",
        summary="One posting: its entries, the links of their chains, and what made it.",
        document=PostingDocument,
        read=_posting,
        within="ledger",
    ),
    DocumentReading(
        name="checkpoints",
        path="/ledger/checkpoints",
        summary="Checkpoints, the latest first.",
        document=CheckpointPage,
        read=_checkpoints,
        names=_PAGE,
        within="ledger",
    ),
    DocumentReading(
        name="audit",
        path="/ledger/audit",
        summary="What was found about the books and done about it, a hash chain.",
        document=AuditPage,
        read=_audit,
        names=_PAGE,
        within="ledger",
    ),
    DocumentReading(
        name="payouts",
        path="/payouts",
        summary="Payouts: who asked for what, and how far it is.",
        document=PayoutPage,
        read=_payouts,
        names=_ROWS,
    ),
    DocumentReading(
        name="subscriptions",
        path="/subscriptions",
        summary="Subscriptions: who pays whom, and until when.",
        document=SubscriptionPage,
        read=_subscriptions,
        names=_ROWS,
    ),
)

PAGES: Final = WingPages(
    menu=(
        ("ledger", "/ledger", "Ledger"),
        ("payouts", "/payouts", "Payouts"),
        ("subscriptions", "/subscriptions", "Subscriptions"),
    ),
    readings=READINGS,
    package="offpath.economy.console",
)
"""The pages of an economy."""

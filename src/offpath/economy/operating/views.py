"""Views of an economy, read from an app's store: nothing of them needs the code of the economy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from offpath.economy import pauses
from offpath.economy.ledger.audit import trail
from offpath.economy.ledger.levers import resting
from offpath.economy.ledger.mismatches import UNEXPLAINED, UNPAID
from offpath.economy.ledger.obligations import position
from offpath.economy.ledger.reads import EconomyReading
from offpath.economy.ledger.statements import archived_lines, facts_of, reached
from offpath.economy.operating import documents
from offpath.economy.operating.documents import (
    AccountPage,
    AccountShown,
    AuditPage,
    BackingDocument,
    CheckpointPage,
    LedgerDocument,
    PayoutPage,
    PostingDocument,
    StateCount,
    SubscriptionPage,
    SweepStanding,
)
from offpath.economy.sweeps.summaries import ANCHOR_FAILED, ANCHORED, SEALED
from offpath.errors import InvalidArgument, NotFound
from offpath.model.action import ActionFilter
from offpath.model.ledger.chart import chart
from offpath.model.ledger.faults import UnknownAccount
from offpath.model.ledger.rates import Rates
from offpath.model.ledger.records import OPEN_PAYOUTS, STATES
from offpath.model.ledger.trims import archived
from offpath.model.run import MOST_KEPT, RunKind
from offpath.operating import code_views
from offpath.operating.documents import actions as action_documents
from offpath.operating.documents.fields import filled
from offpath.operating.documents.sweeps import SweepList
from offpath.operating.panels import Panels
from offpath.operating.redaction import PLAIN, Redaction

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from offpath.app import App
    from offpath.model.run import RunRecord
    from offpath.operating.documents.actions import ActionDocument
    from offpath.store.protocol import Store

T = TypeVar("T")
PROVE: Final = "ledger.prove"
VERIFY: Final = "ledger.verify"
MOST_OPEN: Final = 1_000
"""Open payouts of a state that are counted."""
_NO_SWEEPS: Final = SweepList(items=())
_COUNTED: Final = (*OPEN_PAYOUTS, "FAILED")
"""States of payouts that are counted: settled ones are for ever more."""
_OF_PAYOUTS: Final = frozenset({UNPAID, UNEXPLAINED})
"""The findings about payouts, and about what the provider tells of them."""
_PREFIX: Final = "economy."
SEALING: Final = f"{_PREFIX}checkpoint"
"""The name of the sweep that seals, as its runs are kept."""
SEALS: Final = frozenset({SEALED, ANCHORED, ANCHOR_FAILED})
"""The outcomes of a seal that was made."""
_BOOKS: Final = ("ledger.", _PREFIX)
"""The beginnings of the names of findings about the books."""
_TOLD: Final = ("checkpoint", "checkpoint_verify", "treasury", "payouts")
"""The sweeps whose standing the page of the ledger has."""


async def ledger(app: App, seen: Redaction = PLAIN, panels: Panels | None = None) -> LedgerDocument:
    """The books, by what was proved, sealed and found; nothing is proved by this.

    What stands against them is the main part: without it the books would look better than they are.
    """
    store, now, panels = app.store(), app.clock.now(), panels or Panels()
    (last, proof, check, anchor), found, sweeps, (paused, rest), several = await asyncio.gather(
        asyncio.gather(
            panels.read(store.ledger_checkpoints(limit=1), [], "checkpoint"),
            panels.read(_last(store, PROVE, seen), None, "proof"),
            panels.read(_last(store, VERIFY, seen), None, "verification"),
            panels.read(_last_anchoring(store), None, "anchor"),
        ),
        store.findings(),
        panels.read(code_views.sweeps(app), _NO_SWEEPS, "sweeps"),
        asyncio.gather(pauses.paused(store, now), resting(store, now)),
        panels.read(_open_payouts(store), [], "payouts"),
    )
    books = (one for one in found if one.name.startswith(_BOOKS))
    return LedgerDocument(
        proof=proof,
        verification=check,
        checkpoint=documents.describe_checkpoint(last[0]) if last else None,
        anchor=None if anchor is None else documents.describe_anchor(anchor),
        sweeps=tuple(_standings(sweeps)),
        findings=tuple(map(documents.describe_finding, books)),
        paused=paused,
        resting=tuple(sorted(one.value for one in rest)),
        payouts=tuple(several),
        cut=panels.cut,
    )


async def _open_payouts(store: Store) -> list[StateCount]:
    return await asyncio.gather(*(_open(store, state) for state in OPEN_PAYOUTS))


async def _last(store: Store, verb: str, seen: Redaction) -> ActionDocument | None:
    found = await store.actions(ActionFilter(verbs=(verb,)), limit=1)
    return action_documents.describe(found[0], seen) if found else None


async def _last_anchoring(store: Store) -> RunRecord | None:
    """The newest kept run that sealed, whatever became of the checkpoint at the anchor."""
    runs = await store.runs(kind=RunKind.SWEEP, name=SEALING, limit=MOST_KEPT)
    return next((one for one in runs if SEALS & one.report.counts.keys()), None)


async def _open(store: Store, state: str) -> StateCount:
    """The payouts of a state, counted up to a limit."""
    rows = await store.ledger_sides("payout", states=(state,), limit=MOST_OPEN + 1)
    oldest = min((one.created_at for one in rows), default=None)
    return StateCount(
        state=state,
        count=min(len(rows), MOST_OPEN),
        more=len(rows) > MOST_OPEN,
        oldest_at=None if oldest is None else documents.moment(oldest),
    )


def _standings(sweeps: SweepList) -> Iterator[SweepStanding]:
    """The standing of each of these sweeps, by the loop that succeeded last."""
    for one in sweeps.items:
        name = one.name.removeprefix(_PREFIX)
        if name in _TOLD and one.name != name and one.loops:
            loop = min(one.loops, key=lambda each: _age(each.last_success_age))
            yield filled(SweepStanding, loop, name=name, condition=loop.condition.value)


def _age(seconds: float | None) -> float:
    return float("inf") if seconds is None else seconds


async def backing(app: App, rates: Rates) -> BackingDocument:
    """The platform's cash against what it owes, added up now over all accounts."""
    return documents.describe_backing(position(await app.store().ledger_totals(), rates))


async def accounts(app: App, *, prefix: str = "", after: str = "", limit: int = 50) -> AccountPage:
    """Accounts by id, those that begin so."""
    store = app.store()
    found = await store.ledger_accounts(prefix=prefix, after=after, limit=limit + 1)
    tails = [(one.id, one.number - 1, one.number) for one in found[:limit] if one.number]
    last = {link.account: link for link, _ in (await store.ledger_tails(tails) if tails else ())}
    items = tuple(documents.describe_account(one, last.get(one.id)) for one in found[:limit])
    return AccountPage(items=items, next=_next(found, items, lambda one: one.id))


async def account(
    app: App, name: str, *, after: str | None = None, limit: int = 50
) -> AccountShown:
    """An account and its statement, the latest first. Raises ``InvalidArgument``, ``NotFound``."""
    try:
        chart(name)
    except UnknownAccount as error:
        raise InvalidArgument(str(error)) from error
    before, store = _number(after), app.store()
    found, links, last = await asyncio.gather(
        store.ledger_accounts(ids=(name,), limit=1),
        store.ledger_links(name, after=before, limit=limit + 1, newest=True),
        store.ledger_links(name, limit=1, newest=True),
    )
    if not found:
        raise NotFound(f"nothing was posted to the account {name}")
    page = links[:limit]
    facts = await facts_of(store, page)
    kinds = {name: str(one.get("kind", "")) for name, one in facts.items()}
    items = tuple(documents.describe_line(one, kinds.get(one.posting, "")) for one in page)
    following = _next(links, items, lambda one: str(one.number))
    gone = reached(await archived_lines(store, name), page)
    return filled(
        AccountShown,
        documents.describe_account(found[0], last[0] if last else None),
        items=items,
        next=following,
        archived=None if gone is None else gone.file,
    )


async def posting(app: App, posting_id: str, seen: Redaction = PLAIN) -> PostingDocument:
    """A posting as it is stored. Raises ``NotFound``, with the archive of one that was removed."""
    found = await app.store().ledger_postings(ids=(posting_id,), limit=1)
    if not found and (gone := await app.store().ledger_retired(ids=(posting_id,), limit=1)):
        raise NotFound(str(archived(gone[0])))
    if not found:
        raise NotFound(f"there is no posting {posting_id!r:.320}")
    return documents.describe_posting(found[0], seen)


async def checkpoints(app: App, *, after: str = "", limit: int = 50) -> CheckpointPage:
    """Checkpoints, the latest first."""
    found = await app.store().ledger_checkpoints(before=after, limit=limit + 1)
    items = tuple(map(documents.describe_checkpoint, found[:limit]))
    return CheckpointPage(items=items, next=_next(found, items, lambda one: one.id))


async def audit(app: App, *, after: str | None = None, limit: int = 50) -> AuditPage:
    """The records of what was found and done about it, the newest first."""
    async with app.store().ledger_snapshot() as reads:
        found = await trail(reads, before=_number(after), limit=limit + 1)
    items = tuple(map(documents.describe_audit, found[:limit]))
    return AuditPage(items=items, next=_next(found, items, lambda one: str(one.number)))


async def payouts(
    app: App,
    *,
    user: str | None = None,
    states: Sequence[str] = (),
    after: str = "",
    limit: int = 50,
) -> PayoutPage:
    """Payouts by id. Raises ``InvalidArgument`` for a state that there is not."""
    wanted, store = _states("payout", states), app.store()
    found, counts, findings = await asyncio.gather(
        _reading(app).payouts(user, states=wanted, after=after, limit=limit + 1),
        asyncio.gather(*(_open(store, state) for state in _COUNTED)),
        store.findings(),
    )
    items = tuple(map(documents.describe_payout, found[:limit]))
    standing = (one for one in findings if one.name in _OF_PAYOUTS and one.accepted_at is None)
    return PayoutPage(
        items=items,
        next=_next(found, items, lambda one: one.id),
        counts=tuple(counts),
        findings=tuple(map(documents.describe_finding, standing)),
    )


async def subscriptions(
    app: App,
    *,
    user: str | None = None,
    states: Sequence[str] = (),
    after: str = "",
    limit: int = 50,
) -> SubscriptionPage:
    """Subscriptions by id. Raises ``InvalidArgument`` for a state that there is not."""
    wanted = _states("subscription", states)
    found = await _reading(app).subscriptions(user, states=wanted, after=after, limit=limit + 1)
    items = tuple(map(documents.describe_subscription, found[:limit]))
    return SubscriptionPage(items=items, next=_next(found, items, lambda one: one.id))


def _reading(app: App) -> EconomyReading:
    async def opened() -> Store:
        return app.store()

    def now() -> datetime:
        return app.clock.now()

    return EconomyReading(opened, Rates(), now)


def _states(kind: str, given: Sequence[str]) -> tuple[str, ...]:
    """The states as the ledger writes them; in a URL they may be lower case."""
    found = tuple(one.upper() for one in given)
    if unknown := [one for one in found if one not in STATES[kind]]:
        known = ", ".join(one.lower() for one in STATES[kind])
        raise InvalidArgument(f"a {kind} is never {unknown[0].lower()[:60]!r}: it is {known}")
    return found


def _next(found: Sequence[object], items: Sequence[T], place: Callable[[T], str]) -> str | None:
    """The place at which a list goes on, if one more was found than is shown."""
    return place(items[-1]) if items and len(found) > len(items) else None


def _number(given: str | None) -> int:
    """The number at which a list goes on; 0: at its beginning. Raises ``InvalidArgument``."""
    if given is None:
        return 0
    if not given.isascii() or not given.isdecimal() or not 0 < int(given[:20]) < 1 << 62:
        raise InvalidArgument(f"after is given back as it was answered, not as {given!r:.60}")
    return int(given)

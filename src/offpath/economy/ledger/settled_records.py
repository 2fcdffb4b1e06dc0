"""Our own side of a reconciliation: the records that the ledger has, and their comparison with a
feed's.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from offpath.economy.ledger.reconciliation import (
    Pulled,
    ReconcileRecord,
    ReconcileReport,
    RecordKind,
    Window,
)
from offpath.economy.ledger.trim_proof import whole_since
from offpath.model.ledger.chart import USD_CLEARING
from offpath.model.ledger.faults import ChainBroken
from offpath.model.ledger.money import Currency, Money
from offpath.model.ledger.posting import LinkRecord, PostingRecord
from offpath.runtime.threads import in_own_thread

if TYPE_CHECKING:
    from offpath.store.protocol import Store

_PAGE: Final = 1000
_KINDS: Final = {
    "topUp": (RecordKind.BUY, "ref"),
    "settlePayout": (RecordKind.PAYOUT, "providerRef"),
    "reverse": (RecordKind.REVERSAL, "ref"),
    "clawback": (RecordKind.DISPUTE, "ref"),
}
_NAMED: Final = frozenset({RecordKind.REVERSAL, RecordKind.DISPUTE})
"""Kinds of which a posting without a reference is nothing that a processor knows."""
"""By a posting's kind: what a record of it is of, and what it is matched by."""


InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
"""A way to call what blocks."""


async def compared(
    store: Store, window: Window, pulled: Pulled, *, reading: InThread = in_own_thread
) -> ReconcileReport:
    """The comparison of a feed's records with its own ones of the ledger, or with the store's.

    ``reading`` calls what goes through the feed's records.
    """
    from offpath.economy.ledger.sides import Sides

    with Sides(window) as sides:
        await reading(partial(sides.add_processor, pulled.processor))
        if pulled.ledger is not None:
            await reading(partial(sides.add_ledger, pulled.ledger))
        else:
            async with aclosing(recorded(store, window)) as pages:
                async for page in pages:
                    await in_own_thread(partial(sides.add_ledger, page))
        return await in_own_thread(sides.report)


async def recorded(store: Store, window: Window) -> AsyncGenerator[list[ReconcileRecord], None]:
    """Give the purchases, settled payouts, reversals and disputes that the ledger has in a window,
    by pages.

    Read from the account that all real money passes, backwards: it costs what was posted since the
    window began, not what ever was. Raises ``Archived`` where postings of it were removed.
    """
    since, before = _millis(window.since), 0
    async with store.ledger_snapshot() as reads:
        await whole_since(reads, since, f"the window {window} is not compared")
        while links := await reads.ledger_links(
            USD_CLEARING, after=before, limit=_PAGE, newest=True
        ):
            postings = await reads.ledger_postings(ids=[one.posting for one in links], limit=_PAGE)
            known = {one.id: one for one in postings}
            yield [
                record
                for link in links
                if (record := _own(link, known.get(link.posting))) is not None
                and record.at in window
            ]
            before = links[-1].number
            # The store's clock may have been set back: a page that is older as a whole ends it.
            if max(one.at for one in links) < since or before == 1:
                break


def _own(link: LinkRecord, posting: PostingRecord | None) -> ReconcileRecord | None:
    if posting is None:
        raise ChainBroken(f"{link.account}: the posting {link.posting} is not there: run a proof")
    facts = posting.facts
    kind, named = _KINDS.get(str(facts.get("kind")), (None, ""))
    given = facts.get(named)
    if kind is None or (given is None and kind in _NAMED):
        return None  # a fee sweep that was undone is between the platform and itself
    return ReconcileRecord(
        kind=kind,
        key=str(given).removeprefix("whk:"),
        amount=Money(Currency.USD, abs(link.amount)),
        ref=posting.id,
        at=datetime.fromtimestamp(link.at / 1000, UTC),
    )


def _millis(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)

"""Our own side of a reconciliation: the records that the ledger has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from offpath.economy.ledger.reconciliation import ReconcileRecord, RecordKind, Window
from offpath.model.ledger.chart import USD_CLEARING
from offpath.model.ledger.faults import ChainBroken
from offpath.model.ledger.money import Currency, Money
from offpath.model.ledger.posting import LinkRecord, PostingRecord

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


async def recorded(store: Store, window: Window) -> tuple[ReconcileRecord, ...]:
    """The purchases, settled payouts, reversals and disputes that the ledger has in a window.

    Read from the account that all real money passes, backwards: it costs what was posted since the
    window began, not what ever was.
    """
    found: list[ReconcileRecord] = []
    since, before = _millis(window.since), 0
    async with store.ledger_snapshot() as reads:
        while links := await reads.ledger_links(
            USD_CLEARING, after=before, limit=_PAGE, newest=True
        ):
            postings = await reads.ledger_postings(ids=[one.posting for one in links], limit=_PAGE)
            known = {one.id: one for one in postings}
            found += [
                record
                for link in links
                if (record := _own(link, known.get(link.posting))) is not None
                and record.at in window
            ]
            before = links[-1].number
            # The store's clock may have been set back: a page that is older as a whole ends it.
            if max(one.at for one in links) < since or before == 1:
                break
    return tuple(found)


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

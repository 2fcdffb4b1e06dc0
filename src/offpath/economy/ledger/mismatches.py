"""A mismatch that was found stands: kept as a finding until an operator accepts it.

Until then nothing is sealed over it, no payout is handed over and no fee is taken: what was found
once may be hidden by whoever made it, so that a later look finds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol

from offpath.model.ledger.faults import ChainBroken
from offpath.store.health import FindingStore
from offpath.store.ledger import LedgerStore

if TYPE_CHECKING:
    from offpath.model.finding import FindingRecord

MISMATCH: Final = "ledger.mismatch"
"""The name of the finding."""
BREACH: Final = "economy.breach"
"""The name of the finding that cash does not cover what is owed; it ends by itself."""
UNPAID: Final = "economy.payouts"
"""The name of the finding that payouts are due and no provider is connected; it ends by itself."""
UNEXPLAINED: Final = "economy.unexplained"
"""The name of the finding that dollars are missing which nothing explains; it ends by itself."""
CONTAINED: Final = "economy.contained"
"""The name of the finding that payouts and fees rest; an operator's release ends it."""
UNTRIMMED: Final = "economy.trim"
"""The name of the finding that a trim was begun and is not finished; it ends by itself."""
DRIFT: Final = "economy.drift."
"""The beginning of the names of findings that a window differs from the processor's records; what
follows is the window's begin. One ends when a later comparison agrees, or when it is accepted.
"""
_LONGEST: Final = 10_000


class ProvedStore(LedgerStore, FindingStore, Protocol):
    """A ledger, and the findings about it."""


async def mismatch(store: FindingStore) -> FindingRecord | None:
    """The mismatch that stands, accepted or not; None: none does."""
    found = await store.findings()
    return next((one for one in found if one.name == MISMATCH), None)


async def unhindered(store: FindingStore) -> FindingRecord | None:
    """The accepted mismatch, or None. Raises ``ChainBroken`` while one stands that is not."""
    known = await mismatch(store)
    if known is not None and known.hinders:
        raise ChainBroken(hint(known))
    return known


async def note(store: FindingStore, lines: Iterable[str], new_id: str) -> FindingRecord:
    """Keep what was found, with what was found before: a mismatch is not forgotten since another
    pass read other links. What was accepted is not found anew.
    """
    known, found = await mismatch(store), set(lines)
    before = set() if known is None else set(known.text.split("\n"))
    if known is not None and (known.hinders or found <= before):
        found |= before
    return await store.record_finding(MISMATCH, "\n".join(sorted(found))[:_LONGEST], new_id=new_id)


def hint(found: FindingRecord) -> str:
    """The finding that stands, and what to do."""
    since = found.since.isoformat(timespec="seconds")
    first = found.text.partition("\n")[0]
    return (
        f"the ledger does not match what was sealed, since {since} ({first}): nothing is sealed, "
        "paid out or taken as a fee. Look with `offpath ledger verify --full`, restore what is "
        f"wrong, then `offpath ledger accept {found.id} --reason ...`"
    )

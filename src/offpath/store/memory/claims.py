"""Names that somebody has claimed."""

from __future__ import annotations

from datetime import datetime

from offpath.store.memory.instants import maybe_later
from offpath.store.memory.tables import ClaimRow, Tables


def claim(
    tables: Tables, now: datetime, key: str, holder: str, ttl: float | None, *, renew: bool = False
) -> bool:
    """Claim a name; who has it keeps it, until the time of the first claim, or of one that renews,
    is over.
    """
    free_at = maybe_later(now, ttl)
    known = tables.claims.get(key)
    held = known is not None and (known.free_at is None or now < known.free_at)
    if known is not None and held and (known.holder != holder or not renew):
        return known.holder == holder
    tables.claims[key] = ClaimRow(holder, free_at)
    tables.expiring_claims.remove(key)
    if free_at is not None:
        tables.expiring_claims.push(key, free_at)
    return True


def release(tables: Tables, key: str, holder: str) -> bool:
    """Give a name back; False when it was not this holder's."""
    known = tables.claims.get(key)
    if known is None or known.holder != holder:
        return False
    del tables.claims[key]
    tables.expiring_claims.remove(key)
    return True


def prune(tables: Tables, now: datetime, limit: int) -> None:
    """Forget claims whose time is over."""
    for _ in range(limit):
        first = tables.expiring_claims.first()
        if first is None or now < first[0]:
            return
        tables.expiring_claims.remove(first[1])
        del tables.claims[first[1]]

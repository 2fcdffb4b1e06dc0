"""Names that are claimed once in the fleet."""

from __future__ import annotations

from offpath.store.programs.dialect import Dialect, Steps, one


def claim(
    d: Dialect, key: str, holder: str, *, ttl: float | None = None, renew: bool = False
) -> Steps[bool]:
    """Claim a name; who has it keeps it, until the time of the first claim, or of one that renews,
    is over.
    """
    query = d.sql["claim"](key=key, holder=holder, span=d.span(ttl), renew=renew, now=d.now)
    return bool((yield from one(query)))


def release(d: Dialect, key: str, holder: str) -> Steps[bool]:
    """Give a name back; False: it was not this holder's."""
    return bool((yield from one(d.sql["release_claim"](key=key, holder=holder))))

"""The part of the store that health asks: what died lately, and how far behind routers are.

The rules of the store's protocol hold here too. All is asked for every few seconds by somebody,
so each call reads a bounded number of rows from an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from offpath.model.deaths import Deaths
from offpath.model.limit import LimitHolder
from offpath.model.route import RouterLag


class HealthStore(Protocol):
    """The reads of a store that health needs."""

    async def deaths(self, *, since: datetime | None = None, limit: int = 10_000) -> list[Deaths]:
        """Dead letters since that time (None: all that there are), by whose they are and name.

        Jobs by task, events by stream, inbound messages by source, and letters that nobody has
        resolved by router. Of jobs, of letters and of each stream the newest ``limit`` are counted.
        """
        ...

    async def limit_holders(self, keys: Sequence[str]) -> Sequence[LimitHolder]:
        """The running job of each of these keys that began last, by key; none for one without."""
        ...

    async def router_lags(self) -> Sequence[RouterLag]:
        """The time for which the oldest committed event of each router has waited, by name (at most
        1,000).

        Committed, not settled: an event behind an open writer waits too. A partition whose next
        ten thousand events of the domain are all others' is taken to have none.
        """
        ...

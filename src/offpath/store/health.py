"""The parts of the store for health: what it asks, what live processes declare, what it has found.

The rules of the store's protocol hold here too. All is asked for every few seconds by somebody,
so each call reads a bounded number of rows from an index. A finding is kept so that every process,
and whoever looks an hour later, knows of what one pass of one worker has seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from offpath.model.deaths import Deaths
from offpath.model.declaration import Declaration
from offpath.model.finding import FindingRecord
from offpath.model.limit import LimitHolder
from offpath.model.route import RouterLag
from offpath.store.absence import none_of


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


class FindingStore(Protocol):
    """Findings that stand, by name: what is wrong, since when, and who accepted it."""

    async def findings(self) -> list[FindingRecord]:
        """The findings that stand, accepted ones too, by name: at most 1,000."""
        ...

    async def record_finding(self, name: str, text: str, *, new_id: str) -> FindingRecord:
        """Note that something was found; the finding as it stands now.

        One of this name that stands is seen again, and gets this text; its id and its ``since``
        stay. One that was accepted with another text ends, and what was found is a new one, of the
        id ``new_id``. So is one of a name of which none stands. A repeat changes only ``seen_at``.
        """
        ...

    async def end_finding(self, name: str) -> bool:
        """Note that it is not so any more. False: none of this name stands.

        One that was accepted is kept for audits; one that was not is forgotten.
        """
        ...

    async def accept_finding(self, finding: str, reason: str) -> FindingRecord | None:
        """Accept the finding of this id; as it is then. None: none of this id stands.

        Accepted again, it stays as it was accepted first.
        """
        ...


class DeclarationStore(Protocol):
    """Declared definitions, by kind and name."""

    async def declare(self, kind: str, definitions: Mapping[str, str]) -> frozenset[str]:
        """Note what the caller's code defines (name to fingerprint); the names that are overruled.

        One is overruled by another fingerprint of its name that was first declared later and was
        declared within the last :data:`~offpath.model.declaration.LIVE` seconds. A repeat keeps the
        time of the first one, so a process of an older version that starts again stays the older.
        What nobody has declared for :data:`~offpath.model.declaration.KEEP` seconds is forgotten.
        """
        ...

    async def declarations(self, kind: str) -> list[Declaration]:
        """The recent declarations of a kind, by name, the newest first (at most 10,000)."""
        ...


class WithoutHealth:
    """A store without limits and routers to be judged."""

    limit_holders = none_of(HealthStore.limit_holders, list)
    router_lags = none_of(HealthStore.router_lags, list)


class WithoutFindings:
    """A store that keeps no findings."""

    findings = none_of(FindingStore.findings, list)
    end_finding = none_of(FindingStore.end_finding, lambda: False)
    accept_finding = none_of(FindingStore.accept_finding, lambda: None)


class WithoutDeclarations:
    """A store that compares no definitions."""

    declarations = none_of(DeclarationStore.declarations, list)

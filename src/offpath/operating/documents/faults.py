"""Documents of faults: dead letters with one cause, as one."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from offpath.model.brief import FaultCount, FaultTally
from offpath.model.fault import key_parts
from offpath.operating.documents.fields import filled


class FaultDocument(Struct, frozen=True, kw_only=True):
    """The dead jobs of one task that died for one reason, of one error."""

    task: str
    reason: str | None
    type: str | None
    text: str
    key: str | None
    """Given as the filter ``fault``; None where no attempt brought the death about."""
    jobs: int
    first_at: datetime | None
    last_at: datetime | None
    queues: tuple[str, ...]
    sample: str
    """The id of the newest of these jobs."""


class FaultsDocument(Struct, frozen=True, kw_only=True):
    """The faults of the newest dead jobs, the most frequent first."""

    items: tuple[FaultDocument, ...]
    looked_at: int
    """The number of dead jobs that were looked at."""
    more: bool
    """True if there are older ones, which are not counted here."""


def describe(tally: FaultTally) -> FaultsDocument:
    """The faults of dead jobs."""
    items = tuple(_fault(one) for one in tally.items)
    return FaultsDocument(items=items, looked_at=tally.looked_at, more=tally.more)


def _fault(one: FaultCount) -> FaultDocument:
    kind, text = key_parts(one.key)
    return filled(FaultDocument, one, type=kind, text=text)

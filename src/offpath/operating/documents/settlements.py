"""Documents of settlement runs: the kinds that an app defines, and how the last runs went."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from offpath.model.action import ActionState
from offpath.model.tally import Verdict


class KindRunDocument(Struct, frozen=True, kw_only=True):
    """The last run of a kind, as a live worker tells of it."""

    worker: str
    period: str
    verdict: Verdict
    started_at: datetime
    attempted: int
    credited: int
    failed: int
    skipped: int
    cause: str | None


class SettlementKindDocument(Struct, frozen=True, kw_only=True):
    """A kind of settlement runs."""

    kind: str
    zone: str
    unit: str | None
    """The only kind of period that it allows; None for any."""
    concurrency: int
    timeout: float | None
    """Seconds that one credit may take."""
    last: KindRunDocument | None
    """None: no live worker has run it."""


class SettlementRunDocument(Struct, frozen=True, kw_only=True):
    """A run that somebody asked for."""

    action: str
    kind: str
    period: str
    at: datetime
    actor: str
    state: ActionState
    finished_at: datetime | None
    credited: int
    credited_before: int
    failed: int
    error: str | None


class SettlementPeriodDocument(Struct, frozen=True, kw_only=True):
    """A run of a kind over a period, as it is kept, whoever made it."""

    kind: str
    period: str | None
    at: datetime
    seconds: float
    verdict: Verdict
    attempted: int
    """Eligible records: credited, skipped and failed ones."""
    credited: int
    skipped: int
    """Credited before, by another run of the period."""
    failed: int
    warning: str | None
    """The reason why it is not clean."""


class SettlementList(Struct, frozen=True, kw_only=True):
    """The kinds of settlement runs, and the newest runs that were asked for."""

    kinds: tuple[SettlementKindDocument, ...]
    runs: tuple[SettlementRunDocument, ...]
    periods: tuple[SettlementPeriodDocument, ...]
    """The newest runs that are kept, by whomever they were made."""

"""The document of a fleet's health."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from offpath.health.fleet import FleetHealth
from offpath.model.deaths import Whose
from offpath.model.finding import FindingRecord
from offpath.model.tally import Verdict
from offpath.operating.documents import workers
from offpath.operating.documents.fields import filled
from offpath.operating.documents.flow import (
    LimitDocument,
    QueueDocument,
    describe_limit,
    describe_queue,
)
from offpath.operating.documents.workers import WorkerDocument


class WaitingDocument(Struct, frozen=True, kw_only=True):
    """The age of the oldest of a kind that waits, against its limit. Seconds."""

    name: str
    age: float | None
    limit: float | None
    router: str | None
    closed: bool


class DyingDocument(Struct, frozen=True, kw_only=True):
    """New dead letters of one name, against their limits."""

    whose: Whose
    name: str
    dead: int
    share: float | None
    most: int | None
    most_share: float | None


class SettlementDocument(Struct, frozen=True, kw_only=True):
    """The last settlement run of a kind."""

    kind: str
    period: str
    verdict: Verdict
    started_at: datetime
    attempted: int
    credited: int
    failed: int
    skipped: int
    consecutive_failures: int
    cause: str | None


class HealthDocument(Struct, frozen=True, kw_only=True):
    """The health of a fleet: healthy, or each reason why not."""

    ready: bool
    reasons: tuple[str, ...]
    workers: tuple[WorkerDocument, ...]
    waiting: tuple[WaitingDocument, ...]
    findings: tuple[FindingRecord, ...]
    dying: tuple[DyingDocument, ...]
    settlements: tuple[SettlementDocument, ...]
    warnings: tuple[str, ...]
    paused_queues: tuple[QueueDocument, ...]
    limits: tuple[LimitDocument, ...]


def describe(fleet: FleetHealth) -> HealthDocument:
    """The document of a fleet's health."""
    return HealthDocument(
        ready=fleet.healthy,
        reasons=fleet.reasons,
        workers=tuple(workers.describe(one) for one in fleet.members),
        waiting=tuple(filled(WaitingDocument, one) for one in fleet.gauges),
        findings=fleet.findings,
        dying=tuple(filled(DyingDocument, one) for one in fleet.dying),
        settlements=tuple(filled(SettlementDocument, one) for one in fleet.settlements),
        warnings=fleet.warnings,
        paused_queues=tuple(describe_queue(one) for one in fleet.queues),
        limits=tuple(describe_limit(one) for one in fleet.limits),
    )

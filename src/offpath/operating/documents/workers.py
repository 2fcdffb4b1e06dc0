"""Documents of workers."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from offpath.health.fleet import FleetMember, WorkerPresence
from offpath.model.health import WorkerReport
from offpath.model.lease import WorkerInfo
from offpath.operating.documents.fields import filled


class WorkerDocument(Struct, frozen=True, kw_only=True):
    """A worker: its record, whether it is there, and what it last said of itself."""

    info: WorkerInfo
    started_at: datetime
    seen_at: datetime
    expires_at: datetime
    late: bool
    running: int
    presence: WorkerPresence
    report: WorkerReport | None
    gone_at: datetime | None
    ill: str | None


def describe(member: FleetMember) -> WorkerDocument:
    """The document of a worker."""
    said = {"presence": member.presence, "report": member.report, "ill": member.ill}
    return filled(WorkerDocument, member.record, **said)

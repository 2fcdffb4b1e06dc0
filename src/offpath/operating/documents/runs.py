"""Documents of runs: passes of sweeps that found something, and settlement runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from offpath.model.redact import redact_text
from offpath.model.run import RunKind, RunRecord
from offpath.model.tally import Verdict
from offpath.operating.documents.fields import filled
from offpath.operating.documents.pages import DocumentPage


class RunDocument(Struct, frozen=True, kw_only=True):
    """A run that is kept: the newest fifty of each name are."""

    id: str
    kind: RunKind
    name: str
    at: datetime
    """The time when it began."""
    verdict: Verdict
    seconds: float
    counts: dict[str, int]
    passes: int
    """The passes that it stands for: those that went well are told together."""
    worker: str
    period: str | None
    cause: str | None


class RunPage(DocumentPage[RunDocument], frozen=True, kw_only=True):
    """A page of runs, newest first; ``next`` is given back as ``after``."""


def describe(one: RunRecord) -> RunDocument:
    """The document of a run."""
    report = one.report
    cause = None if report.cause is None else redact_text(report.cause)
    return filled(
        RunDocument,
        report,
        id=one.id,
        kind=one.kind,
        name=one.name,
        at=one.at,
        cause=cause,
    )


def describe_page(found: Sequence[RunRecord], limit: int) -> RunPage:
    """The document of a page of up to ``limit``."""
    items = tuple(map(describe, found[:limit]))
    return RunPage(items=items, next=items[-1].id if len(found) > limit else None)

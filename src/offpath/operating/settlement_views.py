"""The view of settlement runs: kinds, what live workers tell of them, and who asked for which."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from offpath.app import App
from offpath.health.fleet import FleetMember, WorkerPresence, member
from offpath.health.settlement import KindInfo
from offpath.model.action import ActionFilter, ActionRecord
from offpath.model.redact import redact_text
from offpath.model.run import RunKind, RunRecord
from offpath.operating.documents.fields import filled
from offpath.operating.documents.settlements import (
    KindRunDocument,
    SettlementKindDocument,
    SettlementList,
    SettlementPeriodDocument,
    SettlementRunDocument,
)
from offpath.operating.redaction import decoded

_RUNS: Final = 50
_ASKED: Final = ActionFilter(verbs=("settlement.run",))


async def settlements(app: App, kinds: Sequence[KindInfo]) -> SettlementList:
    """The kinds with their last runs, the newest runs that are kept, and who asked for which."""
    store = app.store()
    workers, asked, kept = await asyncio.gather(
        app.workers(),
        store.actions(_ASKED, limit=_RUNS),
        store.runs(kind=RunKind.SETTLEMENT, limit=_RUNS),
    )
    told = [member(one) for one in workers]
    live = [one for one in told if one.presence is WorkerPresence.LIVE]
    return SettlementList(
        kinds=tuple(
            filled(SettlementKindDocument, one, last=_last(one.kind, live)) for one in kinds
        ),
        runs=tuple(map(_run, asked)),
        periods=tuple(map(_period, kept)),
    )


def _period(record: RunRecord) -> SettlementPeriodDocument:
    report = record.report
    counts = {name: report.counts.get(name, 0) for name in ("credited", "skipped", "failed")}
    return SettlementPeriodDocument(
        kind=record.name,
        period=report.period,
        at=record.at,
        seconds=report.seconds,
        verdict=report.verdict,
        attempted=sum(counts.values()),
        warning=None if report.cause is None else redact_text(report.cause),
        **counts,
    )


def _last(kind: str, live: Iterable[FleetMember]) -> KindRunDocument | None:
    """The newest run of a kind among those that live workers tell of."""
    found = [
        filled(KindRunDocument, run, worker=one.record.info.id)
        for one in live
        for run in (() if one.report is None else one.report.settlements)
        if run.kind == kind
    ]
    return max(found, key=lambda one: one.started_at, default=None)


def _run(record: ActionRecord) -> SettlementRunDocument:
    target = decoded(record.target)
    named = target if isinstance(target, dict) else {}
    return filled(
        SettlementRunDocument,
        record,
        action=record.id,
        kind=str(named.get("kind", "")),
        period=str(named.get("period", "")),
        credited=record.changed,
        credited_before=record.reasons.get("credited_before", 0),
        failed=record.reasons.get("failed", 0),
        error=None if record.error is None else redact_text(record.error),
    )

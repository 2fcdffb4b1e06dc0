"""Runs of sweeps and settlements: kept, and listed."""

from __future__ import annotations

from offpath.model.run import MOST_KEPT, RunKind, RunRecord, read, written
from offpath.store.programs.dialect import Dialect, Send, Steps, one
from offpath.store.rows.instants import from_seconds, whole_seconds

_KINDS = frozenset(RunKind)


def put(d: Dialect, run: RunRecord) -> Steps[None]:
    """Keep one, and of its name no more than the newest."""
    added = d.sql["add_run"](
        id=run.id,
        kind=run.kind.value,
        name=run.name,
        at=whole_seconds(run.at),
        body=written(run.report),
    )
    kept = d.sql["trim_runs"](kind=run.kind.value, name=run.name, keep=MOST_KEPT)
    yield Send((added, kept), last=True)


def listed(
    d: Dialect,
    *,
    kind: RunKind | None = None,
    name: str | None = None,
    limit: int = 50,
    after: str | None = None,
) -> Steps[list[RunRecord]]:
    """Runs, the newest first."""
    if limit <= 0:
        return []
    given = None if kind is None else kind.value
    rows = yield from one(d.sql["runs"](kind=given, name=name, limit=limit, after=after))
    return [
        RunRecord(id=id_, kind=RunKind(of), name=called, at=from_seconds(at), report=read(body))
        for id_, of, called, at, body in rows
        # A later release that shares the database may keep kinds that this one does not know.
        if of in _KINDS
    ]

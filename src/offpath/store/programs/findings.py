"""Findings: what is wrong, since when, and who accepted it."""

from __future__ import annotations

from offpath.model.finding import FindingRecord
from offpath.store.programs.answers import FindingRow
from offpath.store.programs.dialect import Dialect, Rows, Send, Steps, one
from offpath.store.programs.instants import instant


def listed(d: Dialect) -> Steps[list[FindingRecord]]:
    """Findings that stand, by name."""
    return _records((yield from one(d.sql["findings"]())))


def record(d: Dialect, name: str, text: str, *, new_id: str) -> Steps[FindingRecord]:
    """Note that something was found.

    Two statements, since the second one must see that the first has ended an accepted one.
    """
    passed = d.sql["pass_finding"](name=name, text=text, now=d.now)
    found = d.sql["record_finding"](name=name, text=text, id=new_id, now=d.now)
    _, rows = yield Send((passed, found), last=True)
    return _records(rows)[0]


def end(d: Dialect, name: str) -> Steps[bool]:
    """Note that it is not so any more: kept if somebody accepted it, else forgotten."""
    forget = d.sql["forget_finding"](name=name)
    forgotten, ended = yield Send((forget, d.sql["end_finding"](name=name, now=d.now)), last=True)
    return bool(forgotten or ended)


def accept(d: Dialect, finding: str, reason: str) -> Steps[FindingRecord | None]:
    """Accept the finding of this id; who accepted it first did."""
    query = d.sql["accept_finding"](id=finding, reason=reason, now=d.now)
    return next(iter(_records((yield from one(query)))), None)


def _records(rows: Rows) -> list[FindingRecord]:
    return [_record(FindingRow._make(row)) for row in rows]


def _record(row: FindingRow) -> FindingRecord:
    return FindingRecord(
        id=row.id,
        name=row.name,
        text=row.text,
        since=instant(row.since),
        seen_at=instant(row.seen_at),
        accepted_at=instant(row.accepted_at),
        reason=row.reason,
    )

"""Health: what died, who holds a limit, how far behind routers are, what was found and declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from offpath.model.deaths import Deaths, Whose
from offpath.model.declaration import KEEP, LIVE, Declaration
from offpath.model.finding import FindingRecord
from offpath.model.limit import LimitHolder
from offpath.model.route import RouterLag
from offpath.store.programs.answers import DeclarationRow, FindingRow
from offpath.store.programs.dialect import Dialect, Rows, Send, Steps, one
from offpath.store.programs.instants import readable


def deaths(
    d: Dialect, *, since: datetime | None = None, limit: int = 10_000
) -> Steps[list[Deaths]]:
    """Dead letters by whose they are and name."""
    rows = yield from one(d.sql["deaths"](since=d.at(since), limit=max(limit, 0)))
    return [Deaths(whose=Whose(whose), name=name, count=count) for whose, name, count in rows]


def limit_holders(d: Dialect, keys: Sequence[str]) -> Steps[Sequence[LimitHolder]]:
    """The running job of each of these keys that began last."""
    rows = yield from one(d.sql["limit_holders"](keys=d.batch(list(keys))))
    return [
        LimitHolder(key=key, job=job, task=task, since=readable(started_at))
        for key, job, task, started_at in rows
    ]


def router_lags(d: Dialect) -> Steps[Sequence[RouterLag]]:
    """The time since which each router's oldest committed event has waited."""
    rows = yield from one(d.sql["router_lags"]())
    return [
        RouterLag(router=router, open=bool(opened), oldest_at=readable(oldest_at))
        for router, opened, oldest_at in rows
    ]


# -- findings --------------------------------------------------------------------------------


def findings(d: Dialect) -> Steps[list[FindingRecord]]:
    """Findings that stand, by name."""
    return _records((yield from one(d.sql["findings"]())))


def record_finding(d: Dialect, name: str, text: str, *, new_id: str) -> Steps[FindingRecord]:
    """Note that something was found.

    Two statements, since the second one must see that the first has ended an accepted one.
    """
    passed = d.sql["pass_finding"](name=name, text=text, now=d.now)
    found = d.sql["record_finding"](name=name, text=text, id=new_id, now=d.now)
    _, rows = yield Send((passed, found), last=True)
    return _records(rows)[0]


def end_finding(d: Dialect, name: str) -> Steps[bool]:
    """Note that it is not so any more: kept if somebody accepted it, otherwise forgotten."""
    forget = d.sql["forget_finding"](name=name)
    forgotten, ended = yield Send((forget, d.sql["end_finding"](name=name, now=d.now)), last=True)
    return bool(forgotten or ended)


def accept_finding(d: Dialect, finding: str, reason: str) -> Steps[FindingRecord | None]:
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
        since=readable(row.since),
        seen_at=readable(row.seen_at),
        accepted_at=readable(row.accepted_at),
        reason=row.reason,
    )


# -- declarations ----------------------------------------------------------------------------------


class _Declared(msgspec.Struct):
    """A row that ``note_declarations`` takes."""

    name: str
    fingerprint: str


def declare(d: Dialect, kind: str, definitions: Mapping[str, str]) -> Steps[frozenset[str]]:
    """Note what is defined; the names of those that a newer definition overrules."""
    if not definitions:
        return frozenset()
    # By name: processes that start together write these rows in one order.
    batch = d.batch([_Declared(name, definitions[name]) for name in sorted(definitions)])
    # The question comes second: a statement does not see what it has itself written.
    _, rows, _ = yield Send(
        (
            d.sql["note_declarations"](kind=kind, batch=batch, now=d.now),
            d.sql["overruled_declarations"](kind=kind, batch=batch, live=d.span(LIVE), now=d.now),
            d.sql["forget_declarations"](kind=kind, keep=d.span(KEEP), now=d.now),
        ),
        last=True,
    )
    return frozenset(name for (name,) in rows)


def declarations(d: Dialect, kind: str) -> Steps[list[Declaration]]:
    """The recent declarations, by name, the newest first."""
    query = d.sql["live_declarations"](kind=kind, live=d.span(LIVE), now=d.now)
    return [_declaration(DeclarationRow._make(row)) for row in (yield from one(query))]


def _declaration(row: DeclarationRow) -> Declaration:
    return Declaration(
        name=row.name,
        fingerprint=row.fingerprint,
        first_seen=readable(row.first_seen),
        last_seen=readable(row.last_seen),
    )

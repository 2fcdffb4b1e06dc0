"""Rows that should not be there, as ``doctor`` finds them in each SQL database."""

from __future__ import annotations

from typing import Final

from offpath.store.programs.dialect import Dialect, Rows, Send, Steps
from offpath.store.protocol import Finding, Level

MOST: Final = 10_000
"""Rows that each of the checks looks at: a busy store is not to notice."""
_ODD: Final = "rows that should not be possible (jobs, gates, groups); mend or delete these"
_BEHIND: Final = "counters give what is there already"
_TORN: Final = "the ledger was altered from outside; prove it and go back to a backup"
_FINE: Final = {
    "groups": "each group counts its open jobs rightly",
    "holders": "each running job is held by a registered worker",
    "rows": "no row that should not be possible",
    "ledger": "no posting was altered from outside",
    "counters": "each counter is ahead of what is there",
}


def odd_rows(d: Dialect, remedy: str) -> Steps[list[Finding]]:
    """Look at the rows. ``remedy`` says how counters that are behind are set in this database."""
    torn, unheld, odd, altered, behind = yield Send(
        (
            d.sql["torn_groups"](most=MOST),
            d.sql["unheld"](),
            d.sql["odd_rows"](most=MOST),
            d.sql["ledger_odd"](most=MOST),
            d.sql["counters_behind"](),
        ),
        last=True,
    )
    return [
        _rows("groups", torn, "a wrong count of open jobs"),
        _rows("holders", unheld, "no registered worker; they are rescued"),
        _rows("rows", odd, _ODD, Level.PROBLEM),
        _rows("ledger", altered, _TORN, Level.PROBLEM),
        _rows("counters", behind, f"{_BEHIND}; {remedy}", Level.PROBLEM),
    ]


def _rows(name: str, rows: Rows, what: str, level: Level = Level.WARNING) -> Finding:
    if not rows:
        return Finding(name=name, level=Level.FINE, message=_FINE[name])
    ids = ", ".join(f"{id_} ({detail})" for id_, detail, *_ in rows)
    return Finding(name=name, level=level, message=f"{what}: {ids}")

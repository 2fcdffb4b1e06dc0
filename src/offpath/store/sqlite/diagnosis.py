"""The findings of a SQLite file, and of the library that reads it, about their state."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from offpath.store.protocol import Finding, Level
from offpath.store.sql import Row
from offpath.store.sqlite.file import log_of, mode_finding
from offpath.store.sqlite.session import SQL, Session

SOUND: Final = (3, 51, 3)
"""The first version in which two connections cannot damage the log by resetting it at once
(https://sqlite.org/wal.html, "the WAL-reset bug"). Ours checkpoint from one place only."""
BIG_LOG: Final = 256 * 2**20
"""Bytes: a log of this size is not being folded back into the file."""
MOST: Final = 10_000
"""Rows that each of the checks of rows looks at: a busy store is not to notice."""
ODD: Final = "rows that should not be possible (jobs, gates, groups); mend or delete these"
BEHIND: Final = (
    "counters give what is there already; set seq in sqlite_sequence to where they went, while "
    "nothing writes"
)
TORN: Final = "the ledger was altered from outside; prove it and go back to a backup"
OTHERS: Final = ("apsw", "pysqlite3", "sqlean", "libsql", "libsql_experimental")


def diagnose(session: Session, path: Path) -> list[Finding]:
    """Look at the library, the log, and rows that should not be."""
    mode = session.run(SQL["journal_now"]())[0][0]
    return [
        _version(),
        _other_libraries(),
        _journal(str(mode)),
        mode_finding(path),
        _log_size(path),
        _rows("groups", session.run(SQL["torn_groups"](most=MOST)), "a wrong count of open jobs"),
        _rows("holders", session.run(SQL["unheld"]()), "no registered worker; they are rescued"),
        _rows("rows", session.run(SQL["odd_rows"](most=MOST)), ODD, Level.PROBLEM),
        _rows("ledger", session.run(SQL["ledger_odd"](most=MOST)), TORN, Level.PROBLEM),
        _rows("counters", session.run(SQL["counters_behind"]()), BEHIND, Level.PROBLEM),
    ]


def _version() -> Finding:
    if sqlite3.sqlite_version_info >= SOUND:
        return Finding(name="sqlite", level=Level.FINE, message=f"SQLite {sqlite3.sqlite_version}")
    message = (
        f"SQLite {sqlite3.sqlite_version} can damage a log that two connections reset at once; "
        "offpath avoids that, other programs on this file may not: 3.51.3 mends it"
    )
    return Finding(name="sqlite", level=Level.WARNING, message=message)


def _other_libraries() -> Finding:
    loaded = [name for name in OTHERS if name in sys.modules]
    if not loaded:
        return Finding(name="libraries", level=Level.FINE, message="one SQLite in this process")
    message = (
        f"{', '.join(loaded)} brings a second SQLite into this process: opening this file with it "
        "breaks the locks of the first and can lose committed rows"
    )
    return Finding(name="libraries", level=Level.PROBLEM, message=message)


def _journal(mode: str) -> Finding:
    level = Level.FINE if mode == "wal" else Level.PROBLEM
    return Finding(name="journal", level=level, message=f"journal mode is {mode}")


def _log_size(path: Path) -> Finding:
    log = log_of(path)
    size = log.stat().st_size if log.exists() else 0
    message = f"the write-ahead log has {size / 2**20:.1f} MiB"
    if size < BIG_LOG:
        return Finding(name="log", level=Level.FINE, message=message)
    advice = "some connection keeps a read transaction open, so it cannot be folded back"
    return Finding(name="log", level=Level.WARNING, message=f"{message}: {advice}")


def _rows(name: str, rows: Sequence[Row], what: str, level: Level = Level.WARNING) -> Finding:
    if not rows:
        return Finding(name=name, level=Level.FINE, message="as they should be")
    ids = ", ".join(f"{id_} ({detail})" for id_, detail, *_ in rows)
    return Finding(name=name, level=level, message=f"{what}: {ids}")

"""The findings of a SQLite file, and of the library that reads it, about their state."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from typing import Final

from offpath.store.programs.diagnosis import odd_rows
from offpath.store.programs.dialect import Dialect, Steps, ask
from offpath.store.protocol import Finding, Level
from offpath.store.sqlite.file import log_of, mode_finding

SOUND: Final = (3, 51, 3)
"""The first version in which two connections cannot damage the log by resetting it at once
(https://sqlite.org/wal.html, "the WAL-reset bug"). Ours checkpoint from one place only."""
BIG_LOG: Final = 256 * 2**20
"""Bytes: a log of this size is not being folded back into the file."""
REMEDY: Final = "set seq in sqlite_sequence to where they went, while nothing writes"
"""Behind counters that give what is there already."""
OTHERS: Final = ("apsw", "pysqlite3", "sqlean", "libsql", "libsql_experimental")


def diagnose(d: Dialect, path: Path) -> Steps[list[Finding]]:
    """Look at the library, the log, and rows that should not be."""
    ((mode,),) = yield from ask(d.sql["journal_now"]())
    return [
        _version(),
        _other_libraries(),
        _journal(str(mode)),
        mode_finding(path),
        _log_size(path),
        *(yield from odd_rows(d, REMEDY)),
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

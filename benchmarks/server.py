"""The CPU that a Postgres server on this machine has used."""

from __future__ import annotations

import os
import time
from pathlib import Path

_PARENT, _USER, _SYSTEM, _ENDED_USER, _ENDED_SYSTEM = 1, 11, 12, 13, 14
"""Places of fields in ``/proc/PID/stat`` behind the name of the program."""


def server_cpu(url: str) -> float | None:
    """Seconds of CPU of all its processes, ended ones included; None where they cannot be seen."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("show data_directory").fetchone()
    try:
        place = Path(row[0] if row else "") / "postmaster.pid"
        server = place.read_text(encoding="ascii").split()[0]
        fields = {
            each.name: _fields(each) for each in Path("/proc").iterdir() if each.name.isdigit()
        }
        own = fields[server]
    except (OSError, KeyError):
        return None
    ticks = sum(own[_USER : _ENDED_SYSTEM + 1])
    ticks += sum(sum(f[_USER : _SYSTEM + 1]) for f in fields.values() if f[_PARENT] == int(server))
    return ticks / os.sysconf("SC_CLK_TCK")


class CpuMeter:
    """The CPU of this process and of a database's sessions, exact enough for a single statement.

    Of a server elsewhere, and without one, it is that of this process.
    """

    def __init__(self, url: str | None = None) -> None:
        self._url = url
        self._sessions: list[Path] = []

    def spent(self) -> float:
        """Seconds until now. Sessions that begin after the first call do not count."""
        if self._url is not None and not self._sessions:
            self._sessions = _sessions(self._url)
        try:
            nanoseconds = sum(int(each.read_text().split()[0]) for each in self._sessions)
        except OSError:
            nanoseconds = 0
        return time.process_time() + nanoseconds / 1e9


def _sessions(url: str) -> list[Path]:
    import psycopg

    text = (
        "select pid from pg_stat_activity where datname = current_database() "
        "and pid <> pg_backend_pid() and backend_type = 'client backend'"
    )
    with psycopg.connect(url, autocommit=True) as connection:
        return [Path(f"/proc/{pid}/schedstat") for (pid,) in connection.execute(text)]


def _fields(process: Path) -> list[int]:
    try:
        text = (process / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it has ended
        return [0] * 20
    _, _, behind = text.rpartition(")")
    return [0, *(int(each) for each in behind.split()[1:20])]

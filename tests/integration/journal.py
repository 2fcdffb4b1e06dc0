"""The acts of handlers, written by the worker processes themselves, line by line.

A line is one ``write`` to a file opened for appending, so that a killed process leaves whole lines,
and the clock is the machine's monotonic one, which all processes share.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "OFFPATH_TEST_JOURNAL"


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that happened to a job in a process."""

    what: str
    job: str
    pid: int
    attempt: int
    """Or the delivery, as the handler that notes it decides."""
    at: float
    """Seconds of the monotonic clock."""


def note(what: str, job: str, attempt: int = 0, pid: int | None = None) -> None:
    """Write a line to the journal that the environment names."""
    line = f"{what} {job} {pid or os.getpid()} {attempt} {time.monotonic()}\n"
    descriptor = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Journal:
    """Reads it."""

    path: Path

    def all(self, what: str, job: str | None = None) -> list[Entry]:
        """Every entry of one kind, in the order of writing."""
        text = self.path.read_text() if self.path.exists() else ""
        found = [_entry(line) for line in text.splitlines()]
        return [one for one in found if one.what == what and job in {None, one.job}]

    def times(self, what: str) -> Counter[str]:
        """The number of entries of this kind for each job."""
        return Counter(one.job for one in self.all(what))


def _entry(line: str) -> Entry:
    what, job, pid, attempt, at = line.split()
    return Entry(what, job, int(pid), int(attempt), float(at))

"""Facts of the operating system about another process of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_STOPPED: Final = frozenset("Tt")
"""Stopped by a signal, or by a debugger."""


def stopped(pid: int) -> bool:
    """True if a process is there and stands still; False where that cannot be told."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    # the name of the program stands before it in brackets, and may hold any byte
    state = stat.rpartition(b")")[2].split(maxsplit=1)
    return bool(state) and state[0].decode("ascii", "replace") in _STOPPED

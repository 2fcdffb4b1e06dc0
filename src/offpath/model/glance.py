"""The concerns of upkeep: what a glance at the store may find to be done."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Concern(StrEnum):
    """One pass of upkeep that may find something."""

    DEATHS = "deaths"
    """Workers may be gone: ``notice_deaths`` and ``rescue``."""
    WAITS = "waits"
    """Something may be over: ``expire_blocked``, ``close_groups`` and ``undoing``."""
    LIMITS = "limits"
    """Held jobs may be let in: ``admit``."""
    WORK = "work"
    """Jobs are ready, or may be due within :data:`AHEAD` seconds: ``lease``."""
    SCHEDULES = "schedules"
    """Schedules are due, or will be within :data:`AHEAD` seconds: ``due_schedules``."""


AHEAD: Final = 2.0
"""Seconds: longer than a glance is trusted, so what comes due meanwhile is named by it."""
APART: Final = 0.4
"""Seconds between two looks that condemn a worker whose connection is missing. One that was cut is
made anew within a tenth of a second, or spoken for by the worker's thread within three."""
EVERYTHING = frozenset(Concern)
"""The answer of a store that cannot tell at a glance."""

"""The concerns of upkeep: what a glance at the store may find to be done."""

from __future__ import annotations

from enum import StrEnum


class Concern(StrEnum):
    """One pass of upkeep that may find something."""

    DEATHS = "deaths"
    """Workers may be gone: ``notice_deaths`` and ``rescue``."""
    WAITS = "waits"
    """Something may be over: ``expire_blocked``, ``close_groups`` and ``undoing``."""
    LIMITS = "limits"
    """Held jobs may be let in: ``admit``."""


EVERYTHING = frozenset(Concern)
"""The answer of a store that cannot tell at a glance."""

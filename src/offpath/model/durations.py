"""Durations as people write them: ``30`` (seconds), ``500ms``, ``90s``, ``5m``, ``2h``, ``7d``."""

from __future__ import annotations

import re
from typing import Final

FORM: Final = "30 (seconds), 500ms, 90s, 5m, 2h or 7d"
"""The forms, for errors and help."""
_UNITS: Final = {
    "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0, "": 1.0,
}  # fmt: skip
_WRITTEN: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w|)\s*", re.ASCII)


def seconds_of(text: str) -> float | None:
    """The seconds of a duration; None if the text is not one."""
    found = _WRITTEN.fullmatch(text)
    return None if found is None else float(found[1]) * _UNITS[found[2]]

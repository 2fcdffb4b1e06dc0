"""The ids that begin with a text: unique beginnings stand for whole ids wherever one is given."""

from __future__ import annotations

import re
from typing import Final

LEAST: Final = 4
"""Characters that a beginning must have."""
_LENGTH: Final = 32
_HEX: Final = re.compile(r"[0-9a-f]{1,32}")


def id_range(beginning: str) -> tuple[str, str] | None:
    """The first and the last id that begin with a text; None for what no id begins with.

    Dashes count where ids have them and may be left out; capitals are small letters.
    """
    digits = beginning.strip().lower().replace("-", "")
    if len(digits) < LEAST or _HEX.fullmatch(digits) is None:
        return None
    return _dashed(digits.ljust(_LENGTH, "0")), _dashed(digits.ljust(_LENGTH, "f"))


def _dashed(digits: str) -> str:
    parts = digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]
    return "-".join(parts)

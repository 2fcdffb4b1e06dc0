"""Faults: failures that have one cause are one, whatever id or address stands in their texts."""

from __future__ import annotations

import re
from typing import Final

from offpath.model.redact import redact_text

LONGEST: Final = 200
"""Characters of a fault's text."""
_ANY: Final = "<…>"
_PARTS: Final = re.compile(
    r"""
    \b[\w+.-]+://\S+                                # an address of the web
    | [\w.+-]+@[\w-]+\.[\w.-]+                      # an address of mail
    | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*"         # what is quoted
    | (?<![\w/])(?:/[\w.@+-]+){2,}/?                # a path
    | \b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b
    | \b0x[0-9a-fA-F]+\b
    | \b(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{8,}\b         # a hash
    | \d+(?:[.,:]\d+)*                              # a number, a time, an address of a network
    """,
    re.VERBOSE,
)
_SEEN: Final = 2_000
"""Characters of a message that are looked at: its first line may be a megabyte."""


def fault_text(message: str) -> str:
    """The first line of a failure's message, with everything that differs from one to the next
    replaced: numbers, ids, quoted parts, addresses, paths. Secrets are hidden before.
    """
    line = next((one for one in message[:_SEEN].splitlines() if one.strip()), "").strip()
    plain = _PARTS.sub(_ANY, redact_text(line))
    return plain if len(plain) <= LONGEST else plain[: LONGEST - 1] + "…"

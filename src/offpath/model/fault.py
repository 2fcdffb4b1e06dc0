"""Faults: failures that have one cause are one, whatever id or address stands in their texts."""

from __future__ import annotations

import re
from typing import Final

from offpath.model.redact import redact_text

LONGEST: Final = 200
"""Characters of a fault's text."""
LONGEST_TYPE: Final = 200
"""Characters of a type's name in a key."""
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


def fault_key(kind: str, message: str) -> str:
    """The key of a failure: its type, and the text that it shares with others of its cause.

    Computed where a failure is handed over to be stored, never by a database.
    """
    return f"{kind[:LONGEST_TYPE]}: {fault_text(message)}".replace(
        "\0", "\N{REPLACEMENT CHARACTER}"
    )


def key_parts(key: str | None) -> tuple[str | None, str]:
    """The type and the text of a key; None and nothing for a death without one."""
    if key is None:
        return None, ""
    kind, _, text = key.partition(": ")
    return kind, text


def fault_text(message: str) -> str:
    """The first line of a failure's message, with everything that differs from one to the next
    replaced: numbers, ids, quoted parts, addresses, paths. Secrets are hidden before.
    """
    line = next((one for one in message[:_SEEN].splitlines() if one.strip()), "").strip()
    plain = _PARTS.sub(_ANY, redact_text(line))
    return plain if len(plain) <= LONGEST else plain[: LONGEST - 1] + "…"

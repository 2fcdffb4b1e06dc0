"""Definitions in code that several processes may give differently, as in a rolling deploy."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Final

from msgspec import Struct, json

LIVE: Final = 120.0
"""Seconds for which a declaration counts after it was made."""
EVERY: Final = 30.0
"""Seconds between two declarations of one process."""
HOOK: Final = "hook"
"""The kind of declaration by which workers tell which hooks of the fleet somebody listens to."""
ORPHANS: Final = "on_orphan_group"
KEEP: Final = 30 * 86_400.0
"""Seconds after which a declaration is forgotten: the same one is a new one then."""


class Declaration(Struct, frozen=True, kw_only=True):
    """A definition that live processes have, among others of its name."""

    name: str
    fingerprint: str
    first_seen: datetime
    last_seen: datetime


def fingerprint(definition: object) -> str:
    """The fingerprint of a definition: two that mean the same have the same one."""
    text = json.encode(definition, order="deterministic")
    return hashlib.sha256(text).hexdigest()

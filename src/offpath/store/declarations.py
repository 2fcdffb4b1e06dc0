"""The part of the store that knows which definitions the code of live processes has.

The rules of the store's protocol hold here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from offpath.model.declaration import Declaration


class DeclarationStore(Protocol):
    """Declared definitions, by kind and name."""

    async def declare(self, kind: str, definitions: Mapping[str, str]) -> frozenset[str]:
        """Note what the caller's code defines (name to fingerprint); the names that are overruled.

        One is overruled by another fingerprint of its name that was first declared later and was
        declared within the last :data:`~offpath.model.declaration.LIVE` seconds. A repeat keeps the
        time of the first one, so a process of an older version that starts again stays the older.
        What nobody has declared for :data:`~offpath.model.declaration.KEEP` seconds is forgotten.
        """
        ...

    async def declarations(self, kind: str) -> list[Declaration]:
        """The recent declarations of a kind, by name, the newest first (at most 10,000)."""
        ...

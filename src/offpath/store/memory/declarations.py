"""The part of the memory store that knows what the code of live processes defines."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from offpath.model.declaration import KEEP, LIVE, Declaration
from offpath.store.memory.part import MemoryPart

_MOST: Final = 10_000


class MemoryDeclarations(MemoryPart):
    """A :class:`~offpath.store.declarations.DeclarationStore`. No method waits."""

    async def declare(self, kind: str, definitions: Mapping[str, str]) -> frozenset[str]:
        """Note what is defined; the names that are overruled."""
        rows, now = self._tables.declarations, self._clock.now()
        for name, text in definitions.items():
            made = Declaration(name=name, fingerprint=text, first_seen=now, last_seen=now)
            known = rows.get((kind, name, text), made)
            rows[kind, name, text] = replace(known, last_seen=max(known.last_seen, now))
        overruled = frozenset(
            name for name, text in definitions.items() if self._newest(kind, name) != text
        )
        old = now - timedelta(seconds=KEEP)
        for key, row in list(rows.items()):
            if key[0] == kind and row.last_seen < old:
                del rows[key]
        return overruled

    async def declarations(self, kind: str) -> list[Declaration]:
        """The recent declarations, by name, the newest first."""
        live = self._live(kind)
        live.sort(key=lambda row: (row.first_seen, row.fingerprint), reverse=True)
        return sorted(live, key=lambda row: row.name)[:_MOST]

    def _live(self, kind: str) -> list[Declaration]:
        since = self._clock.now() - timedelta(seconds=LIVE)
        rows = self._tables.declarations
        return [row for key, row in rows.items() if key[0] == kind and row.last_seen > since]

    def _newest(self, kind: str, name: str) -> str:
        live = [row for row in self._live(kind) if row.name == name]
        return max(live, key=lambda row: (row.first_seen, row.fingerprint)).fingerprint

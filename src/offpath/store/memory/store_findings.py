"""The part of the memory store that keeps findings."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from offpath.model.finding import FindingRecord
from offpath.store.memory.part import Part

_MOST: Final = 1000


class MemoryFindings(Part):
    """A :class:`~offpath.store.findings.FindingStore`. No method waits, so each is one step."""

    async def findings(self) -> list[FindingRecord]:
        """The findings that stand, by name."""
        standing = self._tables.findings
        return [standing[name] for name in sorted(standing)[:_MOST]]

    async def record_finding(self, name: str, text: str, *, new_id: str) -> FindingRecord:
        """Note that something was found."""
        standing, now = self._tables.findings, self._clock.now()
        known = standing.get(name)
        if known is None or (known.accepted_at is not None and known.text != text):
            found = FindingRecord(id=new_id, name=name, text=text, since=now, seen_at=now)
        else:
            found = replace(known, text=text, seen_at=now)
        standing[name] = found
        return found

    async def end_finding(self, name: str) -> bool:
        """Note that it is not so any more; with the process ends what is kept for audits too."""
        return self._tables.findings.pop(name, None) is not None

    async def accept_finding(self, finding: str, reason: str) -> FindingRecord | None:
        """Accept the finding of this id."""
        standing = self._tables.findings
        known = next((one for one in standing.values() if one.id == finding), None)
        if known is not None and known.accepted_at is None:
            known = replace(known, accepted_at=self._clock.now(), reason=reason)
            standing[known.name] = known
        return known

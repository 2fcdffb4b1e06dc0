"""The instrumented store's findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpath.store.watching import Watching

if TYPE_CHECKING:
    from offpath.model.finding import FindingRecord


class InstrumentedFindings(Watching):
    """The part of the instrumented store that keeps findings."""

    async def findings(self) -> list[FindingRecord]:
        """As the store does."""
        return await self._timed("findings", self._inner.findings())

    async def record_finding(self, name: str, text: str, *, new_id: str) -> FindingRecord:
        """As the store does."""
        call = self._inner.record_finding(name, text, new_id=new_id)
        return await self._timed("record_finding", call)

    async def end_finding(self, name: str) -> bool:
        """As the store does."""
        return await self._timed("end_finding", self._inner.end_finding(name))

    async def accept_finding(self, finding: str, reason: str) -> FindingRecord | None:
        """As the store does."""
        return await self._timed("accept_finding", self._inner.accept_finding(finding, reason))

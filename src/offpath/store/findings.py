"""The part of the store that keeps findings: what is wrong, since when, and who accepted it.

The rules of the store's protocol hold here too. A finding is kept so that every process, and
whoever looks an hour later, knows of what one pass of one worker has seen.
"""

from __future__ import annotations

from typing import Protocol

from offpath.model.finding import FindingRecord


class FindingStore(Protocol):
    """Findings that stand, by name."""

    async def findings(self) -> list[FindingRecord]:
        """The findings that stand, accepted ones too, by name: at most 1,000."""
        ...

    async def record_finding(self, name: str, text: str, *, new_id: str) -> FindingRecord:
        """Note that something was found; the finding as it stands now.

        One of this name that stands is seen again, and gets this text; its id and its ``since``
        stay. One that was accepted with another text ends, and what was found is a new one, of the
        id ``new_id``. So is one of a name of which none stands. A repeat changes only ``seen_at``.
        """
        ...

    async def end_finding(self, name: str) -> bool:
        """Note that it is not so any more. False: none of this name stands.

        One that was accepted is kept for audits; one that was not is forgotten.
        """
        ...

    async def accept_finding(self, finding: str, reason: str) -> FindingRecord | None:
        """Accept the finding of this id; as it is then. None: none of this id stands.

        Accepted again, it stays as it was accepted first.
        """
        ...

"""Findings: what is wrong with what a store keeps, from the moment at which it was first seen."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


class FindingRecord(Struct, frozen=True, kw_only=True):
    """A finding as the store has it. Of one name there is one that stands at a time."""

    id: str
    name: str
    """The subject of the finding, such as ``ledger.mismatch``: lower case, parted by dots."""
    text: str
    """The text of the finding, for people; it changes with each time that it is found again."""
    since: datetime
    """The time when it was first found."""
    seen_at: datetime
    """The time when it was found the last time."""
    accepted_at: datetime | None = None
    """The time when somebody accepted it: it stands, and hinders nothing any more."""
    reason: str | None = None
    """The reason why it was accepted."""

    @property
    def kind(self) -> str:
        """The first two parts of its name, of which there are few: ``limit.full``."""
        return ".".join(self.name.split(".")[:2])

    @property
    def line(self) -> str:
        """The finding and since when it stands, in one line."""
        since = self.since.isoformat(timespec="seconds")
        accepted = "" if self.hinders else f", accepted: {self.reason}"
        return f"{self.name}: {self.text} (since {since}{accepted})"

    @property
    def hinders(self) -> bool:
        """True if it stands and nobody has accepted it."""
        return self.accepted_at is None

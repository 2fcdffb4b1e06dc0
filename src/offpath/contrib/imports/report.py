"""The report of an import: what moved, what was left where it was and why, what runs there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

MOST_REASONS: Final = 200
"""Pairs of a name and a reason that are told apart; further ones are counted together."""


class LeftBehind(Struct, frozen=True, kw_only=True):
    """Rows that stayed where they were, for one reason."""

    name: str
    """The task's name there, or the schedule's."""
    reason: str
    count: int
    example: str
    """The id of one of them."""


class ImportReport(Struct, frozen=True, kw_only=True):
    """The outcome of an import; of a dry run, what it would be."""

    source: str
    dry_run: bool
    moved: Mapping[str, int]
    """The number of rows that are ours now, by the name of the task or the schedule here."""
    left: Sequence[LeftBehind]
    running: int
    """The number of jobs that run there: they are left to their worker."""


class ImportCount:
    """Counts rows as an import passes them."""

    def __init__(self) -> None:
        self._moved: Counter[str] = Counter()
        self._left: dict[tuple[str, str], tuple[int, str]] = {}

    def moved(self, name: str) -> None:
        """Count one that is ours now."""
        self._moved[name] += 1

    def left(self, name: str, example: str, reason: str) -> None:
        """Count one that stayed."""
        key = (name, reason)
        if key not in self._left and len(self._left) >= MOST_REASONS:
            key = ("…", "for other reasons")
        count, first = self._left.get(key, (0, example))
        self._left[key] = (count + 1, first)

    def report(self, source: str, *, dry_run: bool, running: int = 0) -> ImportReport:
        """The whole."""
        return ImportReport(
            source=source,
            dry_run=dry_run,
            moved=dict(sorted(self._moved.items())),
            left=[
                LeftBehind(name=name, reason=reason, count=count, example=example)
                for (name, reason), (count, example) in sorted(self._left.items())
            ],
            running=running,
        )

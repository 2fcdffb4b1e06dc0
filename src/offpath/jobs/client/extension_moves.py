"""The transitions of jobs, as extensions are told about them; an observer of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpath.store.telemetry import moves

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from offpath.runtime.extensions import Extensions
    from offpath.store.telemetry.moves import MoveStep


class ExtensionMoves:
    """Tells extensions of committed transitions. The end of a group is told without its value."""

    ends_only = False
    tasks = None

    def __init__(self, extensions: Extensions) -> None:
        self._extensions = extensions

    def moved(self, steps: Sequence[MoveStep], at: datetime) -> None:
        """Tell of these, in this order."""
        for step in steps:
            for event in moves.events(step, at):
                self._extensions.moved(event)

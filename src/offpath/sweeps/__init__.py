"""Sweeps: bounded passes over due rows, each row in its own error boundary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpath.runtime.late import late_names

if TYPE_CHECKING:
    from offpath.model.tally import SweepResult, SweepRun, Tally, Verdict
    from offpath.sweeps.context import SweepContext

__all__ = [
    "SweepContext",
    "SweepResult",
    "SweepRun",
    "Tally",
    "Verdict",
]

_PLACES = {
    "SweepContext": "offpath.sweeps.context",
    "SweepResult": "offpath.model.tally",
    "SweepRun": "offpath.model.tally",
    "Tally": "offpath.model.tally",
    "Verdict": "offpath.model.tally",
}

if not TYPE_CHECKING:  # so that a name that is not there is an error to type checkers
    __getattr__ = late_names(__name__, _PLACES)

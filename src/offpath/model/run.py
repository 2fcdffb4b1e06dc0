"""Runs: passes of sweeps that found something, and settlement runs, as they went."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from offpath.model.tally import Verdict

MOST_KEPT: Final = 50
"""Runs that are kept of each name."""
LONGEST_ERROR: Final = 500


class RunKind(StrEnum):
    """The things that run."""

    SWEEP = "sweep"
    SETTLEMENT = "settlement"


class RunReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a run."""

    verdict: Verdict = Verdict.CLEAN
    seconds: float = 0.0
    counts: dict[str, int] = {}
    passes: int = 1
    """The passes that it stands for: those that went well are told together."""
    worker: str = ""
    """The id of the worker's sweeps, or empty where no worker made it."""
    period: str | None = None
    """Of a settlement run."""
    cause: str | None = None
    """The reason why it is degraded or failed, in one line without secrets."""


class RunRecord(Struct, frozen=True, kw_only=True):
    """A run that is kept."""

    id: str
    kind: RunKind
    name: str
    at: datetime
    """The time when it began, by the clock of who made it."""
    report: RunReport


def written(report: RunReport) -> str:
    """An outcome as it is kept."""
    return msgspec.json.encode(report).decode()


def read(text: str) -> RunReport:
    """The outcome of such a text; what cannot be read says nothing."""
    try:
        return msgspec.json.decode(text, type=RunReport)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return RunReport(verdict=Verdict.FAILED, cause="this row cannot be read")

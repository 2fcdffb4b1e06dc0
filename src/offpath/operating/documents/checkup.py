"""The document of a checkup: what was checked, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from offpath.model.redact import redact_text
from offpath.operating.documents.fields import filled
from offpath.store.protocol import Finding, Level

_ORDER: Final = {Level.PROBLEM: 0, Level.WARNING: 1, Level.FINE: 2}


class CheckDocument(Struct, frozen=True, kw_only=True):
    """One thing that was checked."""

    name: str
    level: Level
    message: str
    """The finding, and what to do about it."""


class CheckupDocument(Struct, frozen=True, kw_only=True):
    """The last checkup of a store, problems first."""

    items: tuple[CheckDocument, ...] = ()
    checked_at: datetime | None = None
    """The time of the store when it ended; None while the first one goes on."""


def describe(findings: Sequence[Finding], at: datetime) -> CheckupDocument:
    """The document of findings."""
    told = (filled(CheckDocument, one, message=redact_text(one.message)) for one in findings)
    return CheckupDocument(
        items=tuple(sorted(told, key=lambda one: _ORDER[one.level])), checked_at=at
    )

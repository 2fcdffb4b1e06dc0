"""The changes that operators' calls and sweeps made."""

from __future__ import annotations

from offpath.model.changes import ChangedJob

__all__ = ["ChangedJob"]

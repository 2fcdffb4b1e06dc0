"""What operators' calls and sweeps changed."""

from __future__ import annotations

from offpath.model.changes import ChangedJob

__all__ = ["ChangedJob"]

"""What operators' calls and sweeps changed."""

from __future__ import annotations

from offpath.model.changes import Changed

__all__ = ["Changed"]

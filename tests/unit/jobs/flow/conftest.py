"""Workers over the memory store, with a clock that the test moves."""

from __future__ import annotations

from tests.unit.jobs.worker.conftest import rig

__all__ = ["rig"]

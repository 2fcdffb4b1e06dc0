"""Compensation: what a failed job had done is undone by new jobs."""

from __future__ import annotations

from datetime import datetime

from offpath.model.effects import Effects
from offpath.store.memory import effects as doors
from offpath.store.memory.tables import Tables


def compensate(tables: Tables, now: datetime, job_id: str, effects: Effects) -> bool:
    """Commit the effects once, and forget what the job had recorded."""
    if job_id not in tables.steps.to_undo:
        return False
    doors.commit(tables, now, effects)
    tables.steps.forget(job_id)
    return True

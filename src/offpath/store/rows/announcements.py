"""The text of a message about a job's change of state."""

from __future__ import annotations

from datetime import datetime

import msgspec

from offpath.model.announce import BITS, DETAILS, STREAM, sequence
from offpath.model.job import JobRecord, JobState
from offpath.model.new import Box, NewMessage
from offpath.runtime.ids import IdGenerator


def wanted(announce: int, before: JobRecord | None, after: JobRecord) -> bool:
    """True if this change is to be announced."""
    if before is not None and before.state is after.state:
        return False
    return bool(announce & BITS.get(after.state, 0))


def announcement(
    announce: int, before: JobRecord | None, job: JobRecord, now: datetime, new_id: IdGenerator
) -> NewMessage:
    """The message about this change."""
    payload: dict[str, object] = {
        "job": job.id,
        "task": job.task,
        "queue": job.queue,
        "previous": None if before is None else before.state.value,
        "state": job.state.value,
        "attempt": job.attempt,
        "sequence": sequence(job.state, job.deliveries, job.redrives),
        "at": now,
        "reason": job.reason,
    }
    if announce & DETAILS:
        ended = job.state is JobState.SUCCEEDED
        payload["result"] = job.result if ended else None
        payload["error"] = None if job.failure is None else job.failure.type
    return NewMessage(
        id=new_id(),
        box=Box.OUT,
        stream=STREAM,
        topic=f"job.{job.state.value}",
        key=job.id,
        payload=msgspec.json.encode(payload).decode(),
    )

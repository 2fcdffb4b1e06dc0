"""The standing of a job or group, in a line: for whoever waited without an answer."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from offpath.model.job import JobState
from offpath.model.joined_limits import shown

if TYPE_CHECKING:
    from offpath.model.group import GroupRecord
    from offpath.model.job import JobRecord
    from offpath.store.protocol import Store


async def untaken(job: JobRecord, store: Store) -> str:
    """The reason why no worker takes a queued job, where the fleet says so; otherwise nothing."""
    if job.state is not JobState.QUEUED:
        return ""
    queues = {one.name: one for one in await store.queues()}
    if (queue := queues.get(job.queue)) and (queue.paused or queue.paused_until):
        return f"; its queue {job.queue} is paused: offpath queues resume"
    live = [one.info for one in await store.workers() if one.gone_at is None and not one.late]
    serving = [info for info in live if not info.queues or job.queue in info.queues]
    if not serving:
        return f"; no live worker serves its queue {job.queue}"
    if not any(info.knows(job.task) for info in serving):
        return f"; no live worker of its queue {job.queue} knows its task {job.task}"
    return ""


def of_group(group: GroupRecord) -> str:
    """The number of its jobs that are still to end."""
    return f"{group.open} of its jobs are open, {group.failed} failed"


def of_job(job: JobRecord) -> str:
    """Its state, its attempt if it had one, and why it has not ended; without any foreign text."""
    failed = f" (the last one failed: {job.failures[-1].type})" if job.failures else ""
    begun = job.state is JobState.RUNNING or failed
    which = f", attempt {job.attempt}{failed}" if begun else ""
    return f"it is {job.state.value}{which}; {_why(job)}"


def _why(job: JobRecord) -> str:
    match job.state:
        case JobState.RUNNING:
            return f"worker {job.worker} has it"
        case JobState.BLOCKED if job.wait_event is not None:
            return f"it waits for the signal {job.wait_event}"
        case JobState.BLOCKED if job.gate is not None:
            return f"it waits behind the gate {job.gate}"
        case JobState.BLOCKED:
            return f"it waits for room under the limit {shown(job.limit_key)}"
        case _:
            due = job.run_at.astimezone(UTC).isoformat(timespec="seconds")
            return f"it is due at {due}, and no worker has taken it"

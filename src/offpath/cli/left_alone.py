"""The reasons why jobs that were given by id were left alone, as they are after the command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from offpath.app import App
from offpath.cli.selection import Selection
from offpath.model.amendment import Amendment
from offpath.model.changes import ChangedJob
from offpath.model.job import BlockReason, DeadReason, JobRecord, JobState
from offpath.operating.job_waits import waited_for

_LOOKED_AT = 100
"""Ids whose jobs are looked at: a person reads no more of these lines."""
_NAMED = 5
"""Failed jobs that are named."""


async def left_alone(
    app: App,
    changed: Sequence[ChangedJob],
    which: Selection,
    *,
    redrive: bool = False,
    dead: str | None = None,
    to: Amendment | None = None,
) -> Mapping[str, str]:
    """The reason of each job that was given by id and not changed; ``dead`` is that of one that
    is dead, a ``redrive`` names the failed jobs that one is behind, and of an amendment ``to`` it
    tells what a blocked one takes.
    """
    done = {one.id for one in changed}
    left = [one for one in which.ids if one not in done][:_LOOKED_AT]
    found = {one.id: one for one in await app.store().get(left)} if left else {}
    told = dict.fromkeys(left, "unknown")
    for one, job in found.items():
        if redrive and job.reason == DeadReason.UNSATISFIABLE:
            told[one] = await _behind(app, job)
        else:
            told[one] = dead if dead and job.state is JobState.DEAD else _state(job, to)
    return told


def _state(job: JobRecord, to: Amendment | None = None) -> str:
    state = f"its state is {job.state}" + (f" ({job.reason})" if job.reason else "")
    if to is None or job.state is not JobState.BLOCKED:
        return state
    signal = job.reason == BlockReason.SIGNAL
    return f"{state}: it takes {'a priority only' if signal else 'a priority and a deadline only'}"


async def _behind(app: App, job: JobRecord) -> str:
    gate = await waited_for(app, job)
    failed = list(gate["failed_jobs"]) if gate else []
    if not failed:
        return "behind jobs that can no more succeed"
    more = ", …" if len(failed) > _NAMED else ""
    return f"behind failed jobs, redrive those first: {', '.join(failed[:_NAMED])}{more}"

"""The waits of a job: what it waits for, and what it has recorded on its way."""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote
from typing import Any

import msgspec
from msgspec.structs import replace

from offpath.app import App
from offpath.errors import InvalidArgument
from offpath.health.fleet import member
from offpath.model.gate import Counting, GateRecord, GateState
from offpath.model.job import BlockReason, DeadReason, JobRecord, JobState
from offpath.model.joined_limits import is_joined, keys_of, shown
from offpath.model.limit import LimitRecord, QueueRecord
from offpath.operating.documents.flow import describe_limit, limit_state
from offpath.operating.documents.jobs import StepDocument, StepList
from offpath.operating.redaction import PLAIN, Redaction
from offpath.operating.times import when
from offpath.runtime.ids import parse_id
from offpath.store.capabilities import Profile

_LISTED = 5
"""Watched jobs that are named; a gate may watch thousands."""
_AT_GATE = {DeadReason.UNSATISFIABLE.value, DeadReason.GATE_TIMEOUT.value}
"""Reasons of jobs that died at their gates."""
_MARKS = {"sleep": "sleep", "wait": "wait", "missed": "wait that timed out"}
"""Records that are not steps of the handler's, by what their names begin with."""


async def steps_of(app: App, job: JobRecord) -> list[str]:
    """The names of what a job has recorded, as its handler knows it."""
    if not job.deliveries or not app.store().capabilities.offers(Profile.WORKFLOWS):
        return []
    return list(_names(await app.store().steps(job.id)))


def _names(recorded: Iterable[str]) -> Iterable[str]:
    for name in recorded:
        if (told := _name(name)) is not None:
            yield told


def _name(recorded: str) -> str | None:
    """The name of a record as its handler knows it; None for what is the library's own."""
    kind, _, rest = recorded.removeprefix("~").partition(" ")
    if not recorded.startswith("~"):
        return recorded
    if kind in _MARKS:
        return f"{_MARKS[kind]} {rest}"
    if kind.startswith("wait"):  # what came first did not fit, and the next was taken
        return f"wait {rest}, signal {kind.removeprefix('wait')}"
    return None


async def step_list(app: App, job_id: str, seen: Redaction = PLAIN) -> StepList:
    """The records of a job with their times. A job that is not there has none."""
    if not app.store().capabilities.offers(Profile.WORKFLOWS):
        return StepList(items=())
    found = await app.store().step_records(job_id)
    named = ((_name(one.name), one) for one in found)
    return StepList(
        items=tuple(
            StepDocument(name=name, at=one.at, result=seen.payload(one.result))
            for name, one in named
            if name is not None
        )
    )


async def holder_problems(app: App, job: JobRecord) -> list[str]:
    """The problems of the worker that holds a running job."""
    if job.state is not JobState.RUNNING:
        return []
    holders = [one for one in await app.workers() if one.info.id == job.worker]
    if not holders:
        return ["it is not there any more: another one takes the job"]
    holder = member(holders[0])
    late = [f"no sign of life since {when(holders[0].seen_at)}"] if holders[0].late else []
    return [*late, *(holder.report.problems if holder.report else ())]


async def wait_of(app: App, job: JobRecord) -> dict[str, Any] | None:
    """The thing that a job waits for, as JSON; None when it is a worker or the time alone."""
    if job.state is JobState.BLOCKED and job.reason == BlockReason.SIGNAL:
        target, event = job.wait_target, job.wait_event
        return {"kind": "signal", "target": target, "event": event, "text": _signal(job)}
    if job.state is JobState.BLOCKED and job.reason == BlockReason.GATE and job.gate:
        return await _gate_of(app, job.gate)
    if job.state in {JobState.QUEUED, JobState.BLOCKED}:
        pause = await _pause(app, job)
        return pause or (await _limit(app, job) if job.state is JobState.BLOCKED else None)
    return None


async def waited_for(app: App, job: JobRecord) -> dict[str, Any] | None:
    """The gate at which a job died, as JSON, and which jobs closed it; None for all others."""
    if job.state is not JobState.DEAD or job.reason not in _AT_GATE or not job.gate:
        return None
    return await _gate_of(app, job.gate)


async def _gate_of(app: App, gate_id: str) -> dict[str, Any] | None:
    gates = await app.store().gates((gate_id,))
    return await _gate(app, gates[0]) if gates else None


def _signal(job: JobRecord) -> str:
    target, event = quote(job.wait_target or ""), quote(job.wait_event or "")
    return f"signal {job.wait_event!r}: offpath jobs signal {target} {event}"


async def _gate(app: App, gate: GateRecord) -> dict[str, Any]:
    states = await app.store().states(gate.on)
    waiting = [one for one in gate.on if one not in states or not states[one].terminal]
    failed = [one for one in gate.on if states.get(one) in {JobState.DEAD, JobState.CANCELLED}]
    if gate.state is not GateState.OPEN:  # its own counts end when it is decided; jobs go on
        waiting = [one for one in waiting if one in states]
        succeeded = sum(state is JobState.SUCCEEDED for state in states.values())
        gate = replace(gate, succeeded=succeeded, failed=len(failed))
    counts = {"succeeded": gate.succeeded, "failed": gate.failed, "open": len(waiting)}
    return {
        "kind": "gate",
        "gate": gate.id,
        "state": gate.state.value,
        "need": gate.need,
        "of": gate.of.value,
        "watched": len(gate.on),
        **counts,
        "waiting_for": waiting[:_LISTED],
        "failed_jobs": failed[:_LISTED],
        "deadline": gate.deadline,
        "text": _gate_text(gate, waiting, failed),
    }


def _gate_text(gate: GateRecord, waiting: list[str], failed: list[str]) -> str:
    what = "to succeed" if gate.of is Counting.SUCCEEDED else "to end"
    text = (
        f"gate {gate.id}: {gate.need} of {len(gate.on)} jobs {what}; {gate.succeeded} succeeded, "
        f"{gate.failed} failed{_named(failed)}, {len(waiting)} open"
    )
    gone = len(gate.on) - gate.succeeded - gate.failed - len(waiting)
    if gate.state is not GateState.OPEN and gone:
        text += f", {gone} not in the store (any more)"
    if gate.unreadable:
        text += f"; its row cannot be read: {gate.unreadable}"
    if gate.deadline is not None:
        text += f", until {when(gate.deadline)}"
    return f"{text}: {_listed(waiting)}" if waiting else text


def _named(ids: list[str]) -> str:
    return f" ({_listed(ids)})" if ids else ""


def _listed(ids: list[str]) -> str:
    return " ".join(ids[:_LISTED]) + (" …" if len(ids) > _LISTED else "")


async def _limit(app: App, job: JobRecord) -> dict[str, Any] | None:
    if job.limit_key is None:
        return None
    name = shown(job.limit_key)
    known = await app.store().limits(keys=keys_of(job.limit_key))
    if not known:
        return {"kind": "limit", "key": name, "text": f"limit {name!r}"}
    described = [msgspec.to_builtins(describe_limit(one)) for one in known]
    text = "; ".join(_limit_text(one) for one in known)
    if is_joined(job.limit_key):
        return {"kind": "limit", "key": name, "limits": described, "text": text}
    return {"kind": "limit", **described[0], "text": text}


def _limit_text(limit: LimitRecord) -> str:
    most = "" if limit.max_running is None else f" of {limit.max_running}"
    state = limit_state(limit)
    paused = "" if state == "on" else f", {state}: offpath limits resume {quote(limit.key)}"
    return (
        f"limit {limit.key!r}: {limit.admitted}{most} admitted, {limit.running} running, "
        f"{limit.held} held{paused}"
    )


async def _pause(app: App, job: JobRecord) -> dict[str, Any] | None:
    known = [one for one in await app.store().queues(most=1) if one.name == job.queue]
    if not known or not (known[0].paused or known[0].paused_until):
        return None
    until = msgspec.to_builtins(known[0].paused_until)
    return {"kind": "pause", "queue": job.queue, "until": until, "text": _pause_text(known[0])}


def _pause_text(queue: QueueRecord) -> str:
    until = f" until {when(queue.paused_until)}" if queue.paused_until else ""
    return f"queue {queue.name!r} is paused{until}: offpath queues resume {quote(queue.name)}"


async def nobody_takes(app: App, target: str) -> str | None:
    """The reason why nobody will take a signal, where its target has the form of a job's id."""
    try:
        job_id = parse_id(target, "TARGET")
    except InvalidArgument:
        return None  # any other key is known to the handler alone
    found = await app.store().states((job_id,))
    if job_id not in found:
        return f"there is no job {job_id} (any more); the signal is kept"
    state = found[job_id]
    return f"job {job_id} is {state}: nobody takes the signal" if state.terminal else None

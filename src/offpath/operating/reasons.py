"""Reasons: why a job is where it is, in sentences, and the commands that change it."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from offpath.model.gate import GateState
from offpath.model.job import JobState
from offpath.operating.documents.actions import ActionDocument
from offpath.operating.documents.jobs import JobStanding
from offpath.operating.queue_service import QueueStanding


class JobShown(JobStanding, frozen=True, kw_only=True):
    """A job with the reasons why it is where it is, and what may be done about it."""

    cut: tuple[str, ...] = ()
    """The fields that were not read, for that took too long: they are empty here."""
    why: tuple[str, ...]
    commands: tuple[str, ...]
    """Commands of the terminal that change it."""
    history: tuple[ActionDocument, ...] = ()
    """The actions that named it, the newest first, among the last 200 on jobs. Those that chose it
    by a filter are not told apart.
    """


def reasons_of(job: JobStanding, queue: QueueStanding | None) -> tuple[str, ...]:
    """The reasons why a job is where it is, the first one first."""
    if job.unreadable:
        return (f"Its row cannot be read: {job.unreadable}",)
    match job.state:
        case JobState.DEAD:
            return _of_dead(job)
        case JobState.RUNNING:
            return tuple(f"Its worker: {one}" for one in job.worker_problems)
        case JobState.QUEUED | JobState.BLOCKED:
            return _of_waiting(job, queue)
        case JobState.CANCELLED:
            return ("Somebody cancelled it.",)
        case JobState.SUCCEEDED:
            return ()


def commands_of(job: JobStanding) -> tuple[str, ...]:
    """The commands that change a job in this state."""
    match job.state:
        case JobState.DEAD:
            failed = " ".join(_shut_by(job))  # put back, they have it wait again
            again = f"jobs redrive {failed}" if failed else f"dead redrive {job.id}"
            return (f"offpath {again}", f"offpath dead discard {job.id}")
        case JobState.RUNNING:
            return (f"offpath jobs cancel {job.id}",)
        case JobState.QUEUED | JobState.BLOCKED:
            return (*_releasing(job), f"offpath jobs cancel {job.id}")
        case JobState.CANCELLED | JobState.SUCCEEDED:
            return ()


def _shut_by(job: JobStanding) -> Sequence[str]:
    """The failed jobs, some of them, that keep a dead job's gate shut."""
    gate = job.waited_for
    if gate is None or gate["state"] != GateState.UNSATISFIABLE:
        return ()
    failed: Sequence[str] = gate["failed_jobs"]
    return failed


def _of_dead(job: JobStanding) -> tuple[str, ...]:
    last = job.failures[-1] if job.failures else None
    said = f" The last: {last.type}: {_first_line(last.message)}" if last else ""
    why = _DIED.get(job.reason or "", f"It died: {job.reason}.")
    first = f"{why.format(attempts=_counted(job.attempt, 'attempt'), losses=job.losses)}{said}"
    return (first, _sentence(job.waited_for["text"])) if job.waited_for else (first,)


_DIED = {
    "exhausted": "{attempts} failed, as many as its retry policy allows.",
    "aborted": "Its handler, or the classifier of its errors, gave it up.",
    "deadline": "Its deadline passed before it had succeeded.",
    "worker_lost": "{losses} workers were lost that held it.",
    "bad_input": "Its stored input does not fit the task as it is defined now.",
    "unsettleable": "Its result, or what it asked for, could not be stored.",
    "unsatisfiable": "It waited at a gate that cannot fire any more.",
    "gate_timeout": "It waited at a gate for as long as the gate's timeout allows.",
    "invalid_plan": "Its handler made a plan that cannot be carried out.",
}


def _of_waiting(job: JobStanding, queue: QueueStanding | None) -> tuple[str, ...]:
    if job.waits_for is not None:
        return (f"It waits for {job.waits_for['text']}",)
    if queue is not None and queue.problems:
        mine = [one for one in queue.problems if "task" not in one or one.endswith(f" {job.task}")]
        if mine:
            return tuple(_sentence(one) for one in mine)
    return ()


def _releasing(job: JobStanding) -> tuple[str, ...]:
    kind = None if job.waits_for is None else job.waits_for["kind"]
    match kind:
        case "signal":
            target, event = quote(job.wait_target or ""), quote(job.wait_event or "")
            return (f"offpath jobs signal {target} {event}",)
        case "pause":
            return (f"offpath queues resume {quote(job.queue)}",)
        case None if job.state is JobState.QUEUED:
            return (f"offpath jobs run-now {job.id}",)
    return ()


def _first_line(text: str) -> str:
    return next(iter(text.splitlines()), "")[:200]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]

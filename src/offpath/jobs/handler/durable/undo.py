"""Compensation: what is recorded of undo jobs, and the chain that they become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import json
from msgspec.structs import replace

from offpath.errors import InvalidArgument
from offpath.jobs.handler.durable.book import finished
from offpath.jobs.values.job import Job
from offpath.model.effects import Effects
from offpath.model.gate import Counting, NewGate
from offpath.model.group import GroupPolicy
from offpath.model.job import NewJob
from offpath.model.unsent import unsent
from offpath.runtime.ids import derive_id, new_id

if TYPE_CHECKING:
    from offpath.jobs.handler.durable.book import StepBook
    from offpath.model.wait import Undoing

_decoder = json.Decoder(NewJob)


async def on_abort(book: StepBook, undo: Job[Any, Any], name: str | None) -> None:
    """Record an undo job, once."""
    if not isinstance(undo, Job):
        raise InvalidArgument(
            f"on_abort takes a job as task.job(...) makes it, not {type(undo).__name__}"
        )
    key = book.own_key("undo", name)
    await finished(book.host.store.put_undo(book.run.job, key, recorded(unsent(undo).new)))


def recorded(undo: NewJob) -> str:
    """An undo job as it is recorded.

    It gets an id of its own: a job that is redriven after it was undone may have to be undone once
    more, by new jobs. Its unique key would let another job stand in for it.
    """
    plain = replace(undo, id=new_id(), unique=None, group_policy=GroupPolicy.SETTLE_ALL, gate=None)
    return json.encode(plain).decode()


def compensation(undoing: Undoing) -> Effects:
    """The chain that undoes a job: the last recorded first, each after the one before has ended.

    Made of what is recorded alone, so it is the same whoever makes it. Raises
    ``msgspec.DecodeError`` kinds for a record that this version cannot read.
    """
    jobs: list[NewJob] = []
    gates: list[NewGate] = []
    for text in reversed(undoing.undo):
        job = replace(_decoder.decode(text), parent=undoing.id)
        if jobs:
            before = jobs[-1].id
            gate = NewGate(id=derive_id(job.id, "gate"), on=(before,), need=1, of=Counting.SETTLED)
            gates.append(gate)
            job = replace(job, group_id=jobs[0].id, gate=gate.id, dependents=(before,))
        jobs.append(job)
    return Effects(jobs=tuple(jobs), gates=tuple(gates))

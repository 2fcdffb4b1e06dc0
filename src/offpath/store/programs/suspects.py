"""Suspects: handed out apart from other jobs, begun when their worker runs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from offpath.model import suspicion
from offpath.model.job import LeasedJob
from offpath.model.lease import LeaseRequest
from offpath.model.suspicion import MOST_READ, Suspect
from offpath.store.programs.dialect import Dialect, Rows, Send, Steps, ask, one
from offpath.store.sql import Query, Row


class SuspectRow(NamedTuple):
    """A suspect that may be had now."""

    id: str
    task: str
    queue: str
    crash: str
    place: Any
    """The name of its row, by which a lease of this database takes it."""
    left: int
    """The number of suspects of its crash that have not ended."""


Take = Callable[[Sequence[Any]], Steps[Rows]]
"""The statement that hands out jobs by their places, which each database has for itself."""


def apart(
    d: Dialect, request: LeaseRequest, take: Take, *, job: int, first: tuple[Query, ...] = ()
) -> Steps[tuple[Rows, bool]]:
    """Reserve a set of suspects: the rows of a lease, and whether there are any to be had.

    ``job`` is the column of the ids in these rows; ``first`` goes out before all else.
    """
    # What goes first makes due jobs ready, which may stay so if the look fails.
    *_, rows = yield Send((*first, _offered(d, request)), severable=True)
    chosen = _chosen(rows, request)
    taken = yield from take([suspect.place for suspect in chosen])
    if chosen:
        # Others may have taken some of them meanwhile, so only what came counts.
        mine = [row[job] for row in taken if row[job] is not None]
        ids = d.batch(mine)
        # Only of a job that runs alone does a crash prove that it was the cause.
        query = d.sql["reserve"](ids=ids, worker=request.worker, alone=len(mine) == 1)
        yield from ask(query, last=True)
    # The statement that takes them answers in no order of its own.
    order = {suspect.id: n for n, suspect in enumerate(chosen)}
    return sorted(taken, key=lambda row: order.get(row[job], 0)), bool(rows)


def offered(d: Dialect, request: LeaseRequest) -> Steps[bool]:
    """True if there are suspects to be had."""
    return bool((yield from one(_offered(d, request))))


def begin(d: Dialect, jobs: Sequence[LeasedJob]) -> Steps[set[str]]:
    """Reserved jobs run from now on; the ids of those that their holder still has."""
    mine = [_Reserved(job.id, job.worker, job.deliveries) for job in jobs]
    rows = yield from one(d.sql["begin_apart"](jobs=d.batch(mine), now=d.now))
    return {job for (job,) in rows}


class _Reserved(msgspec.Struct):
    """A job that its worker has, as ``begin_apart`` takes it."""

    id: str
    worker: str
    deliveries: int


def _offered(d: Dialect, request: LeaseRequest) -> Query:
    return d.sql["suspects"](
        now=d.now,
        worker=request.worker,
        tasks=d.batch([task for task, room in request.tasks.items() if room > 0]),
        queues=d.batch(request.queues),
        full=d.batch([queue for queue, room in request.queue_rooms.items() if room <= 0]),
        declined=d.ids(request.declined),
        # A bound: a crash of a worker with thousands of jobs makes as many suspects.
        limit=MOST_READ,
    )


def _chosen(rows: Sequence[Row], request: LeaseRequest) -> list[SuspectRow]:
    ready = {each.id: each for each in map(SuspectRow._make, rows)}
    if not ready:
        return []
    some = next(iter(ready.values()))  # the statement answers with those of one crash
    suspects = (Suspect(each.id, each.task, each.queue) for each in ready.values())
    most = suspicion.most_together(some.crash, some.left)
    return [ready[each] for each in suspicion.chosen(suspects, request, most)]

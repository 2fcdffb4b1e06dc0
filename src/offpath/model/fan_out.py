"""Large fan-outs: the jobs that one attempt queues, and the bound of one transaction.

A transaction that makes a hundred thousand jobs holds SQLite's writer for seconds. So the end of an
attempt makes *pieces* instead: jobs of a task of our own, each of which queues its part. The pieces
are made in the transaction that records the attempt's success, so all of the jobs will be queued
or none; no transaction is long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from offpath.errors import PlanError
from offpath.model.gate import NewGate
from offpath.model.job import NewJob

TASK: Final = "offpath.fan_out"
"""The task of the pieces. Every worker that runs tasks runs it too."""
PIECE: Final = 1_000
"""The most jobs of one piece."""
PIECE_BYTES: Final = 2**20
"""The size at which a piece is full. An input of half of that is written by itself."""
WHOLE: Final = 2 * PIECE
"""The most jobs that are queued without pieces: an ordinary fan-out costs nothing more."""

_BESIDE: Final = 200
"""The size of what a job has beside its input and options, about."""


def divided(
    jobs: Sequence[NewJob], gates: Sequence[NewGate], parent: str
) -> tuple[list[NewJob], list[NewJob]]:
    """The jobs that must be made in the transaction of the attempt's end, and the others.

    A unique key or an id of the caller's may be refused, which is the attempt's failure. A gate
    counts jobs that exist. A job of the others conflicts with nothing: its id is derived from its
    parent's.
    """
    watched = {job for gate in gates for job in gate.on}
    now: list[NewJob] = []
    later: list[NewJob] = []
    for job in jobs:
        free = job.unique is None and job.gate is None and job.id not in watched
        small = len(job.input) <= PIECE_BYTES // 2
        (later if free and small and _derived(job.id, parent) else now).append(job)
    return now, later


def _derived(job_id: str, parent: str) -> bool:
    """True for an id that ``derive_id`` made: the parent's time, and version 8."""
    return job_id[14:15] == "8" and job_id[:13] == parent[:13]


def require_bounded(
    jobs: Sequence[NewJob], gates: Sequence[NewGate], parent: str, most: int
) -> None:
    """Raise ``PlanError`` for more jobs than one transaction is to make."""
    if len(jobs) <= most:
        return
    now, _ = divided(jobs, gates, parent)
    if len(now) > most:
        raise PlanError(
            f"one attempt queues {len(now)} jobs that must be made in one transaction, since they "
            f"have gates, unique keys or ids of their own; at most {most} (max_children): queue "
            "jobs that each queue a part of them, wait for the group instead of a gate, or raise "
            "max_children and let others wait meanwhile"
        )


def parts(jobs: Iterable[NewJob]) -> list[list[NewJob]]:
    """The jobs as pieces, in their order, each for one queue."""
    filling: dict[str, list[NewJob]] = {}
    sizes: dict[str, int] = {}
    made: list[list[NewJob]] = []
    for job in jobs:
        part, size = filling.get(job.queue), sizes.get(job.queue, 0)
        more = len(job.input) + len(job.options) + _BESIDE
        if part is None or len(part) == PIECE or size + more > PIECE_BYTES:
            part, size = [], 0
            filling[job.queue] = part
            made.append(part)
        part.append(job)
        sizes[job.queue] = size + more
    return made

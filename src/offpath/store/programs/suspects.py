"""Suspects that were handed out apart: they begin when their worker runs nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from offpath.model.job import LeasedJob
from offpath.store.programs.dialect import Dialect, Steps, one


class _Reserved(msgspec.Struct):
    """A job that its worker has, as ``begin_apart`` takes it."""

    id: str
    worker: str
    deliveries: int


def begin(d: Dialect, jobs: Sequence[LeasedJob]) -> Steps[set[str]]:
    """Reserved jobs run from now on; the ids of those that their holder still has."""
    mine = [_Reserved(job.id, job.worker, job.deliveries) for job in jobs]
    rows = yield from one(d.sql["begin_apart"](jobs=d.batch(mine), now=d.now))
    return {job for (job,) in rows}

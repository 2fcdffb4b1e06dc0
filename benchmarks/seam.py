"""``python -m benchmarks.seam``: what the seam around the store costs, in CPU, over memory.

A round enqueues, leases and settles one job, in a store that holds no other; a call is one that
has nothing to tell. Each is done through the seam and by the store itself, in turns, and the
least of all turns is shown.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

from offpath import App
from offpath.model.effects import Effects
from offpath.model.job import NewJob
from offpath.model.lease import LeaseRequest, WorkerInfo
from offpath.model.settlement import Settlement, Succeeded
from offpath.store.protocol import Store

_ROUNDS = 60
_TURNS = 60
_WORKER = WorkerInfo(id="w", host="h", pid=1, version="1", concurrency=1, tasks=("t",))
_ASKED = LeaseRequest(worker="w", limit=1, tasks={"t": 1})


async def _round(store: Store, number: int) -> None:
    job = NewJob(id=f"{number:032}", task="t", input="{}", fingerprint="t")
    await store.commit(Effects(jobs=(job,)))
    leased = await store.lease(_ASKED)
    await store.settle([Settlement(job=leased.jobs[0], outcome=Succeeded())])
    await store.delete([job.id])


async def _call(store: Store, _number: int) -> None:
    await store.ping()


async def _cost(store: Store, step: Callable[[Store, int], Awaitable[None]], first: int) -> float:
    """Microseconds of CPU for each step."""
    gc.collect()
    gc.disable()
    begun = time.process_time()
    for number in range(first, first + _ROUNDS):
        await step(store, number)
    spent = time.process_time() - begun
    gc.enable()
    return spent / _ROUNDS * 1e6


async def main() -> None:
    """Measure both, and print what they cost."""
    seam = App("memory://", auto_start=False).store()
    inner = cast("Any", seam)._inner  # noqa: SLF001 - what the seam is around
    await seam.open()
    await seam.register(_WORKER, lease_seconds=3600)
    for step in (_round, _call):
        through: list[float] = []
        plain: list[float] = []
        for turn in range(_TURNS):
            through.append(await _cost(seam, step, 2 * turn * _ROUNDS))
            plain.append(await _cost(inner, step, (2 * turn + 1) * _ROUNDS))
        seen, own = min(through), min(plain)
        sys.stdout.write(
            f"{step.__name__[1:]}: {seen:.2f} us, of it the seam {seen - own:.2f} us\n"
        )


if __name__ == "__main__":
    asyncio.run(main())

"""``python -m benchmarks.series``: what a worker pays for the series behind the charts.

Each turn does jobs of twenty tasks in four queues, then writes what was counted as the loop of a
worker does each ten seconds. Both are told in CPU of the process, of the turns the median, and the
row in bytes. ``--backend postgres --url …`` takes a server; SQLite is the default.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from datetime import datetime, timedelta
from typing import Final

import click

import offpath
from benchmarks.stores import fresh_store
from offpath.model.stats import KEPT, SECONDS
from offpath.operating.stats_loop import StatsLoop
from offpath.runtime.clock import SystemClock

_TASKS: Final = 20
_QUEUES: Final = 4
_JOBS: Final = 2_000
_TURNS: Final = 9


class _Ahead(SystemClock):
    """The time of the system, moved on by a span after each turn: no turn waits for one."""

    ahead = timedelta()

    def now(self) -> datetime:
        """The moved time."""
        return super().now() + self.ahead


async def _measure(url: str) -> tuple[list[float], list[float], int]:
    """Seconds of CPU for the jobs and for the series of each turn, and the bytes of a row."""
    clock = _Ahead()
    app = offpath.App(url, migrate=True, clock=clock, auto_start=False)
    tasks = [app.task(name=f"t{n}", queue=f"q{n % _QUEUES}")(_nothing) for n in range(_TASKS)]
    working, counting = [], []
    async with app:
        loop = StatsLoop(app)
        since = await app.store().ping()
        for _ in range(_TURNS):
            begun = time.process_time()
            await app.enqueue([tasks[n % _TASKS].job() for n in range(_JOBS)])
            await app.worker(concurrency=50).run_until_idle()
            working.append(time.process_time() - begun)
            clock.ahead += timedelta(seconds=SECONDS)
            begun = time.process_time()
            await loop.step()
            counting.append(time.process_time() - begun)
        rows = await app.store().stats(since=since - timedelta(days=1), until=clock.now())
    return working, counting, max((len(row.body.encode()) for row in rows), default=0)


async def _nothing() -> None:
    """A job that costs nothing itself."""


def _kept() -> int:
    """The rows that are kept of all processes together, once they are merged."""
    younger, rows = 0, 0
    for step, seconds in KEPT.items():
        rows += (seconds - younger) // step
        younger = seconds
    return rows


@click.command()
@click.option("--backend", type=click.Choice(["sqlite", "postgres", "memory"]), default="sqlite")
@click.option("--url", default="postgresql://postgres@127.0.0.1:5432/postgres")
def main(backend: str, url: str) -> None:
    """Measure it, and print what it costs."""
    with fresh_store(backend, url) as place:
        working, counting, size = asyncio.run(_measure(place))
    each, turn = statistics.median(working) / _JOBS, statistics.median(counting)
    share = turn / SECONDS
    sys.stdout.write(
        f"{backend}: a job {1e6 * each:.0f} us of CPU, a row {1e3 * turn:.2f} ms each "
        f"{SECONDS} s: {100 * share:.3f} % of a core (at most 0.5), "
        f"{size:,} bytes a row; {_kept() * size / 1e6:.2f} MB are kept of all processes\n"
    )


if __name__ == "__main__":
    main()

"""Neighbours: how soon ordinary jobs end while wrong rows lie in every table."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import offpath
from benchmarks.report import Measurement, percentile

if TYPE_CHECKING:
    from tests.conformance.backends import Backend

JOBS_AT_ONCE = 30
ROUNDS = 20
BAR_MS = 2_000.0
"""The time within which all neighbours of wrong rows end."""

Case = Callable[[str, str], Coroutine[None, None, Measurement]]


def settings() -> str:
    """The measurements, with their settings."""
    return (
        f"{JOBS_AT_ONCE} no-op jobs at once, {ROUNDS} rounds, one started worker beside rows with "
        f"each wrong value in each column; the bar is {BAR_MS:,.0f} ms"
    )


def raw_rates(backend: str, url: str) -> dict[str, float]:
    """There is nothing bare to compare with: ``none`` is the same without wrong rows."""
    del backend, url
    return {}


async def none(backend: str, url: str) -> Measurement:
    """The rounds without a wrong row."""
    return await _measured(backend, url, "none", [])


async def jobs(backend: str, url: str) -> Measurement:
    """The rounds beside wrong jobs: waiting, scheduled, done and dead."""
    return await _measured(backend, url, "jobs", ["job"])


async def others(backend: str, url: str) -> Measurement:
    """The rounds beside wrong rows in each table but that of jobs."""
    from tests.attacks.service import OTHERS

    return await _measured(backend, url, "others", [name for names in OTHERS for name in names])


async def _measured(backend: str, url: str, case: str, tables: list[str]) -> Measurement:
    # The tests import every store, which other benchmarks would pay for in memory.
    from tests.attacks.service import populate, service
    from tests.conformance.backends import Backend

    place = url if backend == "postgres" else url.removeprefix("sqlite:///")
    async with service(url) as app:
        await populate(app)
        with _wrong(Backend(backend, place), tables) as written:
            async with app.worker(concurrency=JOBS_AT_ONCE):
                took = [await _round(app) for _ in range(ROUNDS)]
    slowest = max(took)
    return Measurement(
        bench="neighbours",
        backend=backend,
        case=case,
        per_s=JOBS_AT_ONCE / (sum(took) / len(took)) * 1e3,
        p50_ms=percentile(took, 0.5),
        p99_ms=slowest,
        note=f"{written} wrong rows; the slowest round is {BAR_MS / slowest:.0f} times in the bar",
    )


@contextmanager
def _wrong(backend: Backend, tables: list[str]) -> Iterator[int]:
    """Wrong rows in these tables: the rules of the schema about values are out of force."""
    from tests.attacks.bad_rows import lifted, write_bad_rows
    from tests.attacks.service import name_of

    names = [name_of(backend.name, table) for table in tables]
    with ExitStack() as stack:
        if names:
            stack.enter_context(lifted(backend, names))
        written = 0
        for name in names:
            written += sum(
                write_bad_rows(backend, name, template, 1_000 * number)
                for number, template in enumerate(_templates(name), start=1)
            )
        yield written


def _templates(table: str) -> list[str]:
    """The rows that are copied: of jobs one in each state, of the others any."""
    from tests.attacks.service import JOBS

    if not table.endswith("job"):
        return ["true"]
    states = [state for pair in JOBS for state in pair]
    return [f"t.state = '{state}' and t.task = 'work'" for state in states]


async def _round(app: offpath.App) -> float:
    """The milliseconds from the enqueue of the jobs to the end of the last."""
    work = app.tasks["work"]
    began = time.perf_counter()
    handles = await app.enqueue([work.job(n) for n in range(JOBS_AT_ONCE)])
    await asyncio.gather(*(handle.result(timeout=60) for handle in handles))
    return (time.perf_counter() - began) * 1e3


CASES: dict[str, Case] = {"none": none, "jobs": jobs, "others": others}

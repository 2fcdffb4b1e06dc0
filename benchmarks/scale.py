"""More worker processes on one store: together they must never be slower than one."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Callable, Coroutine

from benchmarks.jobs import opened
from benchmarks.report import Measurement

JOBS = 20_000
_BULK = 1_000
_READY = b"ready\n"

Case = Callable[[str, str], Coroutine[None, None, Measurement]]


def raw_rates(_backend: str, _url: str) -> dict[str, float]:
    """None: one process is the measure of the others."""
    return {}


def settings() -> str:
    """The settings that the figures depend on."""
    return f"{JOBS:,} no-op jobs, start-up left out, {os.cpu_count()} cores"


def _case(processes: int) -> Case:
    async def measure(backend: str, url: str) -> Measurement:
        return await _measured(backend, url, processes)

    return measure


async def _measured(backend: str, url: str, processes: int) -> Measurement:
    if backend == "memory":
        return Measurement(bench="scale", backend=backend, case=f"processes_{processes}")
    async with opened(url) as (app, noop):
        for first in range(0, JOBS, _BULK):
            await app.enqueue([noop.job(n) for n in range(first, first + min(_BULK, JOBS))])
        started = [await _worker(url) for _ in range(processes)]
        begun = time.perf_counter()
        for each in started:
            assert each.stdin is not None  # noqa: S101 - it is a pipe
            each.stdin.write(b"go\n")
        codes = await asyncio.gather(*(each.wait() for each in started))
        spent = time.perf_counter() - begun
        done = await app.jobs.count(state="succeeded")
    if any(codes) or done < JOBS:
        msg = f"{done} of {JOBS} jobs succeeded, and the workers ended with {codes}"
        raise RuntimeError(msg)
    return Measurement(
        bench="scale",
        backend=backend,
        case=f"processes_{processes}",
        per_s=done / spent,
        note=f"{processes} processes",
    )


async def _worker(url: str) -> asyncio.subprocess.Process:
    """A worker process that is ready to begin."""
    command = (sys.executable, "-m", "benchmarks.scale", url)
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    if await process.stdout.readline() != _READY:
        msg = "a worker process did not start"
        raise RuntimeError(msg)
    return process


async def _work(url: str) -> None:
    async with opened(url) as (app, _):
        worker = app.worker(concurrency=100)
        sys.stdout.buffer.write(_READY)
        sys.stdout.buffer.flush()
        await asyncio.to_thread(sys.stdin.readline)
        await worker.run_until_idle()
        await worker.stop()


CASES: dict[str, Case] = {f"processes_{n}": _case(n) for n in (1, 2, 4, 8)}

if __name__ == "__main__":
    asyncio.run(_work(sys.argv[1]))

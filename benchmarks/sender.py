"""``python -m benchmarks.sender URL RATE PROBES WARM_UP``: sends probes at a steady rate."""

from __future__ import annotations

import asyncio
import sys
import time

import offpath

_GAP = 0.05
"""Seconds between the probes of the warm-up."""


async def send(app: offpath.App, rate: float, probes: int, warm_up: int) -> None:
    """Enqueue jobs of the task ``probe``, each with the time at which its call began.

    The clock is the machine's monotonic one, which its processes share.
    """
    task = app.by_name("probe", registered=False)
    for _ in range(warm_up):  # the first ones meet cold caches
        await task.enqueue(started=time.monotonic())
        await asyncio.sleep(_GAP)
    begun, sending = time.monotonic(), set()
    for number in range(probes):
        await asyncio.sleep(max(0.0, begun + number / rate - time.monotonic()))
        sending.add(asyncio.create_task(task.enqueue(started=time.monotonic())))
    await asyncio.gather(*sending)


async def _main(url: str, rate: str, probes: str, warm_up: str) -> None:
    app = offpath.App(url, auto_start=False)
    try:
        await send(app, float(rate), int(probes), int(warm_up))
    finally:
        await app.close()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))

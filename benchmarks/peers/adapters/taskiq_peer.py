"""Taskiq on Redis streams, with results."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from shared import SLOTS, URL, main, seen, until_killed
from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

broker = RedisStreamBroker(url=URL).with_result_backend(
    RedisAsyncResultBackend(redis_url=URL, result_ex_time=3600)
)


@broker.task(task_name="probe")
async def probe(n: int, at: int) -> int:
    seen(at)
    if at < 0:
        await until_killed()
    return n


class Taskiq:
    async def setup(self) -> None:
        await broker.startup()
        await broker.shutdown()

    async def open(self) -> None:
        await broker.startup()

    async def close(self) -> None:
        await broker.shutdown()

    async def send(self, n: int, at: int) -> None:
        await probe.kiq(n, at)

    async def bulk(self, numbers: range) -> None:
        for n in numbers:  # it has no lists
            await probe.kiq(n, 0)

    async def work(self) -> None:
        here, program = Path(__file__), Path(sys.executable).with_name("taskiq")
        words = "worker", f"{here.stem}:broker", "--app-dir", str(here.parent), "--workers", "1"
        slots = "--max-async-tasks", str(SLOTS), "--log-level", "WARNING"
        os.execv(program, [str(program), *words, *slots])  # noqa: S606 - its own worker takes this process over


if __name__ == "__main__":
    main(Taskiq())

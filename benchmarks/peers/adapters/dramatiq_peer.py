"""Dramatiq on Redis, with results."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from shared import SLOTS, URL, main, seen, stay

broker = RedisBroker(url=URL)
broker.add_middleware(Results(backend=RedisBackend(url=URL), store_results=True))
dramatiq.set_broker(broker)


@dramatiq.actor(actor_name="probe")
def probe(n: int, at: int) -> int:
    seen(at)
    if at < 0:
        time.sleep(stay())
    return n


class Dramatiq:
    async def setup(self) -> None:
        """There are no tables."""

    async def open(self) -> None:
        """The first message connects."""

    async def close(self) -> None:
        broker.close()

    async def send(self, n: int, at: int) -> None:
        probe.send(n, at)

    async def bulk(self, numbers: range) -> None:
        for n in numbers:  # it has no lists
            probe.send(n, 0)

    async def work(self) -> None:
        here = Path(__file__)
        words = "-m", "dramatiq", here.stem, "--path", str(here.parent), "--processes", "1"
        os.execv(sys.executable, [sys.executable, *words, "--threads", str(SLOTS)])  # noqa: S606 - its own worker takes this process over


if __name__ == "__main__":
    main(Dramatiq())

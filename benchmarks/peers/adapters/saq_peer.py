"""SAQ on Redis, with results."""

from __future__ import annotations

from saq import Queue, Worker
from shared import SLOTS, URL, main, seen, until_killed


async def probe(_: object, *, n: int, at: int) -> int:
    seen(at)
    if at < 0:
        await until_killed()
    return n


class Saq:
    async def setup(self) -> None:
        """There are no tables."""

    async def open(self) -> None:
        self.queue = Queue.from_url(URL)
        await self.queue.connect()

    async def close(self) -> None:
        await self.queue.disconnect()

    async def send(self, n: int, at: int) -> None:
        await self.queue.enqueue("probe", n=n, at=at)

    async def bulk(self, numbers: range) -> None:
        for n in numbers:  # it has no lists
            await self.queue.enqueue("probe", n=n, at=0)

    async def work(self) -> None:
        queue = Queue.from_url(URL)
        await queue.connect()
        await Worker(queue, functions=[probe], concurrency=SLOTS).start()


if __name__ == "__main__":
    main(Saq())

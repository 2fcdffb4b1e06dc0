"""This library, on Postgres or SQLite, with its defaults."""

from __future__ import annotations

from shared import SLOTS, URL, main, seen, until_killed

import offpath

app = offpath.App(URL, auto_start=False)


@app.task
async def probe(n: int, at: int) -> int:
    seen(at)
    if at < 0:
        await until_killed()
    return n


class Ours:
    async def setup(self) -> None:
        async with offpath.App(URL, migrate=True, auto_start=False):
            pass

    async def open(self) -> None:
        await app.open()

    async def close(self) -> None:
        await app.close()

    async def send(self, n: int, at: int) -> None:
        await probe.enqueue(n, at)

    async def bulk(self, numbers: range) -> None:
        await app.enqueue([probe.job(n, 0) for n in numbers])

    async def work(self) -> None:
        async with app:
            await app.worker(concurrency=SLOTS).run()


main(Ours())

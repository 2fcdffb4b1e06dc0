"""Procrastinate on psycopg, with its defaults."""

from __future__ import annotations

import procrastinate
from shared import SLOTS, URL, main, seen, until_killed

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=URL, max_size=20))


@app.task(name="probe")
async def probe(n: int, at: int) -> int:
    seen(at)
    if at < 0:
        await until_killed()
    return n


class Procrastinate:
    async def setup(self) -> None:
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        await app.open_async()

    async def close(self) -> None:
        await app.close_async()

    async def send(self, n: int, at: int) -> None:
        await probe.defer_async(n=n, at=at)

    async def bulk(self, numbers: range) -> None:
        await probe.batch_defer_async(*[{"n": n, "at": 0} for n in numbers])

    async def work(self) -> None:
        async with app.open_async():
            await app.run_worker_async(concurrency=SLOTS)


main(Procrastinate())

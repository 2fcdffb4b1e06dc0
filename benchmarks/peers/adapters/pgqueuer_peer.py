"""PgQueuer: asyncpg and uvloop, as its documentation has them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.queries import Queries
from shared import SLOTS, URL, main, seen, until_killed

_BATCH = 50


class Pgqueuer:
    async def setup(self) -> None:
        program = Path(sys.executable).with_name("pgq")
        await asyncio.to_thread(
            subprocess.run, [program, "--pg-dsn", URL, "install"], check=True, capture_output=True
        )

    async def open(self) -> None:
        self.connection = await asyncpg.connect(URL)
        self.queries = Queries(AsyncpgDriver(self.connection))

    async def close(self) -> None:
        await self.connection.close()

    async def send(self, n: int, at: int) -> None:
        await self.queries.enqueue("probe", b'{"n":%d,"at":%d}' % (n, at))

    async def bulk(self, numbers: range) -> None:
        payloads = [b'{"n":%d,"at":0}' % n for n in numbers]
        await self.queries.enqueue(["probe"] * len(payloads), payloads, [0] * len(payloads))

    async def work(self) -> None:
        pool = await asyncpg.create_pool(URL, min_size=2, max_size=20)
        worker = PgQueuer(AsyncpgPoolDriver(pool))

        @worker.entrypoint("probe", accepts_context=False)
        async def probe(job: object) -> None:
            at = json.loads(job.payload)["at"]
            seen(at)
            if at < 0:
                await until_killed()

        await worker.run(batch_size=_BATCH, max_concurrent_tasks=SLOTS)


asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
main(Pgqueuer())

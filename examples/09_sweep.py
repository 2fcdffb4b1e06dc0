"""A sweep over rows of your own: broken rows wait their turn, and newer ones pass them by."""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import datetime

from offpath import App
from offpath.sweeps import SweepContext

app = App(auto_start=False)
db = sqlite3.connect(":memory:", isolation_level=None)
db.row_factory = sqlite3.Row
db.execute("create table cart (id text primary key, due_at real, looks int not null default 0)")


@app.sweep("stale_carts", every=60, limit=2, row_timeout=10)
class StaleCarts:
    """Reminds of carts; those that cannot be reminded of come again later and later."""

    async def claim(self, _ctx: SweepContext, now: datetime, limit: int) -> list[sqlite3.Row]:
        """Take due carts and push their due time in one statement: by 30 s, 60 s and so on."""
        return db.execute(
            """
            update cart
            set looks = looks + 1, due_at = :now + min(30 * (1 << min(looks, 7)), 3600)
            where id in (select id from cart where due_at <= :now order by due_at limit :limit)
            returning *
            """,
            {"now": now.timestamp(), "limit": limit},
        ).fetchall()

    async def advance(self, _ctx: SweepContext, row: sqlite3.Row, _now: datetime) -> str:
        """Remind of one cart, and have it due no more."""
        if row["id"].startswith("broken"):
            raise ConnectionError("the mail server is away")
        db.execute("update cart set due_at = null where id = ?", (row["id"],))
        return "reminded"


async def main() -> None:
    carts = ["broken 1", "broken 2", "cart 3", "cart 4"]
    db.executemany(
        "insert into cart (id, due_at) values (?, ?)", list(zip(carts, range(4), strict=True))
    )
    worker = app.worker()
    for _ in range(3):
        run = await worker.run_once(only=["stale_carts"])
        result = run["stale_carts"]
        print(result.verdict.value, result.tally.buckets)
    await app.close()


if __name__ == "__main__":
    asyncio.run(main())

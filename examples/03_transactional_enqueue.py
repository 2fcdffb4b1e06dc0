"""The job and your row commit together, or not at all."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

from offpath import App

app = App("sqlite:///work.db")


@app.task
async def send_receipt(order: str) -> None: ...


async def main() -> None:
    async with app:
        with closing(sqlite3.connect("work.db")) as connection:
            connection.execute("CREATE TABLE orders (name TEXT)")
            connection.execute("INSERT INTO orders VALUES ('A-1')")
            await app.enqueue(send_receipt.job("A-1"), within=connection)
            connection.rollback()
            print("after a rollback:", await app.jobs.count())
            connection.execute("INSERT INTO orders VALUES ('A-2')")
            await app.enqueue(send_receipt.job("A-2"), within=connection)
            connection.commit()
            print("after a commit:", await app.jobs.count())


if __name__ == "__main__":
    asyncio.run(main())

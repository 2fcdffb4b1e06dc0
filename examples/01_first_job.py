"""A first job: a task, a file, a worker in the same process, a result."""

from __future__ import annotations

import asyncio

from offpath import App

app = App("sqlite:///work.db")


@app.task
async def add(a: int, b: int) -> int:
    return a + b


async def main() -> None:
    async with app:
        handle = await add.enqueue(1, 2)  # stored when this returns
        async with app.worker():
            print("result:", await handle.result(timeout=10))


if __name__ == "__main__":
    asyncio.run(main())

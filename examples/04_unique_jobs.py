"""One live job for a key: a second enqueue gets the handle of the first."""

from __future__ import annotations

import asyncio

from offpath import App, UniqueConflict

app = App("sqlite:///work.db")


@app.task(unique=lambda order, _cents: f"order:{order}")
async def charge(order: str, cents: int) -> str:
    return f"{order} charged {cents}"


async def main() -> None:
    async with app:
        first = await charge.enqueue("A-1", 500)
        again = await charge.enqueue("A-1", 500)
        print("same job:", first.id == again.id, "made anew:", again.created)
        try:
            await charge.enqueue("A-1", 900)
        except UniqueConflict:
            print("another amount for the same order is refused")
        async with app.worker():
            print(await first.result(timeout=10))


if __name__ == "__main__":
    asyncio.run(main())

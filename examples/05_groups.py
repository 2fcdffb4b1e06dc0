"""A job that queues others: its group has one value, exact however many of them give at once."""

from __future__ import annotations

import asyncio
import operator

from offpath import App, Context, Plan

app = App("sqlite:///work.db")


@app.task
async def count(ctx: Context, words: str) -> Plan[int, int]:
    return ctx.result(len(words.split()), append=operator.add)


@app.task
async def count_all(ctx: Context, texts: list[str]) -> Plan[None, int]:
    return ctx.queue(*(count.job(text) for text in texts))


async def main() -> None:
    async with app, app.worker():
        handle = await count_all.enqueue(["one two", "three", "four five six"])
        print("words:", await handle.group(timeout=10))


if __name__ == "__main__":
    asyncio.run(main())

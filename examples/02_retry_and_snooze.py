"""An attempt that fails is repeated later; a snooze is no failure and spends no attempt."""

from __future__ import annotations

import asyncio

from offpath import App, Context, RetryOptions, Snooze

app = App("sqlite:///work.db")


@app.task(retry=RetryOptions(attempts=3, base=0.05, jitter=0))
async def fetch(ctx: Context) -> str:
    if ctx.deliveries == 1:
        raise Snooze(0.05)
    if ctx.attempt == 1:
        raise ConnectionError("the other side is down")
    return f"attempt {ctx.attempt}, delivery {ctx.deliveries}"


async def main() -> None:
    async with app, app.worker():
        handle = await fetch.enqueue()
        print(await handle.result(timeout=10))
        record = await handle.status()
        print("failures kept:", [failure.type for failure in record.failures])


if __name__ == "__main__":
    asyncio.run(main())

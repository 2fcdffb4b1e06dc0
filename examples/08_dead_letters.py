"""A job that died is kept with its error; once the cause is mended it is put back."""

from __future__ import annotations

import asyncio

from offpath import Abort, App, JobDead

app = App("sqlite:///work.db")
mended = False


@app.task
async def deliver(parcel: str) -> str:
    if not mended:
        raise Abort("no such address")
    return f"{parcel} delivered"


async def main() -> None:
    global mended
    async with app, app.worker():
        handle = await deliver.enqueue("P-1")
        try:
            await handle.result(timeout=10)
        except JobDead as dead:
            print("dead:", dead.reason)
        mended = True
        await app.dead.redrive(handle.id)
        print(await handle.result(timeout=10))


if __name__ == "__main__":
    asyncio.run(main())

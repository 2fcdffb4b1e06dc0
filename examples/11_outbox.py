"""A fact and what it led to commit together; a relay tells others afterwards, in order."""

from __future__ import annotations

import asyncio

from offpath import App, Context
from offpath.events import Event

app = App(auto_start=False)
ledger: list[str] = []


@app.outbox("wallet", ordered=True)
async def tell(event: Event) -> None:
    """Hand one event on: to a broker, a webhook, another service. Returning means delivered."""
    ledger.append(f"{event.topic} of {event.key}")


@app.task
async def pay(ctx: Context, order: str) -> None:
    ctx.publish("paid", {"order": order}, key=order, stream="wallet")


async def main() -> None:
    async with app:
        async with app.batch() as batch:  # one commit, at the end of the block
            batch.enqueue(pay.job("A-1"))
            batch.publish("opened", key="A-1", stream="wallet")
        tally = await app.relay("wallet").run_once()
        print("relayed by hand:", tally.counts)
        await app.worker().run_until_idle()
        print("all in all:", ledger)


if __name__ == "__main__":
    asyncio.run(main())

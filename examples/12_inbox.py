"""A provider calls twice; its message is accepted once, and applied once with its effects."""

from __future__ import annotations

import asyncio

import msgspec

from offpath import App
from offpath.events import InboxContext, Rejected

app = App(auto_start=False)


class Charge(msgspec.Struct):
    """The body that the provider sends."""

    order: str
    amount: int


@app.task
async def ship(order: str) -> None:
    print("shipping", order)


@app.inbox("stripe")
async def charged(charge: Charge, context: InboxContext) -> None:
    """Apply one message. What is asked for commits with the mark that it was applied."""
    if charge.amount <= 0:
        raise Rejected("a charge of nothing")
    context.enqueue(ship.job(charge.order))


async def main() -> None:
    async with app:
        first = await app.accept("stripe", "evt_1", {"order": "A-1", "amount": 5})
        again = await app.accept("stripe", "evt_1", {"order": "A-1", "amount": 5})
        print("new:", first.new, again.new)
        bad = await app.accept("stripe", "evt_2", {"order": "A-2", "amount": 0})
        await app.worker().run_until_idle()
        print("second message:", (await app.messages.get(bad.id)).reason)


if __name__ == "__main__":
    asyncio.run(main())

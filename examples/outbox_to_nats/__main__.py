"""A shop's events go to NATS with the transaction that they tell of; another service takes them.

The shop knows nothing of the billing service. Each has a database of its own. The shop's relay may
repeat an event, as after a lost acknowledgement: billing's inbox keeps each id once.

Needs: pip install 'offpath[nats]', and a NATS server with JetStream (NATS_URL).
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import uuid

import msgspec
import nats

from offpath import App
from offpath.events.dispatchers import NatsDispatcher

SERVER = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")
SHOP = f"shop-{uuid.uuid4().hex[:8]}"
"""A name of this run: the server may be shared."""

ORDERS = 2
"""The orders that are in stock."""

shop = App("sqlite:///shop.db")
orders = shop.outbox("orders", dispatcher=NatsDispatcher(SERVER, subject=f"{SHOP}.{{topic}}"))

billing = App("sqlite:///billing.db")
invoices: list[str] = []
billed = asyncio.Event()


class Order(msgspec.Struct):
    """The body of an event."""

    id: str
    cents: int


@billing.inbox("shop")
async def bill(order: Order) -> None:
    invoices.append(f"invoice of {order.id}: {order.cents / 100:.2f}")
    if len(invoices) == ORDERS:
        billed.set()


def place(order: str, cents: int, *, stock: int) -> None:
    """An order and its event, in one transaction; out of stock, neither."""
    connection = sqlite3.connect("shop.db")
    with connection:
        connection.execute("create table if not exists orders (id text primary key, cents int)")
        connection.execute("insert into orders values (?, ?)", (order, cents))
        event = {"id": order, "cents": cents}
        shop.blocking.publish("placed", event, stream="orders", within=connection)
        if not stock:
            connection.rollback()
    connection.close()


async def consume(client: nats.NATS) -> None:
    """Accept first, acknowledge after: a crash between the two is a repeat, which is kept once."""
    stream = client.jetstream()
    subscription = await stream.pull_subscribe(f"{SHOP}.>", durable="billing")
    taken = 0
    while taken < ORDERS:
        for message in await subscription.fetch(ORDERS - taken, timeout=10):
            number = (message.headers or {})["Nats-Msg-Id"]
            for _ in range(2):  # as if the first acknowledgement had been lost
                answer = await billing.accept("shop", number, json.loads(message.data))
                print("taken from NATS:", "new" if answer.new else "known already")
            await message.ack()
            taken += 1


async def main() -> None:
    client = await nats.connect(SERVER)
    await client.jetstream().add_stream(name=SHOP, subjects=[f"{SHOP}.>"])
    async with shop, billing, shop.worker(), billing.worker():
        for order, cents, stock in (("A-1", 1999, 3), ("A-2", 500, 0), ("A-3", 725, 1)):
            await asyncio.to_thread(place, order, cents, stock=stock)
        async with asyncio.timeout(20):
            await asyncio.gather(consume(client), billed.wait())
    print(sorted(invoices))
    await client.jetstream().delete_stream(SHOP)
    await client.close()


if __name__ == "__main__":
    asyncio.run(main())

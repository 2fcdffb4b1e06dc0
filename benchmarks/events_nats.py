"""``python -m benchmarks.events_nats``: the NATS dispatcher beside a bare publisher of nats-py.

Both have 500 messages in flight, to one JetStream stream on file, in turns within one run; each
message waits for its own acknowledgement.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable

import click
import nats

from offpath.events import Event
from offpath.events.dispatchers import NatsDispatcher

FLIGHT = 500
Events = list[Event]


def made(count: int) -> Events:
    """Events as a relay makes them."""
    body = '{"order":1,"amount":"10.00","note":"' + "x" * 100 + '"}'
    return [
        Event(id=uuid.uuid4().hex, stream="s", topic="paid", payload=None, body=body)
        for _ in range(count)
    ]


async def rate(send: Callable[[Events], Awaitable[None]], count: int) -> float:
    """Messages a second, ``FLIGHT`` at once."""
    batches = [made(FLIGHT) for _ in range(count // FLIGHT)]
    began = time.perf_counter()
    for batch in batches:
        await send(batch)
    return len(batches) * FLIGHT / (time.perf_counter() - began)


async def measure(url: str, count: int, rounds: int) -> None:
    """Print both rates and their ratio."""
    client = await nats.connect(url)
    stream = client.jetstream()
    name = f"bench{uuid.uuid4().hex}"
    await stream.add_stream(name=name, subjects=[name])
    dispatcher = NatsDispatcher(url, subject=name)
    await dispatcher.open()

    async def bare(batch: Events) -> None:
        await asyncio.gather(
            *(
                stream.publish(name, one.body.encode(), headers={"Nats-Msg-Id": one.id})
                for one in batch
            )
        )

    async def ours(batch: Events) -> None:
        refusals = [why for why in await dispatcher.dispatch_many(batch) if why is not None]
        if refusals:
            raise refusals[0]

    try:
        rates = [(await rate(bare, count), await rate(ours, count)) for _ in range(rounds)]
        stored = (await stream.stream_info(name)).state.messages
    finally:
        await stream.delete_stream(name)
        await dispatcher.close()
        await client.close()
    if stored != (expected := 2 * rounds * (count // FLIGHT) * FLIGHT):
        raise RuntimeError(f"{stored} of {expected} messages were stored")
    base, mine = (statistics.median(column) for column in zip(*rates, strict=True))
    click.echo(f"nats-py publish, {FLIGHT} in flight: {base:,.0f}/s")
    click.echo(f"NatsDispatcher, {FLIGHT} in flight:  {mine:,.0f}/s")
    click.echo(
        f"ratio {mine / base:.2f} (median of {rounds} rounds; load {os.getloadavg()[0]:.1f})"
    )


@click.command()
@click.option("--url", default="nats://127.0.0.1:4222")
@click.option("--count", default=5_000, help="Messages a round.")
@click.option("--rounds", default=3)
def main(url: str, count: int, rounds: int) -> None:
    """Measure the NATS dispatcher beside bare nats-py."""
    asyncio.run(measure(url, count, rounds))


if __name__ == "__main__":
    main()

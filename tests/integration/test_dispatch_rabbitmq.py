"""RabbitMQ: confirmed by the broker, and what no queue takes is not a delivery."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import aio_pika
import pytest

import offpath
from offpath.errors import RelayFailed
from offpath.events.dispatchers import NotAcknowledged, RabbitDispatcher
from tests.integration.dispatching import event, publish, sending
from tests.integration.proxy import Proxy


class Place:
    """A topic exchange and a queue of the test's own."""

    def __init__(self, name: str, channel: Any, exchange: Any, queue: Any) -> None:
        self.name = name
        self.channel = channel
        self.exchange = exchange
        self.queue = queue

    async def messages(self) -> list[Any]:
        """All that it has, in its order."""
        found = []
        while (one := await self.queue.get(fail=False, no_ack=True)) is not None:
            found.append(one)
        return found


@pytest.fixture
async def place(rabbitmq_url: str) -> AsyncIterator[Place]:
    name = f"t{uuid.uuid4().hex}"
    connection = await aio_pika.connect(rabbitmq_url)
    channel = await connection.channel()
    exchange = await channel.declare_exchange(name, "topic")
    queue = await channel.declare_queue(name)
    for pattern in ("paid", "k*", "good"):
        await queue.bind(exchange, pattern.replace("k*", "k.*"))
    yield Place(name, channel, exchange, queue)
    await queue.delete(if_unused=False, if_empty=False)
    await exchange.delete()
    await connection.close()


async def test_content_and_headers_arrive_once(rabbitmq_url: str, place: Place) -> None:
    async with sending(RabbitDispatcher(rabbitmq_url, exchange=place.name)) as (app, relay, _):
        (one,) = await publish(app, {"n": "ä"}, key="k", headers={"trace": "t1"})
        assert (await relay.run_once()).counts == {"relayed": 1}
    (message,) = await place.messages()
    assert message.body == '{"n":"ä"}'.encode()
    assert (message.message_id, message.type, message.routing_key) == (one, "paid", "paid")
    assert message.delivery_mode == aio_pika.DeliveryMode.PERSISTENT
    assert message.timestamp is not None
    wanted = {"trace": "t1", "Offpath-Topic": "paid", "Offpath-Key": "k"}
    assert message.headers.items() >= wanted.items()


async def test_each_key_of_an_ordered_stream_keeps_its_order(
    rabbitmq_url: str, place: Place
) -> None:
    dispatcher = RabbitDispatcher(rabbitmq_url, exchange=place.name, routing_key="k.{key}")
    async with sending(dispatcher, ordered=True) as (app, relay, _):
        for number in range(20):
            await publish(app, number, key=f"k{number % 3}")
        assert (await relay.run_once()).counts == {"relayed": 20}
    found = await place.messages()
    for key in range(3):
        mine = [int(one.body) for one in found if one.routing_key == f"k.k{key}"]
        assert mine == list(range(key, 20, 3))


@pytest.mark.parametrize("bad", [0, 25, 49])
async def test_one_that_no_queue_takes_fails_alone(
    rabbitmq_url: str, place: Place, bad: int
) -> None:
    dispatcher = RabbitDispatcher(rabbitmq_url, exchange=place.name, routing_key="{key}")
    async with sending(dispatcher) as (app, relay, _):
        for number in range(50):
            await publish(app, number, key="nowhere" if number == bad else "good")
        assert (await relay.run_once()).counts == {"relayed": 49, "failed": 1}
    assert len(await place.messages()) == 49


async def test_one_that_is_too_large_fails_alone(rabbitmq_url: str, place: Place) -> None:
    dispatcher = RabbitDispatcher(rabbitmq_url, exchange=place.name, max_bytes=100)
    async with sending(dispatcher) as (app, relay, _):
        await publish(app, 1, "x" * 200, 3)
        assert (await relay.run_once()).counts == {"relayed": 2, "dead_lettered": 1}
    assert [one.body for one in await place.messages()] == [b"1", b"3"]


async def test_what_meets_an_outage_is_delivered_after_it(rabbitmq_url: str, place: Place) -> None:
    parts = urlsplit(rabbitmq_url)
    with Proxy(parts.hostname or "127.0.0.1", parts.port or 5672) as proxy:
        user = parts.netloc.rpartition("@")[0]
        url = parts._replace(netloc=f"{user}@127.0.0.1:{proxy.port}").geturl()
        async with sending(RabbitDispatcher(url, exchange=place.name)) as (app, relay, clock):
            await publish(app, 1)
            assert (await relay.run_once()).counts == {"relayed": 1}
            proxy.refuse()
            await publish(app, 2, 3)
            with pytest.raises(RelayFailed) as failed:
                await relay.run_once()
            assert failed.value.tally.counts == {"failed": 2}
            proxy.heal()
            clock.advance(60)
            assert (await relay.run_once()).counts == {"relayed": 2}
    assert {one.body for one in await place.messages()} == {b"1", b"2", b"3"}


async def test_a_missing_exchange_is_named(rabbitmq_url: str) -> None:
    dispatcher = RabbitDispatcher(rabbitmq_url, exchange="offpath-is-not-there")
    with pytest.raises(NotAcknowledged, match="no exchange 'offpath-is-not-there': declare it"):
        await dispatcher.open()


async def test_a_consumed_message_is_acknowledged_after_the_inbox_has_it(
    rabbitmq_url: str, place: Place
) -> None:
    dispatcher = RabbitDispatcher(rabbitmq_url, exchange=place.name)
    for attempt in (1, 2):  # as after a confirm that was lost
        assert await dispatcher.dispatch_many([event(attempt=attempt)]) == [None]
    await dispatcher.close()
    new = []
    async with offpath.App("memory://", auto_start=False) as app:
        while (message := await place.queue.get(fail=False)) is not None:
            accepted = await app.accept("rabbitmq", message.message_id, message.body.decode())
            new.append(accepted.new)
            await message.ack()
    assert new == [True, False]
    again = await place.channel.declare_queue(place.name, passive=True)
    assert again.declaration_result.message_count == 0


async def test_no_password_is_told() -> None:
    dispatcher = RabbitDispatcher("amqp://me:s3cret@127.0.0.1:1/", exchange="a")
    assert "s3cret" not in repr(dispatcher)
    with pytest.raises(NotAcknowledged) as refused:
        await dispatcher.open()
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "more"),
    [
        ("http://x", {"exchange": "a"}),
        ("amqp://x", {"exchange": "a" * 256}),
        ("amqp://x", {"exchange": "a", "routing_key": ""}),
        ("amqp://x", {"exchange": "a", "routing_key": "{topic!r}"}),
        ("amqp://x", {"exchange": "a", "max_bytes": 0}),
        ("amqp://x", {"exchange": "a", "connect_timeout": -1}),
    ],
)
def test_bad_arguments_are_refused(url: str, more: dict[str, Any]) -> None:
    with pytest.raises(offpath.InvalidArgument):
        RabbitDispatcher(url, **more)

"""Kafka by librdkafka's mock cluster, over the network: its protocol, and no cluster.

It has no rebalances, no transactions, no restarts and no passwords: those are not tested.
"""

from __future__ import annotations

import asyncio
import gc
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Producer

import offpath
from offpath.errors import RelayFailed
from offpath.events.dispatchers import KafkaDispatcher, NotAcknowledged
from tests.integration.dispatching import event, publish, sending
from tests.integration.polling import eventually


class Cluster:
    """A mock cluster of one broker, which ends with the client that holds it."""

    def __init__(self) -> None:
        self._client: Producer | None = Producer(
            {"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0}
        )
        (broker,) = self._client.list_topics(timeout=20).brokers.values()
        self.server = f"{broker.host}:{broker.port}"

    def stop(self) -> None:
        self._client = None
        gc.collect()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    cluster = Cluster()
    yield cluster.server
    cluster.stop()


@pytest.fixture
def topic() -> str:
    return f"t{uuid.uuid4().hex}"


async def records(server: str, topic: str, count: int) -> list[Any]:
    """The first records of a topic."""
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=server, auto_offset_reset="earliest", enable_auto_commit=False
    )
    await consumer.start()
    try:
        return [await consumer.getone() for _ in range(count)]
    finally:
        await consumer.stop()


async def test_content_and_headers_arrive_once(server: str, topic: str) -> None:
    async with sending(KafkaDispatcher(server, topic=topic + ".{topic}")) as (app, relay, _):
        (one,) = await publish(app, {"n": "ä"}, key="k", headers={"trace": "t1"})
        assert (await relay.run_once()).counts == {"relayed": 1}
    (found,) = await records(server, f"{topic}.paid", 1)
    headers = {name: value.decode() for name, value in found.headers}
    assert headers.pop("Offpath-Created").startswith("20")
    assert (found.key, found.value.decode(), headers) == (
        b"k",
        '{"n":"ä"}',
        {
            "Offpath-Id": one,
            "Offpath-Topic": "paid",
            "Offpath-Stream": "orders",
            "Offpath-Key": "k",
            "trace": "t1",
        },
    )


async def test_each_key_of_an_ordered_stream_keeps_its_order_and_its_partition(
    server: str, topic: str
) -> None:
    async with sending(KafkaDispatcher(server, topic=topic), ordered=True) as (app, relay, _):
        for number in range(20):
            await publish(app, number, key=f"k{number % 3}")
        assert (await relay.run_once()).counts == {"relayed": 20}
    found = await records(server, topic, 20)
    for key in range(3):
        mine = [one for one in found if one.key == f"k{key}".encode()]
        assert [int(one.value) for one in mine] == list(range(key, 20, 3))
        assert len({one.partition for one in mine}) == 1


@pytest.mark.parametrize("bad", [0, 25, 49])
async def test_one_that_is_too_large_is_a_dead_letter_alone(
    server: str, topic: str, bad: int
) -> None:
    dispatcher = KafkaDispatcher(server, topic=topic, options={"max_request_size": 20_000})
    async with sending(dispatcher) as (app, relay, _):
        for number in range(50):
            await publish(app, "x" * 30_000 if number == bad else number)
        assert (await relay.run_once()).counts == {"relayed": 49, "dead_lettered": 1}


async def test_a_name_that_cannot_be_a_topic_is_a_dead_letter(server: str, topic: str) -> None:
    async with sending(KafkaDispatcher(server, topic=topic + "{key}")) as (app, relay, _):
        await publish(app, 1, key="no topic")
        await publish(app, 2, key="-fine")
        await publish(app, 3)
        assert (await relay.run_once()).counts == {"relayed": 1, "dead_lettered": 2}


async def test_what_meets_an_outage_is_delivered_after_it(topic: str) -> None:
    """By another server: a mock cluster cannot come back at its address."""
    one, two = Cluster(), Cluster()
    dispatcher = KafkaDispatcher([one.server, two.server], topic=topic, timeout=2)
    try:
        async with sending(dispatcher) as (app, relay, clock):
            await publish(app, 1)
            assert (await relay.run_once()).counts == {"relayed": 1}
            producer = await dispatcher._link.get()
            ports = {f"127.0.0.1:{broker.port}" for broker in producer.client.cluster.brokers()}
            (gone, left) = (one, two) if one.server in ports else (two, one)
            gone.stop()
            await publish(app, 2, 3)
            with pytest.raises(RelayFailed) as failed:
                await relay.run_once()
            assert failed.value.tally.counts == {"failed": 2}
            clock.advance(60)
            assert (await relay.run_once()).counts == {"relayed": 2}
        found = await records(left.server, topic, 2)
        assert sorted(record.value for record in found) == [b"2", b"3"]
    finally:
        one.stop()
        two.stop()


async def test_nothing_listens_there() -> None:
    cluster = Cluster()
    dispatcher = KafkaDispatcher(cluster.server, topic="a", timeout=0.5)
    assert await dispatcher.dispatch_many([event()]) == [None]
    cluster.stop()
    (refusal,) = await dispatcher.dispatch_many([event()])
    assert isinstance(refusal, NotAcknowledged)
    with pytest.raises(NotAcknowledged, match="cannot connect"):
        await dispatcher.dispatch_many([event()])
    await dispatcher.close()


async def test_who_gives_up_leaves_nothing_behind() -> None:
    cluster = Cluster()
    dispatcher = KafkaDispatcher(cluster.server, topic="a", timeout=30)
    assert await dispatcher.dispatch_many([event()]) == [None]
    cluster.stop()
    sending = asyncio.create_task(dispatcher.dispatch_many([event(id="e-2")]))
    await eventually(_sending, within=10)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    await eventually(lambda: not _sending(), within=10)
    await dispatcher.close()


def _sending() -> list[object]:
    return [one for one in asyncio.all_tasks() if "KafkaDispatcher._sent" in repr(one)]


async def test_no_password_is_told(server: str) -> None:
    options = {
        "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "me", "sasl_plain_password": "s3cret",
    }  # fmt: skip
    dispatcher = KafkaDispatcher(server, topic="a", options=options)
    assert "s3cret" not in repr(dispatcher)
    with pytest.raises(NotAcknowledged) as refused:
        await dispatcher.open()  # the server knows no passwords, and refuses
    assert "s3cret" not in str(refused.value)
    await dispatcher.close()


@pytest.mark.parametrize(
    ("servers", "more"),
    [
        ((), {}),
        ("kafka://x", {}),
        ("me:secret@x:9092", {}),
        ("x:9092", {"topic": ""}),
        ("x:9092", {"topic": "{nobody}"}),
        ("x:9092", {"timeout": 0}),
        ("x:9092", {"options": {"acks": 1}}),
    ],
)
def test_bad_arguments_are_refused(servers: Any, more: dict[str, Any]) -> None:
    with pytest.raises(offpath.InvalidArgument):
        KafkaDispatcher(servers, **more)

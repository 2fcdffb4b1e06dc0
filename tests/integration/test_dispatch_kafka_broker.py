"""Kafka's protocol with a broker in a process of its own, which is killed and started again."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

import offpath
from offpath.errors import RelayFailed
from offpath.events.dispatchers import KafkaDispatcher, NotAcknowledged
from tests.integration.dispatching import RETRY, event, publish, sending
from tests.integration.kafka_broker import KafkaBroker
from tests.integration.polling import eventually


@pytest.fixture
def topic() -> str:
    return f"t{uuid.uuid4().hex}"


def dispatching(broker: KafkaBroker, topic: str, **more: Any) -> KafkaDispatcher:
    """A dispatcher to it: it has no idempotent producers."""
    return KafkaDispatcher(broker.server, topic=topic, idempotent=False, **more)


async def records(broker: KafkaBroker, topic: str) -> list[Any]:
    """All records of a topic, each partition's in its order."""
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=broker.server,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    try:
        found: list[Any] = []
        while batch := await consumer.getmany(timeout_ms=1_000):
            found += [one for several in batch.values() for one in several]
        return found
    finally:
        await consumer.stop()


async def test_content_and_headers_arrive_once(kafka_broker: KafkaBroker, topic: str) -> None:
    async with sending(dispatching(kafka_broker, topic)) as (app, relay, _):
        (one,) = await publish(app, {"n": "ä"}, key="k", headers={"trace": "t1"})
        assert (await relay.run_once()).counts == {"relayed": 1}
    (found,) = await records(kafka_broker, topic)
    headers = {name: value.decode() for name, value in found.headers}
    assert (found.key, found.value.decode()) == (b"k", '{"n":"ä"}')
    assert headers.items() >= {"Offpath-Id": one, "Offpath-Key": "k", "trace": "t1"}.items()


async def test_each_key_keeps_its_order_and_its_partition(
    kafka_broker: KafkaBroker, topic: str
) -> None:
    async with sending(dispatching(kafka_broker, topic), ordered=True) as (app, relay, _):
        for number in range(30):
            await publish(app, number, key=f"k{number % 3}")
        assert (await relay.run_once()).counts == {"relayed": 30}
    found = await records(kafka_broker, topic)
    for key in range(3):
        mine = [one for one in found if one.key == f"k{key}".encode()]
        assert [int(one.value) for one in mine] == list(range(key, 30, 3))
        assert len({one.partition for one in mine}) == 1


async def test_a_server_without_idempotent_producers_is_refused_unless_that_is_said(
    kafka_broker: KafkaBroker, topic: str
) -> None:
    dispatcher = KafkaDispatcher(kafka_broker.server, topic=topic)
    with pytest.raises(NotAcknowledged, match="cannot connect"):
        await dispatcher.dispatch_many([event()])
    await dispatcher.close()


async def test_a_broker_that_is_killed_and_comes_back_has_all_that_it_acknowledged(
    kafka_broker: KafkaBroker, topic: str
) -> None:
    """One connection of the dispatcher's sees it all: the broker keeps its address."""
    async with sending(dispatching(kafka_broker, topic, timeout=3)) as (app, relay, clock):
        await publish(app, *range(5), key="k")
        assert (await relay.run_once()).counts == {"relayed": 5}
        kafka_broker.kill()
        await publish(app, *range(5, 10), key="k")
        with pytest.raises(RelayFailed) as failed:
            await relay.run_once()
        assert failed.value.tally.counts == {"failed": 5}
        kafka_broker.start()
        clock.advance(60)
        assert (await relay.run_once()).counts == {"relayed": 5}
    found = Counter(int(one.value) for one in await records(kafka_broker, topic))
    assert set(found) == set(range(10))
    assert all(found[number] == 1 for number in range(5))


@pytest.mark.timeout(120)
async def test_a_kill_in_the_middle_of_a_stream_loses_nothing_that_was_noted(
    kafka_broker: KafkaBroker, topic: str
) -> None:
    many = 300
    app = offpath.App("memory://", auto_start=False)
    app.outbox("orders", dispatcher=dispatching(kafka_broker, topic, timeout=2), retry=RETRY)

    async def done() -> int:
        page = await app.messages.find(limit=1_000, streams=["orders"], states=["done"])
        return len(page.items)

    async with app:
        await publish(app, *range(100))
        async with app.worker(poll_interval=0.05):
            await eventually(done, within=30, what="some are noted")
            await publish(app, *range(100, 200))
            kafka_broker.kill()
            noted = await done()
            await publish(app, *range(200, many))
            kafka_broker.start()

            async def all_noted() -> bool:
                return await done() == many

            await eventually(all_noted, within=60, what="all are noted")
    found = Counter(int(one.value) for one in await records(kafka_broker, topic))
    assert set(found) == set(range(many)), f"{noted} were noted before the kill"


async def test_a_broker_that_is_away_is_a_backlog_and_an_unhealthy_loop(
    kafka_broker: KafkaBroker, topic: str
) -> None:
    kafka_broker.kill()
    app = offpath.App("memory://", auto_start=False)
    app.outbox("orders", dispatcher=dispatching(kafka_broker, topic, timeout=1), retry=RETRY)
    async with app:
        await publish(app, 1, 2, 3)
        async with app.worker(poll_interval=0.05) as worker:

            def ill() -> bool:
                return any(not one.healthy for one in worker.health() if "orders" in one.name)

            await eventually(ill, within=30, what="the relay's loop says so")
            (waiting,) = await app.message_backlog()
            assert (waiting.due, waiting.dead) == (3, 0)
            await asyncio.to_thread(kafka_broker.start)

            async def gone() -> bool:
                return all(one.due == 0 for one in await app.message_backlog())

            await eventually(gone, within=60, what="the backlog is gone")
    assert sorted(int(one.value) for one in await records(kafka_broker, topic)) == [1, 2, 3]

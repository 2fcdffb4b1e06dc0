"""NATS JetStream: acknowledged, deduplicated by the server, and never lost while it is down."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import nats
import pytest

import offpath
from offpath.errors import RelayFailed
from offpath.events.dispatchers import NatsDispatcher, NotAcknowledged
from tests.brokers import Broker
from tests.integration.dispatching import event, publish, sending


class Place:
    """A stream of the test's own."""

    def __init__(self, client: Any, name: str) -> None:
        self.js = client.jetstream()
        self.name = name

    async def messages(self) -> list[Any]:
        """All that it has, in its order."""
        state = (await self.js.stream_info(self.name)).state
        found = range(state.first_seq, state.last_seq + 1)
        return [await self.js.get_msg(self.name, seq) for seq in found] if state.messages else []


@pytest.fixture
async def place(nats_url: str) -> AsyncIterator[Place]:
    client = await nats.connect(nats_url)
    made = Place(client, f"t{uuid.uuid4().hex}")
    await made.js.add_stream(name=made.name, subjects=[f"{made.name}.>"])
    yield made
    await made.js.delete_stream(made.name)
    await client.close()


async def test_content_and_headers_arrive_once(nats_url: str, place: Place) -> None:
    dispatcher = NatsDispatcher(nats_url, subject=place.name + ".{topic}")
    async with sending(dispatcher) as (app, relay, _):
        (one,) = await publish(app, {"n": "ä"}, key="k", headers={"trace": "t1"})
        assert (await relay.run_once()).counts == {"relayed": 1}
    (message,) = await place.messages()
    assert message.subject == f"{place.name}.paid"
    assert message.data == '{"n":"ä"}'.encode()
    wanted = {"Nats-Msg-Id": one, "trace": "t1", "Offpath-Topic": "paid", "Offpath-Key": "k"}
    assert message.headers.items() >= wanted.items()


async def test_the_server_drops_a_repeated_id(nats_url: str, place: Place) -> None:
    dispatcher = NatsDispatcher(nats_url, subject=place.name + ".{topic}")
    assert await dispatcher.dispatch_many([event()]) == [None]
    assert await dispatcher.dispatch_many([event(attempt=2)]) == [None]
    await dispatcher.close()
    assert len(await place.messages()) == 1


async def test_each_key_of_an_ordered_stream_keeps_its_order(nats_url: str, place: Place) -> None:
    dispatcher = NatsDispatcher(nats_url, subject=place.name + ".{key}")
    async with sending(dispatcher, ordered=True) as (app, relay, _):
        for number in range(20):
            await publish(app, number, key=f"k{number % 3}")
        assert (await relay.run_once()).counts == {"relayed": 20}
    found = await place.messages()
    for key in range(3):
        mine = [int(one.data) for one in found if one.subject == f"{place.name}.k{key}"]
        assert mine == list(range(key, 20, 3))


async def test_without_a_stream_it_fails_and_says_what_to_create(nats_url: str) -> None:
    dispatcher = NatsDispatcher(nats_url, subject=f"none{uuid.uuid4().hex}" + ".{topic}")
    (refusal,) = await dispatcher.dispatch_many([event()])
    await dispatcher.close()
    assert isinstance(refusal, NotAcknowledged)
    assert "create one whose subjects match" in str(refusal)


async def test_a_subscriber_that_is_no_stream_acknowledges_nothing(nats_url: str) -> None:
    subject = f"plain{uuid.uuid4().hex}"
    client = await nats.connect(nats_url)

    async def answer(message: Any) -> None:
        await message.respond(b"thanks")

    await client.subscribe(subject, cb=answer)
    await client.flush()
    dispatcher = NatsDispatcher(nats_url, subject=subject)
    (refusal,) = await dispatcher.dispatch_many([event()])
    await dispatcher.close()
    await client.close()
    assert isinstance(refusal, NotAcknowledged)


@pytest.mark.parametrize("bad", [0, 25, 49])
async def test_one_over_the_servers_limit_fails_alone(
    own_broker: Callable[..., Broker], bad: int
) -> None:
    broker = own_broker("nats", "max_payload: 2048")
    client = await nats.connect(broker.url)
    await client.jetstream().add_stream(name="all", subjects=["all.>"])
    async with sending(NatsDispatcher(broker.url, subject="all.{topic}")) as (app, relay, _):
        payloads = ["x" * (3_000 if number == bad else 10) for number in range(50)]
        ids = await publish(app, *payloads)
        assert (await relay.run_once()).counts == {"relayed": 49, "dead_lettered": 1}
        assert (await app.messages.get(ids[bad])).state == "dead"
    assert (await client.jetstream().stream_info("all")).state.messages == 49
    await client.close()


async def test_what_meets_an_outage_is_delivered_after_it(
    own_broker: Callable[..., Broker],
) -> None:
    broker = own_broker("nats")
    client = await nats.connect(broker.url)
    await client.jetstream().add_stream(name="all", subjects=["all.>"])
    await client.close()
    async with sending(NatsDispatcher(broker.url, subject="all.{topic}")) as (app, relay, clock):
        await publish(app, 1)
        assert (await relay.run_once()).counts == {"relayed": 1}
        broker.stop()
        await publish(app, 2, 3)
        with pytest.raises(RelayFailed) as failed:
            await relay.run_once()
        assert failed.value.tally.counts == {"failed": 2}
        broker.start()
        clock.advance(60)
        assert (await relay.run_once()).counts == {"relayed": 2}
    client = await nats.connect(broker.url)
    assert (await client.jetstream().stream_info("all")).state.messages == 3
    await client.close()


async def test_a_consumed_message_is_acknowledged_after_the_inbox_has_it(
    nats_url: str, place: Place
) -> None:
    dispatcher = NatsDispatcher(nats_url, subject=place.name + ".{topic}")
    await dispatcher.dispatch_many([event(body='{"n":1}')])
    await dispatcher.close()
    consumer = await place.js.pull_subscribe(f"{place.name}.>", durable="inbox")
    async with offpath.App("memory://", auto_start=False) as app:
        (message,) = await consumer.fetch(1, timeout=5)
        first = await app.accept("nats", message.headers["Nats-Msg-Id"], message.data.decode())
        again = await app.accept("nats", message.headers["Nats-Msg-Id"], message.data.decode())
        await message.ack_sync()
    assert (first.new, again.new) == (True, False)
    assert (await consumer.consumer_info()).num_ack_pending == 0


async def test_no_password_is_told() -> None:
    dispatcher = NatsDispatcher("nats://me:s3cret@127.0.0.1:1", subject="a")
    assert "s3cret" not in repr(dispatcher)
    with pytest.raises(NotAcknowledged) as refused:
        await dispatcher.open()
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("servers", "more"),
    [
        ("http://x", {"subject": "a"}),
        ([], {"subject": "a"}),
        ("nats://x", {"subject": ""}),
        ("nats://x", {"subject": "a.{id}"}),
        ("nats://x", {"subject": "a.{"}),
        ("nats://x", {"subject": "a", "timeout": 0}),
        ("nats://x", {"subject": "a", "options": {"allow_reconnect": True}}),
    ],
)
def test_bad_arguments_are_refused(servers: Any, more: dict[str, Any]) -> None:
    with pytest.raises(offpath.InvalidArgument):
        NatsDispatcher(servers, **more)

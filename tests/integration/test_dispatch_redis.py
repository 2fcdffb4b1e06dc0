"""Redis streams: an entry's id is the acknowledgement, and nothing is lost while it is down."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

import offpath
from offpath.errors import RelayFailed
from offpath.events.dispatchers import NotAcknowledged, RedisDispatcher
from tests.brokers import Broker
from tests.integration.dispatching import event, publish, sending


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[Any]:
    made = Redis.from_url(redis_url, decode_responses=True)
    yield made
    await made.aclose()


@pytest.fixture
async def name(client: Any) -> AsyncIterator[str]:
    """The beginning of the names of this test's streams."""
    made = f"t{uuid.uuid4().hex}"
    yield made
    async for key in client.scan_iter(f"{made}*"):
        await client.delete(key)


async def test_content_and_headers_arrive_once(redis_url: str, client: Any, name: str) -> None:
    dispatcher = RedisDispatcher(redis_url, stream=name + ":{topic}")
    async with sending(dispatcher) as (app, relay, _):
        (one,) = await publish(app, {"n": "ä"}, key="k", headers={"trace": "t1"})
        assert (await relay.run_once()).counts == {"relayed": 1}
    ((_, fields),) = await client.xrange(f"{name}:paid")
    assert fields.pop("created_at").startswith("20")
    assert fields == {
        "id": one,
        "topic": "paid",
        "stream": "orders",
        "key": "k",
        "body": '{"n":"ä"}',
        "headers": '{"trace":"t1"}',
    }


async def test_each_key_of_an_ordered_stream_keeps_its_order(
    redis_url: str, client: Any, name: str
) -> None:
    async with sending(RedisDispatcher(redis_url, stream=name), ordered=True) as (app, relay, _):
        for number in range(20):
            await publish(app, number, key=f"k{number % 3}")
        assert (await relay.run_once()).counts == {"relayed": 20}
    entries = [fields for _, fields in await client.xrange(name)]
    for key in range(3):
        mine = [int(one["body"]) for one in entries if one["key"] == f"k{key}"]
        assert mine == list(range(key, 20, 3))


@pytest.mark.parametrize("bad", [0, 25, 49])
async def test_one_that_the_server_refuses_fails_alone(
    redis_url: str, client: Any, name: str, bad: int
) -> None:
    await client.set(f"{name}:bad", "not a stream")
    async with sending(RedisDispatcher(redis_url, stream=name + ":{key}")) as (app, relay, _):
        for number in range(50):
            await publish(app, number, key="bad" if number == bad else "good")
        assert (await relay.run_once()).counts == {"relayed": 49, "failed": 1}
    assert await client.xlen(f"{name}:good") == 49


async def test_what_meets_an_outage_is_delivered_after_it(
    own_broker: Callable[..., Broker],
) -> None:
    broker = own_broker("redis")
    async with sending(RedisDispatcher(broker.url, stream="all")) as (app, relay, clock):
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
    client = Redis.from_url(broker.url)
    assert await client.xlen("all") == 3
    await client.aclose()


async def test_fewer_replicas_than_asked_for_is_not_delivered(redis_url: str, name: str) -> None:
    dispatcher = RedisDispatcher(redis_url, stream=name, replicas=1, replica_timeout=0.01)
    (refusal,) = await dispatcher.dispatch_many([event()])
    await dispatcher.close()
    assert isinstance(refusal, NotAcknowledged)
    assert "0 of 1 replicas" in str(refusal)


async def test_a_stream_is_trimmed_where_asked(redis_url: str, client: Any, name: str) -> None:
    dispatcher = RedisDispatcher(redis_url, stream=name, maxlen=100)
    many = [event(id=f"e-{number}") for number in range(1_000)]
    assert set(await dispatcher.dispatch_many(many)) == {None}
    await dispatcher.close()
    assert await client.xlen(name) < 300


async def test_a_consumed_entry_is_acknowledged_after_the_inbox_has_it(
    redis_url: str, client: Any, name: str
) -> None:
    dispatcher = RedisDispatcher(redis_url, stream=name)
    for attempt in (1, 2):  # as after an answer that was lost
        assert await dispatcher.dispatch_many([event(attempt=attempt)]) == [None]
    await dispatcher.close()
    await client.xgroup_create(name, "inbox", id="0")
    new = []
    async with offpath.App("memory://", auto_start=False) as app:
        ((_, entries),) = await client.xreadgroup("inbox", "one", {name: ">"}, count=10)
        for entry, fields in entries:
            new.append((await app.accept("redis", fields["id"], fields["body"])).new)
            await client.xack(name, "inbox", entry)
    assert new == [True, False]
    assert (await client.xpending(name, "inbox"))["pending"] == 0


async def test_no_password_is_told() -> None:
    dispatcher = RedisDispatcher("redis://me:s3cret@127.0.0.1:1/0", stream="a")
    assert "s3cret" not in repr(dispatcher)
    with pytest.raises(NotAcknowledged) as refused:
        await dispatcher.open()
    await dispatcher.close()
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "more"),
    [
        ("http://x", {"stream": "a"}),
        ("redis://x", {"stream": ""}),
        ("redis://x", {"stream": "a", "maxlen": 0}),
        ("redis://x", {"stream": "a", "replicas": -1}),
        ("redis://x", {"stream": "a", "replicas": 1, "replica_timeout": 20}),
        ("redis://x", {"stream": "a", "options": {"retry": None}}),
    ],
)
def test_bad_arguments_are_refused(url: str, more: dict[str, Any]) -> None:
    with pytest.raises(offpath.InvalidArgument):
        RedisDispatcher(url, **more)

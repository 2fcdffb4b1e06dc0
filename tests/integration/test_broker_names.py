"""Brokers' names are found while handlers fill the default executor, and are kept for TLS."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from offpath.events import Event
from offpath.events.dispatchers import NatsDispatcher, RabbitDispatcher, RedisDispatcher
from offpath.events.dispatchers.broker_names import by_address, named, numbered
from offpath.runtime.resolver import Resolver
from tests.brokers import find_broker
from tests.servers import NoServer


@pytest.fixture
async def full() -> AsyncIterator[None]:
    """A default executor whose one thread sleeps."""
    done = threading.Event()
    pool = ThreadPoolExecutor(1)
    loop = asyncio.get_running_loop()
    loop.set_default_executor(pool)
    sleeping = loop.run_in_executor(None, done.wait)
    yield
    done.set()
    await sleeping


def at_localhost(kind: str) -> str:
    try:
        return find_broker(kind).replace("127.0.0.1", "localhost")
    except NoServer as error:
        pytest.skip(str(error))


MAKERS: dict[str, Callable[[str], Any]] = {
    "nats": lambda url: NatsDispatcher(url, subject="names.{topic}"),
    "redis": lambda url: RedisDispatcher(url, stream="offpath-test-names", maxlen=1),
    "rabbitmq": lambda url: RabbitDispatcher(url, exchange=""),
}


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("kind", MAKERS)
async def test_a_broker_is_reached_while_every_default_thread_sleeps(kind: str) -> None:
    dispatcher = MAKERS[kind](at_localhost(kind))
    try:
        async with asyncio.timeout(5):
            await dispatcher.open()
            if kind == "redis":
                event = Event(id="1", topic="t", stream="s", payload=1, body="1", attempt=1)
                assert await dispatcher.dispatch_many([event]) == [None]
    finally:
        await dispatcher.close()


@pytest.mark.parametrize("kind", MAKERS)
async def test_a_name_that_is_not_there_is_told_without_the_password(kind: str) -> None:
    scheme = {"nats": "nats", "redis": "redis", "rabbitmq": "amqp"}[kind]
    dispatcher = MAKERS[kind](f"{scheme}://me:hunter2@nowhere.invalid:1")
    with pytest.raises(Exception, match=r"nowhere\.invalid") as caught:
        await dispatcher.open()
    assert type(caught.value).__name__ == "NotAcknowledged"
    assert "hunter2" not in str(caught.value)
    await dispatcher.close()


def two(host: str, port: int, family: int) -> list[tuple[Any, ...]]:
    return [(2, 1, 6, "", ("192.0.2.1", port)), (10, 1, 6, "", ("2001:db8::1", port, 0, 0))]


async def test_the_user_the_port_and_the_path_stay() -> None:
    resolver = Resolver(lookup=two)
    assert await numbered(resolver, "amqps://u:p%40@mq.example/v?a=1", 5671) == [
        "amqps://u:p%40@192.0.2.1:5671/v?a=1",
        "amqps://u:p%40@[2001:db8::1]:5671/v?a=1",
    ]
    assert await numbered(resolver, "nats://[::1]:9", 4222) == ["nats://[::1]:9"]


class Library:
    """The arguments of a connection of a library's."""

    host, port = "redis.example", 6379

    def __init__(self) -> None:
        self.kwargs: dict[str, Any] = {}
        self.tried: list[dict[str, Any]] = []

    async def _connect(self) -> None:
        self.tried.append(self._connection_arguments())
        if len(self.tried) == 1:
            raise ConnectionRefusedError

    def _connection_arguments(self) -> dict[str, Any]:
        return {"host": self.host, "port": self.port, "ssl": True}


async def test_the_next_address_is_tried_and_the_certificate_is_checked_by_name() -> None:
    made = by_address(Library, Resolver(lookup=two))()
    await made._connect()
    assert [(one["host"], one["server_hostname"]) for one in made.tried] == [
        ("192.0.2.1", "redis.example"),
        ("2001:db8::1", "redis.example"),
    ]
    assert named(Library, "mq.example")().kwargs == {"server_hostname": "mq.example"}

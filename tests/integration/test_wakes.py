"""Wake-ups over a bus: Postgres behind a transaction pooler is woken through Redis or NATS."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from urllib.parse import quote

import pytest

from offpath.errors import MissingExtra
from offpath.model.effects import Effects
from offpath.model.new import Box, NewMessage
from offpath.store.hints import Hint
from offpath.store.postgres import PostgresStore
from offpath.store.protocol import Level
from tests.brokers import Broker
from tests.conformance.builders import new_job
from tests.conftest import missing_server
from tests.integration.polling import eventually
from tests.pgbouncer import PACKAGE, Pooler, pgbouncer
from tests.servers import NoServer


@pytest.fixture
def pooled(pg_url: str) -> Iterator[str]:
    """The URL of the database through a pooler, whose sessions cannot listen."""
    program = pgbouncer()
    if program is None:
        missing_server(f"pgbouncer is not installed: apt-get install {PACKAGE}")
    pooler = Pooler(program, pg_url, mode="transaction")
    pooler.start()
    yield pooler.url(pg_url)
    pooler.destroy()


@pytest.fixture(params=["redis", "nats"])
def bus(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A server of the test's own that carries wake-ups."""
    server = Broker(request.param)
    try:
        server.start()
        yield server
    except NoServer as error:
        missing_server(str(error))
    finally:
        server.destroy()


def woken_by(url: str, bus: Broker) -> str:
    sign = "&" if "?" in url else "?"
    return f"{url}{sign}offpath_notify_url={quote(bus.url, safe='')}"


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


class Ear:
    """What one process hears."""

    def __init__(self, store: PostgresStore) -> None:
        self.heard = asyncio.Event()
        store.listen(lambda hint: self.heard.set() if hint is Hint.WORK else None)

    async def hears(self) -> None:
        async with asyncio.timeout(20):
            await self.heard.wait()
        self.heard.clear()


async def settled(*stores: PostgresStore) -> None:
    """Wait until each store's subscription is there."""

    async def all_hear() -> bool:
        return all([await _listening(store) is Level.FINE for store in stores])

    await eventually(all_hear, within=20)


async def _listening(store: PostgresStore) -> Level:
    found = {each.name: each.level for each in await store.diagnose()}
    return found["listening"]


async def commit(store: PostgresStore) -> None:
    await store.commit(Effects(jobs=(new_job(),)))


async def test_a_store_behind_a_pooler_is_woken_through_the_bus(pooled: str, bus: Broker) -> None:
    url = woken_by(pooled, bus)
    async with opened(url) as store, opened(url) as other:
        ear = Ear(store)
        await settled(store)
        ear.heard.clear()
        await commit(other)
        await ear.hears()


async def test_without_a_bus_nobody_behind_a_pooler_is_woken(pooled: str) -> None:
    async with opened(pooled) as store:
        Ear(store)
        assert await _listening(store) is Level.WARNING


async def test_a_store_does_not_wake_itself_through_the_bus(pooled: str, bus: Broker) -> None:
    url = woken_by(pooled, bus)
    async with opened(url) as store, opened(url) as other:
        ear, far = Ear(store), Ear(other)
        await settled(store, other)
        ear.heard.clear()
        far.heard.clear()
        heard = list[Hint]()
        store.listen(heard.append)
        await commit(store)
        await far.hears()  # it went through the bus, and came back to its sender as well
        message = NewMessage(id=new_job().id, box=Box.OUT, stream="s", payload="{}")
        await other.commit(Effects(messages=(message,)))
        await eventually(lambda: Hint.MESSAGES in heard, within=20)  # what came before is there too
        assert heard.count(Hint.WORK) == 1


async def test_a_bus_that_is_away_holds_up_nothing_and_is_heard_again(
    pooled: str, bus: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url = woken_by(pooled, bus)
    async with opened(url) as store, opened(url) as other:
        ear = Ear(store)
        await settled(store)
        await commit(other)
        await ear.hears()
        bus.stop()
        await commit(other)
        await eventually(lambda: _is(store, Level.WARNING), within=20)
        bus.start()
        ear.heard.clear()
        await ear.hears()  # what was told meanwhile nobody repeats: it looks
        await settled(store)
        ear.heard.clear()
        for _ in range(2):  # the first one finds that the line is gone
            await commit(other)
        await ear.hears()


async def _is(store: PostgresStore, level: Level) -> bool:
    return await _listening(store) is level


@pytest.mark.parametrize(("url", "client"), [("redis://h", "redis"), ("nats://h", "nats")])
def test_a_client_that_is_missing_is_named(
    url: str, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == client]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, f"offpath.store.wakes.{client}_bus", raising=False)
    monkeypatch.setitem(sys.modules, client, None)
    with pytest.raises(MissingExtra, match=f"over {client} need its client"):
        PostgresStore(f"postgresql://h/db?offpath_notify_url={quote(url, safe='')}")


async def test_a_password_of_the_bus_is_not_shown(pg_url: str, bus: Broker) -> None:
    secret = bus.url.replace("://", "://user:hunter2@")
    async with opened(f"{pg_url}?offpath_notify_url={quote(secret, safe='')}") as store:
        store.listen(lambda _: None)
        told = [each.message for each in await store.diagnose() if each.name == "listening"]
    assert "hunter2" not in str(told)
    assert "127.0.0.1" in str(told)

"""Bad days of a Redis server: each on a server of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import redis

from offpath.errors import ConfigurationError, StoreRejected, StoreUnavailable
from offpath.model.effects import Effects
from offpath.model.job import JobState
from offpath.model.lease import LeaseRequest
from offpath.model.settlement import Settlement, SettleStatus, Succeeded
from offpath.store.capabilities import Durability
from offpath.store.redis import RedisStore
from tests.brokers import Broker
from tests.conformance.backends import MORE, NAMES
from tests.conformance.builders import new_job, worker_info
from tests.conftest import missing_server
from tests.servers import NoServer

ALWAYS = ("--appendfsync", "always")

pytestmark = pytest.mark.skipif(
    "redis" not in NAMES, reason=f"under work: {MORE}=redis asks for it"
)


@pytest.fixture
def servers() -> Iterator[list[Broker]]:
    """Servers of the test, which it adds; all end with it."""
    made: list[Broker] = []
    yield made
    for server in made:
        server.destroy()


def started(servers: list[Broker], *more: str) -> Broker:
    server = Broker("redis", more=more)
    servers.append(server)
    try:
        server.start()
    except NoServer as error:
        missing_server(str(error))
    return server


@asynccontextmanager
async def opened(server: Broker, query: str = "") -> AsyncIterator[RedisStore]:
    store = RedisStore(server.url + query, call_timeout=5.0)
    try:
        await store.open()
        yield store
    finally:
        await store.close()


def client(server: Broker) -> redis.Redis:
    return redis.Redis.from_url(server.url)


async def run_one(store: RedisStore, worker: str = "w1") -> SettleStatus:
    """Take a job and end it well."""
    await store.register(worker_info(worker), lease_seconds=30)
    leased = await store.lease(LeaseRequest(worker=worker, limit=1, tasks={"t": 1}))
    settlement = Settlement(job=leased.jobs[0], outcome=Succeeded(result="1"))
    return (await store.settle([settlement]))[0].status


async def test_what_was_acknowledged_outlives_a_killed_server(servers: list[Broker]) -> None:
    server = started(servers, *ALWAYS)
    kept = [new_job(task="t") for _ in range(50)]
    async with opened(server) as store:
        assert store.capabilities.durability is Durability.FSYNC
        await store.commit(Effects(jobs=tuple(kept)))
        assert await run_one(store) is SettleStatus.APPLIED
    assert server.process is not None
    server.process.kill()
    server.process.wait(30)
    server.start()
    async with opened(server) as store:
        states = await store.states([job.id for job in kept])
    assert len(states) == 50
    assert sum(state is JobState.SUCCEEDED for state in states.values()) == 1


async def test_calls_go_on_after_a_restart(servers: list[Broker]) -> None:
    server = started(servers, *ALWAYS)
    async with opened(server) as store:
        await store.commit(Effects(jobs=(new_job(task="t"),)))
        server.stop()
        with pytest.raises(StoreUnavailable):
            await store.commit(Effects(jobs=(new_job(task="t"),)))
        server.start()
        assert await run_one(store) is SettleStatus.APPLIED


async def test_functions_that_somebody_flushed_are_loaded_again(servers: list[Broker]) -> None:
    server = started(servers)
    async with opened(server) as store:
        with client(server) as other:
            other.function_flush()
        await store.commit(Effects(jobs=(new_job(task="t"),)))
        assert await run_one(store) is SettleStatus.APPLIED


async def test_functions_of_two_versions_lie_side_by_side(servers: list[Broker]) -> None:
    server = started(servers)
    with client(server) as other:
        other.function_load(
            "#!lua name=offpath_000000000000\n"
            "redis.register_function('offpath_apply_000000000000', function() return 7 end)"
        )
    async with opened(server) as store:
        await store.commit(Effects(jobs=(new_job(task="t"),)))
    with client(server) as other:
        assert other.fcall("offpath_apply_000000000000", 0) == 7


async def test_a_full_server_refuses_a_write_and_keeps_what_it_has(servers: list[Broker]) -> None:
    server = started(servers, "--maxmemory-policy", "noeviction")
    job = new_job(task="t")
    async with opened(server) as store:
        await store.commit(Effects(jobs=(job,)))
        with client(server) as other:
            other.config_set("maxmemory", "1mb")
        with pytest.raises(StoreUnavailable, match="no memory left"):
            await store.commit(Effects(jobs=(new_job(task="t"),)))
        assert await store.states([job.id]) == {job.id: JobState.QUEUED}
        with client(server) as other:
            other.config_set("maxmemory", "0")
        assert await run_one(store) is SettleStatus.APPLIED


async def test_a_server_that_throws_keys_away_is_refused(servers: list[Broker]) -> None:
    server = started(servers, "--maxmemory-policy", "allkeys-lru")
    with pytest.raises(ConfigurationError, match="noeviction"):
        async with opened(server):
            pass


async def test_a_server_that_forgets_is_refused_unless_that_is_meant(
    servers: list[Broker],
) -> None:
    server = started(servers, "--appendonly", "no", "--save", "")
    with pytest.raises(ConfigurationError, match="durability=process"):
        async with opened(server):
            pass
    async with opened(server, "?durability=process") as store:
        assert store.capabilities.durability is Durability.PROCESS
        assert not store.capabilities.durable


async def test_a_key_of_somebody_else_is_left_and_nothing_is_written(
    servers: list[Broker],
) -> None:
    server = started(servers)
    async with opened(server) as store:
        with client(server) as other:
            other.set("{offpath}:id", "mine")
        job = new_job(task="t")
        with pytest.raises(StoreRejected, match="of somebody else"):
            await store.commit(Effects(jobs=(job,)))
        with client(server) as other:
            assert other.get("{offpath}:id") == b"mine"
            assert other.keys("{offpath}:*") == [b"{offpath}:id"]


async def test_two_prefixes_are_two_stores(servers: list[Broker]) -> None:
    server = started(servers)
    job = new_job(task="t")
    async with opened(server, "?prefix=a") as one, opened(server, "?prefix=b") as two:
        await one.commit(Effects(jobs=(job,)))
        assert await two.get([job.id]) == []
        assert await one.states([job.id]) == {job.id: JobState.QUEUED}


async def test_a_server_that_became_a_replica_takes_no_write(servers: list[Broker]) -> None:
    server = started(servers)
    async with opened(server) as store:
        with client(server) as other:
            other.replicaof("127.0.0.1", "1")
        with pytest.raises(StoreUnavailable):
            await store.commit(Effects(jobs=(new_job(task="t"),)))
        with client(server) as other:
            other.replicaof("no", "one")
        await store.commit(Effects(jobs=(new_job(task="t"),)))
        assert await run_one(store) is SettleStatus.APPLIED

"""Redis and Valkey servers that a test starts, ends and looks into."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import redis

from offpath.model.lease import LeaseRequest
from offpath.model.settlement import Settlement, SettleStatus, Succeeded
from offpath.store.redis import RedisStore
from tests.brokers import VALKEY, Broker
from tests.conformance.builders import worker_info
from tests.conftest import missing_server
from tests.servers import NoServer

ALWAYS = ("--appendfsync", "always")


class Servers(list[Broker]):
    """Servers of a test; all are of one program."""

    program = ""


on_both = pytest.mark.parametrize("program", ["", VALKEY], ids=["redis", "valkey"])
"""A test whose outcome is the server program's own: ``check.py matrix`` runs all on Valkey."""


def started(servers: Servers, *more: str) -> Broker:
    server = Broker("redis", more=more, program=servers.program)
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


def killed(server: Broker) -> None:
    assert server.process is not None
    server.process.kill()
    server.process.wait(30)


def start_again(server: Broker) -> None:
    """Start a stopped server, and wait until it has read what it kept."""
    server.start()
    with client(server) as asking:
        end = time.monotonic() + 30
        while asking.info("persistence")["loading"]:
            assert time.monotonic() < end


def client(server: Broker) -> redis.Redis:
    return redis.Redis.from_url(server.url)


async def run_one(store: RedisStore, worker: str = "w1") -> SettleStatus:
    """Take a job and end it well."""
    await store.register(worker_info(worker), lease_seconds=30)
    leased = await store.lease(LeaseRequest(worker=worker, limit=1, tasks={"t": 1}))
    settlement = Settlement(job=leased.jobs[0], outcome=Succeeded(result="1"))
    return (await store.settle([settlement]))[0].status


def replica_of(servers: Servers, primary: Broker) -> Broker:
    replica = started(servers, "--replicaof", "127.0.0.1", str(primary.port))
    with client(replica) as looking:
        end = time.monotonic() + 30
        while looking.info("replication")["master_link_status"] != "up":
            assert time.monotonic() < end
    return replica

"""Bad days of a Redis server: each on a server of its own."""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import pytest

from offpath.errors import ConfigurationError, StoreRejected, StoreUnavailable
from offpath.model.effects import Effects
from offpath.model.job import JobState
from offpath.model.lease import LeaseRequest
from offpath.model.settlement import Settlement, SettleStatus, Succeeded
from offpath.runtime.clock import ManualClock
from offpath.store.capabilities import Durability
from offpath.store.hints import Hint
from offpath.store.protocol import Level
from offpath.store.redis import RedisStore
from tests.conformance.builders import START, new_job, worker_info
from tests.integration.polling import eventually
from tests.integration.redis_servers import (
    ALWAYS,
    Servers,
    client,
    killed,
    on_both,
    opened,
    replica_of,
    run_one,
    start_again,
    started,
)
from tests.servers import free_port


@on_both
async def test_what_was_acknowledged_outlives_a_killed_server(servers: Servers) -> None:
    server = started(servers, *ALWAYS)
    kept = [new_job(task="t") for _ in range(50)]
    async with opened(server) as store:
        assert store.capabilities.durability is Durability.FSYNC
        await store.commit(Effects(jobs=tuple(kept)))
        assert await run_one(store) is SettleStatus.APPLIED
    killed(server)
    start_again(server)
    async with opened(server) as store:
        states = await store.states([job.id for job in kept])
    assert len(states) == 50
    assert sum(state is JobState.SUCCEEDED for state in states.values()) == 1


@on_both
async def test_everysec_outlives_a_killed_server(servers: Servers) -> None:
    server = started(servers, "--appendfsync", "everysec")
    kept = [new_job(task="t") for _ in range(50)]
    async with opened(server) as store:
        assert store.capabilities.durability is Durability.SECOND
        for job in kept:
            await store.commit(Effects(jobs=(job,)))
    # a server whose disk is still syncing holds writes back for up to two seconds
    with client(server) as other:
        await eventually(lambda: other.info("persistence")["aof_buffer_length"] == 0, within=10)
    killed(server)
    start_again(server)
    async with opened(server) as store:
        assert len(await store.states([job.id for job in kept])) == 50


async def test_calls_go_on_after_a_restart(servers: Servers) -> None:
    server = started(servers, *ALWAYS)
    async with opened(server) as store:
        await store.commit(Effects(jobs=(new_job(task="t"),)))
        server.stop()
        with pytest.raises(StoreUnavailable):
            await store.commit(Effects(jobs=(new_job(task="t"),)))
        start_again(server)
        assert await run_one(store) is SettleStatus.APPLIED


@on_both
async def test_functions_that_somebody_flushed_are_loaded_again(servers: Servers) -> None:
    server = started(servers)
    async with opened(server) as store:
        with client(server) as other:
            other.function_flush()
        await store.commit(Effects(jobs=(new_job(task="t"),)))
        assert await run_one(store) is SettleStatus.APPLIED


@on_both
async def test_functions_of_two_versions_lie_side_by_side(servers: Servers) -> None:
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


@on_both
async def test_a_full_server_refuses_a_write_and_keeps_what_it_has(servers: Servers) -> None:
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


@on_both
async def test_a_full_server_can_be_emptied(servers: Servers) -> None:
    server = started(servers)
    async with opened(server) as store:
        await store.register(worker_info("w1"), lease_seconds=30)
        await store.commit(Effects(jobs=(new_job(task="t"),)))
        with client(server) as other:
            other.config_set("maxmemory", "1mb")
        leased = await store.lease(LeaseRequest(worker="w1", limit=1, tasks={"t": 1}))
        await store.extend(worker_info("w1"), lease_seconds=30, held=leased.jobs)
        ended = Settlement(job=leased.jobs[0], outcome=Succeeded(result="1"), keep=0.0)
        assert (await store.settle([ended]))[0].status is SettleStatus.APPLIED
        assert (await store.prune(limit=10)).jobs == 1


@on_both
async def test_wake_ups_of_another_process_are_heard(servers: Servers) -> None:
    server = started(servers)
    heard = asyncio.Event()
    async with opened(server) as store, opened(server) as other:
        other.listen(lambda hint: heard.set() if hint is Hint.WORK else None)
        # the subscription is made beside the opening: whoever comes before it, polling finds
        with client(server) as looking:
            async with asyncio.timeout(10):
                while dict(looking.pubsub_numsub("{offpath}:hints"))[b"{offpath}:hints"] < 2:
                    await store.ping()
        await store.commit(Effects(jobs=(new_job(task="t"),)))
        async with asyncio.timeout(10):
            await heard.wait()


async def test_calls_of_many_share_one_connection_and_each_gets_its_own_answer(
    servers: Servers,
) -> None:
    server = started(servers)
    async with opened(server) as store:
        jobs = [new_job(task="t") for _ in range(200)]
        answers = await asyncio.gather(*(store.commit(Effects(jobs=(job,))) for job in jobs))
        assert [answer[0].id for answer in answers] == [job.id for job in jobs]
        assert all(answer[0].created for answer in answers)
        found = await asyncio.gather(*(store.states([job.id]) for job in jobs))
        assert found == [{job.id: JobState.QUEUED} for job in jobs]
        with client(server) as other:
            ours = [each for each in other.client_list() if each["cmd"] != "client|list"]
    assert len(ours) <= 2  # one asks, one listens


async def test_a_cancelled_call_takes_no_answer_of_another(servers: Servers) -> None:
    server = started(servers)
    job = new_job(task="t")
    async with opened(server) as store:
        await store.commit(Effects(jobs=(job,)))
        given_up = asyncio.create_task(store.get(["nobody"]))
        await asyncio.sleep(0)
        given_up.cancel()
        assert [each.id for each in await store.get([job.id])] == [job.id]


async def test_a_silent_server_costs_a_call_its_time_and_no_more(servers: Servers) -> None:
    server = started(servers)
    store = RedisStore(server.url, call_timeout=2.0)
    await store.open()
    try:
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        with pytest.raises(StoreUnavailable, match="no answer"):
            await store.commit(Effects(jobs=(new_job(task="t"),)))
        server.process.send_signal(signal.SIGCONT)
        with suppress(StoreUnavailable):  # the connection may still be on its way
            await store.ping()
        await store.commit(Effects(jobs=(new_job(task="t"),)))
        assert await run_one(store) is SettleStatus.APPLIED
    finally:
        await store.close()


async def test_a_server_that_throws_keys_away_is_refused(servers: Servers) -> None:
    server = started(servers, "--maxmemory-policy", "allkeys-lru")
    with pytest.raises(ConfigurationError, match="noeviction"):
        async with opened(server):
            pass


async def test_a_server_that_forgets_is_refused_unless_that_is_meant(
    servers: Servers,
) -> None:
    server = started(servers, "--appendonly", "no", "--save", "")
    with pytest.raises(ConfigurationError, match="durability=process"):
        async with opened(server):
            pass
    async with opened(server, "?durability=process") as store:
        assert store.capabilities.durability is Durability.PROCESS
        assert not store.capabilities.durable


@on_both
async def test_a_key_of_somebody_else_is_left_and_nothing_is_written(
    servers: Servers,
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


async def test_one_refused_caller_holds_back_none_of_those_that_ask_with_it(
    servers: Servers,
) -> None:
    server = started(servers)
    async with opened(server) as store:
        with client(server) as other:
            other.set("{offpath}:q:taken", "mine")
        jobs = [new_job(task="taken" if number == 3 else "t") for number in range(10)]
        answers = await asyncio.gather(
            *(store.commit(Effects(jobs=(job,))) for job in jobs), return_exceptions=True
        )
        assert [isinstance(each, StoreRejected) for each in answers] == [n == 3 for n in range(10)]
        assert len(await store.states([job.id for job in jobs])) == 9


async def test_two_prefixes_are_two_stores(servers: Servers) -> None:
    server = started(servers)
    job = new_job(task="t")
    async with opened(server, "?prefix=a") as one, opened(server, "?prefix=b") as two:
        await one.commit(Effects(jobs=(job,)))
        assert await two.get([job.id]) == []
        assert await one.states([job.id]) == {job.id: JobState.QUEUED}


@on_both
async def test_a_server_that_became_a_replica_takes_no_write(servers: Servers) -> None:
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


async def test_a_promoted_replica_has_what_was_waited_for(servers: Servers) -> None:
    primary = started(servers, *ALWAYS)
    replica = replica_of(servers, primary)
    kept = [new_job(task="t") for _ in range(20)]
    async with opened(primary, "?wait=1") as store:
        for job in kept:
            await store.commit(Effects(jobs=(job,)))
        found = {each.name: each.level for each in await store.diagnose()}
        assert found["replicas"] is Level.FINE
    killed(primary)
    with client(replica) as promoting:
        promoting.replicaof("no", "one")
    async with opened(replica) as store:
        assert len(await store.states([job.id for job in kept])) == 20
        assert await run_one(store) is SettleStatus.APPLIED


async def test_a_write_that_no_replica_confirms_is_unknown_and_may_be_repeated(
    servers: Servers,
) -> None:
    primary = started(servers)
    job = new_job(task="t")
    async with opened(primary, "?wait=1") as store:
        with pytest.raises(StoreUnavailable, match="0 of 1 replicas"):
            await store.commit(Effects(jobs=(job,)))
        replica_of(servers, primary)
        (again,) = await store.commit(Effects(jobs=(job,)))
        assert not again.created


async def test_a_replica_is_no_address(servers: Servers) -> None:
    replica = replica_of(servers, started(servers))
    with pytest.raises(ConfigurationError, match="address of its primary"):
        async with opened(replica):
            pass


async def test_doctor_warns_of_replicas_that_nobody_waits_for(servers: Servers) -> None:
    primary = started(servers)
    replica_of(servers, primary)
    async with opened(primary) as store:
        found = {each.name: each for each in await store.diagnose()}
    assert found["replicas"].level is Level.WARNING
    assert "wait=1" in found["replicas"].message


@on_both
async def test_a_call_that_is_cut_may_be_repeated(servers: Servers) -> None:
    server = started(servers)
    job = new_job(task="t")
    async with opened(server) as store:
        with client(server) as other:
            other.client_pause(60_000, all=False)  # the write is on its way, and not carried out
            cut = asyncio.create_task(store.commit(Effects(jobs=(job,))))
            end = time.monotonic() + 30
            while not any(each["cmd"] == "fcall" for each in other.client_list()):
                assert time.monotonic() < end
                await asyncio.sleep(0)
            other.client_kill_filter(_type="normal", skipme=True)
            with pytest.raises(StoreUnavailable):
                await cut
            other.client_unpause()
        await store.commit(Effects(jobs=(job,)))
        (again,) = await store.commit(Effects(jobs=(job,)))
        assert not again.created
        assert await store.states([job.id]) == {job.id: JobState.QUEUED}


async def test_a_clock_that_is_set_back_hands_out_nothing_twice(servers: Servers) -> None:
    server = started(servers)
    clock = ManualClock(START)
    store = RedisStore(server.url, clock=clock)
    await store.open()
    try:
        await store.register(worker_info("w1"), lease_seconds=30)
        await store.register(worker_info("w2"), lease_seconds=30)
        await store.commit(Effects(jobs=(new_job(task="t"), new_job(task="t"))))
        first = await store.lease(LeaseRequest(worker="w1", limit=1, tasks={"t": 1}))
        clock.set(START - timedelta(hours=1))
        second = await store.lease(LeaseRequest(worker="w2", limit=2, tasks={"t": 2}))
        assert {each.id for each in first.jobs}.isdisjoint(each.id for each in second.jobs)
        assert await store.rescue(limit=10, max_deliveries=3) == []
        ended = [Settlement(job=each, outcome=Succeeded()) for each in (*first.jobs, *second.jobs)]
        answers = await store.settle(ended)
        assert {each.status for each in answers} == {SettleStatus.APPLIED}
    finally:
        await store.close()


@on_both
async def test_a_server_that_reads_its_log_again_is_away_until_it_has(servers: Servers) -> None:
    server = started(servers, *ALWAYS)
    job = new_job(task="t")
    async with opened(server) as store:
        await store.commit(Effects(jobs=(job,)))
        with client(server) as other, other.pipeline(transaction=False) as much:
            for number in range(20_000):
                much.set(f"other:{number}", "1")
            much.execute()
        killed(server)
        server.more = (*ALWAYS, "--key-load-delay", "200")  # microseconds: so it takes 4 s
        server.start()

        async def answer() -> str:
            try:
                (again,) = await store.commit(Effects(jobs=(job,)))
            except StoreUnavailable as error:
                return str(error)
            return "new" if again.created else "there"

        async def answers(told: str) -> bool:
            return told in await answer()

        await eventually(lambda: answers("loading the dataset"), within=30, what="it is loading")
        await eventually(lambda: answers("there"), within=60, what="the server has read its log")
        assert await run_one(store) is SettleStatus.APPLIED


@on_both
async def test_a_node_of_a_cluster_says_that_it_is_one(servers: Servers) -> None:
    nodes = [
        started(servers, "--cluster-enabled", "yes", "--cluster-port", str(free_port()))
        for _ in range(2)
    ]
    with client(nodes[0]) as one, client(nodes[1]) as other:
        halves = ("0", "8191"), ("8192", "16383")
        for asking, half in zip((one, other), halves, strict=True):
            asking.execute_command("CLUSTER ADDSLOTSRANGE", *half)
        bus = nodes[1].more[-1]
        one.execute_command("CLUSTER MEET", "127.0.0.1", str(nodes[1].port), bus)
        slot = one.execute_command("CLUSTER KEYSLOT", "{offpath}")
        asked = nodes[1] if slot < 8192 else nodes[0]
        with client(asked) as stranger:
            await eventually(
                lambda: stranger.execute_command("CLUSTER INFO")["cluster_state"] == "ok",
                within=60,
                what="the nodes know each other",
            )
    async with opened(asked) as store:
        with pytest.raises(StoreUnavailable, match="node of a Redis Cluster"):
            await store.commit(Effects(jobs=(new_job(task="t"),)))


@pytest.mark.parametrize(
    "told",
    [
        "LOADING Redis is loading the dataset in memory",
        "MOVED 3999 127.0.0.1:6381",
        "READONLY You can't write against a read only replica.",
        "MISCONF Errors writing to the AOF file",
        "BUSY Redis is busy running a script",
        "OOM command not allowed when used memory > 'maxmemory'.",
    ],
)
async def test_a_server_that_cannot_take_a_write_is_away(told: str) -> None:
    async with refusing(told) as port:
        store = RedisStore(f"redis://127.0.0.1:{port}")
        with pytest.raises(StoreUnavailable):
            await store.open()


class Refusing(asyncio.Protocol):
    """Answers everything but a greeting with one error."""

    def __init__(self, told: str) -> None:
        self.told = told

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for name in re.findall(rb"\*\d+\r\n\$\d+\r\n([A-Za-z]+)\r\n", data):
            fine = name.upper() in {b"CLIENT", b"SELECT", b"HELLO"}
            self.transport.write(b"+OK\r\n" if fine else f"-{self.told}\r\n".encode())


@asynccontextmanager
async def refusing(told: str) -> AsyncIterator[int]:
    """The port of a server that can do nothing, and says why."""
    loop = asyncio.get_running_loop()
    async with await loop.create_server(lambda: Refusing(told), "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]

"""Workers on Redis that are killed, frozen or cut: a death is seen at once, and no cut is one."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

import offpath
from offpath.errors import StoreUnavailable
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Level
from offpath.store.redis import RedisStore
from tests.brokers import VALKEY, Broker
from tests.conformance.builders import START, worker_info
from tests.conftest import missing_server
from tests.integration import service
from tests.integration.fleet import Fleet, WorkerProcess
from tests.integration.polling import eventually
from tests.integration.proxy import Proxy
from tests.integration.scale import scaled
from tests.servers import NoServer

SEEN_WITHIN = 5.0
"""Seconds from a death to the next run: 2 to 3 on a quiet machine."""
LOOKED = 4.0
"""Seconds in which whoever looks for deaths has looked twice, far enough apart."""
CHANNELS = "{offpath}:up:*"

MakeApp = Callable[..., offpath.App]
MakeFleet = Callable[[str], Fleet]


@pytest.fixture(params=["", VALKEY], ids=["redis", "valkey"])
def server(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A server that has each write on its disk when it answers."""
    broker = Broker("redis", more=("--appendfsync", "always"), program=request.param)
    try:
        broker.start()
        yield broker
    except NoServer as error:
        missing_server(str(error))
    finally:
        broker.destroy()


@pytest.fixture
async def app(make_app: MakeApp, server: Broker) -> offpath.App:
    made = make_app(server.url)
    await made.open()
    return made


@pytest.fixture
def fleet(make_fleet: MakeFleet, server: Broker) -> Fleet:
    return make_fleet(server.url)


async def at_work(
    app: offpath.App, fleet: Fleet, job: offpath.Job[Any, Any], *, lease: float = 30.0
) -> tuple[WorkerProcess, WorkerProcess, offpath.Handle[Any, Any]]:
    """A worker that runs the job, and another one that would."""
    victim = await fleet.up(app, lease_seconds=lease)
    handle = await app.enqueue(job)
    await fleet.begun(handle.id)
    heir = await fleet.up(app, lease_seconds=lease)
    assert all(one.presence for one in await app.workers())
    return victim, heir, handle


async def looked_at(fleet: Fleet) -> None:
    """Wait until the heir has looked often enough to take a worker for dead."""
    since = fleet.now()
    await eventually(lambda: fleet.now() - since > LOOKED, within=LOOKED + 10)


def client(server: Broker) -> redis.Redis:
    return redis.Redis.from_url(server.url)


def present(server: Broker) -> int:
    """The processes that are there."""
    with client(server) as asking:
        return len(asking.pubsub_channels(CHANNELS))


async def test_a_killed_workers_job_begins_again_within_seconds(
    app: offpath.App, fleet: Fleet, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    victim, heir, handle = await at_work(app, fleet, service.held.job(str(gate)))
    victim.kill()
    died_at = fleet.now()
    second = await fleet.begun(handle.id, times=2)
    assert second.pid == heir.pid
    assert second.at - died_at < SEEN_WITHIN
    gate.touch()
    assert await handle.result(timeout=10) == heir.pid
    record = await handle.status()
    assert (record.attempt, record.deliveries, record.losses) == (1, 2, 1)


async def test_a_fork_that_outlives_its_worker_does_not_keep_it_there(
    app: offpath.App, fleet: Fleet, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    victim, heir, handle = await at_work(app, fleet, service.forking.job(str(gate)))
    victim.kill()
    died_at = fleet.now()
    second = await fleet.begun(handle.id, times=2)
    assert (second.pid, second.at - died_at < SEEN_WITHIN) == (heir.pid, True)
    gate.touch()
    await handle.result(timeout=10)


@pytest.mark.timeout(120)
async def test_a_frozen_worker_keeps_its_job_until_its_lease_ends(
    app: offpath.App, fleet: Fleet, tmp_path: Path
) -> None:
    lease, gate = float(scaled(6, 30)), tmp_path / "gate"
    job = service.held_in_thread.job(str(gate))
    victim, heir, handle = await at_work(app, fleet, job, lease=lease)
    victim.send(signal.SIGSTOP)
    frozen_at = fleet.now()
    second = await fleet.begun(handle.id, times=2, within=lease + 10)
    # its last renewal may be as old as the time between two
    assert lease / 2 < second.at - frozen_at < lease + 2
    gate.touch()
    victim.send(signal.SIGCONT)
    assert await handle.result(timeout=10) == heir.pid
    await eventually(lambda: "no longer this worker's" in victim.output, within=10)
    assert fleet.journal.times("recorded-succeeded")[handle.id] == 1


@pytest.mark.parametrize("kind", ["held", "blocking"])
async def test_a_cut_connection_is_no_death(
    app: offpath.App, fleet: Fleet, server: Broker, tmp_path: Path, kind: str
) -> None:
    """It is made again at once; where the event loop is blocked, the guard's thread vouches."""
    gate = tmp_path / "gate"
    job = {"held": service.held, "blocking": service.blocking}[kind].job(str(gate))
    victim, _, handle = await at_work(app, fleet, job)
    with client(server) as other:
        for _ in range(2):
            assert other.client_kill_filter(_type="pubsub") >= 2
            await looked_at(fleet)
    gate.touch()
    assert await handle.result(timeout=10) == victim.pid
    assert fleet.journal.times("start")[handle.id] == 1


async def test_a_server_that_was_started_again_has_seen_nobody_die(
    app: offpath.App, make_fleet: MakeFleet, server: Broker, tmp_path: Path
) -> None:
    """One worker comes back at once, and for some seconds the one that runs the job cannot."""
    gate = tmp_path / "gate"
    with Proxy("127.0.0.1", server.port) as proxy:
        apart = make_fleet(f"redis://127.0.0.1:{proxy.port}/0")
        victim = await apart.up(app)
        handle = await app.enqueue(service.held.job(str(gate)))
        await apart.begun(handle.id)
        fleet = make_fleet(server.url)
        await fleet.up(app)
        assert server.process is not None
        proxy.refuse()
        server.process.kill()
        server.process.wait(30)
        server.start()
        await eventually(lambda: present(server) == 1, within=20)
        await looked_at(fleet)
        proxy.heal()
        await eventually(lambda: present(server) == 2, within=20)
        await looked_at(fleet)
        gate.touch()
        assert await handle.result(timeout=20) == victim.pid
    assert apart.journal.times("start")[handle.id] == 1


async def test_a_death_after_the_server_was_started_again_is_seen_too(
    app: offpath.App, fleet: Fleet, server: Broker, tmp_path: Path
) -> None:
    """Each worker's next renewal says that it is there."""
    gate = tmp_path / "gate"
    lease = 9.0
    job = service.held.job(str(gate))
    victim, _, handle = await at_work(app, fleet, job, lease=lease)
    assert server.process is not None
    server.process.kill()
    server.process.wait(30)
    server.start()
    with client(server) as asking:
        run = str(asking.info("server")["run_id"]).encode()
        key = next(one for one in asking.keys("{offpath}:w:*") if _pid(asking, one) == victim.pid)
        await eventually(lambda: (asking.hget(key, "up") or b"").startswith(run), within=20)
    victim.kill()
    died_at = fleet.now()
    second = await fleet.begun(handle.id, times=2)
    assert second.at - died_at < SEEN_WITHIN
    gate.touch()
    await handle.result(timeout=10)


def _pid(asking: redis.Redis, key: bytes) -> int:
    import json

    pid: int = json.loads(asking.hget(key, "i") or b"{}")["pid"]
    return pid


async def deaths(store: RedisStore) -> Level:
    return {each.name: each.level for each in await store.diagnose()}["deaths"]


@pytest.mark.parametrize("refused", ["-pubsub|numsub", "-subscribe", "resetchannels"])
async def test_where_the_user_may_not_ask_the_lease_decides_and_that_is_told_once(
    server: Broker, caplog: pytest.LogCaptureFixture, refused: str
) -> None:
    with client(server) as other:
        other.execute_command(
            "ACL", "SETUSER", "little", "on", ">word", "~*", "&*", "+@all", refused,
            *(["&{offpath}:hints"] if refused == "resetchannels" else []),
        )  # fmt: skip
    store = RedisStore(server.url.replace("127.0.0.1", "little:word@127.0.0.1"))
    await store.open()
    try:
        assert not await store.register(worker_info("w1"), lease_seconds=600)
        assert not await store.register(worker_info("w2"), lease_seconds=600)
        assert [one.presence for one in await store.workers()] == [False, False]
        assert caplog.text.count("does not tell of a worker's death") == 1
        assert await deaths(store) is Level.WARNING
    finally:
        await store.close()


async def test_who_may_not_ask_takes_nobody_for_dead(server: Broker) -> None:
    """The worker is seen by others; the one that looks is refused."""
    with client(server) as other:
        other.execute_command(
            "ACL", "SETUSER", "little", "on", ">word", "~*", "&*", "+@all", "-pubsub|numsub"
        )
    worker = RedisStore(server.url)
    looking = RedisStore(server.url.replace("127.0.0.1", "little:word@127.0.0.1"))
    await worker.open()
    await looking.open()
    try:
        assert await worker.register(worker_info("w1"), lease_seconds=600)
        assert await deaths(worker) is Level.FINE
        await worker.close()
        assert [await looking.notice_deaths() for _ in range(2)] == [[], []]
        with client(server) as other:
            assert other.hget("{offpath}:w:w1", "ms") is None
    finally:
        await looking.close()
        await worker.close()
    with pytest.raises(StoreUnavailable):
        await worker.ping()


async def test_however_many_look_the_server_looks_twice_a_second_at_most(server: Broker) -> None:
    clock = ManualClock(START)
    worker, looking = RedisStore(server.url, clock=clock), RedisStore(server.url, clock=clock)
    await worker.open()
    await looking.open()
    try:
        assert await worker.register(worker_info("w1"), lease_seconds=600)
        assert await looking.notice_deaths() == []
        await worker.close()
        with client(server) as other:
            clock.advance(0.4)
            await looking.notice_deaths()
            assert other.hget("{offpath}:w:w1", "ms") is None
            clock.advance(0.1)
            await looking.notice_deaths()
            assert other.hget("{offpath}:w:w1", "ms") is not None
        clock.advance(1.4)
        assert await looking.notice_deaths() == []
        clock.advance(0.5)
        assert await looking.notice_deaths() == ["w1"]
    finally:
        await looking.close()
        await worker.close()

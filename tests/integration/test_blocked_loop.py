"""A handler that blocks its worker's event loop: one run, one result, and somebody who says so."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sqlite3
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import offpath
from offpath import JobState
from offpath.model.lease import SILENCE
from tests.integration import service
from tests.integration.fleet import Fleet, registered
from tests.integration.polling import eventually
from tests.integration.scale import CAMPAIGN, scaled
from tests.servers import free_port
from tests.sqlite_files import migrated_url

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.integration.proxy import Proxy

    MakeApp = Callable[..., offpath.App]
    MakeFleet = Callable[[str], Fleet]
    ProxyBefore = Callable[[str], tuple[Proxy, str]]

LEASE = float(scaled(1, 30))
"""Seconds; each handler blocks for several of them."""
SHORT = 3.0
ON_UVLOOP = Path(__file__).parent / "on_uvloop.py"
TIMES = [40.0, 120.0] if CAMPAIGN else [SHORT]
BLOCKERS = {
    "sleep": service.idling,
    "cpu": service.computing,
    "the interpreter's lock": service.holding_the_lock,
}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("seconds", TIMES)
@pytest.mark.parametrize("kind", BLOCKERS)
async def test_a_blocked_loop_loses_no_job_and_runs_none_twice(
    app: offpath.App, fleet: Fleet, kind: str, seconds: float
) -> None:
    """The jobs that run beside it in the same loop are as safe."""
    task = BLOCKERS[kind]
    victim = await fleet.up(app, lease_seconds=LEASE)
    beside = await app.enqueue([service.stint.job(seconds / 2) for _ in range(3)])
    for job in beside:
        await fleet.begun(job.id)
    handle = await app.enqueue(task.job(seconds))
    await fleet.begun(handle.id)
    heir = fleet.start(lease_seconds=LEASE)

    assert await handle.result(timeout=seconds + 20) == victim.pid
    await run_once(fleet, [handle, *beside])
    # who holds the interpreter's lock may hold a SQLite file's, too: nobody else writes meanwhile
    await registered(app, heir)


async def test_a_locked_file_costs_no_worker_its_jobs(
    make_app: MakeApp, make_fleet: MakeFleet, tmp_path: Path
) -> None:
    """Nobody can renew a lease in a SQLite file that is locked, and nobody can take a job."""
    url = migrated_url(tmp_path / "work.db")
    app, fleet = make_app(url), make_fleet(url)
    members = [await fleet.up(app, lease_seconds=LEASE) for _ in range(2)]
    gate = tmp_path / "gate"
    handles = await app.enqueue([service.held.job(str(gate)) for _ in range(4)])
    for one in handles:
        await fleet.begun(one.id)
    with contextlib.closing(sqlite3.connect(tmp_path / "work.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for member in members:
            await eventually(
                lambda member=member: "no jobs are taken" in member.output,  # type: ignore[misc]
                within=4 * LEASE,
            )
        gate.touch()
        await eventually(lambda: len(fleet.journal.all("end")) == len(handles), within=20)
        other.execute("ROLLBACK")
    await run_once(fleet, handles)
    taken = await app.enqueue(service.child.job())
    await taken.result(timeout=20)


async def test_who_blocks_the_loop_is_named_in_the_log_and_to_who_looks(
    app: offpath.App, fleet: Fleet, tmp_path: Path
) -> None:
    victim = await fleet.up(app, lease_seconds=LEASE)
    gate = tmp_path / "gate"
    handle = await app.enqueue(service.blocking.job(str(gate)))
    await fleet.begun(handle.id)
    needed = (f"job {handle.id} of task blocking", "service.py:", "in blocking")

    await eventually(lambda: all(one in victim.output for one in needed), within=10)

    async def told() -> bool:
        (record,) = await app.workers()
        return all(one in (record.report or "") for one in needed)

    await eventually(told, within=10)
    gate.touch()
    assert await handle.result(timeout=10) == victim.pid
    await eventually(lambda: "turns again after" in victim.output, within=10)


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
async def test_a_process_that_is_stopped_loses_its_jobs_though_its_presence_is_held(
    app: offpath.App, fleet: Fleet, tmp_path: Path
) -> None:
    """Within its lease on the same machine, and within the bound of silence anywhere."""
    victim = await fleet.up(app, lease_seconds=1)
    handle = await app.enqueue(service.blocking.job(str(tmp_path / "gate")))
    await fleet.begun(handle.id)
    heir = await fleet.up(app, lease_seconds=1)

    victim.send(signal.SIGSTOP)
    assert await handle.result(timeout=SILENCE + 5) == heir.pid
    (tmp_path / "gate").touch()
    victim.send(signal.SIGCONT)
    await eventually(lambda: "no longer this worker's" in victim.output, within=10)
    assert (await handle.status()).result == str(heir.pid)
    assert fleet.journal.times("recorded-succeeded")[handle.id] == 1


async def run_once(fleet: Fleet, handles: Sequence[offpath.Handle[Any, Any]]) -> None:
    """Wait for these jobs; each succeeded in its only run."""
    for one in handles:
        await one.result(timeout=20)
        record = await one.status()
        assert (record.state, record.deliveries, record.losses) == (JobState.SUCCEEDED, 1, 0)
        assert len(fleet.journal.all("start", one.id)) == 1


DESCRIPTORS = 10_000
"""The number that one process of a service may have open, and more than any worker needs."""


@pytest.mark.timeout(120 + 6 * LEASE)
async def test_a_handler_that_takes_every_descriptor_is_named_and_the_worker_lives(
    app: offpath.App, fleet: Fleet, tmp_path: Path
) -> None:
    port, gate = free_port(), tmp_path / "gate"
    shell = ("sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$@"', "sh")
    worker = fleet.start(through=shell, lease_seconds=LEASE, health_port=port)
    await registered(app, worker)
    handle = await app.enqueue(service.hoarding.job(str(gate)))
    await eventually(lambda: "no file descriptor left" in worker.output, within=20)
    (before,) = await app.workers()

    status, text = await probed(port, "/livez")
    assert (status, text) == (200, "live\n")
    status, text = await probed(port, "/readyz")
    assert status == 503
    assert f"no file descriptor left while job {handle.id} of task hoarding runs" in text

    async def renewed() -> bool:
        (record,) = await app.workers()
        return record.seen_at > before.seen_at + timedelta(seconds=2 * LEASE)

    # the lease is renewed all the while: nobody else may have the job
    await eventually(renewed, within=4 * LEASE + 10)
    assert (await handle.status()).deliveries == 1
    gate.touch()
    assert await handle.result(timeout=20) > DESCRIPTORS - 500
    await eventually(lambda: "has file descriptors again" in worker.output, within=10)

    async def ready() -> bool:
        return (await probed(port, "/readyz"))[0] == 200

    await eventually(ready, within=10)
    assert fleet.journal.times("start")[handle.id] == 1


async def probed(port: int, path: str) -> tuple[int, str]:
    """The answer of a worker's probe."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
    answer = (await asyncio.wait_for(reader.read(), 10)).decode()
    writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split()[1]), body


async def test_a_handler_that_blocks_another_kind_of_loop_is_named_and_keeps_its_job(
    app: offpath.App, fleet: Fleet
) -> None:
    """uvloop's loop is not an asyncio loop of Python's, and its thread is in C."""
    through = (sys.executable, str(ON_UVLOOP))
    victim = fleet.start(through=through, lease_seconds=LEASE)
    await registered(app, victim)
    assert "uvloop" in victim.output
    handle = await app.enqueue(service.idling.job(SHORT))
    await fleet.begun(handle.id)
    heir = await fleet.up(app, lease_seconds=LEASE)
    needed = (f"job {handle.id} of task idling", "service.py:", "in idling")
    await eventually(lambda: all(one in victim.output for one in needed), within=10)
    assert await handle.result(timeout=SHORT + 20) == victim.pid
    assert len(fleet.journal.all("start", handle.id)) == 1
    assert heir.popen.poll() is None


async def test_handlers_that_fill_the_executor_do_not_keep_a_worker_from_coming_back(
    pg_url: str, make_app: MakeApp, make_fleet: MakeFleet, proxy_before: ProxyBefore
) -> None:
    """The database is given by name: looking it up needs a thread that no handler can have."""
    proxy, through = proxy_before(pg_url)
    app, fleet = make_app(pg_url), make_fleet(through.replace("127.0.0.1", "localhost"))
    worker = await fleet.up(app, lease_seconds=LEASE * 2)
    other = await fleet.up(app, lease_seconds=LEASE * 2)
    handles = await app.enqueue([service.in_the_executor.job(1.0) for _ in range(60)])
    await eventually(lambda: len(fleet.journal.all("start")) == 60, within=20)
    assert proxy.cut() > 0

    assert {await one.result(timeout=60) for one in handles} <= {worker.pid, other.pid}
    assert set(fleet.journal.times("start").values()) == {1}
    assert {(await one.status()).losses for one in handles} == {0}
    lost = "the lease could not be renewed"
    assert (lost in worker.output, lost in other.output) == (False, False)

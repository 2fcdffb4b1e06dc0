"""A handler that blocks its worker's event loop: one run, one result, and somebody who says so."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

import offpath
from offpath import JobState
from offpath.model.lease import SILENCE
from tests.integration import service
from tests.integration.fleet import Fleet
from tests.integration.polling import eventually
from tests.integration.scale import CAMPAIGN, scaled

if TYPE_CHECKING:
    from pathlib import Path

LEASE = float(scaled(1, 30))
"""Seconds; each handler blocks for several of them."""
SHORT = 3.0
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
    task = BLOCKERS[kind]
    victim = await fleet.up(app, lease_seconds=LEASE)
    handle = await app.enqueue(task.job(seconds))
    await fleet.begun(handle.id)
    heir = await fleet.up(app, lease_seconds=LEASE)

    assert await handle.result(timeout=seconds + 20) == victim.pid
    record = await handle.status()
    assert (record.state, record.deliveries, record.losses) == (JobState.SUCCEEDED, 1, 0)
    assert len(fleet.journal.all("start", handle.id)) == 1
    assert heir.popen.poll() is None


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

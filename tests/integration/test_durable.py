"""Step chains and sagas whose workers are killed: no step twice, no undo lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import offpath
from offpath import JobState
from offpath.records import DeadReason
from tests.integration import service
from tests.integration.polling import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.fleet import Fleet


@pytest.mark.timeout(120)
async def test_a_chain_goes_on_behind_what_is_recorded_when_its_worker_is_killed(
    app: offpath.App, fleet: Fleet, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    victim = await fleet.up(app)
    handle = await app.enqueue(service.chain.job(str(gate)))

    async def two_recorded() -> bool:
        return set(await app.store().steps(handle.id)) >= {"first", "second"}

    await eventually(two_recorded, within=30)
    victim.kill()
    heir = await fleet.up(app)
    await fleet.begun(handle.id, times=2)
    gate.touch()

    async def blocked() -> bool:
        return (await handle.status()).state is JobState.BLOCKED

    await eventually(blocked, within=30)
    heir.kill()  # nobody lives while it waits
    assert await app.signal(handle, "go", "told")
    await fleet.up(app)
    assert await handle.result(timeout=60) == ["first", "second", "third", "told", "fourth"]
    for name in ("first", "second", "third", "fourth"):
        assert fleet.journal.times(f"step-{name}") == {handle.id: 1}, name
    record = await handle.status()
    assert (record.attempt, record.losses) == (1, 1)


@pytest.mark.timeout(120)
async def test_a_saga_whose_worker_is_killed_for_the_last_time_is_undone(
    app: offpath.App, fleet: Fleet, tmp_path: Path
) -> None:
    victim = fleet.start(max_deliveries=1)
    handle = await app.enqueue(service.saga.job(str(tmp_path / "gate")))

    async def recorded() -> bool:
        return set(await app.store().steps(handle.id)) >= {"charge", "reserve"}

    await eventually(recorded, within=30)
    victim.kill()
    fleet.start(max_deliveries=1)

    async def undone() -> bool:
        page = await app.jobs.find(parent=handle.id, task="undone", state=JobState.SUCCEEDED)
        return len(page.items) == 2

    await eventually(undone, within=60)
    record = await handle.status()
    assert (record.state, record.reason) == (JobState.DEAD, DeadReason.WORKER_LOST.value)
    (reserve,), (charge,) = fleet.journal.all("undo-reserve"), fleet.journal.all("undo-charge")
    assert reserve.at < charge.at

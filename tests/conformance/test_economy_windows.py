"""Reconciling inside of a worker, against a processor's file, on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from offpath.economy import Clawback, FileFeed, RecordFormat, TopUp, credits, reconcile_windows, usd
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import Store
from tests.unit.sweeps.economy.rig import SYSTEM, Rig

pytestmark = pytest.mark.needs("ledger")

FORM = RecordFormat(
    columns={"kind": "type", "key": "id", "amount": "cents", "at": "time"}, minor_units=True
)
HEADING = "type,id,cents,time\n"


@pytest.fixture
async def rig(store: Store, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Rig]:
    clock.set(datetime(2026, 11, 1, 10, tzinfo=UTC))
    made = Rig({"reconcile_every": 86_400.0, "reconcile_lag": 3_600.0}, store=store, clock=clock)
    feed = FileFeed(f"{tmp_path}/{{since:%m-%d}}.csv", form=FORM)
    made.ports = replace(made.ports, feed=feed)
    yield made
    await made.app.close()


async def test_a_processors_file_is_compared_once_its_day_is_over(rig: Rig, tmp_path: Path) -> None:
    """By the references that the processor knows: those of a payment and of a dispute."""
    await rig.done(
        TopUp(key="k-1", actor=SYSTEM, user="ann", amount=credits(10), source="card", ref="ch_1")
    )
    await rig.done(
        Clawback(
            key="k-2",
            actor=SYSTEM,
            user="ann",
            amount=credits(4),
            dollars=usd("0.02"),
            fee=usd("0.15"),
            ref="dp_1",
        )
    )
    rig.clock.set(datetime(2026, 11, 2, 0, 59, tzinfo=UTC))
    assert (await reconcile_windows(rig)).failed[0].window.until.day == 1, "not this one yet"
    rig.clock.set(datetime(2026, 11, 2, 1, 1, tzinfo=UTC))
    (late,) = (await reconcile_windows(rig)).failed
    assert (late.window.since.day, late.retryable) == (1, True)
    gross = 17 - (await rig.read.balance("platform:usd_clearing")).minor
    rows = f"buy,ch_1,{gross},2026-11-01T10:00Z\ndispute,dp_1,17,2026-11-01T10:00Z\n"
    (tmp_path / "11-01.csv").write_text(HEADING + rows)
    (report,) = (await reconcile_windows(rig)).reconciled
    assert {one.kind.value: one.matched for one in report.kinds} == {"buy": 1, "dispute": 1}
    assert await reconcile_windows(rig) == type(await reconcile_windows(rig))(), "once"


async def test_days_that_were_missed_are_made_up_for_in_order(rig: Rig, tmp_path: Path) -> None:
    for day in range(1, 9):
        (tmp_path / f"11-{day:02d}.csv").write_text(HEADING)
    rig.clock.set(datetime(2026, 11, 2, 2, tzinfo=UTC))
    assert len((await reconcile_windows(rig)).reconciled) == 1
    rig.clock.set(datetime(2026, 11, 6, 2, tzinfo=UTC))
    (tmp_path / "11-03.csv").unlink()
    summary = await reconcile_windows(rig)
    assert [one.window.since.day for one in summary.reconciled] == [2, 4, 5]
    assert [one.window.since.day for one in summary.failed] == [3]


async def test_a_difference_stands_as_a_finding_until_it_is_gone(rig: Rig, tmp_path: Path) -> None:
    await rig.app.open()
    file = tmp_path / "11-01.csv"
    file.write_text(HEADING + "buy,ch_9,100,2026-11-01T10:00Z\n")
    rig.clock.set(datetime(2026, 11, 2, 2, tzinfo=UTC))
    (report,) = (await reconcile_windows(rig)).drifted
    (found,) = await rig.store.findings()
    assert (found.name, found.kind) == ("economy.drift.20261101T000000", "economy.drift")
    assert "processor_orphan buy ch_9" in found.text
    file.write_text(HEADING)
    assert (await reconcile_windows(rig, windows=(report.window,))).reconciled
    assert await rig.store.findings() == []


async def test_two_workers_share_the_windows(rig: Rig, clock: ManualClock) -> None:
    """A pass of another process begins while this one's file is missing."""
    other = Rig({"reconcile_every": 86_400.0}, store=rig.store, clock=clock)
    other.ports = rig.ports
    clock.set(datetime(2026, 11, 2, 2, tzinfo=UTC))
    assert len((await reconcile_windows(rig)).failed) == 1
    assert len((await reconcile_windows(other)).failed) == 1
    await other.app.close()

"""The run of all sweeps, and what drives it. §16.1-§16.11, §16.94, §17.7."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from offpath.economy import (
    SWEEP_NAMES,
    ProviderFailed,
    ReconcileRecord,
    SweepInput,
    Window,
    reconcile_windows,
    usd,
)
from offpath.economy.ledger.reconciliation import RecordKind
from offpath.economy.passes import PREFIX
from offpath.economy.sweeps.catalogue import IDLE
from offpath.economy.sweeps.summaries import (
    FailedWindow,
    FeesSummary,
    InboxSummary,
    PayoutsSummary,
    PromosSummary,
    ReconcileSummary,
    RelaySummary,
    SealSummary,
    SubscriptionsSummary,
    TreasurySummary,
    VerifySummary,
)
from offpath.economy.testing import FakeFeed
from offpath.errors import InvalidArgument, StoreUnavailable
from offpath.model.ledger.faults import Unbalanced
from offpath.model.tally import Tally, Verdict
from tests.unit.jobs.worker.rig import until
from tests.unit.sweeps.economy.rig import Rig

T0 = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = Window(since=T0, until=T0 + timedelta(hours=1))
SHAPES = {
    "payouts": PayoutsSummary,
    "subscriptions": SubscriptionsSummary,
    "treasury": TreasurySummary,
    "fee_sweep": FeesSummary,
    "checkpoint_verify": VerifySummary,
    "checkpoint": SealSummary,
    "relay": RelaySummary,
    "drain_inbox": InboxSummary,
    "reconcile": ReconcileSummary,
    "promos": PromosSummary,
}


def runs(rig: Rig, failed: int = 0) -> float:
    found = rig.app.metrics.get("offpath_economy_runs_total", failed=str(failed))
    return 0 if found is None else found.value


def record(key: str, amount: str = "5.00") -> ReconcileRecord:
    return ReconcileRecord(kind=RecordKind.BUY, key=key, amount=usd(amount), ref=key, at=T0)


async def test_a_run_has_one_result_for_each_sweep_in_their_order(rig: Rig) -> None:
    """§16.1."""
    batch, postings = await rig.run_sweeps()
    assert [result.name for result in batch] == list(SWEEP_NAMES) == list(SHAPES)
    assert all(result.ok for result in batch)
    assert {name: type(batch[n].summary) for n, name in enumerate(SWEEP_NAMES)} == SHAPES
    assert postings == ()


async def test_only_those_that_are_named_run(rig: Rig) -> None:
    """§16.2."""
    await rig.top_up("fan", "1.00")
    run = await rig.sweep("relay", windows=(WINDOW,))
    assert {result.name: result.summary for result in run.batch} == IDLE
    assert run["payouts"].summary == PayoutsSummary()
    assert await rig.store.ledger_checkpoints() == []
    assert rig.feed.pulled == []


async def test_an_unknown_name_is_refused_before_anything_runs(rig: Rig) -> None:
    await rig.top_up("fan", "1.00")
    with pytest.raises(InvalidArgument, match=r"no sweep 'feeSweep'; there are: payouts"):
        await rig.sweep("checkpoint", "feeSweep")
    with pytest.raises(InvalidArgument, match="windows are Window"):
        await rig.sweep("checkpoint", windows=("2026-06",))
    with pytest.raises(InvalidArgument, match="limit"):
        await rig.sweep("checkpoint", limit=0)
    with pytest.raises(InvalidArgument, match="time zone"):
        await rig.sweep("checkpoint", now=datetime(2026, 1, 1))  # noqa: DTZ001 - that is the point
    assert await rig.store.ledger_checkpoints() == []
    assert runs(rig) == 0


async def test_a_sweep_that_fails_stops_none_of_the_others(rig: Rig) -> None:
    """§16.3."""
    await rig.top_up("fan", "1.00")
    rig.store.fail("lease_sides", error=StoreUnavailable("cut"))
    run = await rig.run_sweeps()
    payouts = run["payouts"]
    assert (payouts.ok, payouts.summary) == (False, None)
    assert (payouts.code, payouts.retryable) == ("STORE.FAILURE", True)
    assert [result.name for result in run.batch if result.ok] == list(SWEEP_NAMES[1:])
    sealed = run["checkpoint"].summary
    assert isinstance(sealed, SealSummary)
    assert sealed.sealed is not None
    assert runs(rig, failed=1) == 1


async def test_a_fault_that_cannot_go_away_is_told_as_such(rig: Rig) -> None:
    """§16.4."""
    rig.store.fail("lease_sides", error=Unbalanced("off by one"))
    result = (await rig.run_sweeps())["payouts"]
    assert (result.code, result.retryable) == ("LEDGER.UNBALANCED", False)


async def test_what_is_not_offpaths_own_is_reported_too(rig: Rig) -> None:
    """§16.5."""
    rig.store.fail("lease_sides", error=RuntimeError("raw"))
    result = (await rig.run_sweeps())["payouts"]
    assert (result.code, result.retryable) == ("STORE.FAILURE", True)
    assert rig.errors == [("RuntimeError", "economy:payouts")]


async def test_an_economy_without_ports_is_idle_and_fine() -> None:
    """§16.6, §16.7."""
    rig = Rig(bare=True)
    await rig.top_up("fan", "1.00")
    run = await rig.run_sweeps(SweepInput(windows=(WINDOW,)))
    assert all(result.ok for result in run.batch)
    for name in ("payouts", "checkpoint_verify", "checkpoint", "relay", "reconcile"):
        assert run[name].summary == IDLE[name]
    await rig.app.close()


async def test_each_run_beats_once(rig: Rig) -> None:
    """§16.11."""
    await rig.top_up("fan", "1.00")
    await rig.run_sweeps()
    assert runs(rig) == 1
    verified = "offpath_economy_verifications_total"
    assert rig.app.metrics.get(verified, outcome="ok") is None
    await rig.run_sweeps()
    assert runs(rig) == 2
    assert rig.app.metrics.get(verified, outcome="ok") is not None


async def test_a_paused_worker_tells_no_metric_and_runs_by_hand(rig: Rig) -> None:
    """§16.10."""
    worker = rig.worker()
    worker.pause()
    worker.start(5)
    await until(lambda: rig.clock.sleeping == 1)
    assert runs(rig) == 0
    batch, _ = await worker.run_once()
    assert len(batch) == 10
    assert runs(rig) == 1
    worker.resume()
    rig.clock.advance(5)
    await until(lambda: runs(rig) == 2)
    await worker.stop()
    assert rig.clock.sleeping == 0


async def test_an_economy_that_is_paused_has_every_worker_rest(rig: Rig) -> None:
    """Its own workers and the app's; what is run by hand runs."""
    grant = await rig.grant("fan", "5.00", lasts=10)
    rig.later(10)
    await rig.pause()
    worker = rig.worker()
    worker.start(5)
    await until(lambda: rig.clock.sleeping == 1)
    name = f"{PREFIX}promos"
    tally = (await rig.app.worker().run_once(only=[name]))[name].tally
    assert (runs(rig), tally.skipped) == (0, "the economy is paused")
    assert (await rig.row("promo", grant)).state == "OPEN"
    await rig.resume()
    rig.clock.advance(5)
    await until(lambda: runs(rig) == 1)
    await worker.stop()
    assert (await rig.row("promo", grant)).state == "REVERSED"


async def test_what_a_run_posted_is_told(rig: Rig) -> None:
    grant = await rig.grant("fan", "5.00", lasts=10)
    rig.later(10)
    batch, postings = await rig.worker().run_once()
    assert len(batch) == 10
    known = {posting.id: posting.facts for posting in await rig.postings()}
    assert [known[str(one)]["kind"] for one in postings] == ["promos.expiry"]
    assert grant in known


# -- reconcile -------------------------------------------------------------------------------------


async def test_windows_are_compared_each_for_itself(rig: Rig) -> None:
    """§16.94: one that cannot be pulled does not stop the next."""
    later = Window(since=WINDOW.until, until=WINDOW.until + timedelta(hours=1))
    gone = Window(since=later.until, until=later.until + timedelta(hours=1))
    rig.feed.processor = [record("a"), record("b")]
    rig.feed.ledger = [record("a"), record("b", "5.01")]
    rig.feed.failing[gone] = ConnectionError("down")
    summary = await reconcile_windows(rig, windows=(gone, WINDOW, later))
    assert [one.window for one in summary.reconciled] == [later]
    assert [(one.window, one.matched, one.amount_drifts) for one in summary.drifted] == [
        (WINDOW, 1, 1)
    ]
    assert summary.failed == (FailedWindow(gone, "PROVIDER.FAILURE", retryable=True),)


async def test_a_feed_that_gives_something_else_is_told_so(rig: Rig) -> None:
    async def pull(_window: Window) -> list[str]:
        return []

    rig.feed.pull = pull  # type: ignore[method-assign, assignment]
    summary = await reconcile_windows(rig, windows=(WINDOW,))
    assert summary.failed == (FailedWindow(WINDOW, ProviderFailed.code, retryable=False),)


# -- the app's workers -----------------------------------------------------------------------------


async def test_the_app_has_the_sweeps_and_its_workers_drive_them(rig: Rig) -> None:
    names = [info.name for info in rig.app.sweeps.list() if info.name.startswith(PREFIX)]
    assert names == [f"{PREFIX}{name}" for name in (*SWEEP_NAMES, "containment", "prune")]
    async with rig.app.worker() as worker:
        loops = {loop.name for loop in worker.loops()}
    moved = {"relay", "drain_inbox"}
    driven = {f"sweep:{PREFIX}{name}" for name in SWEEP_NAMES if name not in moved}
    assert driven <= loops
    # the app itself relays every stream and drains every source
    assert "inbox:economy" in loops
    assert f"sweep:{PREFIX}relay" not in loops


async def test_a_pass_that_proves_for_long_is_not_taken_for_hung(rig: Rig) -> None:
    """A loop whose turn is longer than its window is cancelled; the first seal may take long."""
    async with rig.app.worker() as worker:
        windows = {loop.name: loop.window for loop in worker.loops()}
    infos = [info for info in rig.app.sweeps.list() if info.name.startswith(PREFIX)]
    driven = [info for info in infos if f"sweep:{info.name}" in windows]
    assert len(driven) == 10
    for info in driven:
        assert windows[f"sweep:{info.name}"] > info.claim_timeout


async def test_what_is_too_old_to_count_is_removed(rig: Rig) -> None:
    """Tries beyond twice velocity's window, but each subject's last; keys only when asked to."""
    for _ in range(3):
        await rig.top_up("fan", "1.00")
    name = f"{PREFIX}prune"
    worker = rig.app.worker()
    assert (await worker.run_once(only=[name]))[name].tally == Tally()
    rig.later(7_201)
    assert (await worker.run_once(only=[name], force=True))[name].tally.counts == {"removed": 2}
    kept = len(rig.ledger.keys)
    rig.change(keep_keys=60.0)
    await worker.run_once(only=[name], force=True)
    assert (kept, len(rig.ledger.keys)) == (3, 0)


async def test_one_worker_of_the_fleet_runs_them_at_a_time(rig: Rig) -> None:
    await rig.grant("fan", "5.00", lasts=10)
    rig.later(10)
    first, second = rig.app.worker(), rig.app.worker()
    name = f"{PREFIX}promos"
    tally = (await first.run_once(only=[name]))[name].tally
    assert tally.counts == {"reversed": 1}
    assert len(tally.postings) == 1
    other = (await second.run_once(only=[name]))[name].tally
    assert other.skipped == "another worker leads it"


async def test_a_worker_that_runs_takes_what_falls_due(rig: Rig) -> None:
    """``offpath worker`` needs nothing else."""
    await rig.earn("seller", "10.00")
    payout = await rig.request_payout("seller", "10.00")
    rig.later(31)
    async with rig.app.worker():
        await until(lambda: payout in rig.provider.accepted)
    assert rig.errors == []


async def test_a_full_page_is_followed_at_once(rig: Rig) -> None:
    """§17.7: in a worker's loop too."""
    grants = [await rig.grant("fan", "1.00", lasts=10) for _ in range(7)]
    rig.change(worker_batch=2)
    rig.later(10)
    name = f"{PREFIX}promos"
    tally = (await rig.app.worker().run_once(only=[name], limit=2))[name].tally
    assert (tally.more, tally.total) == (True, 2)
    worker = rig.worker()
    worker.start(60)
    await until(lambda: runs(rig) >= 3)
    await worker.stop()
    states = {(await rig.row("promo", grant)).state for grant in grants}
    assert states == {"REVERSED"}


async def test_sweeps_that_cannot_do_anything_here_say_why() -> None:
    rig = Rig(bare=True)
    rig.ports = replace(rig.ports, feed=FakeFeed())
    run = await rig.app.worker().run_once()
    told = {result.name: result.tally.skipped for result in run.batch}
    assert told[f"{PREFIX}payouts"] == "the economy has no provider"
    assert told[f"{PREFIX}checkpoint"] == "the economy has no signer"
    assert "by hand" in (told[f"{PREFIX}reconcile"] or "")
    await rig.app.close()


async def test_every_summary_is_a_tally(rig: Rig) -> None:
    for name, summary in IDLE.items():
        tally: Tally = summary.tally()
        assert tally.verdict is Verdict.EMPTY, name
    await asyncio.sleep(0)
    assert rig.errors == []
